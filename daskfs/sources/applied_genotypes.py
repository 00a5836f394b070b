"""Dosages of new samples, encoded as in the fit: variants are matched by name and alleles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from daskfs import errors
from daskfs.errors import Caution
from daskfs.sources.base import Source, SourceBlock
from daskfs.sources.files import PathLike
from daskfs.sources.genotype_matrix import Alleles
from daskfs.sources.genotypes import MISSING_CODE, GenotypeSource
from daskfs.sources.phenotypes import SEX, read_covariates

SchemaError = errors.SchemaError.about("new-rows")
SourceError = errors.SourceError.about("new-rows")

UNKNOWN = ("", "0", ".")
"""How files write an unknown allele."""
_COMPLEMENT = str.maketrans("ACGT", "TGCA")
_NAMED = 8
OTHER_STRAND = "; if they are from the other strand, flip them with plink --flip and apply again"
SAME_STRAND = (
    "; if both data sets are of the same strand, write them again with `plink2 --alt1-allele force RUN/score.txt 2 1 1 "
    "--make-bed`, RUN being the folder of the run, and apply again"
)


class Matched(NamedTuple):
    """Where the variants of a fit are in other files."""

    places: np.ndarray
    """int64; -1 if a variant is absent or has other alleles."""
    is_swapped: np.ndarray
    """Whether the files count the other allele."""
    absent: list[str]
    contradictory: list[str]
    """Variants with other alleles."""
    ambiguous: list[str]
    """Variants with swapped alleles that could also be read from the other strand (A/T, C/G), or an unknown one."""


def matched(names: Sequence[str], alleles: Alleles, known: Sequence[str], of_known: Alleles) -> Matched:
    """Find the variants of a fit among the variants of other files.

    Parameters
    ----------
    names : sequence of str
        Variants of the fit.
    alleles : Alleles
        The alleles that the fit counted, and the others.
    known : sequence of str
        Names in the files.
    of_known : Alleles
        The alleles that the files count, and the others.

    Examples
    --------
    >>> ours, theirs = Alleles(["A", "A", "A"], ["G", "T", "C"]), Alleles(["G", "T", "T"], ["A", "A", "C"])
    >>> matched(["rs1", "rs2", "rs3"], ours, ["rs1", "rs2", "rs3"], theirs)[2:]
    ([], ['rs3'], ['rs2'])
    """
    place = {name: j for j, name in enumerate(known)}
    places, is_swapped = np.full(len(names), -1, np.int64), np.zeros(len(names), bool)
    absent: list[str] = []
    refused: dict[str, list[str]] = {"contradictory": [], "ambiguous": []}
    for k, (name, counted, other) in enumerate(zip(names, *alleles, strict=True)):
        # a name made from both alleles has them in its file's order
        j = next((place[one] for one in other_names(name, counted, other) if one in place), -1)
        if j < 0:
            absent.append(name)
            continue
        theirs = of_known.counted[j], of_known.other[j]
        relation = _relation((counted, other), theirs)
        if relation in refused:
            refused[relation].append(name)
        else:
            places[k], is_swapped[k] = j, relation == "swapped"
    return Matched(places, is_swapped, absent, **refused)


def copies(encoder: Mapping[str, Any]) -> np.ndarray:
    """Return the maximum dosage of each feature, 0 for covariates; see `GenotypeSource.encoder`."""
    lengths, of_each = np.array(encoder["ploidy"], np.int64).T
    return np.concatenate([np.zeros(int(encoder["n_covariates"])), np.repeat(of_each, lengths)])


def notes_on(found: Matched, names: Sequence[str], place: str) -> list[str]:
    """Return the notes on the variants of a fit that were looked up in other data.

    Raises
    ------
    SchemaError
        None of them is in the data.
    """
    if names and not (found.places >= 0).any():
        problem = f"none of the model's {len(names):,} variants is in the data with the same alleles"
        remedy = (SAME_STRAND if found.ambiguous else OTHER_STRAND if found.contradictory else "").removeprefix("; ")
        raise SchemaError(problem, place, remedy or f"the model needs {', '.join(names[:_NAMED])}")
    notes: list[str] = []
    for words, those, remedy in (
        ("are not in the data", found.absent, ""),
        ("have other alleles than in the run", found.contradictory, OTHER_STRAND),
        ("have alleles that are swapped or from the other strand (ambiguous)", found.ambiguous, SAME_STRAND),
    ):
        if those:
            more = f" and {len(those) - _NAMED:,} more" if len(those) > _NAMED else ""
            problem = f"{len(those):,} of {len(names):,} variants {words}; the mean of the run is used"
            notes.append(Caution(f"{problem}: {', '.join(those[:_NAMED])}{more}{remedy}"))
    if n_swapped := int(found.is_swapped.sum()):
        notes.append(f"{n_swapped:,} of {len(names):,} variants have their alleles swapped: their dosages are flipped")
    return notes


def other_names(name: str, counted: str, other: str) -> list[str]:
    """Return the names that a variant may have elsewhere: its own and, if made from the alleles, with these swapped.

    Examples
    --------
    >>> other_names("1:10:A:G", "A", "G"), other_names("rs1", "A", "G")
    (['1:10:A:G', '1:10:G:A'], ['rs1'])
    """
    return [name, *(name.removesuffix(end) + back for end, back in _ends(counted, other) if name.endswith(end))]


def _ends(counted: str, other: str) -> list[tuple[str, str]]:
    there, back = f":{counted}:{other}", f":{other}:{counted}"
    return [(there, back), (back, there)]


def _relation(
    ours: tuple[str, str], theirs: tuple[str, str]
) -> Literal["same", "swapped", "contradictory", "ambiguous"]:
    """Return how the alleles of a variant in other files relate to those of the fit."""
    turned = theirs[1], theirs[0]
    if ours == theirs or {*ours} <= {*UNKNOWN} or {*theirs} <= {*UNKNOWN}:
        return "same"
    may_be_same = all(map(_agree, ours, theirs)) and ours != turned
    may_be_turned = all(map(_agree, ours, turned))
    if not (may_be_same or may_be_turned):
        return "contradictory"
    is_palindrome = ours[0].translate(_COMPLEMENT)[::-1] == ours[1]  # or the other strand was read
    if (may_be_same and may_be_turned) or (may_be_turned and is_palindrome):
        return "ambiguous"
    return "swapped" if may_be_turned else "same"


def _agree(one: str, other: str) -> bool:
    return one == other or one in UNKNOWN or other in UNKNOWN


class AppliedGenotypes(Source):
    """Samples of other files, with the features of a fit.

    Parameters
    ----------
    source : GenotypeSource
        Opened with ``unlabelled="keep"``, so that all of its samples are rows.
    names : sequence of str
        The requested features.
    variants : mapping
        "counted", "other" and "mean" of each, as in `GenotypeSource.encoder`; the alleles of covariates are None.
    missing : {"error", "drop", "mean", "zero"} or float
        How the fit handled missing dosages. After "error" and "drop" they are NaN here.
    covariates : path-like, optional
        Table of covariates of these samples.
    levels : mapping of str to sequence of str, optional
        All levels of the fit's categorical covariates, the reference first.

    Attributes
    ----------
    void_columns : ndarray of int64
        The fit dropped samples in which one of these was missing: covariates, and with ``missing: drop`` also variants.

    Raises
    ------
    SchemaError
        None of the variants is in the data, or covariates are missing.
    """

    kind = "genotypes"

    def __init__(
        self,
        source: GenotypeSource,
        names: Sequence[str],
        variants: Mapping[str, Sequence[Any]],
        missing: Any,
        covariates: PathLike | None,
        levels: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._source, self.feature_names = source, list(names)
        self.target_names, self.label_names = source.target_names, source.label_names
        self.notes = source.notes
        self._means = np.array(variants["mean"], np.float32)
        is_variant = np.array([allele is not None for allele in variants["counted"]], bool)
        self._covariates = self._read_covariates(np.flatnonzero(~is_variant), covariates, levels)
        self.void_columns = np.flatnonzero(~is_variant | (missing == "drop"))
        wanted = np.flatnonzero(is_variant)
        ours = Alleles(*([variants[which][k] for k in wanted.tolist()] for which in ("counted", "other")))
        wanted_names = [names[k] for k in wanted.tolist()]
        found = matched(wanted_names, ours, source.feature_names, source.alleles)
        self.notes += notes_on(found, wanted_names, source.place)
        is_there = found.places >= 0
        self._columns, self._places = wanted[is_there], found.places[is_there]
        counts_first = np.full(len(source.feature_names), source.counts_first)
        counts_first[self._places] ^= found.is_swapped[is_there]
        values = source.dosages(counts_first).astype(np.float32)
        is_filled = missing not in ("error", "drop")
        fills = self._means[self._columns] if missing == "mean" else 0.0 if isinstance(missing, str) else missing
        values[self._places, MISSING_CODE] = fills if is_filled else np.nan
        self._matrix = source.matrix_of(values)
        self.n_samples = self._matrix.shape[0]

    def _read_covariates(
        self, columns: np.ndarray, path: PathLike | None, levels: Mapping[str, Sequence[str]] | None
    ) -> dict[int, np.ndarray]:
        """Return the requested covariates, by the number of the feature."""
        names = [self.feature_names[k] for k in columns.tolist()]
        if not names:
            return {}
        if path is None and (names != [SEX] or self._source.sex is None):
            problem = f"the model needs covariates: {', '.join(map(repr, names[:_NAMED]))}"
            raise SchemaError(problem, self._source.place, "name their table: --covariates FILE")
        samples, sex = self._source.samples, self._source.sex
        known, values, notes, _ = read_covariates(path, samples, features=names, levels=levels, sex=sex)
        if lacking := [name for name in names if name not in known]:
            problem = f"the table lacks {', '.join(map(repr, lacking[:_NAMED]))}"
            raise SchemaError(problem, str(path), "add the covariates of the fit")
        self.notes += notes
        return {k: values[:, known.index(name)] for k, name in zip(columns.tolist(), names, strict=True)}

    @property
    def target_classes(self) -> list[str] | None:
        """Classes of the target in the files."""
        return self._source.target_classes

    def describe(self) -> dict[str, Any]:
        """Return what identifies the files."""
        return self._source.describe()

    def digest(self) -> str:
        """Return the digest of the files."""
        return self._source.digest()

    def row_blocks(self, block_rows: int, dtype: np.dtype | type = np.float64) -> Iterator[SourceBlock]:
        """Yield all samples, in the order of the files."""
        n_samples = self._matrix.shape[0]
        if not n_samples:
            raise SourceError("expected samples, found none", self._source.place, "check the files")
        for start in range(0, n_samples, block_rows):
            rows = slice(start, min(start + block_rows, n_samples))
            X = np.tile(self._means, (rows.stop - start, 1)).astype(dtype)
            X[:, self._columns] = self._matrix.read(rows, self._places)
            for k, values in self._covariates.items():
                X[:, k] = values[rows]
            labels = {name: self._matrix.labels(name)[rows] for name in self.label_names}
            yield SourceBlock(start, X, self._matrix.read_target(rows), None, labels)
