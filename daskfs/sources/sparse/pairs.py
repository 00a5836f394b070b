"""Products of pairs of features within a row, for any sparse source, for all features or for namespaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from daskfs import errors
from daskfs.errors import did_you_mean
from daskfs.kernels.text import hashes, pairs
from daskfs.sources.sparse.base import BlockNames, NamedIds, NamesOnDemand, SparseBlock, SparseSource
from daskfs.sources.sparse.over import OverSource

ConfigError = errors.ConfigError.about("pairs-of-features")
DataError = errors.DataError.about("pairs-of-features")

MOST_OF_A_ROW = 2**24
"""Maximum number of pairs per row; they are in memory together."""

Interactions: TypeAlias = Literal["all"] | Sequence[Sequence[str]]


class _Entries:
    """Some rows of a block, with their namespaces and the requested pairs.

    Parameters
    ----------
    indptr : ndarray of int64
        Offsets of these rows; need not begin with 0.
    features, groups : ndarray
        Features of the whole block, and the namespace of each entry, -1 for others.
    n_groups, asked : see `daskfs.kernels.text.pairs.count_pairs`
    n_most : int
        Maximum number of pairs in a row.
    """

    def __init__(
        self,
        indptr: np.ndarray,
        features: np.ndarray,
        groups: np.ndarray,
        n_groups: int,
        asked: np.ndarray,
        n_most: int,
    ) -> None:
        self.indptr, self.features, self.groups = indptr, features, groups
        self.n_groups, self.asked, self.n_most = n_groups, asked, n_most

    def some(self, first: int, stop: int) -> _Entries:
        """Return a range of the rows."""
        indptr = self.indptr[first : stop + 1]
        return _Entries(indptr, self.features, self.groups, self.n_groups, self.asked, self.n_most)

    def find(self, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the ids of the wanted pairs that occur, and the two entries of each."""
        ids, (left, right) = np.empty(len(wanted), np.uint64), np.empty((2, len(wanted)), np.int64)
        slots = np.empty(2 << len(wanted).bit_length(), np.uint64)
        n_found = pairs.find_pairs(
            self.indptr, self.features, self.groups, self.n_groups, self.asked, self.n_most,
            np.ascontiguousarray(wanted, np.uint64), slots, ids, left, right,
        )  # fmt: skip
        return ids[:n_found], left[:n_found], right[:n_found]


class NamedPairs(NamesOnDemand):
    """Names of a block's features and of their pairs; names of pairs are joined on demand.

    Parameters
    ----------
    entries : _Entries
    names : NamedIds
        Names of the features.
    places : ndarray of int64
        Index of each entry's name, -1 for none.
    indptr, ids : ndarray
        Offsets of the rows, and ids of their features and pairs.
    first_number : int or None
        Name of feature 0 if it has none, from which the other names count up; None for x0, x1, ...
    """

    def __init__(
        self,
        entries: _Entries,
        names: NamedIds,
        places: np.ndarray,
        indptr: np.ndarray,
        ids: np.ndarray,
        first_number: int | None,
    ) -> None:
        self._entries, self._names, self._places, self._first_number = entries, names, places, first_number
        self._indptr, self._ids = indptr, ids

    def of_rows(self, first: int, stop: int) -> NamedPairs:
        """Return the names in a range of rows."""
        entries, indptr = self._entries.some(first, stop), self._indptr[first : stop + 1]
        return NamedPairs(entries, self._names, self._places, indptr, self._ids, self._first_number)

    def among(self, wanted: np.ndarray) -> NamedIds:
        """Return the names of all features and of the wanted pairs, each id once."""
        ids, *ends = self._entries.find(wanted)
        names, (left, right) = self._with_numbers(wanted, *ends)
        lengths = np.diff(names.offsets)
        text = np.empty(int((lengths[left] + lengths[right]).sum()) + len(pairs.JOINT) * len(ids), np.uint8)
        offsets = np.empty(len(ids) + 1, np.int64)
        pairs.join_names(names.text, names.offsets, left, right, pairs.JOINT, text, offsets)
        return NamedIds(
            np.concatenate([names.ids, ids]),
            np.concatenate([names.text, text]),
            np.concatenate([names.offsets, names.offsets[-1] + offsets[1:]]),
        )

    def _with_numbers(self, wanted: np.ndarray, *ends: np.ndarray) -> tuple[NamedIds, list[np.ndarray]]:
        """Return the names, including numbers for unnamed features, and the index of each entry's name."""
        features, names = self._entries.features, self._names
        places = [self._places[end] for end in ends]
        alone = np.intersect1d(wanted, features[self._places < 0])
        of_pairs = [features[end[at < 0]] for end, at in zip(ends, places, strict=True)]
        nameless = np.unique(np.concatenate([alone, *of_pairs]))
        for end, at in zip(ends, places, strict=True):
            at[at < 0] = len(names.ids) + np.searchsorted(nameless, features[end[at < 0]])
        if not len(nameless):
            return names, places
        prefix, first = ("x", 0) if self._first_number is None else ("", self._first_number)
        return _joined(names, nameless, [f"{prefix}{j + first}" for j in nameless.tolist()]), places

    def _every(self) -> NamedIds:
        return self.among(np.unique(self._ids[self._indptr[0] : self._indptr[-1]]))


class PairsSource(OverSource[SparseSource]):
    """Rows of a sparse source with products of pairs of their features.

    Parameters
    ----------
    source : SparseSource
    interactions : "all", or sequence of pairs of namespaces
        ``[["user", "ad"]]`` pairs each feature of one namespace with each of the other; pairing a namespace with itself
        gives the pairs within it. Fields of click logs and of texts are namespaces; "" is the namespace without a name.

    Raises
    ------
    ConfigError
        The source has no namespaces, or not these; or no namespaces are given.

    Notes
    -----
    In addition to pairs, a row keeps its features, with their ids or their column numbers as ids. A feature is not
    paired with itself. The id of a pair is the XXH64 of both ids, the smaller first; its name is ``a * b``, in
    alphabetical order. Pairs are not listed: names are created on demand. Memory holds one block of the source and one
    of pairs; a row has at most 2²⁴ pairs. If a pair and another feature have the same id, their values are summed, and
    both names are kept.
    """

    def __init__(self, source: SparseSource, interactions: Interactions) -> None:
        super().__init__(source)
        self._spaces, self._asked = _understood(interactions)
        self._seen = np.zeros(len(self._spaces), bool)
        if self._spaces and source.namespace_mark is None:
            problem = f"the features of a {source.kind} source have no namespaces"
            raise ConfigError(problem, "source.interactions", "interactions: all")

    def __copy__(self) -> PairsSource:
        """Return a copy with its own notes."""
        other = super().__copy__()
        other._seen = self._seen.copy()
        return other

    def check(self) -> None:
        """Check the source, and, if its namespaces are known, that the given ones exist."""
        super().check()
        known = self.source.namespaces
        for space in self._spaces if known is not None else ():
            if space not in known:  # type: ignore[operator]
                problem = f"no namespace {space!r}{did_you_mean(space, known)}"  # type: ignore[arg-type]
                raise ConfigError(problem, "source.interactions", f"one of {', '.join(known)}")  # type: ignore[arg-type]

    @property
    def notes(self) -> list[str]:  # type: ignore[override]
        """Notes of the source, and namespaces that did not occur."""
        absent = [repr(space) for space, is_seen in zip(self._spaces, self._seen, strict=True) if not is_seen]
        missed = f"no feature of namespace {', '.join(absent)} occurred, so there are no pairs of it"
        return [*self.source.notes, missed] if absent and self._seen.any() else self.source.notes

    @property
    def _interactions(self) -> Any:
        return [[self._spaces[a], self._spaces[b]] for a, b in self._asked.tolist()] if self._spaces else "all"

    @property
    def encoder(self) -> dict[str, Any]:
        """Encoder of the source, and the pairs."""
        return {"kind": "pairs", "of": self.source.encoder, "interactions": self._interactions}

    @property
    def encoding(self) -> dict[str, Any]:
        """Encoding of the source, and the pairs."""
        return {
            **self.source.encoding,
            "interactions": self._interactions,
            "hash of pairs": f"{hashes.HASH_NAME}, {pairs.SEED}",
        }

    def estimate_shape(self) -> tuple[int | None, int]:
        """Return the number of rows, and the number of features and pairs in the first rows."""
        head = next(self.sparse_blocks(64, 2**20), None)
        return self.source.estimate_shape()[0], 0 if head is None else len(np.unique(head.features))

    def estimate_entries(self) -> int:
        """Return the number of entries, estimated from the first rows."""
        head, n_rows = next(self.sparse_blocks(64, 2**20), None), self.source.estimate_shape()[0] or 0
        return 0 if head is None else round(n_rows * len(head.features) / head.n_rows)

    def part_facts(self) -> tuple[Any, np.ndarray]:
        """Return what the source has learnt from reading a part, and which namespaces occurred."""
        return super().part_facts(), self._seen

    def conclude(self, facts: Sequence[Any], n_samples: int) -> None:
        """Combine the facts from all parts."""
        super().conclude([fact for fact, _ in facts], n_samples)
        self._seen = np.any([self._seen, *(seen for _, seen in facts)], axis=0)

    # rows

    def sparse_blocks(self, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the rows with their pairs."""
        return self._paired(self.source.sparse_blocks(block_rows, block_nnz), block_nnz)

    def sparse_part_blocks(self, part: Any, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the rows of a part with their pairs."""
        return self._paired(self.source.sparse_part_blocks(part, block_rows, block_nnz), block_nnz)

    def _paired(self, blocks: Iterator[SparseBlock], block_nnz: int) -> Iterator[SparseBlock]:
        block_names: BlockNames | None = None
        for block in blocks:
            # A source gives the names of each block, or those of all columns once.
            block_names = block.names or block_names
            yield from self._blocks_of(block, block_names, block_nnz)

    def _blocks_of(self, block: SparseBlock, block_names: BlockNames | None, block_nnz: int) -> Iterator[SparseBlock]:
        names = block_names.among(block.features) if block_names is not None else NO_NAMES
        features, n_groups = block.features, max(1, len(self._spaces))
        data = np.ones(len(features), np.float32) if block.data is None else block.data.astype(np.float32, copy=False)
        places, counts = np.full(len(features), -1, np.int64), np.empty(block.n_rows, np.int64)
        if len(names.ids):
            pairs.find_names(features, names.ids, np.empty(2 << len(names.ids).bit_length(), np.int64), places)
        groups = self._groups_of(names, places)
        pairs.count_pairs(block.indptr, groups, n_groups, self._asked, counts)
        if counts.max(initial=0) > MOST_OF_A_ROW:
            row = int(counts.argmax())
            problem = f"a row has {int(counts[row]):,} pairs, more than {MOST_OF_A_ROW:,}"
            raise DataError(problem, f"row {block.start + row}", "limit the pairs to namespaces, or shorten the rows")
        ends = np.concatenate([[0], np.cumsum(np.diff(block.indptr) + counts)])
        first = 0
        while first < block.n_rows:
            stop = max(first + 1, int(np.searchsorted(ends, ends[first] + block_nnz, "right")) - 1)
            n_most, indptr = int(counts[first:stop].max()), block.indptr[first : stop + 1]
            out_indptr, n_entries = np.empty(stop - first + 1, np.int64), int(ends[stop] - ends[first])
            ids, values = np.empty(n_entries, np.uint64), np.empty(n_entries, np.float32)
            row = pairs.add_pairs(
                indptr, features, data, groups, n_groups, self._asked, n_most, out_indptr, ids, values
            )
            if row >= 0:
                problem = "the product of two values is not finite in single precision"
                raise DataError(problem, f"row {block.start + first + row}", "rescale the values")
            ids, values, rows = ids[: out_indptr[-1]], values[: out_indptr[-1]], slice(first, stop)
            entries = _Entries(indptr, features, groups, n_groups, self._asked, n_most)
            first_number = 0 if self.source.features_are_ids else self.source.first_number
            yield SparseBlock(
                block.start + first,
                out_indptr,
                ids,
                None if np.all(values == 1.0) else values,
                None if block.y is None else block.y[rows],
                None if block.weight is None else block.weight[rows],
                {name: texts[rows] for name, texts in block.labels.items()},
                NamedPairs(entries, names, places, out_indptr, ids, first_number),
            )
            first = stop

    def _groups_of(self, names: NamedIds, places: np.ndarray) -> np.ndarray:
        """Return the namespace of each entry."""
        if not self._spaces:
            return np.zeros(len(places), np.int64)
        if not len(names.ids) and len(places):
            problem = "namespaces are parts of the features' names, which the source does not keep"
            raise ConfigError(problem, "source.interactions", "set tell_names: true")
        mark = str(self.source.namespace_mark)
        starts = [f"{space}{mark}".encode() if space else b"" for space in self._spaces]
        of_names = np.empty(len(names.ids), np.int64)
        joined, offsets = np.frombuffer(b"".join(starts), np.uint8), np.cumsum([0, *map(len, starts)])
        pairs.group_names(names.text, names.offsets, joined, offsets, ord(mark), of_names)
        groups = np.where(places < 0, -1, of_names[places])
        self._seen |= np.bincount(groups[groups >= 0], minlength=len(self._spaces)) > 0
        return groups


NO_NAMES = NamedIds(np.empty(0, np.uint64), np.empty(0, np.uint8), np.zeros(1, np.int64))


def _understood(interactions: Interactions) -> tuple[list[str], np.ndarray]:
    """Return the namespaces (none if all features are paired) and the distinct pairs of namespaces."""
    if isinstance(interactions, str) and interactions == "all":
        return [], np.zeros((1, 2), np.int64)
    if (
        isinstance(interactions, str)
        or not len(interactions)
        or any(isinstance(p, str) or len(p) != 2 for p in interactions)
    ):
        problem = f"expected all, or pairs of namespaces, found {interactions!r}"
        raise ConfigError(problem, "source.interactions", "interactions: [[user, ad]]")
    spaces = list(dict.fromkeys(space for pair in interactions for space in pair))
    asked = {tuple(sorted(map(spaces.index, pair))) for pair in interactions}
    return spaces, np.array(sorted(asked), np.int64)


def _joined(names: NamedIds, ids: np.ndarray, texts: list[str]) -> NamedIds:
    """Append names to existing ones."""
    more = np.frombuffer("".join(texts).encode(), np.uint8)
    return NamedIds(
        np.concatenate([names.ids, ids]),
        np.concatenate([names.text, more]),
        np.concatenate([names.offsets, names.offsets[-1] + np.cumsum(list(map(len, texts)))]),
    )
