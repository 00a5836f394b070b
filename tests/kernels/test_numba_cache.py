"""Where compiled kernels are kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from daskfs.kernels import numba_cache
from daskfs.kernels.numba_cache import choose_cache_directory


@pytest.fixture
def read_only(tmp_path):
    """A path below a file: nobody can make it a folder, not even root."""
    (tmp_path / "file").touch()
    return tmp_path / "file" / "__pycache__"


def test_beside_the_source_where_that_can_be_written(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert choose_cache_directory(tmp_path / "__pycache__") == tmp_path / "__pycache__"


def test_the_users_own_choice_stands(read_only, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/anywhere")
    assert choose_cache_directory(read_only) == Path("/anywhere")


def test_otherwise_in_the_users_cache(read_only, tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = choose_cache_directory(read_only)
    assert folder.parent == tmp_path / "cache" / "daskfs"


def test_without_a_home_in_a_private_temporary_folder(read_only, tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(read_only))
    monkeypatch.setattr(numba_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = choose_cache_directory(read_only)
    assert folder == tmp_path / f"daskfs-numba-{os.getuid()}"


def test_a_folder_that_others_can_write_is_not_trusted(read_only, tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(read_only))
    monkeypatch.setattr(numba_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    open_to_all = tmp_path / f"daskfs-numba-{os.getuid()}"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    folder = choose_cache_directory(read_only)
    assert folder != open_to_all
    folder.rmdir()


def test_a_change_in_a_called_file_is_compiled(tmp_path):
    """numba alone would run the old `factor`: it looks at the file of the caller only."""
    package = tmp_path / "daskfs"
    shutil.copytree(Path(numba_cache.__file__).parents[1], package, ignore=shutil.ignore_patterns("__pycache__"))
    kernels = package / "kernels"
    called = "from daskfs.kernels.numba_cache import kernel\n\n@kernel\ndef factor():\n    return {}\n"
    (kernels / "caller.py").write_text(
        "from daskfs.kernels.called import factor\nfrom daskfs.kernels.numba_cache import kernel\n\n"
        "@kernel\ndef scaled(x):\n    return x * factor()\n"
    )
    found = []
    for value in (2.0, 33.0):  # of another length, or Python takes its own compiled file for the present one
        (kernels / "called.py").write_text(called.format(value))
        code = "from daskfs.kernels.caller import scaled; print(scaled(5.0))"
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        found.append(float(done.stdout))
    assert found == [10.0, 165.0]


def test_warmup_compiles_for_both_kinds_of_block():
    code = """if True:
        import daskfs.kernels
        daskfs.kernels.warmup()
        from daskfs.kernels.lasso.homotopy import follow_knots
        from daskfs.kernels.lasso.steps import follow
        print(len(follow_knots.signatures), len(follow.signatures))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "2"]


def test_after_a_warmup_mission_compiles_nothing():
    code = """if True:
        import sys
        import numpy as np, scipy.sparse
        from daskfs.kernels.mission_warmup import warm_up_mission
        from daskfs import Mission

        def compiled():
            found = [vars(module) for name, module in sys.modules.items() if name.startswith("daskfs.kernels.")]
            kernels = {id(k): k for one in found for k in one.values() if hasattr(k, "signatures")}
            return {f"{k.py_func.__module__}.{k.__name__}{s}" for k in kernels.values() for s in k.signatures}

        for dtype in (np.float32, np.float64):
            warm_up_mission(dtype)
        before = compiled()
        X = np.random.default_rng(0).standard_normal((60, 5))
        two, three = np.where(X[:, 0] > 0, 1, 0), np.arange(60) % 3
        for rows in (X, X.astype(np.float32), scipy.sparse.csr_array(X)):
            for variant in ("active", "paper"):
                Mission(2, "logistic", variant, refit=None).fit(rows, two)
            Mission(2, "multinomial", refit="sgd").fit(rows, three)
        print(*sorted(compiled() - before), sep="\\n")
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
