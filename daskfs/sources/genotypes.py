"""Genotypes stored by variant, with targets of the samples: what PLINK files and VCF Zarr have in common."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from daskfs.errors import ConfigError, DataError, SourceError
from daskfs.files import Location, location
from daskfs.kernels.genotypes import COUNTS_IN_BYTES, MISSING_CODE, count_codes, decode
from daskfs.losses import PLAIN_NUMBERS, TargetKind
from daskfs.matrix.arrays import as_targets
from daskfs.matrix.names import distinct
from daskfs.matrix.target import kind_of
from daskfs.sources.arrays import coded_texts, name_targets
from daskfs.sources.base import InPlace, Source, SourceBlock, part_nbytes
from daskfs.sources.files import OfFiles, PathLike, stamp
from daskfs.sources.genotype_matrix import GENOTYPES_IN_BYTE, TILE_COLUMNS, Alleles, GenotypeMatrix, Genotypes
from daskfs.sources.npy import array_of
from daskfs.sources.options import check_choices
from daskfs.sources.phenotypes import SampleTable, code_phenotype, read_covariates

DOSAGES = ((2, 0, 1, 0), (0, 0, 1, 2))
"""Dosage of each two-bit code if the first allele is counted, and if the second is; code 1 means missing."""


VARIANT_NBYTES, SAMPLE_NBYTES = 512, 256
"""Memory for each variant and sample while files are read: lines of .bim and .fam, names, codes and counts."""


class Survey(NamedTuple):
    """What must be known about all genotypes before the first is returned."""

    counts: np.ndarray
    """Counts of each code, int64 of shape (n_features, 4)."""
    has_missing: np.ndarray
    """Whether a sample has missing dosages, bool of shape (n_in_files,)."""


class GenotypeSource(OfFiles, Source):
    """Samples x variants, dosages of an allele; subclasses read the files.

    Parameters
    ----------
    sets : list of Genotypes
        Filesets of the same samples: their variants are concatenated.
    samples : DataFrame of shape (n_in_files, n_labels)
        Label columns.
    files : list of Path
        All files.
    target : str or list of str, optional
    y : array-like of shape (n_in_files,) or (n_in_files, n_targets), or path, optional
    phenotypes, covariates : path-like, optional
        Tables of `daskfs.sources.phenotypes`.
    covariate_names : str or list of str, optional
    missing : {"error", "drop", "mean", "zero"} or float
    counts_first : bool
        Whether the first allele is counted.
    unlabelled : {"drop", "keep"}
        Treatment of samples without a target.
    """

    is_read_in_place = True
    _y: np.ndarray
    _target_classes: list[str] | None = None

    def __init__(
        self,
        sets: Sequence[Genotypes],
        samples: pd.DataFrame,
        files: Sequence[Location],
        *,
        target: str | Sequence[str] | None,
        y: Any,
        phenotypes: PathLike | None,
        covariates: PathLike | None,
        covariate_names: str | Sequence[str] | None,
        missing: Any,
        counts_first: bool,
        unlabelled: str,
    ) -> None:
        check_choices(unlabelled=(unlabelled, ("drop", "keep")))
        self._missing, self.counts_first, self._unlabelled = _checked(missing), counts_first, unlabelled
        self._sets, self._samples, self.files, self.notes = list(sets), samples, list(files), []
        self.label_names = [str(name) for name in samples.columns]
        variants = distinct([name for one in sets for name in one.read_names()])
        self._y_is_given = y is not None
        self._take_target(target, y, phenotypes)
        first: list[str] = []
        self._covariates, self._levels = np.empty((len(samples), 0)), dict[str, list[str]]()
        if covariate_names is not None and covariates is None and phenotypes is None:
            problem, remedy = "expected a table with the covariates, found none", "set covariates or phenotypes"
            raise ConfigError(problem, "source.covariate_names", remedy)
        if covariates is not None or covariate_names is not None:
            chosen = [covariate_names] if isinstance(covariate_names, str) else covariate_names
            table: Any = phenotypes if covariates is None else covariates
            is_same = phenotypes is not None and location(table) == location(phenotypes)
            found = read_covariates(table, samples, chosen, self.target_names if is_same else ())
            first, self._covariates, self._levels = found.names, found.values, found.levels
            self.notes += [note for note in found.notes if not is_same]
            self.files += [] if is_same else [location(table)]
        self.feature_names = [*first, *variants]

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
        """Whether each sample has all targets and covariates, or is kept without them."""
        if self._unlabelled == "keep":
            return np.ones(len(self._samples), bool)
        return ~np.isnan(np.column_stack([self._y, self._covariates])).any(axis=1)

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
        return {**super().describe(), "shape_of_files": [len(self._samples), len(self.feature_names)]}

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
        return made | ({"covariates": self.feature_names[: self.n_covariates]} if self.n_covariates else {})

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
    def annotations(self) -> dict[str, np.ndarray]:
        """Properties of each feature: `variants`, and the frequency of the effect allele.

        The frequency is computed from the known genotypes of all samples in the files.
        """
        found = {}
        for name, values in self.variants.items():
            none = np.full(self.n_covariates, "" if values.dtype == object else -1, values.dtype)
            found[name] = np.concatenate([none, values])
        counts = self.survey.counts
        n_known = counts.sum(axis=1) - counts[:, MISSING_CODE]
        n_copies = n_known * np.concatenate([np.full(one.n_variants, one.ploidy) for one in self._sets])
        share = counts @ np.array(DOSAGES[0]) / np.where(n_known, n_copies, np.nan)
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
        known, none = self.variants, [""] * len(self.feature_names[self.n_covariates :])
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
        n_samples = self.n_samples if self.n_samples is not None else int(self._has_target.sum())
        return n_samples, len(self.feature_names)

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Number of samples that are kept; None while it is unknown which samples have missing dosages."""
        if self._missing == "drop" and "survey" not in vars(self):
            return None
        return len(self._kept)

    def check(self) -> None:
        """Check the lengths of the files again."""
        for fileset in self._sets:
            fileset.check_size()
        n_variants = len(self.feature_names) - self.n_covariates
        if not n_variants or not self._has_target.any():
            found = "no variants" if not n_variants else "no sample with a target"
            raise SourceError(f"expected genotypes, found {found}", self.place, "check the files")

    @cached_property
    def survey(self) -> Survey:
        """Which dosages are missing; reads all dosages."""
        n_samples = len(self._samples)
        counts = np.empty((len(self.feature_names) - self.n_covariates, 4), np.int64)
        has_missing, start = np.zeros(n_samples, bool), 0
        for fileset in self._sets:
            for variants, packed in fileset.windows():
                window = counts[start + variants.start : start + variants.stop]
                count_codes(packed, n_samples, COUNTS_IN_BYTES, window, has_missing)
            start += fileset.n_variants
        self._explain(counts, has_missing)
        return Survey(counts, has_missing)

    def _explain(self, counts: np.ndarray, has_missing: np.ndarray) -> None:
        """Add notes on missing values, or raise an error."""
        self.notes += [remark for one in self._sets for remark in one.remarks()]
        n_dropped = len(self._samples) - int(self._has_target.sum())
        if n_dropped:
            lacking = " and ".join([*self.target_names, *(["covariates"] if self.n_covariates else [])])
            self.notes.append(f"{n_dropped:,} samples without {lacking} were dropped")
        n_missing = int(counts[:, MISSING_CODE].sum())
        if not n_missing:
            return
        variants, samples = int((counts[:, MISSING_CODE] > 0).sum()), int(has_missing.sum())
        found = f"{n_missing:,} missing dosages, in {variants:,} variants and {samples:,} samples"
        j = int(np.argmax(counts[:, MISSING_CODE] > 0))
        if self._missing == "error":
            problem = f"expected a dosage for each sample, found {found}"
            remedy = "set missing: mean, zero, drop (samples) or a number; or remove these variants"
            raise DataError(problem, f"{self.place}, variant '{self.feature_names[self.n_covariates + j]}'", remedy)
        if self._missing == "drop":
            n_dropped = int((has_missing & self._has_target).sum())
            if n_dropped == int(self._has_target.sum()):
                problem = f"all {n_dropped:,} samples have missing dosages ({found})"
                raise DataError(problem, self.place, "set missing: mean; or remove these variants first")
            self.notes.append(f"{n_dropped:,} samples dropped because of missing dosages")
            return
        is_void = counts[:, MISSING_CODE] == len(self._samples)
        if self._missing == "mean" and is_void.any():
            j = self.n_covariates + int(np.argmax(is_void))
            where = f"{self.place}, variant '{self.feature_names[j]}'"
            raise DataError("expected at least one dosage to compute the mean, found none", where, "remove the variant")
        became = "the mean of their variant" if self._missing == "mean" else f"{self._fill:g}"
        self.notes.append(f"{found}, were replaced by {became}")

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
        found = np.array(DOSAGES, np.int8)[(~counts_first).astype(int)]
        n_lacking = np.concatenate([np.full(one.n_variants, 2 - one.ploidy) for one in self._sets])  # up to two
        is_known = np.arange(4) != MISSING_CODE
        return found - np.where(counts_first, 0, n_lacking)[:, None].astype(np.int8) * is_known

    def _values(self, dtype: np.dtype | type) -> np.ndarray:
        """Return the value of each code of each variant, of shape (n_variants, 4)."""
        counts = self.survey.counts
        dosages = self.dosages(np.full(len(counts), self.counts_first))
        is_filled = self._missing != "drop" and bool(counts[:, MISSING_CODE].any())
        is_whole = self._missing != "mean" and self._fill == int(self._fill) and -128 <= self._fill <= 127
        is_int8 = not (is_filled and not is_whole) and not self.n_covariates
        values = dosages.astype(np.int8 if is_int8 else dtype)
        if is_filled and self._missing == "mean":
            n_known = len(self._samples) - counts[:, MISSING_CODE]
            values[:, MISSING_CODE] = (counts * dosages.astype(np.int64)).sum(axis=1) / n_known
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
        band_rows = block_rows * itemsize * GENOTYPES_IN_BYTE  # two-bit genotypes in the space of a block
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
    def held_nbytes(self) -> int:
        """Memory for names, values and counts of the codes, and the samples' ids, in bytes."""
        return VARIANT_NBYTES * len(self.feature_names) + SAMPLE_NBYTES * len(self._samples)

    @property
    def in_place(self) -> InPlace:
        """How `as_matrix` is read; before the survey, its dtype is the larger possible one."""
        if "survey" in vars(self):
            dtype = self._values(np.float32).dtype
        else:
            may_fill = self._missing == "mean" or self._fill != int(self._fill) or not -128 <= self._fill <= 127
            dtype = np.dtype(np.float32 if self.n_covariates or may_fill else np.int8)
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
        for array in (self.survey.counts, values, self._kept, self._y, self._covariates):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _block(
        self, start: int, samples: np.ndarray, origin: int, bands: list[np.ndarray], values: np.ndarray
    ) -> SourceBlock:
        first = self.n_covariates
        X, column = np.empty((len(samples), first + len(values)), values.dtype), 0
        X[:, :first] = self._covariates[samples]
        for packed in bands:
            variants = slice(column, column + len(packed))
            decode(packed, samples - origin, values[variants], X[:, first + column : first + variants.stop])
            column = variants.stop
        labels = {name: self._samples[name].iloc[samples].to_numpy(dtype=object) for name in self.label_names}
        return SourceBlock(start, X, self._y[samples], None, labels)

    def row_blocks(self, block_rows: int, dtype: np.dtype | type = np.float64) -> Iterator[SourceBlock]:
        """Yield samples in the order of the files."""
        self.check()
        yield from self.part_blocks((0, len(self._kept)), block_rows, dtype)


def _checked(missing: Any) -> Any:
    """Return the treatment of missing dosages: a word or a finite number."""
    words = ("error", "drop", "mean", "zero")
    if isinstance(missing, str):
        if missing in words:
            return missing
    elif isinstance(missing, (int, float, np.number)) and np.isfinite(missing):
        return float(missing)
    raise ConfigError(f"expected {', '.join(words)} or a number, found {missing!r}", "source.missing")
