"""Genotypes stored by variant, with targets of the samples: what PLINK files and VCF Zarr have in common."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pandas as pd

from daskfs import errors
from daskfs.files import Location, location
from daskfs.kernels.genotypes import MISSING_CODE
from daskfs.losses import PLAIN_NUMBERS, TargetKind
from daskfs.matrix.arrays import as_targets
from daskfs.matrix.target import kind_of
from daskfs.sources.arrays import coded_texts, name_targets
from daskfs.sources.base import InPlace, Source, SourceBlock, part_nbytes
from daskfs.sources.files import OfFiles, PathLike, stamp
from daskfs.sources.genotype_filters import Filters
from daskfs.sources.genotype_matrix import (
    GENOTYPES_IN_BYTE,
    TILE_COLUMNS,
    Alleles,
    Chosen,
    GenotypeMatrix,
    Genotypes,
    names_of,
)
from daskfs.sources.npy import array_of
from daskfs.sources.options import check_choices
from daskfs.sources.phenotypes import SampleTable, code_phenotype, read_covariates

ConfigError = errors.ConfigError.about("genotypes")
DataError = errors.DataError.about("genotypes")
SourceError = errors.SourceError.about("genotypes")

DOSAGES = ((2, 0, 1, 0), (0, 0, 1, 2))
"""Dosage of each two-bit code if the first allele is counted, and if the second is; code 1 means missing."""


VARIANT_NBYTES, SAMPLE_NBYTES = 512, 256
"""Memory for each variant and sample while files are read: lines of .bim and .fam, names, codes and counts."""


class Survey(NamedTuple):
    """What must be known about all genotypes before the first is returned."""

    n_missing: np.ndarray
    """Missing dosages of each variant, int64 of shape (n_variants,)."""
    copies: np.ndarray
    """Copies of the first allele of each variant, of shape (n_variants,)."""
    has_missing: np.ndarray
    """Whether a sample has missing dosages, bool of shape (n_in_files,)."""
    sets: list[Genotypes]
    """The variants that the thresholds leave."""
    names: list[str]
    """Their names."""


class Opened(NamedTuple):
    """Files of genotypes, as a subclass of `GenotypeSource` opens them."""

    sets: Sequence[Genotypes]
    """Filesets of the same samples: their variants are concatenated."""
    samples: pd.DataFrame
    """Label columns of all samples: "iid", and "fid" if there are families."""
    files: Sequence[Location]
    sex: pd.Series | None = None
    """The sex in the files, 1 or 2, for a covariate "sex"."""


class GenotypeSource(OfFiles, Source):
    """Samples x variants, dosages of an allele; subclasses open the files.

    Parameters
    ----------
    path : path-like or list of path-like
    y : array-like of shape (n_in_files,) or (n_in_files, n_targets), or path, optional
    target : str or list of str, optional
    missing : {"error", "drop", "mean", "zero"} or float
    allele : str, optional
        One of `allele_choices`; by default the first.
    phenotypes, covariates : path-like, optional
        Tables of `daskfs.sources.phenotypes`.
    covariate_names : str or list of str, optional
    unlabelled : {"drop", "keep"}
        Treatment of samples without a target.
    **filters
        Fields of `Filters`.
    """

    is_read_in_place = True
    allele_choices: ClassVar[tuple[str, str]] = ("alt", "ref")
    """What `allele` may be: the first allele of `Genotypes`, and the second."""
    _y: np.ndarray
    _target_classes: list[str] | None = None

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        y: Any = None,
        target: str | Sequence[str] | None = None,
        missing: Any = "error",
        allele: str | None = None,
        phenotypes: PathLike | None = None,
        covariates: PathLike | None = None,
        covariate_names: str | Sequence[str] | None = None,
        unlabelled: Literal["drop", "keep"] = "drop",
        **filters: Any,
    ) -> None:
        check_choices(unlabelled=(unlabelled, ("drop", "keep")))
        if allele not in (None, *self.allele_choices):
            raise ConfigError(f"expected {' or '.join(self.allele_choices)}, found {allele!r}", "source.allele")
        self._missing, self._unlabelled, self._wanted = _checked(missing), unlabelled, target
        self.counts_first = allele != self.allele_choices[1]
        self._filters, self.notes = Filters(**filters), []
        self._filters.check()
        sets, samples, files, sex = self._open(path)
        samples, self._filtered = self._filters.families(samples)
        self._is_listed, lines = self._filters.samples(samples, self.notes)
        self._filtered += lines
        self._samples, self.files = samples, [*files, *self._filters.files]
        self.label_names = [str(name) for name in samples.columns]
        self._candidates, self._candidate_names = list(sets), names_of(sets)
        if self._filters.extract is not None or self._filters.exclude is not None:
            ids = np.concatenate([one.read_ids() for one in sets])
            is_left, lines = self._filters.variants(ids, self._candidate_names, self.notes)
            self._filtered += lines
            self._candidates = _chosen(sets, is_left)
            self._candidate_names = np.array(self._candidate_names, dtype=object)[is_left].tolist()
        self.notes += self._filtered
        self._y_is_given = y is not None
        self._take_target(target, y, phenotypes)
        first: list[str] = []
        self._covariates, self._levels = np.empty((len(samples), 0)), dict[str, list[str]]()
        if covariates is not None or covariate_names is not None:
            chosen = [covariate_names] if isinstance(covariate_names, str) else covariate_names
            table: Any = phenotypes if covariates is None else covariates
            is_same = phenotypes is not None and location(table) == location(phenotypes)
            found = read_covariates(table, samples, chosen, self.target_names if is_same else (), sex=sex)
            first, self._covariates, self._levels = found.names, found.values, found.levels
            self.notes += [note for note in found.notes if not is_same]
            self.files += [] if is_same or table is None else [location(table)]
        self._covariate_names, self.sex = first, sex

    @abstractmethod
    def _open(self, path: PathLike | Sequence[PathLike]) -> Opened:
        """Open the files."""

    @property
    def _sets(self) -> list[Genotypes]:
        """The variants that are used; before the survey, thresholds are not yet applied."""
        return self.survey.sets if "survey" in vars(self) else self._candidates

    @property
    def feature_names(self) -> list[str]:  # type: ignore[override]
        """Names of covariates and variants; with thresholds, all genotypes are read first."""
        variants = self.survey.names if self._filters.has_thresholds else self._candidate_names
        return [*self._covariate_names, *variants]

    def estimate_columns(self) -> tuple[list[str], dict[str, tuple[int, int]]] | None:
        """Return the names without reading genotypes, also of variants that thresholds will leave out."""
        return ([*self._covariate_names, *self._candidate_names], {}) if self._filters.has_thresholds else None

    @property
    def filters(self) -> list[str]:  # type: ignore[override]
        """What the filters leave, as far as it is known."""
        if not self._filters.has_thresholds or "survey" in vars(self):
            return self._filtered
        limits = ", ".join(self._filters.thresholds)
        return [*self._filtered, f"{limits}: variants are counted first; the number above is before that"]

    def _take_target(self, target: str | Sequence[str] | None, y: Any, phenotypes: PathLike | None) -> None:
        if y is not None and phenotypes is not None:
            raise ConfigError("expected the targets as y or as phenotypes, found both", "source.y", "pass only one")
        names = [target] if isinstance(target, str) else target
        if y is not None:
            coded, self._target_classes = coded_texts(array_of(y), self.notes)
            self._y = as_targets(coded, len(self._samples))
        elif phenotypes is None:
            names, self._y = names or ["phenotype"], self._own_phenotype()
            if self._unlabelled == "keep" and names != ["phenotype"]:  # the target is not the files' own phenotype
                names, self._y, self._target_classes = names[:1], np.full(len(self._samples), np.nan), None
        else:
            names = self._from_table(SampleTable(phenotypes), names)
            self.files.append(location(phenotypes))
        self.target_names = name_targets(self._y, names)

    def _own_phenotype(self) -> np.ndarray:
        """Return the phenotype in the files, NaN if missing."""
        if self._unlabelled == "keep":
            return np.full(len(self._samples), np.nan)
        raise ConfigError("expected targets, found none", "source", "set y, or phenotypes (a table by IID) and target")

    def _from_table(self, table: SampleTable, names: Sequence[str] | None) -> list[str]:
        """Read phenotypes from a table; return their names."""
        if names is None and len(table.names) > 1:
            known = ", ".join(table.names[:10])
            raise ConfigError(f"expected the name of a phenotype, one of {known}", "source.target", "set target")
        words, note = table.of(self._samples, names)
        coded = [code_phenotype(words[name], str(name), str(table.path)) for name in words.columns]
        self.notes += [*([note] if note else []), *(note for one in coded for note in one.notes)]
        self._y = coded[0].y if len(coded) == 1 else np.stack([one.y for one in coded], axis=1)
        self._target_classes = coded[0].classes if len(coded) == 1 else None
        return [str(name) for name in words.columns]

    @cached_property
    def _has_target(self) -> np.ndarray:
        """Whether each sample passes the filters and has all targets and covariates, or is kept without them."""
        if self._unlabelled == "keep":
            return self._is_listed
        return self._is_listed & ~np.isnan(np.column_stack([self._y, self._covariates])).any(axis=1)

    @property
    def target_classes(self) -> list[str] | None:
        """Control and case, or the original texts of the target's codes."""
        return self._target_classes

    def estimate_target(self) -> TargetKind:
        """Return the inferred kind of target."""
        if self._target_classes is not None:
            return TargetKind(len(self._target_classes), is_declared=True)
        return kind_of(self._y[self._has_target]) if self._y.ndim == 1 else PLAIN_NUMBERS

    def describe(self) -> dict[str, Any]:
        """Return the files with size, time and SHA-256, and the shape of their content."""
        n_features = self.n_covariates + len(self._candidate_names)
        return {**super().describe(), "shape_of_files": [len(self._samples), n_features]}

    def digest(self) -> str:
        """Return the digest of the bytes of all files, and of `y` if it was passed."""
        if not self._y_is_given:
            return super().digest()
        return hashlib.sha256(super().digest().encode() + self._y.tobytes()).hexdigest()

    def is_unchanged(self, description: dict[str, Any], digest: str) -> bool:
        """Return whether sizes and times are equal, or the digests if they differ or `y` was passed."""
        return self.digest() == digest if self._y_is_given else super().is_unchanged(description, digest)

    @property
    def encoding(self) -> dict[str, Any]:
        """Which allele was counted, and how missing dosages were filled."""
        made = {"targets": list(self.target_names), "missing": self._missing, "counts_first": self.counts_first}
        made |= {"covariates": self._covariate_names} if self._covariate_names else {}
        return made | ({"filters": self._filters.in_words} if self._filters.in_words else {})

    @property
    def variants(self) -> dict[str, np.ndarray]:
        """Chromosome, position, effect allele and other allele of each variant, as far as known."""
        first, second = ("first", "second") if self.counts_first else ("second", "first")
        kinds = {"chromosome": "chromosome", "position": "position", "effect_allele": first, "other_allele": second}
        several = [one.read_variants() for one in self._sets]
        return {
            name: np.concatenate([one[kind] for one in several])
            for name, kind in kinds.items()
            if all(kind in one for one in several)
        }

    @property
    def annotations(self) -> dict[str, np.ndarray]:  # type: ignore[override]
        """Properties of each feature: `variants`, and the frequency of the effect allele.

        The frequency is computed from the known genotypes of the samples that are used.
        """
        found = {}
        for name, values in self.variants.items():
            none = np.full(self.n_covariates, "" if values.dtype == object else -1, values.dtype)
            found[name] = np.concatenate([none, values])
        n_known = self._n_used - self.survey.n_missing
        share = self.survey.copies / np.where(n_known, n_known * self._ploidy, np.nan)
        frequency = [np.full(self.n_covariates, np.nan), share if self.counts_first else 1.0 - share]
        return found | {"allele_frequency": np.concatenate(frequency)}

    @property
    def encoder(self) -> dict[str, Any]:
        """Treatment of missing dosages, number of covariates, levels of categorical ones, and ploidy of the variants.

        `daskfs.pipeline.applying.model_of` adds the alleles and means of the selected variants.
        """
        options = (self.made_with or {}) | {"missing": self._missing, "target": list(self.target_names)}
        ploidy = [[one.n_variants, one.ploidy] for one in self._sets]
        found = {"kind": self.kind, "options": options, "n_covariates": self.n_covariates, "ploidy": ploidy}
        return found | ({"levels": self._levels} if self._levels else {})

    @property
    def alleles(self) -> Alleles:
        """Alleles of the variants: the effect alleles, and the others."""
        known, none = self.variants, [""] * (len(self.feature_names) - self.n_covariates)
        sides = (known.get(name, none) for name in ("effect_allele", "other_allele"))
        return Alleles(*([str(allele).upper() for allele in side] for side in sides))

    @property
    def samples(self) -> pd.DataFrame:
        """Label columns of all samples."""
        return self._samples

    @property
    def n_covariates(self) -> int:
        """Number of covariates; they are the first features."""
        return self._covariates.shape[1]

    def estimate_shape(self) -> tuple[int | None, int]:
        """Return the numbers of samples and features; with ``missing: drop``, samples are unknown before reading."""
        n_samples = self.n_samples if self.n_samples is not None else self._n_used
        return n_samples, self.n_covariates + sum(one.n_variants for one in self._sets)

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Number of samples that are kept; None while it is unknown which samples have missing dosages."""
        if self._missing == "drop" and "survey" not in vars(self):
            return None
        return len(self._kept)

    def check(self) -> None:
        """Check the lengths of the files again."""
        for one in self._sets:
            one.check_size()
        n_variants = len(self._candidate_names)
        if not n_variants or not self._has_target.any():
            found = "no variants" if not n_variants else "no sample with a target"
            found += " among those that the filters leave" if self._filters.in_words else ""
            raise SourceError(f"expected genotypes, found {found}", self.place, "check the files")

    @cached_property
    def survey(self) -> Survey:
        """Which dosages are missing; reads all dosages."""
        is_used, has_missing = self._has_target, np.zeros(len(self._samples), bool)
        n_missing, copies = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        passed = [np.empty(0, bool)]
        has_thresholds = self._filters.has_thresholds
        for one in self._candidates:
            for _, packed in one.windows():
                counted = one.count(packed, is_used, np.zeros_like(has_missing) if has_thresholds else has_missing)
                passed.append(self._filters.passes(*counted, one.ploidy, self._n_used))
                if has_thresholds:  # samples may lack dosages of the other variants
                    counted = one.count(packed[passed[-1]], is_used, has_missing)
                n_missing.append(counted[0])
                copies.append(counted[1])
        passes = np.concatenate(passed)
        sets, names = _chosen(self._candidates, passes), np.array(self._candidate_names, dtype=object)[passes].tolist()
        found = Survey(np.concatenate(n_missing), np.concatenate(copies), has_missing, sets, names)
        self._explain(found, len(passes))
        return found

    @property
    def _n_used(self) -> int:
        return int(np.count_nonzero(self._has_target))

    @property
    def _ploidy(self) -> np.ndarray:
        """Maximum dosage of each variant."""
        return np.concatenate([np.full(one.n_variants, one.ploidy) for one in self._sets])

    def _explain(self, found: Survey, n_candidates: int) -> None:
        """Add notes on filters and missing values, or raise an error."""
        self.notes += [remark for one in self._candidates for remark in one.remarks()]
        n_dropped = int(self._is_listed.sum()) - self._n_used
        if n_dropped:
            lacking = " and ".join([*self.target_names, *(["covariates"] if self.n_covariates else [])])
            self.notes.append(f"{n_dropped:,} samples without {lacking} were dropped")
        if self._filters.has_thresholds:
            limits = " and ".join(self._filters.thresholds)
            counted = f"counted over the {self._n_used:,} samples that are used"
            if not found.names:
                problem = f"none of {n_candidates:,} variants passes {limits}, {counted}"
                raise SourceError(problem, self.place, "change the thresholds")
            self.notes.append(f"{len(found.names):,} of {n_candidates:,} variants pass {limits}, {counted}")
        n_missing = int(found.n_missing.sum())
        if not n_missing:
            return
        is_missing, samples = found.n_missing > 0, int(found.has_missing.sum())
        amount = f"{n_missing:,} missing dosages, in {int(is_missing.sum()):,} variants and {samples:,} samples"
        if self._missing == "error":
            problem = f"expected a dosage for each sample, found {amount}"
            remedy = "set missing: mean, zero, drop (samples) or a number; or remove these variants"
            raise DataError(problem, f"{self.place}, variant '{found.names[int(np.argmax(is_missing))]}'", remedy)
        if self._missing == "drop":
            if samples == self._n_used:
                problem = f"all {samples:,} samples have missing dosages ({amount})"
                raise DataError(problem, self.place, "set missing: mean; or remove these variants first")
            self.notes.append(f"{samples:,} samples dropped because of missing dosages")
            return
        is_void = found.n_missing == self._n_used
        if self._missing == "mean" and is_void.any():
            where = f"{self.place}, variant '{found.names[int(np.argmax(is_void))]}'"
            remedy = "set max_missing: 0.1, which leaves such variants out, or remove the variant"
            raise DataError("expected at least one dosage to compute the mean, found none", where, remedy)
        became = "the mean of their variant" if self._missing == "mean" else f"{self._fill:g}"
        self.notes.append(f"{amount}, were replaced by {became}")

    @property
    def _fill(self) -> float:
        """The number that replaces missing dosages, if it is the same for all."""
        return 0.0 if isinstance(self._missing, str) else float(self._missing)

    @cached_property
    def _kept(self) -> np.ndarray:
        """Numbers of the samples that are kept."""
        is_kept = self._has_target
        return np.flatnonzero(is_kept & ~self.survey.has_missing if self._missing == "drop" else is_kept)

    def dosages(self, counts_first: np.ndarray) -> np.ndarray:
        """Return the value of each code, int8 of shape (n_variants, 4), given whether the first allele is counted."""
        found, n_lacking = np.array(DOSAGES, np.int8)[(~counts_first).astype(int)], 2 - self._ploidy  # up to two
        is_known = np.arange(4) != MISSING_CODE
        return found - np.where(counts_first, 0, n_lacking)[:, None].astype(np.int8) * is_known

    @property
    def _may_be_int8(self) -> bool:
        """Whether all values are whole numbers, unless missing dosages are filled."""
        return not self.n_covariates and all(one.are_whole for one in self._sets)

    def _values(self, dtype: np.dtype | type) -> np.ndarray:
        """Return the value of each code of each variant, of shape (n_variants, 4)."""
        n_missing, copies = self.survey.n_missing, self.survey.copies
        dosages = self.dosages(np.full(len(copies), self.counts_first))
        is_filled = self._missing != "drop" and bool(n_missing.any())
        is_whole = self._missing != "mean" and self._fill == int(self._fill) and -128 <= self._fill <= 127
        is_int8 = not (is_filled and not is_whole) and self._may_be_int8
        values = dosages.astype(np.int8 if is_int8 else dtype)
        if is_filled and self._missing == "mean":
            mean = copies / (self._n_used - n_missing)
            values[:, MISSING_CODE] = mean if self.counts_first else self._ploidy - mean
        elif is_filled:
            values[:, MISSING_CODE] = self._fill
        return values

    @property
    def has_parts(self) -> bool:
        """True: samples can be read independently."""
        return True

    def parts(self) -> Sequence[tuple[int, int]]:
        """Return the range of samples of each part, among those that are kept."""
        nbytes = sum(fileset.n_variants * fileset.stride for fileset in self._sets)
        n_parts = max(1, nbytes // part_nbytes(nbytes))
        bounds = np.unique(np.linspace(0, len(self._kept), n_parts + 1).astype(np.int64)).tolist()
        self._values(np.float32)  # the counts made here are sent to the workers
        return list(pairwise(bounds))

    def part_blocks(
        self, part: tuple[int, int], block_rows: int, dtype: np.dtype | type = np.float64
    ) -> Iterator[SourceBlock]:
        """Yield the samples of a part."""
        first, last = part
        values, itemsize = self._values(dtype), np.dtype(dtype).itemsize
        per_variant = max(one.stride for one in self._sets)
        band_rows = max(1, block_rows * itemsize * len(self._samples) // per_variant)  # files' bytes of a block's size
        start = first
        while start < last:
            # the samples of a band; their bytes are read at once
            end = int(np.searchsorted(self._kept[:last], int(self._kept[start]) + band_rows))
            lowest, highest = int(self._kept[start]) // GENOTYPES_IN_BYTE, int(self._kept[end - 1]) // GENOTYPES_IN_BYTE
            bands = [one.read(0, one.n_variants, lowest, highest + 1) for one in self._sets]
            while start < end:
                stop = min(start + block_rows, end)
                yield self._block(start - first, self._kept[start:stop], lowest * GENOTYPES_IN_BYTE, bands, values)
                start = stop

    @property
    def held_nbytes(self) -> int:  # type: ignore[override]
        """Memory for names, values and counts of the codes, and the samples' ids, in bytes."""
        return VARIANT_NBYTES * self.estimate_shape()[1] + SAMPLE_NBYTES * len(self._samples)

    @property
    def in_place(self) -> InPlace:  # type: ignore[override]
        """How `as_matrix` is read; before the survey, its dtype is the larger possible one."""
        if "survey" in vars(self):
            dtype = self._values(np.float32).dtype
        else:
            may_fill = self._missing == "mean" or self._fill != int(self._fill) or not -128 <= self._fill <= 127
            dtype = np.dtype(np.float32 if may_fill or not self._may_be_int8 else np.int8)
        tile_columns = max(TILE_COLUMNS, *(one.chunk_variants for one in self._sets))
        return InPlace(dtype, tile_columns, sum(file.stat().st_size for file in self.files))

    def as_matrix(self) -> GenotypeMatrix:
        """Return the samples that are kept as a matrix that reads the files directly."""
        self.check()
        kept = self._kept
        values = self._values(np.float32)
        labels = {name: self._samples[name].iloc[kept].to_numpy(dtype=object) for name in self.label_names}
        found = GenotypeMatrix(
            self._sets,
            values,
            kept,
            self._y[kept],
            self._covariates[kept],
            self.feature_names,
            labels,
            self._target_classes,
            self._digest_of_matrix(values),
            self.notes,
            self.annotations,
        )
        found.target_names, found.description = tuple(self.target_names), str(self.place)
        return found

    def matrix_of(self, values: np.ndarray) -> GenotypeMatrix:
        """Return all samples as a matrix of the variants only, without reading any.

        Parameters
        ----------
        values : ndarray of shape (n_variants, 4)
            Value of each code of each variant.
        """
        everyone, none = np.arange(len(self._samples)), np.empty((len(self._samples), 0))
        labels = {name: self._samples[name].to_numpy(dtype=object) for name in self.label_names}
        names = self.feature_names[self.n_covariates :]
        return GenotypeMatrix(
            self._sets, values, everyone, self._y, none, names, labels, self._target_classes, "", self.notes
        )

    def _digest_of_matrix(self, values: np.ndarray) -> str:
        """Return the digest of the files' sizes and times, the counts of the codes, and the remaining data."""
        stamps = [(str(file), stamp(file)) for file in self.files]
        digest = hashlib.sha256(repr((stamps, self.encoding, self.feature_names)).encode())
        for array in (self.survey.n_missing, self.survey.copies, values, self._kept, self._y, self._covariates):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _block(
        self, start: int, samples: np.ndarray, origin: int, bands: list[np.ndarray], values: np.ndarray
    ) -> SourceBlock:
        first = self.n_covariates
        X, column = np.empty((len(samples), first + len(values)), values.dtype), 0
        X[:, :first] = self._covariates[samples]
        for one, packed in zip(self._sets, bands, strict=True):
            variants = slice(column, column + len(packed))
            one.decode(packed, samples - origin, values[variants], X[:, first + column : first + variants.stop])
            column = variants.stop
        labels = {name: self._samples[name].iloc[samples].to_numpy(dtype=object) for name in self.label_names}
        return SourceBlock(start, X, self._y[samples], None, labels)

    def row_blocks(self, block_rows: int, dtype: np.dtype | type = np.float64) -> Iterator[SourceBlock]:
        """Yield samples in the order of the files."""
        self.check()
        yield from self.part_blocks((0, len(self._kept)), block_rows, dtype)


def _chosen(sets: Sequence[Genotypes], is_chosen: np.ndarray) -> list[Genotypes]:
    """Return the chosen variants of each set."""
    ends = np.cumsum([one.n_variants for one in sets])[:-1]
    return [Chosen.of(one, flags) for one, flags in zip(sets, np.split(is_chosen, ends), strict=True)]


def _checked(missing: Any) -> Any:
    """Return the treatment of missing dosages: a word or a finite number."""
    words = ("error", "drop", "mean", "zero")
    if isinstance(missing, str):
        if missing in words:
            return missing
    elif isinstance(missing, (int, float, np.number)) and np.isfinite(missing):
        return float(missing)
    raise ConfigError(f"expected {', '.join(words)} or a number, found {missing!r}", "source.missing")
