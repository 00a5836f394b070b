"""How far a fit goes: the functions, files and lines of daskfs that one small fit of each system, or an ingest, calls.

    python3 .ci/ways.py            the five systems, an ingest and a run of a pipeline, a table
    python3 .ci/ways.py message    the functions of one of them, in the order of their first call
    python3 .ci/ways.py run        those of `daskfs run` on a small CSV

Kernels are not compiled (``NUMBA_DISABLE_JIT=1``), so that they count too. Lines are those of the functions' bodies.
"""

import contextlib
import inspect
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

os.environ["NUMBA_DISABLE_JIT"] = "1"

import numpy as np

import daskfs

PACKAGE = str(Path(daskfs.__file__).parent)


def ways() -> dict[str, Callable[[], object]]:
    """Return a fit of each system, and the ingest of a CSV file."""
    selectors = {
        "message": daskfs.Message(n_subsets=2),
        "online_substitution": daskfs.OnlineSubstitution(3),
        "async_online_substitution": daskfs.AsyncOnlineSubstitution(3, n_workers=1),
        "fgm": daskfs.FGM(3),
        "mission": daskfs.Mission(n_features_to_select=3),
    }
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 12)).astype(np.float32)
    y = X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(120)
    of_classes = {"fgm", "mission"}
    fits = {
        name: partial(selector.fit, X, (y > 0).astype(float) if name in of_classes else y)
        for name, selector in selectors.items()
    }
    return {**fits, "ingest": ingest_csv, "run": run_csv}


def ingest_csv() -> None:
    """Ingest a table with a category and a target."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.csv")
        path.write_text("a,b,y\n" + "".join(f"{k}.5,{'uvw'[k % 3]},{k % 7}\n" for k in range(50)))
        daskfs.ingest(path, Path(folder, "x.zarr"), target="y")


def run_csv() -> None:
    """Run a pipeline on a table of numbers, as the command does."""
    from daskfs.cli import app

    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 9))
    X[:, 8] += X[:, 0] - 2 * X[:, 3]
    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(Path(folder, "small.csv"), X, delimiter=",", header="a,b,c,d,e,f,g,h,y", comments="")
        pipeline = Path(folder, "pipeline.yaml")
        pipeline.write_text(
            "version: 1\nname: small\nsource: {kind: csv, path: small.csv, target: y}\nsplit: {test: 0.2}\n"
            "select: {method: message, n_subsets: 2}\n"
        )
        app(["run", str(pipeline), "--quiet"], standalone_mode=False)


def way_of(call: Callable[[], object]) -> dict[object, None]:
    """Return the code objects of daskfs that are called, in the order of their first call."""
    called: dict[object, None] = {}

    def note(frame, event, argument):  # type: ignore[no-untyped-def]
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            called.setdefault(frame.f_code)

    sys.setprofile(note)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            call()
    finally:
        sys.setprofile(None)
    return {
        code: None
        for code in called
        if not code.co_name.startswith("<") and code.co_filename.endswith(".py")  # type: ignore[attr-defined]
    }


def main() -> None:
    """Print the table, or one way."""
    wanted = sys.argv[1:]
    if not wanted:
        print("| system | functions | files | lines | changes of file |\n|---|---|---|---|---|")
    for name, call in ways().items():
        if wanted and name not in wanted:
            continue
        called = way_of(call)
        if wanted:
            for code in called:
                print(f"{Path(code.co_filename).relative_to(PACKAGE)}:{code.co_firstlineno} {code.co_qualname}")  # type: ignore[attr-defined]
            continue
        files = [code.co_filename for code in called]  # type: ignore[attr-defined]
        n_lines = sum(len(inspect.getsourcelines(code)[0]) for code in called)  # type: ignore[arg-type]
        changes = sum(a != b for a, b in pairwise(files))
        print(f"| {name} | {len(called)} | {len({*files})} | {n_lines:,} | {changes} |")


main()
