"""Checkpoints lie where the user says, take no more than the user says, and are what a resumed run goes on from."""

from __future__ import annotations

import json

import pytest

from daskfs.pipeline.checkpoint import Checkpoint
from tests.faults.kills import KEPT
from tests.faults.test_full_disk import METHODS, contents
from tests.integration.workshop import Workshop

N_SELECTIONS = 3
SLOW = [pytest.param(name, marks=[] if name == "message" else pytest.mark.nightly) for name in METHODS]


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Workshop(tmp_path)


def prepare(workshop, method, **checkpoint):
    """Write a pipeline and run it undisturbed; return its files and the sizes of all that it kept."""
    source = {"kind": "synthetic", "n_samples": 3000, "n_features": 60, "random_state": 1}
    select = [{"method": method, **METHODS[method], "random_state": k, "label": f"m{k}"} for k in range(N_SELECTIONS)]
    common = {"source": source, "store": {"path": "store.zarr"}, "split": {"test": 0.2}, "select": select}
    workshop.pipeline(**common, output="whole")
    sizes, save = {}, Checkpoint.save

    def measured(one, name, arrays):
        save(one, name, arrays)
        path = one.folder / f"{name}.npz"
        sizes[path] = path.stat().st_size

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Checkpoint, "save", measured)
        assert workshop.daskfs("run", "pipeline.yaml", "--force").code == 0
    workshop.pipeline(**common, output="run", checkpoint=checkpoint or None)
    return contents(workshop.folder / "whole", KEPT), list(sizes.values())


def interrupted_after(workshop, n_saved, n_taken=lambda: None):
    """Interrupt the run when so many records are saved."""
    left, save = [n_saved], Checkpoint.save

    def save_some(one, name, arrays):
        save(one, name, arrays)
        n_taken()
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Checkpoint, "save", save_some)
        done = workshop.daskfs("run", "pipeline.yaml")
    assert done.code == 130, str(done)
    assert "continue with `daskfs run --resume" in done.errors


def resumed(workshop):
    """Resume the run; return the files out of which it took what was computed before."""
    found, load = set(), Checkpoint.load

    def load_some(one, name):
        arrays = load(one, name)
        if arrays is not None:
            found.add(one.folder / f"{name}.npz")
        return arrays

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Checkpoint, "load", load_some)
        done = workshop.daskfs("run", "pipeline.yaml", "--resume", "run")
    assert done.code == 0, str(done)
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("method", SLOW)
def test_a_checkpoint_in_another_folder_is_what_a_run_goes_on_from(workshop, method):
    whole, sizes = prepare(workshop, method, path="elsewhere/kept")
    interrupted_after(workshop, max(1, len(sizes) // 2))
    kept = {path.absolute() for path in workshop.folder.rglob("*.npz")}
    assert kept
    assert all(path.is_relative_to(workshop.folder / "elsewhere" / "kept") for path in kept)
    assert {path.absolute() for path in resumed(workshop)} & kept
    assert contents(workshop.folder / "run", KEPT) == whole
    assert not list(workshop.folder.rglob("*.npz"))


@pytest.mark.nightly
@pytest.mark.parametrize("method", SLOW)
def test_a_checkpoint_takes_no_more_than_the_user_says_and_serves_all_the_same(workshop, method):
    _, sizes = prepare(workshop, method)
    most = sum(sizes) * 2 // 3
    whole, _ = prepare(workshop, method, path="kept", max_size=most)

    def within():
        assert sum(path.stat().st_size for path in (workshop.folder / "kept").rglob("*.npz")) <= most

    interrupted_after(workshop, len(sizes), within)
    assert list((workshop.folder / "kept").rglob("*.npz"))
    resumed(workshop)
    assert contents(workshop.folder / "run", KEPT) == whole
    notes = json.loads((workshop.folder / "run" / "m2" / "result.json").read_text())["notes"]
    assert any("checkpoint" in note for note in notes), notes
