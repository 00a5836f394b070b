"""Sparse rows from Dask bags of lines or records, and from files named by delayed objects; read like files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from daskfs import errors
from daskfs.cluster.promises import Promise, promises, token_of
from daskfs.losses import TargetKind
from daskfs.sources.base import NotInPartsError
from daskfs.sources.sparse.base import SparseBlock, SparseSource
from daskfs.sources.sparse.clicks import ClicksSource
from daskfs.sources.sparse.libsvm import LibsvmSource
from daskfs.sources.sparse.text import TextSource
from daskfs.sources.sparse.vw import VwSource

ConfigError = errors.ConfigError.about("streams")
SourceError = errors.SourceError.about("streams")

KINDS: dict[str, tuple[Callable[..., SparseSource], str]] = {
    "libsvm": (LibsvmSource, ".svm"),
    "vw": (VwSource, ".vw"),
    "clicks": (ClicksSource, ".tsv"),
    "text": (TextSource, ".jsonl"),
}
"""Kinds of lines, each with its source class and file ending."""
_HEAD_LINES = 128


class _Facts(NamedTuple):
    """What the first rows show about all rows."""

    target_names: list[str]
    label_names: list[str]
    has_weight: bool
    features_are_ids: bool
    n_features: int | None
    first_number: int | None
    namespace_mark: str | None
    namespaces: Sequence[str] | None
    target: TargetKind
    encoding: dict[str, Any]
    n_rows: int
    n_different: int
    n_entries: int


class BagSource(SparseSource):
    """A Dask bag whose partitions are read like files of a kind, each on the worker that computes it.

    Parameters
    ----------
    bag : dask.bag.Bag, or list of dask.delayed.Delayed
        Its items are lines, or, with ``kind="text"``, mappings with the fields of a document. A delayed object is a
        list of such items, or the path of a file.
    kind : {"libsvm", "vw", "clicks", "text"}
    **options
        Options of the kind. Click logs need `columns`, since a bag has no header; libsvm indices are used as ids.

    Raises
    ------
    ConfigError
        A kind that is not read line by line, or a missing required option.
    SourceError, DataError
        With the partition, the line and the remedy.

    Notes
    -----
    A partition's lines are written to a temporary file, which is deleted after reading. Memory holds one partition
    and one block. The classes of a text target are found in a pass over all partitions; passing `classes` avoids
    this pass.
    """

    features_are_ids = True
    feature_names: list[str] = []  # noqa: RUF012 - ids have no list

    def __init__(self, bag: Any, kind: str, **options: Any) -> None:
        if kind not in KINDS:
            remedy = f"kind: one of {', '.join(KINDS)}; for records of a table use bag.to_dataframe()"
            raise ConfigError(f"expected a kind for the lines of a bag, found {kind!r}", "source.kind", remedy)
        if kind == "clicks" and not options.get("columns"):
            raise ConfigError("a bag has no header", "source.columns", "name all columns: columns=[...]")
        if kind == "libsvm" and options.get("n_features") is None:
            options["feature_ids"] = True
        self.kind, self._bag = kind, bag  # type: ignore[misc]
        self._options = {name: value for name, value in options.items() if value is not None}
        self.notes, self._reading_notes = [], dict[str, None]()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without the bag, whose partitions are sent instead."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_bag", "_promises")}

    @cached_property
    def _promises(self) -> list[Promise]:
        return promises(self._bag.to_delayed() if hasattr(self._bag, "to_delayed") else list(self._bag))

    @cached_property
    def _identity(self) -> tuple[int, str]:
        """Number of partitions, and Dask's token, which is equal for equal graphs over equal inputs."""
        return len(self._promises), token_of(self._bag)

    # what the first rows show

    @cached_property
    def _facts(self) -> _Facts:
        for k, promise in enumerate(self._promises):
            with self._opened(promise, k, n_lines=_HEAD_LINES) as source:
                if source is None:
                    continue
                source.check()
                head = next(source.sparse_blocks(_HEAD_LINES, 2**20))
                n_rows, (n_features, n_entries) = head.n_rows, (len(set(head.features.tolist())), len(head.features))
                return _Facts(
                    list(source.target_names), list(source.label_names), source.has_weight, source.features_are_ids,
                    source.n_features, source.first_number, source.namespace_mark, source.namespaces,
                    source.estimate_target(), source.encoding, n_rows, n_features, n_entries,
                )  # fmt: skip
        raise SourceError("expected rows, found none", self.place, "check how the bag was made")

    place = "bag"

    def check(self) -> None:
        """Read the first rows; find the classes of a text target."""
        if self.kind == "text" and "target" in self._options and "classes" not in self._options:
            classes = self._found_classes()
            if classes:
                self._options["classes"] = classes
        facts = self._facts
        self.target_names, self.label_names, self.has_weight = facts.target_names, facts.label_names, facts.has_weight
        self.features_are_ids, self.n_features = facts.features_are_ids, facts.n_features
        self.first_number = facts.first_number
        self.namespace_mark, self.namespaces = facts.namespace_mark, facts.namespaces

    def _found_classes(self) -> list[str]:
        found: set[str] = set()
        for k, promise in enumerate(self._promises):
            with self._opened(promise, k) as source:
                found |= set((source.target_classes if source is not None else None) or ())
        return sorted(found)

    @contextmanager
    def _opened(self, promise: Promise, number: int, n_lines: int | None = None) -> Iterator[SparseSource | None]:
        """Open a partition as a source; None if it is empty."""
        try:
            (content,) = promise.kept()
        except errors.SourceError as fault:
            raise NotInPartsError(*fault.args) from fault
        if isinstance(content, (str, os.PathLike)):
            yield self._source(content)
            return
        with TemporaryDirectory(prefix="daskfs-") as folder:
            path = Path(folder, f"partition {number}{KINDS[self.kind][1]}")
            n_written = _write(path, islice(content, n_lines))
            yield self._source(path) if n_written else None

    def _source(self, path: Any) -> SparseSource:
        return KINDS[self.kind][0](path, **self._options)

    # description

    @property
    def target_classes(self) -> list[str] | None:
        """Texts of the classes."""
        return self._options.get("classes")

    @property
    def encoding(self) -> dict[str, Any]:
        """Encoding of the kind."""
        return self._facts.encoding

    def describe(self) -> dict[str, Any]:
        """Return kind and partitions."""
        return {"kind": self.kind, "description": "dask bag", "n_partitions": self._identity[0]}

    def digest(self) -> str:
        """Return the digest of the graph."""
        return self._identity[1]

    def estimate_target(self) -> TargetKind:
        """Return the kind of target, inferred from the first rows."""
        return self._facts.target

    def estimate_shape(self) -> tuple[int | None, int]:
        """Return the number of features in the first rows; the number of rows is unknown."""
        return None, self.n_features or self._facts.n_different

    def estimate_entries(self) -> int:
        """Return the number of entries in the first rows."""
        return self._facts.n_entries

    # rows

    def sparse_blocks(self, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the rows, partition by partition."""
        n_rows = 0
        for part in enumerate(self._promises):
            first = n_rows
            for block in self.sparse_part_blocks(part, block_rows, block_nnz):
                block.start += first
                n_rows = block.start + block.n_rows
                yield block
        self.conclude([self.part_facts()], n_rows)

    @property
    def has_parts(self) -> bool:
        """True: partitions can be read independently."""
        return True

    def parts(self) -> Sequence[tuple[int, Promise]]:
        """Return the partitions."""
        _ = self._facts, self._identity  # facts about all rows are found before the source is sent
        return list(enumerate(self._promises))

    def sparse_part_blocks(self, part: tuple[int, Promise], block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the rows of a partition, numbered within it."""
        number, promise = part
        with self._opened(promise, number) as source:
            if source is not None:
                yield from source.sparse_blocks(block_rows, block_nnz)
                self._reading_notes.update(dict.fromkeys(source.notes))

    def part_facts(self) -> list[str]:
        """Return the notes on partitions that were read here."""
        return list(self._reading_notes)

    def conclude(self, facts: Sequence[list[str]], n_samples: int) -> None:
        """Combine the notes on the partitions."""
        if n_samples == 0:
            raise SourceError("expected rows, found none", self.place, "check how the bag was made")
        self.notes[:] = dict.fromkeys(note for notes in facts for note in notes)


def _write(path: Path, items: Iterable[Any]) -> int:
    """Write lines; return their number."""
    n_lines = 0
    with path.open("wb") as file:
        for n_lines, item in enumerate(items, 1):
            line = json.dumps(item, ensure_ascii=False) if isinstance(item, Mapping) else item
            if not isinstance(line, (str, bytes)):
                problem = f"expected a line of text or a mapping of fields, found {type(item).__name__}"
                raise SourceError(problem, f"bag, {path.stem}, item {n_lines - 1}", "check the bag's items")
            encoded = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
            file.write(encoded if encoded.endswith(b"\n") else encoded + b"\n")
    return n_lines
