"""Fragments drawn from genomes, as in metagenomics: the label of a fragment is its genome."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from daskfs import errors
from daskfs.kernels.text.kmers import UNKNOWN
from daskfs.losses import TargetKind
from daskfs.sources.byte_streams import text_ratio
from daskfs.sources.files import OfFiles, PathLike
from daskfs.sources.sparse.base import NamedIds, SparseBlock, SparseSource
from daskfs.sources.sparse.fasta import KmerOptions
from daskfs.sources.sparse.kmers import CountedRows, Kmers, KmerWeighting
from daskfs.sources.sparse.sequences import Labels, expand_sequences, read_records

ConfigError = errors.ConfigError.about("sequences")
SourceError = errors.SourceError.about("sequences")

_AT_ONCE, _PART_ROWS = 2**12, 2**16
"""Number of fragments that are counted together, and of fragments in a part."""
_HEAD_NBYTES = 2**18


class FragmentsOptions(KmerOptions):
    """Fragments of a given length and mean coverage, drawn from genomes (FASTA), as k-mers; the genome is the label."""

    length: int | None = Field(default=None, ge=1, description="length of fragments; default: 200")
    coverage: float | None = Field(
        default=None, gt=0, description="mean number of fragments that cover a letter; default: 1"
    )
    strands: Literal["forward", "both"] | None = Field(
        default=None, description="forward strand only (default), or the reverse complement with probability 1/2"
    )
    label_from: Literal["file", "folder"] | None = Field(default=None, description="what names a genome; default: file")
    n_epochs: int | None = Field(default=None, ge=1, description="number of times the coverage is drawn; default: 1")
    redraw: bool | None = Field(
        default=None, description="draw new fragments in each epoch (default), or the same in another order"
    )
    random_state: int | None = Field(default=None, ge=0, description="seed; default: 0")


class Genomes(NamedTuple):
    """All letters in memory, one byte each."""

    codes: np.ndarray
    """uint8: concatenated sequences that are at least as long as a fragment."""
    starts: np.ndarray
    """int64: start of each sequence."""
    lengths: np.ndarray
    """int64"""
    classes: np.ndarray
    """int64: genome of each sequence."""


class RowRange(NamedTuple):
    """A range of fragments in an epoch."""

    epoch: int
    start: int
    stop: int


class FragmentsSource(OfFiles, SparseSource):
    """Fragments of genomes, with k-mers as features and the genome as label.

    Parameters
    ----------
    path : path-like or list of path-like
        FASTA files, see `daskfs.sources.sparse.fasta.FastaSource`.
    length : int
        Length of fragments, in letters.
    coverage : float
        Mean number of fragments that cover a letter: a genome of n letters has ``ceil(coverage * n / length)``
        fragments.
    k, patterns, canonical, weighting, tell_names
        See `FastaSource`.
    strands : {"forward", "both"}
        Fragments from the forward strand, or reverse complements with probability 1/2.
    target : str, optional
        Name of the label; by default ``label``.
    label_from : {"file", "folder"}
        What identifies a genome: files with the same name, or in the same folder, are one genome.
    label_pattern : str, optional
        Regular expression whose first group is the label, applied to that name.
    n_epochs : int
        Number of epochs; each draws the full coverage.
    redraw : bool
        Whether each epoch draws new fragments; otherwise all have the same fragments in another order.
    random_state : int
        Seed; it determines the fragments and their order.

    Raises
    ------
    SourceError
        A missing, empty or unreadable file; a genome without a sequence as long as a fragment.
    ConfigError
        An invalid option, or options that cannot be combined.

    Notes
    -----
    Start positions are uniform over all positions at which a fragment fits into its sequence (chromosome, plasmid or
    contig). Sequences shorter than a fragment are ignored, also for the coverage. Rows are in random order. Memory
    holds the genomes, one byte per letter, and 5 bytes for each fragment of an epoch, besides their order.

    References
    ----------
    Vervier, K., Mahé, P., Tournoud, M., Veyrieras, J.-B. and Vert, J.-P. (2016). Large-scale machine learning for
    metagenomics sequence classification. Bioinformatics 32(7), 1023-1032.
    """

    kind, options = "fragments", FragmentsOptions
    features_are_ids = True

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        length: int = 200,
        coverage: float = 1.0,
        k: int | Sequence[int] = 12,
        patterns: str | Sequence[str] | None = None,
        canonical: bool = False,
        weighting: KmerWeighting = "counts",
        strands: Literal["forward", "both"] = "forward",
        target: str | None = None,
        label_from: Literal["file", "folder"] = "file",
        label_pattern: str | None = None,
        n_epochs: int = 1,
        redraw: bool = True,
        random_state: int = 0,
        tell_names: bool = True,
    ) -> None:
        self.files = list(expand_sequences(path))
        self._kmers = Kmers(k, patterns, canonical=canonical, weighting=weighting)
        for name, value, is_right, remedy in (
            ("length", length, length >= 1, "for example 200"),
            ("coverage", coverage, 0 < coverage < math.inf, "for example 1"),
            ("strands", strands, strands in ("forward", "both"), "one of forward, both"),
            ("label_from", label_from, label_from in ("file", "folder"), "one of file, folder"),
            ("n_epochs", n_epochs, n_epochs >= 1, "for example 1"),
            ("random_state", random_state, random_state >= 0, "a seed, for example 0"),
        ):
            if not is_right:
                raise ConfigError(f"found {value!r}", f"source.{name}", remedy)
        self._length, self._coverage, self._strands = length, coverage, strands
        self._n_epochs, self._redraw, self._random_state = n_epochs, redraw, random_state
        self.ids_say_names = tell_names
        labels = Labels(label_from, label_pattern)
        self._labels = [labels.of_file(file) for file in self.files]
        if None in self._labels:
            problem = f"expected a label in the name, found no match of {labels.pattern!r}"
            raise ConfigError(problem, str(self.files[self._labels.index(None)]), "set another label_pattern")
        self._classes = sorted({label for label in self._labels if label is not None})
        self.target_names = [target or "label"]
        self.feature_names: list[str] = []
        self.exchangeable = n_epochs == 1
        self.notes = []

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the genomes: each process reads them itself."""
        return {name: value for name, value in vars(self).items() if name != "_genomes"}

    @cached_property
    def _genomes(self) -> Genomes:
        pieces, lengths, classes = [], [], []
        for file, label in zip(self.files, self._labels, strict=True):
            for records in read_records(file):
                sizes = np.diff(records.offsets)
                for k in np.flatnonzero(sizes >= self._length):
                    pieces.append(records.codes[records.offsets[k] : records.offsets[k + 1]])
                    lengths.append(int(sizes[k]))
                    classes.append(self._classes.index(label or ""))
        for number, name in enumerate(self._classes):
            if number not in classes:
                problem = f"expected a sequence of at least {self._length} letters in {name}, found none"
                raise SourceError(problem, str(self.files[self._labels.index(name)]), "set a smaller length")
        starts = np.append(0, np.cumsum(lengths))[:-1].astype(np.int64)
        return Genomes(np.concatenate(pieces), starts, np.array(lengths, np.int64), np.array(classes, np.int64))

    @cached_property
    def _counts(self) -> np.ndarray:
        """Number of fragments of each genome in an epoch."""
        n_letters = np.bincount(self._genomes.classes, self._genomes.lengths, len(self._classes))
        return np.ceil(self._coverage * n_letters / self._length).astype(np.int64)

    def _drawn(self, epoch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the starts of an epoch's fragments, their genomes, and whether they are reversed."""
        genomes, counts = self._genomes, self._counts
        rng = np.random.default_rng([self._random_state, epoch if self._redraw else 0])
        begins = []
        for number, count in enumerate(counts):
            own = np.flatnonzero(genomes.classes == number)
            ends = np.cumsum(genomes.lengths[own] - self._length + 1)  # of the ranges of possible start positions
            places = rng.integers(0, ends[-1], count)
            sequence = np.searchsorted(ends, places, "right")
            begins.append(genomes.starts[own][sequence] + places - np.append(0, ends)[sequence])
        n_rows = int(counts.sum())
        is_reversed = rng.integers(0, 2, n_rows, dtype=np.uint8).astype(bool)
        if self._strands == "forward":
            is_reversed[:] = False
        order = np.random.default_rng([self._random_state, epoch, 1]).permutation(n_rows)
        return np.concatenate(begins)[order], np.repeat(np.arange(len(counts)), counts)[order], is_reversed[order]

    def _rows_of(self, part: RowRange) -> Iterator[CountedRows]:
        begins, classes, is_reversed = (array[part.start : part.stop] for array in self._drawn(part.epoch))
        letters, within = self._genomes.codes, np.arange(self._length)
        for first in range(0, len(begins), _AT_ONCE):
            rows = slice(first, first + _AT_ONCE)
            fragments = letters[begins[rows, None] + within]
            backwards = is_reversed[rows]
            if backwards.any():
                turned = fragments[backwards, ::-1]
                fragments[backwards] = np.where(turned < UNKNOWN, 3 - np.minimum(turned, 3), turned)
            offsets = np.arange(len(fragments) + 1) * self._length
            yield self._kmers.count(fragments.ravel(), offsets, classes[rows].astype(np.float64))

    def sparse_blocks(self, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the fragments of all epochs in order."""
        n_rows = int(self._counts.sum())
        rows = (rows for epoch in range(self._n_epochs) for rows in self._rows_of(RowRange(epoch, 0, n_rows)))
        yield from self._kmers.blocks_of(rows, block_rows, block_nnz, tells_names=self.ids_say_names)
        self._note()

    @property
    def has_parts(self) -> bool:
        """True: ranges of fragments can be read independently."""
        return True

    def parts(self) -> Sequence[RowRange]:
        """Return ranges of the fragments."""
        n_rows = int(self._counts.sum())
        return [
            RowRange(epoch, start, min(start + _PART_ROWS, n_rows))
            for epoch in range(self._n_epochs)
            for start in range(0, n_rows, _PART_ROWS)
        ]

    def sparse_part_blocks(self, part: RowRange, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the fragments of a part, numbered within it."""
        return self._kmers.blocks_of(self._rows_of(part), block_rows, block_nnz, tells_names=self.ids_say_names)

    def names_of(self, ids: np.ndarray) -> NamedIds:
        """Return the k-mers of ids, each once."""
        return self._kmers.names_of(ids)

    def conclude(self, facts: Sequence[Any], n_samples: int) -> None:
        """Add the note on the codes of the labels."""
        self._note()

    def _note(self) -> None:
        counts = [f"{name!r} is {code} ({n:,} fragments)" for code, (name, n) in enumerate(self._n_of_classes)]
        self.notes[:] = [f"the target is coded: {', '.join(counts)}"]

    @property
    def _n_of_classes(self) -> list[tuple[str, int]]:
        return list(zip(self._classes, (self._counts * self._n_epochs).tolist(), strict=True))

    @property
    def target_classes(self) -> list[str]:
        """The genomes, by code."""
        return self._classes

    def check(self) -> None:
        """Check that the first sequences can be read."""
        next(read_records(self.files[0]), None)

    def estimate_target(self) -> TargetKind:
        """Return a kind with one class per genome."""
        return TargetKind(len(self._classes), is_declared=True)

    def estimate_shape(self) -> tuple[int | None, int]:
        """Return the number of rows, estimated from file sizes, and an upper bound for the number of features."""
        n_letters = sum(file.stat().st_size * text_ratio(file, _HEAD_NBYTES) for file in self.files)
        n_rows = max(1, round(self._n_epochs * self._coverage * n_letters / self._length))
        n_kmers = sum(4 ** pattern.count("1") for pattern in self._kmers.patterns)
        return n_rows, min(n_kmers, round(n_letters) * len(self._kmers.patterns))

    def estimate_entries(self) -> int:
        """Return an upper bound for the number of k-mers in the fragments."""
        return (self.estimate_shape()[0] or 0) * self._length * len(self._kmers.patterns)

    @property
    def encoding(self) -> dict[str, Any]:
        """How genomes are encoded as rows."""
        return {
            **self._kmers.encoding,
            "length": self._length,
            "coverage": self._coverage,
            "strands": self._strands,
            "labels": self._labels,
            "target": self.target_names,
            "n_epochs": self._n_epochs,
            "redraw": self._redraw,
            "random_state": self._random_state,
        }
