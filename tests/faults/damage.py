"""Damage to feature stores, drawn from a seed, and what comes of it: `campaign` gives a table of verdicts.

Each case is a copy of a whole store with one thing wrong. Every command reads it in a process whose memory is limited,
and what it gives is compared with what the whole store gives:

    named       an error of daskfs, with the file (or the store) and what to do
    unaffected  the same result, bit for bit: the command does not read what is wrong, or nothing is
    silent      another result, or `verify` calls the store whole
    traceback   any other exception, out of memory included, or a process that died
    hung        nothing within `TIMEOUT_S`

    >>> outcomes = campaign(seed=0, n=40)                      # doctest: +SKIP
    >>> print(as_table(outcomes))                              # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.faults.fuzz import changed_bytes

MEMORY_NBYTES = 512 << 20
"""What a command may take beyond what the process has once all is imported and compiled."""
TIMEOUT_S = 120.0
START_S = 900.0
"""Until kernels are compiled from nothing, on a busy machine."""
COMMANDS = ("verify", "info", "message", "fgm", "online_substitution", "mission")
VERDICTS = ("named", "unaffected", "silent", "traceback", "hung")
BAD = ("silent", "traceback", "hung")
LAYOUTS: dict[str, dict[str, Any]] = {
    "raw": {"codec": "raw", "tile_shape": (60, 8)},
    "lz4": {"codec": "lz4", "tile_shape": (60, 8)},
    "sharded": {"codec": "raw", "tile_shape": (30, 4), "max_files": 2, "shard_nbytes": 4 * 30 * 4 * 4},
    "of before": {"codec": "raw", "tile_shape": (60, 8)},
    "sparse": {"n_features": 16},
    "sparse ids": {"has_ids": True},
}
"""That of before is without checksums in its manifest: whole chunks in each other's place are not told, nor tried."""
SHARED = ("zarr.json", "manifest.json", "checksums.bin", "X/", "ids/", "names/")
"""What is damaged of other stores than the first, whose vectors and names are alike."""


class Case(NamedTuple):
    """One thing that is wrong.

    Parameters
    ----------
    kind : str
        Row of the table.
    layout : str
        Which store.
    target : str
        What is damaged, for the reader.
    damage : callable
        Of the copy's folder, another whole store's, and a generator of its own.
    is_harmless : bool
        `verify` may call the store whole.
    """

    kind: str
    layout: str
    target: str
    damage: Callable[[Path, Path, random.Random], Any]
    is_harmless: bool = False


class Outcome(NamedTuple):
    """What a command made of a case."""

    kind: str
    layout: str
    target: str
    command: str
    verdict: str
    text: str


# ---- what can happen to a file


def flip(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def truncate(path: Path, rng: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


def grow(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randrange(1, 40)))


def make_huge(path: Path, rng: random.Random) -> None:
    os.truncate(path, 1 << 40)


def zero(path: Path, rng: random.Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def empty(path: Path, rng: random.Random) -> None:
    path.write_bytes(b"")


def remove(path: Path, rng: random.Random) -> None:
    path.unlink()


def _instead(make: Callable[[Path], Any]) -> Callable[[Path, random.Random], None]:
    def replace(path: Path, rng: random.Random) -> None:
        path.unlink()
        make(path)

    return replace


def link_away(path: Path, rng: random.Random) -> None:
    """The same bytes behind a link, as annexed and deduplicated folders have them."""
    elsewhere = path.with_name(f".{path.name}-elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


TO_FILES: dict[str, Callable[[Path, random.Random], None]] = {
    "flip": flip,
    "flip again": flip,
    "truncate": truncate,
    "grow": grow,
    "grow to 1 TiB": make_huge,
    "remove": remove,
    "zero": zero,
    "empty": empty,
    "link, same bytes": link_away,
    "link to /dev/zero": _instead(lambda path: path.symlink_to("/dev/zero")),
    "broken link": _instead(lambda path: path.symlink_to(path.with_name("nothing"))),
    "link to itself": _instead(lambda path: path.symlink_to(path.name)),
    "pipe": _instead(os.mkfifo),
    "folder": _instead(Path.mkdir),
}


# ---- what can happen to two files


def chunks(store: Path, array: str = "") -> list[Path]:
    """The chunk files of an array, or of all."""
    return sorted(p for p in (store / array).rglob("*") if p.is_file() and "/c/" in p.as_posix())


def swap(a: Path, b: Path) -> None:
    a.rename(a.with_name("swap"))
    b.rename(a)
    a.with_name("swap").rename(b)


def _swapped(first: str, second: str) -> Callable[[Path, Path, random.Random], None]:
    return lambda store, other, rng: swap(store / first, store / second)


def _of_another(name: str) -> Callable[[Path, Path, random.Random], Any]:
    return lambda store, other, rng: shutil.copy(other / name, store / name)


def two_files(layout: str, store: Path, other: Path) -> Iterator[Case]:
    """Chunks, statistics, descriptions in each other's place, and those of another store."""
    files = {p.relative_to(store).as_posix(): p for p in chunks(store)}
    names = sorted(files)
    for k, a in enumerate(names):
        for b in names[k + 1 :]:
            if files[a].read_bytes() == files[b].read_bytes():
                continue
            same_array = a.rpartition("/c/")[0] == b.rpartition("/c/")[0]
            if same_array or files[a].stat().st_size == files[b].stat().st_size:
                kind = "chunks swapped, same array" if same_array else "chunks swapped, two arrays"
                if a.startswith("var/") and b.startswith("var/"):
                    kind = "statistics swapped"
                yield Case(kind, layout, f"{a} and {b}", _swapped(a, b))
    for p in sorted(q for q in store.rglob("*") if q.is_file()):
        name = p.relative_to(store).as_posix()
        if (other / name).is_file() and (other / name).read_bytes() != p.read_bytes():
            yield Case("of another store", layout, name, _of_another(name))


# ---- what can be wrong with what a store says of itself

DEEP = "[" * 200_000


def _with_other_bytes(text: str, rng: random.Random) -> bytes:
    """Change bytes until the document is another, or none."""
    while True:
        content = changed_bytes(rng, text.encode())
        try:
            if json.loads(content) != json.loads(text):
                return content
        except (ValueError, RecursionError):
            return content


TEXTS: dict[str, Callable[[str, random.Random], str | bytes]] = {
    "deep": lambda text, rng: DEEP,
    "deep, closed": lambda text, rng: "[" * 500 + "]" * 500,
    "list": lambda text, rng: f"[{text}]",
    "null": lambda text, rng: "null",
    "not UTF-8": lambda text, rng: text.encode().replace(b'"', b'"\xff\xfe', 1),
    "long number": lambda text, rng: text.replace(": ", f': {"9" * 5000}, "y": ', 1),
    "twice": lambda text, rng: text + text,
    "bytes changed": lambda text, rng: _with_other_bytes(text, rng),
}
VALUES: Sequence[Any] = (
    *(None, True, False, -1, 0, 1, 2, 7, 2**31, 2**48, 2**62, 2**63, 2**64, 10**30, 1e308, 0.5, float("nan")),
    *("", "x", "\ud800", "../../x", "\0", "float64", "string", "gzip", "zstd", "blosc", "bytes", "x" * 100_000),
    *([], {}, [0], [1], [-1, 2], [2**40, 2**40], [2**62, 2**62], [1, 1], [1, 2, 3], [[1]], ["x"], {"x": 1}),
)


def _places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from _places(value, (*path, key))


def mutate(document: dict[str, Any], rng: random.Random) -> None:
    """Change one value, drop it, or say it once more."""
    *path, key = rng.choice(list(_places(document)))
    parent: Any = document
    for step in path:
        parent = parent[step]
    what = rng.random()
    if what < 0.15:
        del parent[key]
    elif what < 0.25 and isinstance(parent, list):
        parent.append(parent[key])
    elif what < 0.35 and isinstance(parent, dict):
        parent[rng.choice(["x", f"{key}2", "", "../x"])] = parent.pop(key)
    elif what < 0.55 and type(parent[key]) is int:
        parent[key] += rng.choice([-1, 1, 1000, -parent[key] * 2, parent[key] * 10**6])
    else:
        parent[key] = rng.choice(VALUES)


def write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest whose own checksum is right."""
    manifest.pop("self_sha256", None)
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({**manifest, "self_sha256": digest}))


def _mutated(name: str) -> Callable[[Path, Path, random.Random], None]:
    def damage(store: Path, other: Path, rng: random.Random) -> None:
        path = store / name
        document = json.loads(path.read_text())
        before = json.dumps(document)
        while json.dumps(document) == before:
            mutate(document, rng)
        path.write_text(json.dumps(document))

    return damage


def _rewritten(name: str, rewrite: Callable[[str, random.Random], str | bytes]) -> Any:
    def damage(store: Path, other: Path, rng: random.Random) -> None:
        path = store / name
        text = rewrite(path.read_text(), rng)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    return damage


def mutations(layout: str, store: Path, each: int = 3) -> Iterator[Case]:
    """Documents with a value changed (the longer ones more often), or that are other documents altogether."""
    documents = [p.relative_to(store).as_posix() for p in sorted(store.rglob("*.json"))]
    for name in documents:
        for _ in range(each * (8 if name in ("zarr.json", "manifest.json") else 1)):
            yield Case("metadata", layout, name, _mutated(name))
        for what, rewrite in [*TEXTS.items(), *[("bytes changed", TEXTS["bytes changed"])] * each]:
            yield Case("metadata", layout, f"{name}: {what}", _rewritten(name, rewrite))


# ---- the campaign

ORDER = (*TO_FILES, "chunks swapped, same array", "chunks swapped, two arrays", "statistics swapped")
ORDER = (*ORDER, "of another store", "metadata")


def all_cases(stores: dict[str, tuple[Path, Path]]) -> list[Case]:
    """Return every case there is, of every store, in the order of the table."""
    cases: list[Case] = []
    for layout, (store, other) in stores.items():
        files = sorted(p.relative_to(store).as_posix() for p in store.rglob("*") if p.is_file())
        for name in (name for name in files if layout == "raw" or name.startswith(SHARED)):
            for kind, damage in TO_FILES.items():
                at = lambda store, other, rng, damage=damage, name=name: damage(store / name, rng)  # noqa: E731
                cases.append(Case(kind, layout, name, at, is_harmless=kind == "link, same bytes"))
        if layout != "of before":
            cases += two_files(layout, store, other)
        cases += (case for case in mutations(layout, store) if layout == "raw" or case.target.startswith(SHARED))
    return sorted(cases, key=lambda case: ORDER.index(case.kind))


def while_reading(stores: dict[str, tuple[Path, Path]]) -> Iterator[tuple[str, str, str, int]]:
    """Yield what is replaced by another store's while a fit reads: kind, layout, name, after how many reads."""
    for layout in (layout for layout in stores if layout in ("raw", "lz4", "sharded")):
        for after in (1, 2, 5):
            yield "chunk of another store, while one reads", layout, "X/c/0/0", after
            yield "chunk of another store, while one reads", layout, "X/c/1/0", after
            yield "another store, while one reads", layout, "", after
            yield "no store any more, while one reads", layout, "-", after


def build(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Write two stores of the same shape and other values for each layout."""
    import scipy.sparse

    from daskfs.matrix.blocks import RowBlock
    from daskfs.sources.sparse.base import NamedIds, SparseBlock
    from daskfs.store.sparse.writer import SparseStoreWriter
    from daskfs.store.writer import StoreWriter

    def write(path: Path, seed: int, options: dict[str, Any]) -> Path:
        rng = np.random.default_rng(seed)
        n, p = 240, 16
        X = rng.integers(-20, 21, (n, p)).astype(np.float32)
        X[:60, 0] += 5  # so that no two blocks of rows are alike
        y = (X[:, 1] - X[:, 9] + 0.5 * X[:, 4] + rng.standard_normal(n) > 0).astype(float)
        labels = {"fold": rng.permutation(n).astype(str), "id": rng.permutation(n).astype(str)}
        names = [f"gene{seed}{j:02}" for j in rng.permutation(p)]
        about: dict[str, Any] = {"target_names": ["y"], "has_weight": True, "label_names": list(labels)}
        source = {"kind": "numpy", "description": f"draw {seed}", "digest": f"{seed}"}
        if "codec" not in options:
            X[rng.random(X.shape) < 0.5] = 0
            ids = np.sort(rng.integers(0, 2**63, p)).astype(np.uint64) if "has_ids" in options else np.arange(p)
            rows = scipy.sparse.csr_matrix(X)
            some = NamedIds.of_columns(names[:9] if "has_ids" in options else names)
            told = NamedIds(ids[: len(some.ids)].astype(np.uint64), some.text, some.offsets)
            about |= {"source": source, "random_state": seed}
            features, weight = ids[rows.indices].astype(np.uint64), rng.random(n) + 0.5
            with SparseStoreWriter(path, **about, **options) as writer:
                indptr = rows.indptr.astype(np.int64)
                writer.write(SparseBlock(0, indptr, features, rows.data, y, weight, labels, told))
            return path
        about["feature_names"] = names
        with StoreWriter(path, p, "float32", source=source, random_state=seed, **about, **options) as writer:
            writer.write(RowBlock(0, n, X, y, rng.random(n) + 0.5), labels)
        return path

    stores = {
        layout: (write(folder / f"{layout}.zarr", 0, options), write(folder / f"{layout}-other.zarr", 1, options))
        for layout, options in LAYOUTS.items()
    }
    for store in stores["of before"]:
        (store / "checksums.bin").unlink()
        manifest = json.loads((store / "manifest.json").read_text())
        for key in ("n_tiles", "checksums_sha256"):
            del manifest[key]
        del manifest["files"]["checksums.bin"]
        write_manifest(store / "manifest.json", manifest | {"format_version": 1})
    return stores


def campaign(
    seed: int = 0,
    n: int | None = None,
    layouts: Sequence[str] = tuple(LAYOUTS),
    commands: Sequence[str] = COMMANDS,
    each: int = 0,
) -> list[Outcome]:
    """Damage stores and see what every command makes of it.

    Parameters
    ----------
    seed : int
        Which cases, and the places within them.
    n : int, optional
        How many cases; by default all, about 2,000.
    layouts : sequence of str
        Of `LAYOUTS`.
    commands : sequence of str
        Of `COMMANDS`, and "read", which reads all there is.
    each : int
        Only what a store says of itself is damaged, so often.

    Returns
    -------
    list of Outcome
        One for each case and command.
    """
    with tempfile.TemporaryDirectory(prefix="daskfs-damage-") as scratch, Reader() as reader:
        folder = Path(scratch)
        stores = {layout: pair for layout, pair in build(folder).items() if layout in layouts}
        copy, outcomes = folder / "damaged.zarr", []
        whole = {}
        for layout, (store, _) in stores.items():
            shutil.copytree(store, copy)
            whole[layout] = {command: reader.run(command, copy) for command in commands}
            shutil.rmtree(copy)
            assert all(answer["kind"] == "result" for answer in whole[layout].values()), whole[layout]
        jobs: list[Any] = [*all_cases(stores), *while_reading(stores)]
        if each:
            jobs = [case for layout, (store, _) in stores.items() for case in mutations(layout, store, each)]
        drawn = random.Random(seed).sample(range(len(jobs)), len(jobs) if n is None else min(n, len(jobs)))
        for number in sorted(drawn):
            job = jobs[number]
            if not isinstance(job, Case):
                outcomes.append(_while_reading(reader, copy, stores, whole, job))
                continue
            store, other = stores[job.layout]
            shutil.copytree(store, copy)
            job.damage(copy, other, random.Random(f"{seed} {number}"))
            for command in commands:
                answer = reader.run(command, copy)
                verdict, text = judge(job, command, answer, whole[job.layout][command], copy)
                outcomes.append(Outcome(job.kind, job.layout, job.target, command, verdict, text))
            shutil.rmtree(copy)
        return outcomes


def _while_reading(reader: Reader, copy: Path, stores: Any, whole: Any, job: tuple[str, str, str, int]) -> Outcome:
    kind, layout, name, after = job
    store, other = stores[layout]
    command = COMMANDS[2 + (after + len(name)) % 4]
    shutil.copytree(store, copy)
    answer = reader.run(command, copy, replace=(str(other), name, after))
    case = Case(kind, layout, name, lambda *_: None, is_harmless=True)
    verdict, text = judge(case, command, answer, whole[layout][command], copy)
    shutil.rmtree(copy, ignore_errors=True)
    return Outcome(kind, layout, f"{name}, after {after} reads", command, verdict, text)


def judge(case: Case, command: str, answer: dict[str, Any], whole: dict[str, Any], path: Path) -> tuple[str, str]:
    """Return a verdict and what it rests on."""
    kind, content = answer["kind"], answer["content"]
    if kind == "error":
        is_clear = content["where"].startswith(str(path)) and content["remedy"] and "\n" not in content["text"]
        return ("named" if is_clear else "traceback", content["text"])
    if kind in ("traceback", "hung"):
        return kind, content
    if command == "verify":
        if content:
            return "named", content[0]
        if case.is_harmless:
            return "unaffected", "whole"
        return "silent", "whole"
    if content == whole["content"]:
        return "unaffected", ""
    return "silent", f"{whole['content']} became {content}"


def as_table(outcomes: Sequence[Outcome]) -> str:
    """Return a Markdown table: verdicts by what was wrong."""
    kinds = list(dict.fromkeys(outcome.kind for outcome in outcomes))
    lines = ["| damage | tried | " + " | ".join(VERDICTS) + " |", "|---|" + "---:|" * (1 + len(VERDICTS))]
    for kind in [*kinds, "all"]:
        of_kind = [outcome for outcome in outcomes if kind in (outcome.kind, "all")]
        count = Counter(outcome.verdict for outcome in of_kind)
        lines.append(f"| {kind} | {len(of_kind)} | " + " | ".join(str(count[verdict]) for verdict in VERDICTS) + " |")
    return "\n".join(lines)


# ---- the process that reads


class Reader:
    """A process that opens stores for us, whose memory is limited; started again when it died or hung."""

    def __enter__(self) -> Reader:
        self._process: subprocess.Popen[bytes] | None = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def run(self, command: str, path: Path, replace: tuple[str, str, int] | None = None) -> dict[str, Any]:
        """Return what a command gives: its kind (result, error, traceback, hung) and content."""
        if self._process is None:
            root = str(Path(__file__).parents[2])
            environment = os.environ | {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.faults.damage"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                cwd=root,
            )
            assert self._line(self._process, START_S) == b"ready\n", "the process that reads did not start"
        process = self._process
        assert process.stdin is not None
        process.stdin.write(json.dumps([command, str(path), replace]).encode() + b"\n")
        process.stdin.flush()
        line = self._line(process, TIMEOUT_S)
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        process.kill()
        process.communicate()
        self._process = None
        if line is None:
            return {"kind": "hung", "content": "no answer"}
        return {"kind": "traceback", "content": f"the process died: {process.returncode}"}

    @staticmethod
    def _line(process: subprocess.Popen[bytes], timeout_s: float) -> bytes | None:
        """Return the next line, None where there is none in time; empty: it died."""
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], timeout_s)
        return process.stdout.readline() if ready else None


def _result(command: str, path: str) -> Any:
    """Return what a command gives, as JSON knows it."""
    import daskfs
    from daskfs.store.feature_store import open_store, verify_store

    if command == "verify":
        return verify_store(path)
    store = open_store(path)
    if command == "read":
        return _all_of(store)
    if command == "info":
        return {name: value for name, value in store.info().items() if name != "n_files"}
    method: Any = {
        "message": lambda: daskfs.Message(n_subsets=3),
        "fgm": lambda: daskfs.FGM(n_features_to_select=3),
        "online_substitution": lambda: daskfs.OnlineSubstitution(n_features_to_select=3),
        "mission": lambda: daskfs.Mission(n_features_to_select=3, loss="squared"),
    }[command]()
    fitted = method.fit(store)
    numbers = np.concatenate([np.ravel(fitted.coef_), np.ravel(fitted.intercept_)])
    return {
        "selected": fitted.selected_.tolist(),
        "coef": hashlib.sha256(numbers.tobytes()).hexdigest(),
        "names": [str(store.names[j]) for j in fitted.selected_],
    }


def _all_of(store: Any) -> dict[str, Any]:
    """Return digests of all that a store holds, by rows, columns and entries; and what it says of itself."""
    columns = list(range(0, store.shape[1], 3))[::-1]
    arrays = [store.read(slice(None)), store.read(slice(3, 50), columns), store.read_target(), store.read_weight()]
    if (rows := store.sparse_rows(slice(5, 99))) is not None:
        found = store.sparse_columns(columns)
        arrays += [rows.indptr, rows.indices, rows.data, found.indptr, found.indices, found.data]
    statistics = store.column_statistics()
    arrays += [getattr(statistics, name) for name in ("mean", "std", "minimum", "maximum")]
    texts = [*map(str, store.names), *(text for name in store.label_names for text in store.labels(name))]
    content = b"".join(np.ascontiguousarray(array, np.float64).tobytes() for array in arrays if array is not None)
    digest = hashlib.sha256(content + "\n".join(texts).encode()).hexdigest()
    return {"selected": digest, "of itself": [list(store.shape), store.target_names, store.notes, store.digest]}


def _answer(command: str, path: str, replace: tuple[str, str, int] | None) -> dict[str, Any]:
    from daskfs.errors import DaskfsError
    from daskfs.store.tile_reader import TileReader

    read, n_reads = TileReader.read, [0]

    def disturbed(self: TileReader, *arguments: Any, **options: Any) -> np.ndarray:
        block = read(self, *arguments, **options)
        n_reads[0] += 1
        if replace is not None and n_reads[0] == replace[2]:
            other, name, _ = replace
            if name in ("", "-"):
                shutil.rmtree(path)
            if name == "":
                shutil.copytree(other, path)
            elif name != "-":
                shutil.copy(Path(other, name), Path(path, name))
        return block

    try:
        if replace is not None:
            TileReader.read = disturbed  # type: ignore[method-assign]
        return {"kind": "result", "content": json.loads(json.dumps(_result(command, path), default=str))}
    except DaskfsError as fault:
        text = str(fault)
        text.encode()  # it can be shown
        return {"kind": "error", "content": {"where": fault.where, "remedy": fault.remedy, "text": text}}
    except BaseException as fault:
        return {"kind": "traceback", "content": f"{type(fault).__name__}: {fault}"[:500]}
    finally:
        TileReader.read = read  # type: ignore[method-assign]


def _serve() -> None:
    """Answer line by line; the memory is limited after the first commands, once all is imported and compiled."""
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with contextlib.suppress(Exception), tempfile.TemporaryDirectory() as folder:
        store, _ = build(Path(folder))["raw"]
        for command in COMMANDS:
            _answer(command, str(store), None)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY_NBYTES, taken + MEMORY_NBYTES))
    answers.write(b"ready\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(_answer(*json.loads(line))).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
