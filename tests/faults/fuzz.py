"""What people write and hand over, mutated from a seed: pipelines, table schemas, CSV and Parquet files, command lines.

Each case is read, checked, planned or ingested in a process of limited memory; `campaign` gives one row for each:

    accepted    it was read; a store that was made of it is opened and holds finite numbers
    named       an error of daskfs, of at most `LONGEST` characters, and nothing is left behind
    long        an error that nobody reads
    left        an error, and a store that should not be there
    traceback   any other exception, out of memory included
    hung        nothing within `PATIENCE_S`

    >>> rows = campaign(seed=0, n=100)     # doctest: +SKIP
"""

from __future__ import annotations

import copy
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

KINDS = {"yaml": 45, "schema": 15, "csv": 20, "parquet": 10, "cli": 10}
"""In parts of a hundred cases."""
BAD = ("long", "left", "traceback", "hung")
LONGEST = 3000
PATIENCE_S = 60
"""Far from what a case needs on a busy machine; a signal ends it then."""
START_S = 600
MEMORY_NBYTES = 1 << 30
"""Beyond what the process takes once all is imported."""


class Outcome(NamedTuple):
    """What became of a case."""

    kind: str
    number: int
    verdict: str
    text: str
    """The error, or what was given to the command line."""


ODD: list[Any] = [
    "..", ".", "", "x" * 300, "1e400GiB", "-1GiB", "0", -1, 0, 1, 2, 10**30, -(10**30), 1e308, float("inf"), 0.5,
    float("nan"), None, True, False, [], {}, [[]], [None], ["a"] * 300, {"a": {"b": {"c": 1}}}, "\u00e9\u4e2d", "=1+1",
    "${NOT_SET_ANYWHERE}", "metrics.json", "checkpoint", "a/b", "../up", "auto", "squared", "message", "random", "null",
    "a: b", "y", "kind", "\u202e", "a\tb", "<b>", "'", '"', "1e3", "0x10", "nan", ["y", "y"], {"y": 1}, "csv",
    "parquet", "yes",
]  # fmt: skip


def pipeline_text(rng: random.Random, folder: Path) -> str:
    """Return a pipeline file with something changed."""
    document = {
        "version": 1,
        "name": "fuzz",
        "source": {"kind": "csv", "path": str(folder / "table.csv"), "schema": str(folder / "schema.yaml")},
        "store": {"path": str(folder / "s.zarr"), "dtype": "float32"},
        "split": {"test": 0.2, "by": "random", "random_state": 0},
        "select": [
            {"method": rng.choice(["message", "fgm", "mission", "online_substitution"]), "label": "a"},
            {"method": "message", "n_subsets": 2, "criterion": "ebic", "loss": "squared", "label": "b"},
        ],
        "evaluate": {"metrics": ["mse", "r2"]},
        "cluster": {"kind": "none", "memory_limit": "4GiB"},
        "output": str(folder / "out"),
    }
    return changed_text(rng, document)


def changed_text(rng: random.Random, document: dict[str, Any]) -> str:
    """Return a document as YAML, with values, keys or characters changed."""
    from daskfs.documents import dump_yaml

    document = copy.deepcopy(document)
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        change_a_value(rng, document)
    text = dump_yaml(document)
    if rng.random() < 0.35:
        text = changed_bytes(rng, text.encode()).decode("utf-8", "replace")
    return text


def change_a_value(rng: random.Random, node: Any) -> None:
    """Change, remove, rename or add something somewhere in a document."""
    while isinstance(node, (dict, list)) and node:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = rng.choice(keys)
        if isinstance(node[key], (dict, list)) and node[key] and rng.random() < 0.7:
            node = node[key]
            continue
        action = rng.random()
        if action < 0.65 or isinstance(node, list):
            node[key] = copy.deepcopy(rng.choice(ODD))
        elif action < 0.8:
            del node[key]
        elif action < 0.9:
            node[f"{key}s"] = node.pop(key)
        else:
            node[rng.choice([one for one in ODD if isinstance(one, str)])] = copy.deepcopy(rng.choice(ODD))
        return


def changed_bytes(rng: random.Random, content: bytes) -> bytes:
    """Return bytes of which some are changed, gone, or there twice."""
    found = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(6):
            case 0:
                found[at:at] = bytes([rng.randrange(256)])
            case 1:
                del found[at : at + rng.choice([1, 2, 10, 200])]
            case 2:
                stop = at + rng.choice([1, 10, 100])
                found[at:at] = found[at:stop]
            case 3:
                found[at : at + 1] = rng.choice(
                    [b"\n", b"\r", b"\t", b'"', b",", b";", b"'", b"\0", b"{", b"[", b"&a ", b"!!x "]
                )
            case 4:
                del found[at:]
            case _:
                found[at : at + 1] = rng.choice(
                    [b"nan", b"1e999", b"-", b"1,000", b"\xff\xfe", b"\xef\xbb\xbf", b"=1", b"9" * 400]
                )
        if not found:
            break
    return bytes(found)


def table_text(rng: random.Random) -> str:
    """Return a small table: numbers, a category and a date."""
    lines = ["a,b,kind,day,y"]
    for k in range(rng.choice([3, 40])):
        numbers = f"{rng.gauss(0, 1):.4g},{rng.randrange(9)}"
        lines.append(f"{numbers},{rng.choice('uvw')},2020-01-{k % 28 + 1:02d},{rng.gauss(0, 1):.3g}")
    return "\n".join(lines) + "\n"


SCHEMA: dict[str, Any] = {
    "version": 1,
    "name": "fuzz",
    "format": {"delimiter": ",", "missing": ["", "?"], "decimal": "."},
    "columns": {
        "a": {"missing": "mean", "encoding": "standardised"},
        "b": {"dtype": "integer"},
        "kind": {"dtype": "string", "min_count": 2},
        "day": {"dtype": "date", "encoding": {"date_parts": ["month", "day"]}, "drop_first": True},
        "y": {"role": "target", "missing": "drop"},
    },
    "other_columns": "error",
}


def write_table(rng: random.Random, folder: Path) -> None:
    """Write a table and its schema, both whole."""
    from daskfs.documents import dump_yaml

    (folder / "table.csv").write_text(table_text(rng))
    (folder / "schema.yaml").write_text(dump_yaml(SCHEMA))


def of_yaml(rng: random.Random, folder: Path) -> None:
    """Load, check and plan a pipeline."""
    from daskfs.pipeline.checks import check_pipeline
    from daskfs.pipeline.config import load_pipeline
    from daskfs.pipeline.facts import facts_of
    from daskfs.pipeline.plan import plan_pipeline

    write_table(rng, folder)
    path = folder / "pipeline.yaml"
    path.write_bytes(pipeline_text(rng, folder).encode("utf-8", "surrogatepass"))
    pipeline = load_pipeline(path)
    plan_pipeline(pipeline, facts_of(pipeline, check_pipeline(pipeline))).to_text()


def of_schema(rng: random.Random, folder: Path) -> None:
    """Ingest a table with a schema."""
    (folder / "table.csv").write_text(table_text(rng))
    (folder / "schema.yaml").write_bytes(changed_text(rng, SCHEMA).encode("utf-8", "surrogatepass"))
    ingest_whole(folder / "table.csv", folder, schema=folder / "schema.yaml")


def of_csv(rng: random.Random, folder: Path) -> None:
    """Ingest a table whose bytes are changed."""
    (folder / "table.csv").write_bytes(changed_bytes(rng, table_text(rng).encode()))
    schema: dict[str, Any] = {"schema": SCHEMA} if rng.random() < 0.7 else {"target": "y", "missing": "zero"}
    ingest_whole(folder / "table.csv", folder, **schema)


def of_parquet(rng: random.Random, folder: Path) -> None:
    """Ingest a Parquet file of odd types, or whose bytes are changed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = 30
    columns = {
        "numbers": pa.array([rng.gauss(0, 1) for _ in range(n)]),
        "odd": rng.choice(
            [
                pa.array([[1, 2]] * n), pa.array([{"a": 1}] * n), pa.array([b"x"] * n), pa.array([None] * n),
                pa.array([True, None] * (n // 2)), pa.array(range(n), pa.timestamp("ns")), pa.array([1e300] * n),
                pa.array(["a", None, "b"] * (n // 3)).dictionary_encode(), pa.array([2**63 - 1] * n),
                pa.array(range(n), pa.decimal128(20, 2)), pa.array([float("nan"), 1.0] * (n // 2)),
                pa.array(range(n), pa.duration("s")), pa.array([True, False] * (n // 2)), pa.array(["a", "b"] * 15),
            ]
        ),
        "y": pa.array([rng.gauss(0, 1) for _ in range(n)]),
    }  # fmt: skip
    pq.write_table(pa.table(columns), folder / "table.parquet")
    if rng.random() < 0.6:
        path = folder / "table.parquet"
        path.write_bytes(changed_bytes(rng, path.read_bytes()))
    ingest_whole(folder / "table.parquet", folder, target="y")


def ingest_whole(path: Path, folder: Path, **options: Any) -> None:
    """Ingest a file, and look at what the store holds."""
    import numpy as np

    import daskfs

    store = daskfs.ingest(path, folder / "s.zarr", **options)
    if not (np.isfinite(store.read(slice(None))).all() and np.isfinite(store.target).all()):
        raise AssertionError("a store holds what is not finite")


def of_cli(rng: random.Random, folder: Path) -> None:
    """Give words to the command line; what it says is the error."""
    from typer.testing import CliRunner

    from daskfs.cli import app
    from daskfs.errors import ConfigError

    write_table(rng, folder)
    (folder / "pipeline.yaml").write_text(pipeline_text(rng, folder))
    command = rng.choice(
        ["plan", "validate", "ingest", "info", "verify", "report", "schema", "--version", "slect", "run", "select"]
    )
    paths = [str(folder / name) for name in ("table.csv", "pipeline.yaml", "s.zarr", "", "not there", "y" * 300)]
    if command in ("run", "select"):  # what would run is not tried here
        paths = [str(folder / "not there.yaml"), "z" * 300, str(folder)]
    words = [
        *paths, *paths, "--json", "--set", "--set=select.0.label=..", "--set=name", "--target", "--target=y", "",
        "--set=cluster.memory_limit=1e400GiB", "--memory-limit=1e400GiB", "--memory-limit=1", "--dtype=int8", "--dtype",
        "-1", "--test=2", "--delimiter=;;", f"--schema={paths[1]}", "--n-features=0", "--n-features=10", "pipeline",
        "store", "\u00e9", "--random-state=-1",
    ]  # fmt: skip
    arguments = [command, *(rng.choice(words) for _ in range(rng.randrange(5)))]
    done = CliRunner().invoke(app, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if done.exit_code not in (0, 1, 2):
        raise AssertionError(f"exit code {done.exit_code} of {arguments}")
    if done.exit_code:
        raise ConfigError(done.output, " ".join(arguments)[:200])


RUNS: dict[str, Callable[[random.Random, Path], None]] = {
    "yaml": of_yaml,
    "schema": of_schema,
    "csv": of_csv,
    "parquet": of_parquet,
    "cli": of_cli,
}


class Hung(BaseException):
    """The time is up."""


def judge(kind: str, seed: int, number: int) -> Outcome:
    """Run one case in this process."""
    from daskfs.errors import DaskfsError

    folder = Path(tempfile.mkdtemp(prefix="daskfs-fuzz-"))
    verdict, text = "accepted", ""
    signal.alarm(PATIENCE_S)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            RUNS[kind](random.Random(f"{kind}-{seed}-{number}"), folder)
    except DaskfsError as fault:
        text = str(fault)
        left = [path.name for path in folder.iterdir() if path.name.startswith("s.zarr")]
        verdict = "long" if len(text) > LONGEST else "left" if left else "named"
    except Hung:
        verdict = "hung"
    except BaseException:
        verdict, text = "traceback", traceback.format_exc()
    finally:
        signal.alarm(0)
        shutil.rmtree(folder, ignore_errors=True)
    return Outcome(kind, number, verdict, text[-4000:])


def _cases(n: int) -> list[tuple[str, int]]:
    return [(kind, number) for kind, share in KINDS.items() for number in range(max(1, n * share // 100))]


def campaign(seed: int = 0, n: int = 1000) -> list[Outcome]:
    """Run about so many cases, in a process of limited memory, and return what became of each."""
    command = [sys.executable, "-m", "tests.faults.fuzz", str(seed), str(n)]
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join(path for path in (root, os.environ.get("PYTHONPATH", "")) if path)
    patience = START_S + PATIENCE_S * n / 10
    done = subprocess.run(
        command,
        cwd=root,
        env={**os.environ, "PYTHONPATH": paths, "MALLOC_ARENA_MAX": "2"},  # each reserves 64 MiB of addresses
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )
    outcomes = [Outcome(*json.loads(line)) for line in done.stdout.splitlines() if line.startswith("[")]
    for kind, number in _cases(n)[len(outcomes) :][:1]:
        outcomes.append(
            Outcome(kind, number, "traceback", f"the process died ({done.returncode}): {done.stderr[-3000:]}")
        )
    return outcomes


def _main(seed: int, n: int) -> None:
    for kind in KINDS:  # all that is imported, and all threads that are started, when first called
        for number in range(-6, 0):
            judge(kind, seed, number)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)  # may be less than unlimited where the campaign itself is limited
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY_NBYTES, most))

    def time_is_up(*_: Any) -> None:
        raise Hung

    signal.signal(signal.SIGALRM, time_is_up)
    for kind, number in _cases(n):
        print(json.dumps(judge(kind, seed, number)), flush=True)


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))
