"""Genotypes in PLINK's .bed, .bim and .fam files: samples x variants, dosages of an allele."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from daskfs.documents import PATH, Words
from daskfs.errors import ConfigError, DataError, SourceError
from daskfs.kernels.genotypes import COUNTS_IN_BYTES, MISSING_CODE, count_codes, decode
from daskfs.losses import PLAIN_NUMBERS, TargetKind
from daskfs.matrix.arrays import as_targets
from daskfs.matrix.target import kind_of
from daskfs.sources.arrays import coded_texts, name_targets
from daskfs.sources.base import Source, SourceBlock, part_nbytes
from daskfs.sources.files import OfFiles, PathLike, expand_paths
from daskfs.sources.npy import array_of
from daskfs.sources.options import SourceOptions
from daskfs.sources.plink_files import NO_PHENOTYPE, Fileset
from daskfs.sources.table import Fill

DOSAGES = {"a1": (2, 0, 1, 0), "a2": (0, 0, 1, 2)}
"""What the codes of a .bed file stand for where an allele is counted; the second is the missing one."""
CASE_CONTROL = ("control", "case")
GENOTYPES_IN_BYTE = 4


class PlinkOptions(SourceOptions):
    """Genotypes: a .bed file (or several, of chromosomes, or a glob) with .bim and .fam beside each."""

    path: Annotated[Words, PATH]
    y: Annotated[str | None, PATH] = Field(
        default=None, description=".npy file of the targets, one for each line of .fam; by default .fam's phenotype"
    )
    target: str | None = Field(default=None, description="name of the target")
    missing: Fill | None = Field(default=None, description="treatment of missing dosages; drop leaves the sample out")
    allele: Literal["a1", "a2"] | None = Field(default=None, description="the allele of .bim that is counted")


class Survey(NamedTuple):
    """What must be known of all genotypes before the first is read."""

    counts: np.ndarray
    """Of each code, int64 of shape (n_features, 4)."""
    has_missing: np.ndarray
    """Samples that lack a dosage, bool of shape (n_in_files,)."""


class PlinkSource(OfFiles, Source):
    """Genotypes in PLINK's binary files.

    Parameters
    ----------
    path : path-like or list of path-like
        A .bed file, whose .bim and .fam lie beside it, also without its ending; several of the same samples (of
        chromosomes, say) or a pattern: their variants stand side by side.
    y : array-like of shape (n_in_files,) or (n_in_files, n_targets), or path of a .npy file of it, optional
        Targets of all samples of the .fam file; by default its phenotype.
    target : str or list of str, optional
        What the target is called; "phenotype" by default, or "target" where `y` is given.
    missing : {"error", "drop", "mean", "zero"} or float
        What missing dosages become: an error, samples that are left out, the variant's mean (of all samples of the
        file), or this number.
    allele : {"a1", "a2"}
        The allele of the .bim file that is counted: "a1", the fifth column, is the minor one where PLINK has ordered
        them.

    Raises
    ------
    SourceError
        A missing file, one of another kind, or files that do not fit.
    DataError
        `y` does not fit the samples.

    Notes
    -----
    Features are called as the .bim file calls its variants; "." becomes chromosome:position:a1:a2, which is added to
    names that several variants share. Family and individual ids are the label columns "fid" and "iid". Samples without
    a phenotype (-9, NA; 0, too, where the others are 1 and 2, controls and cases) are left out, which a note says.

    Blocks are int8 unless missing dosages become a mean or another number that is not whole. The file stands by
    variants: bytes of some samples are gathered, at two bits a dosage as many as a block has room for, and decoded a
    block at a time. There is no transposed copy, and no page of the file is mapped. One pass beforehand counts what is
    missing.
    """

    kind, options, endings = "plink", PlinkOptions, (".bed",)

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        y: Any = None,
        target: str | Sequence[str] | None = None,
        missing: Any = "error",
        allele: Literal["a1", "a2"] = "a1",
    ) -> None:
        if allele not in DOSAGES:
            raise ConfigError(f"expected one of {', '.join(DOSAGES)}, found {allele!r}", "source.allele")
        self._missing, self._allele = _checked(missing), allele
        self._sets = [Fileset(file) for file in expand_paths(_with_ending(path), self.endings)]
        self.files = [file for fileset in self._sets for file in fileset.files]
        self._check_samples()
        self._fam = self._sets[0].samples
        self.label_names = ["fid", "iid"]
        self.notes = []
        self.feature_names = [name for fileset in self._sets for name in fileset.names]
        y = array_of(y)
        self._y_is_given, self._target_classes = y is not None, None
        if y is None:
            target = target or "phenotype"
            self._y = self._phenotype()
        else:
            y, self._target_classes = coded_texts(y, self.notes)
            self._y = as_targets(y, len(self._fam))
        self._has_target = ~np.isnan(self._y.reshape(len(self._y), -1)).any(axis=1)
        self.target_names = name_targets(self._y, [target] if isinstance(target, str) else target)

    def _check_samples(self) -> None:
        first = self._sets[0]
        for other in self._sets[1:]:
            if other.samples[["fid", "iid"]].values.tolist() != first.samples[["fid", "iid"]].values.tolist():
                problem = f"expected the samples of {first.fam.name}, in their order"
                raise SourceError(problem, str(other.fam), "write both with the same samples: plink --keep")

    def _phenotype(self) -> np.ndarray:
        """Return the .fam file's last column, NaN where it is missing; 1 and 2 are controls and cases."""
        words = self._fam["phenotype"]
        is_missing = words.isin(NO_PHENOTYPE).to_numpy()
        try:
            y = words.where(~is_missing, "nan").to_numpy(dtype=object).astype(np.float64)
        except ValueError as fault:
            raise SourceError(f"expected phenotypes that are numbers: {fault}", str(self._sets[0].fam)) from None
        y[y == -9] = np.nan
        found = set(np.unique(y[~np.isnan(y)]).tolist())
        if {1.0, 2.0} <= found <= {0.0, 1.0, 2.0}:
            self._target_classes = list(CASE_CONTROL)
            y = np.where(y == 0, np.nan, y - 1)
            self.notes.append("the phenotype is coded: 1, 'control', is 0, and 2, 'case', is 1")
        elif not found or found == {0.0}:
            remedy = "pass the targets as y: an array, or a .npy file of one number for each line"
            raise SourceError("no sample has a phenotype", str(self._sets[0].fam), remedy)
        return y

    @property
    def target_classes(self) -> list[str] | None:
        """Control and case, or the texts that the target was given as."""
        return self._target_classes

    def estimate_target(self) -> TargetKind:
        """Return what the target is taken for."""
        if self._target_classes is not None:
            return TargetKind(len(self._target_classes), is_declared=True)
        return kind_of(self._y[self._has_target]) if self._y.ndim == 1 else PLAIN_NUMBERS

    def describe(self) -> dict[str, Any]:
        """Return the files with size, time and SHA-256, and what lies in them."""
        return {**super().describe(), "shape_of_files": [len(self._fam), len(self.feature_names)]}

    def digest(self) -> str:
        """Return the digest of the bytes of all files, and of targets that were given."""
        if not self._y_is_given:
            return super().digest()
        return hashlib.sha256(super().digest().encode() + self._y.tobytes()).hexdigest()

    def is_unchanged(self, description: dict[str, Any], digest: str) -> bool:
        """Compare sizes and times first, and the bytes only where these differ or targets were given."""
        return self.digest() == digest if self._y_is_given else super().is_unchanged(description, digest)

    @property
    def encoding(self) -> dict[str, Any]:
        """What was counted, and what missing dosages became."""
        return {"targets": list(self.target_names), "missing": self._missing, "allele": self._allele}

    def estimate_shape(self) -> tuple[int | None, int]:
        """Return samples and variants; samples that lack a dosage are not known before all is read."""
        n_samples = self.n_samples if self.n_samples is not None else int(self._has_target.sum())
        return n_samples, len(self.feature_names)

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Number of samples that are kept; None while samples that lack a dosage are not known."""
        if self._missing == "drop" and "survey" not in vars(self):
            return None
        return len(self._kept)

    def check(self) -> None:
        """Look at the lengths of the files again."""
        for fileset in self._sets:
            fileset.check_size()
        if not self.feature_names or not self._has_target.any():
            found = "no variants" if not self.feature_names else "no sample with a target"
            raise SourceError(f"expected genotypes, found {found}", self.place, "check the files")

    @cached_property
    def survey(self) -> Survey:
        """What is missing, and where; reads all dosages."""
        n_samples = len(self._fam)
        counts = np.empty((len(self.feature_names), 4), np.int64)
        has_missing, start = np.zeros(n_samples, bool), 0
        for fileset in self._sets:
            for variants, packed in fileset.windows():
                window = counts[start + variants.start : start + variants.stop]
                count_codes(packed, n_samples, COUNTS_IN_BYTES, window, has_missing)
            start += fileset.n_variants
        self._explain(counts, has_missing)
        return Survey(counts, has_missing)

    def _explain(self, counts: np.ndarray, has_missing: np.ndarray) -> None:
        """Note what was missing, or refuse it."""
        n_untold = len(self._fam) - int(self._has_target.sum())
        if n_untold:
            self.notes.append(f"{n_untold:,} samples left out, which have no {' and '.join(self.target_names)}")
        n_missing = int(counts[:, MISSING_CODE].sum())
        if not n_missing:
            return
        variants, samples = int((counts[:, MISSING_CODE] > 0).sum()), int(has_missing.sum())
        found = f"{n_missing:,} missing dosages, in {variants:,} variants and {samples:,} samples"
        j = int(np.argmax(counts[:, MISSING_CODE] > 0))
        if self._missing == "error":
            problem = f"expected a dosage for each sample, found {found}"
            remedy = "set missing: mean, zero, drop (samples) or a number; or leave variants out: plink --geno"
            raise DataError(problem, f"{self.place}, variant '{self.feature_names[j]}'", remedy)
        if self._missing == "drop":
            n_dropped = int((has_missing & self._has_target).sum())
            if n_dropped == int(self._has_target.sum()):
                problem = f"all {n_dropped:,} samples lack a dosage ({found})"
                raise DataError(problem, self.place, "set missing: mean; or leave variants out first: plink --geno")
            self.notes.append(f"{n_dropped:,} samples dropped because of missing dosages")
            return
        is_void = counts[:, MISSING_CODE] == len(self._fam)
        if self._missing == "mean" and is_void.any():
            where = f"{self.place}, variant '{self.feature_names[int(np.argmax(is_void))]}'"
            raise DataError("expected a dosage to take the mean of, found none", where, "leave it out: plink --geno")
        became = "their variant's mean" if self._missing == "mean" else f"{self._fill:g}"
        self.notes.append(f"{found}, became {became}")

    @property
    def _fill(self) -> float:
        """What missing dosages become, where that is one number."""
        return 0.0 if isinstance(self._missing, str) else float(self._missing)

    @cached_property
    def _kept(self) -> np.ndarray:
        """Numbers of the samples that are kept."""
        is_kept = self._has_target
        return np.flatnonzero(is_kept & ~self.survey.has_missing if self._missing == "drop" else is_kept)

    def _values(self, dtype: np.dtype | type) -> np.ndarray:
        """Return what each code of each variant stands for, of shape (n_features, 4)."""
        counts, dosages = self.survey.counts, np.array(DOSAGES[self._allele], np.int8)
        is_filled = self._missing != "drop" and bool(counts[:, MISSING_CODE].any())
        is_whole = self._missing != "mean" and self._fill == int(self._fill) and -128 <= self._fill <= 127
        values = np.tile(dosages.astype(dtype if is_filled and not is_whole else np.int8), (len(counts), 1))
        if is_filled and self._missing == "mean":
            n_known = len(self._fam) - counts[:, MISSING_CODE]
            values[:, MISSING_CODE] = (counts @ dosages.astype(np.int64)) / n_known
        elif is_filled:
            values[:, MISSING_CODE] = self._fill
        return values

    @property
    def has_parts(self) -> bool:
        """True: samples can be read apart."""
        return True

    def parts(self) -> Sequence[tuple[int, int]]:
        """Return first and last of the samples of each part, among those that are kept."""
        nbytes = sum(fileset.bed.stat().st_size for fileset in self._sets)
        n_parts = max(1, nbytes // part_nbytes(nbytes))
        bounds = np.unique(np.linspace(0, len(self._kept), n_parts + 1).astype(np.int64)).tolist()
        self._values(np.float32)  # what was counted here is sent to the workers
        return list(pairwise(bounds))

    def part_blocks(
        self, part: tuple[int, int], block_rows: int, dtype: np.dtype | type = np.float64
    ) -> Iterator[SourceBlock]:
        """Yield the samples of a part."""
        first, last = part
        values, itemsize = self._values(dtype), np.dtype(dtype).itemsize
        band_rows = block_rows * itemsize * GENOTYPES_IN_BYTE  # of two bits, in the room of a block
        start = first
        while start < last:
            # the samples of a band, whose bytes are gathered at once
            end = int(np.searchsorted(self._kept[:last], int(self._kept[start]) + band_rows))
            lowest, highest = int(self._kept[start]) // GENOTYPES_IN_BYTE, int(self._kept[end - 1]) // GENOTYPES_IN_BYTE
            bands = [fileset.read_band(lowest, highest + 1) for fileset in self._sets]
            while start < end:
                stop = min(start + block_rows, end)
                yield self._block(start - first, self._kept[start:stop], lowest * GENOTYPES_IN_BYTE, bands, values)
                start = stop

    def _block(
        self, start: int, samples: np.ndarray, origin: int, bands: list[np.ndarray], values: np.ndarray
    ) -> SourceBlock:
        X, column = np.empty((len(samples), len(values)), values.dtype), 0
        for packed in bands:
            columns = slice(column, column + len(packed))
            decode(packed, samples - origin, values[columns], X[:, columns])
            column = columns.stop
        labels = {name: self._fam[name].iloc[samples].to_numpy(dtype=object) for name in self.label_names}
        return SourceBlock(start, X, self._y[samples], None, labels)

    def row_blocks(self, block_rows: int, dtype: np.dtype | type = np.float64) -> Iterator[SourceBlock]:
        """Yield samples in the order of the .fam file."""
        self.check()
        yield from self.part_blocks((0, len(self._kept)), block_rows, dtype)


def _checked(missing: Any) -> Any:
    """Return what missing dosages become: a word or a finite number."""
    words = ("error", "drop", "mean", "zero")
    if isinstance(missing, str):
        if missing in words:
            return missing
    elif isinstance(missing, (int, float, np.number)) and np.isfinite(missing):
        return float(missing)
    raise ConfigError(f"expected {', '.join(words)} or a number, found {missing!r}", "source.missing")


def _with_ending(path: PathLike | Sequence[PathLike]) -> list[PathLike]:
    """Return the paths, with .bed where they name three files by what these have in common."""
    given = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    return [f"{item}.bed" if not Path(item).exists() and Path(f"{item}.bed").exists() else item for item in given]
