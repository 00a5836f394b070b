"""Commands that get a signal at a chosen moment, and what is left of them: nothing depends on how fast they are.

The moment is the n-th time that something happens in the process (`MOMENTS`), which sends itself the signal there: a
checkpoint is saved, a kernel is called, rows are written, a library is imported, a folder gets its name.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from daskfs.documents import dump_yaml
from tests.faults.storms import environment

MOMENTS = {
    "save": "before('daskfs.pipeline.checkpoint', 'Checkpoint', 'save')",
    "kernel": "before('daskfs.interrupts', None, 'call_kernel')",
    "kernel after a save": "note_saves(); before('daskfs.interrupts', None, 'call_kernel', is_late=True)",
    "write": "before('daskfs.store.writer', 'StoreWriter', 'write')",
    "part": "in_small_parts(); before('daskfs.interrupts', None, 'check')",
    "first tiles": "in_small_parts(); before('daskfs.store.row_sorter', 'SortedRuns', 'gathered')",
    "other tiles": "in_small_parts(); before('daskfs.cluster.dask_workers', 'OnDask', '_as_they_come')",
    "step": "in_small_parts(); before('daskfs.store.unfinished', None, 'written_whole')",
    "sparse rows": "in_small_parts(); before('daskfs.store.sparse.entry_runs', 'EntryBuffer', 'add')",
    "sparse chunk": "in_small_parts(); before('daskfs.store.sparse.vectors', 'VectorWriter', 'append')",
    "sparse name": "in_small_parts(); before('pathlib', 'Path', 'rename')",
    "let go": "before('daskfs.pipeline.folder', 'RunFolder', 'let_go')",
    "rename": "after_rename()",
    "pandas": "at_import('pandas.core.frame')",
    "matplotlib": "at_import('matplotlib.figure')",
}

COMMAND = """
import importlib, os, pathlib, signal, sys, warnings
warnings.simplefilter("ignore")
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
left = {at}
def count():
    global left
    left -= 1
    if left == 0 or (left < 0 and {repeats}):
        os.killpg(0, {number}) if {group} else os.kill(os.getpid(), {number})
saves = []
def note_saves():
    kept = importlib.import_module('daskfs.pipeline.checkpoint').Checkpoint
    save = kept.save
    def noted(*arguments, **options):
        result = save(*arguments, **options)
        saves.append(1)
        return result
    kept.save = noted
def before(module, owner, name, is_late=False):
    module = importlib.import_module(module)
    owner = module if owner is None else getattr(module, owner)
    function = getattr(owner, name)
    def counted(*arguments, **options):
        if saves or not is_late:
            count()
        return function(*arguments, **options)
    setattr(owner, name, counted)
def in_small_parts():
    importlib.import_module('daskfs.sources.base').MIN_PART_NBYTES = 4096
    importlib.import_module('daskfs.sources.csv_records').WORTH_COMPILING_NBYTES = 0
def after_rename():
    rename = pathlib.Path.rename
    def counted(path, target):
        result = rename(path, target)
        if path.name.endswith(".unfinished"):
            count()
        return result
    pathlib.Path.rename = counted
def at_import(name):
    class Finder:
        def find_spec(self, module, path=None, target=None):
            if module == name:
                count()
    sys.meta_path.insert(0, Finder())
{moments}
from daskfs.__main__ import main
main()
"""

METHODS = {
    "message": {"n_subsets": 6},
    "online_substitution": {"n_features_to_select": 8},
    "fgm": {"n_features_to_select": 12, "n_features_per_pass": 3, "loss": "squared"},
    "mission": {"n_features_to_select": 8, "n_epochs": 3, "block_rows": 500},
    "auto": {},
}
KEPT = ("selected.csv", "history.parquet", "scores.parquet", "metrics.json")


def command(
    folder: Path,
    *arguments: object,
    moment: str = "save",
    at: int = 0,
    how: int = signal.SIGINT,
    twice: bool = False,
    group: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `at` is the number of the moment at which it gets a signal, 0 for none.

    With `twice` it gets another one where it leaves its folder; with `group` all its processes do, as from a terminal.
    """
    moments = [MOMENTS[moment], *([MOMENTS["let go"]] if twice else [])]
    code = COMMAND.format(at=at, number=int(how), moments="\n".join(moments), repeats=twice, group=group)
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        cwd=folder, env=environment(), capture_output=True, text=True, check=False, start_new_session=True,
    )  # fmt: skip


def prepare(folder: Path, method: str) -> None:
    """Write a store and a pipeline, and run it undisturbed into ``whole``."""
    document = {
        "version": 1,
        "name": "trial",
        "source": {"kind": "synthetic", "n_samples": 3000, "n_features": 60, "random_state": 1},
        "store": {"path": "store.zarr"},
        "split": {"test": 0.2},
        "select": [{"method": method, **METHODS[method], "random_state": k, "label": f"m{k}"} for k in range(3)],
        "output": "trial",
    }
    (folder / "pipeline.yaml").write_text(dump_yaml(document))
    done = command(folder, "run", "pipeline.yaml", "--set", "output=whole")
    assert done.returncode == 0, done.stderr


def run(folder: Path, *options: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run the pipeline anew; see `command`."""
    for left in ("trial", "trial.unfinished"):
        shutil.rmtree(folder / left, ignore_errors=True)
    return command(folder, "run", "pipeline.yaml", *options, **how)


def ends_the_same(folder: Path) -> bool:
    """Whether the run that was stopped has ended with the bits of the undisturbed one."""
    whole, trial = folder / "whole", folder / "trial"
    paths = [path.relative_to(whole) for path in whole.rglob("*") if path.name in KEPT]
    return all((trial / path).read_bytes() == (whole / path).read_bytes() for path in paths)


def end_of(folder: Path, done: subprocess.CompletedProcess[str], how: int) -> str:
    """Return what became of a run that got a signal, and of what was resumed."""
    if "Traceback" in done.stderr:
        return "traceback"
    if done.returncode == 0:
        return "was whole" if ends_the_same(folder) else "other bits"
    if done.returncode != (130 if how != signal.SIGKILL else -signal.SIGKILL):
        return f"ended with {done.returncode}"
    if not (folder / "trial.unfinished").exists():
        return "nothing was computed" if not (folder / "trial").exists() else "said to be interrupted, and whole"
    resumed = command(folder, "run", "pipeline.yaml", "--resume", "trial")
    if resumed.returncode:
        return "not resumed"
    return "identical" if ends_the_same(folder) else "other bits"


def campaign(folder: Path, seed: int, n: int, methods: Iterable[str] = tuple(METHODS)) -> Iterator[dict[str, object]]:
    """Yield a row for each method and signal: how n runs ended that got it at moments drawn at random."""
    for method in methods:
        rng = random.Random(f"{seed} {method}")
        home = folder / method
        home.mkdir()
        prepare(home, method)
        for how, twice in (
            (signal.SIGKILL, False),
            (signal.SIGTERM, False),
            (signal.SIGINT, False),
            (signal.SIGINT, True),
        ):
            ends: dict[str, int] = {}
            for _ in range(n):
                moment, most = rng.choice([("save", 4), ("kernel", {"message": 9, "auto": 900}.get(method, 90))])
                done = run(home, moment=moment, at=1 + rng.randrange(most), how=how, twice=twice)
                end = end_of(home, done, how)
                ends[end] = ends.get(end, 0) + 1
            name = signal.Signals(how).name + (" twice" if twice else "")
            yield {"method": method, "signal": name, "runs": n, **ends}


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        for row in campaign(Path(temporary), int(sys.argv[1]), int(sys.argv[2])):
            print(row, flush=True)
