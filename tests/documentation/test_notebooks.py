"""Notebooks: they run from the first cell to the last, are what their scripts say, and survive an interrupt."""

from __future__ import annotations

import importlib.util
import os
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(path for path in (ROOT / "notebooks").glob("*.py") if path.stem != "make")

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("nbclient", "nbformat", "ipykernel")),
    reason="nbclient and ipykernel: pip install 'daskfs[docs,notebook]'",
)
needs_data = pytest.mark.skipif(
    "DASKFS_DATA" not in os.environ, reason="DASKFS_DATA, the folder of the real files, is not set"
)


@pytest.fixture(scope="module")
def make():
    spec = importlib.util.spec_from_file_location("make_notebooks", ROOT / "notebooks" / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_five_and_each_is_kept_small_with_what_it_shows(make):
    import nbformat

    assert len(SCRIPTS) == 5
    for script in SCRIPTS:
        path = script.with_suffix(".ipynb")
        assert path.stat().st_size < make.MOST_BYTES
        kept, written = nbformat.read(path, as_version=4), make.notebook_of(script)
        assert [cell.source for cell in kept.cells] == [cell.source for cell in written.cells]
        assert not [one for cell in kept.cells for one in cell.get("outputs", []) if one.output_type == "error"]


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_notebook_runs(make, script, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = make.executed(make.notebook_of(script), tmp_path)
    assert any(cell.get("outputs") for cell in notebook.cells)


@pytest.mark.slow
def test_an_interrupted_cell_leaves_the_kernel_alive(tmp_path, monkeypatch):
    """The cell is interrupted while a selector works; the next one answers, and what was there is there."""
    from jupyter_client.manager import start_new_kernel

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    try:
        said = answer_of(
            client,
            """
import numpy as np, daskfs
rng = np.random.default_rng(0)
X = rng.standard_normal((2_000, 3_000)).astype(np.float32)
y = X[:, 3] + rng.standard_normal(2_000).astype(np.float32)
daskfs.OnlineSubstitution(5).fit(X[:200, :20], y[:200])
print("ready")
""",
        )
        assert "ready" in said
        working = Path(tmp_path / "working")
        client.execute(f"""
from pathlib import Path
Path({str(working)!r}).touch()
while True:
    daskfs.OnlineSubstitution(200, n_epochs=50).fit(X, y)
""")
        while not working.exists():
            time.sleep(0.05)
        manager.interrupt_kernel()
        assert "KeyboardInterrupt" in until_idle(client)
        assert answer_of(
            client, "print(X.shape, daskfs.OnlineSubstitution(2).fit(X[:200, :20], y[:200]).selected_.shape)"
        )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def until_idle(client):
    """Return what a cell printed or raised, when the kernel is done with it."""
    said = ""
    while True:
        message = client.get_iopub_msg(timeout=120)
        content = message["content"]
        if message["msg_type"] == "stream":
            said += content["text"]
        elif message["msg_type"] == "error":
            said += content["ename"]
        elif message["msg_type"] == "status" and content["execution_state"] == "idle" and client_asked(message):
            return said


def client_asked(message):
    return message["parent_header"].get("msg_type") == "execute_request"


def answer_of(client, code):
    client.execute(code)
    return until_idle(client)
