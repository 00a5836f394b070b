"""Genotypes in PLINK's .bed, .bim and .fam files: samples x variants, dosages of an allele."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from daskfs.documents import PATH, Words
from daskfs.errors import ConfigError, SourceError
from daskfs.matrix.arrays import as_targets
from daskfs.sources.arrays import coded_texts, name_targets
from daskfs.sources.files import PathLike, expand_paths
from daskfs.sources.genotypes import GenotypeSource
from daskfs.sources.npy import array_of
from daskfs.sources.options import SourceOptions
from daskfs.sources.plink_files import NO_PHENOTYPE, Fileset
from daskfs.sources.table import Fill

CASE_CONTROL = ("control", "case")


class PlinkOptions(SourceOptions):
    """Genotypes: a .bed file (or several, of chromosomes, or a glob) with .bim and .fam beside each."""

    path: Annotated[Words, PATH]
    y: Annotated[str | None, PATH] = Field(
        default=None, description=".npy file of the targets, one for each line of .fam; by default .fam's phenotype"
    )
    target: str | None = Field(default=None, description="name of the target")
    missing: Fill | None = Field(default=None, description="treatment of missing dosages; drop leaves the sample out")
    allele: Literal["a1", "a2"] | None = Field(default=None, description="the allele of .bim that is counted")


class PlinkSource(GenotypeSource):
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
        if allele not in ("a1", "a2"):
            raise ConfigError(f"expected a1 or a2, found {allele!r}", "source.allele")
        sets = [Fileset(file) for file in expand_paths(_with_ending(path), self.endings)]
        self.files = [file for fileset in sets for file in fileset.files]
        _check_samples(sets)
        self._fam = sets[0]
        super().__init__(sets, sets[0].samples[["fid", "iid"]], missing, counts_first=allele == "a1")
        self.feature_names = [name for fileset in sets for name in fileset.names]
        y = array_of(y)
        self._y_is_given, self._target_classes = y is not None, None
        if y is None:
            target = target or "phenotype"
            self._y = self._phenotype()
        else:
            y, self._target_classes = coded_texts(y, self.notes)
            self._y = as_targets(y, len(self._samples))
        self.target_names = name_targets(self._y, [target] if isinstance(target, str) else target)

    def _phenotype(self) -> np.ndarray:
        """Return the .fam file's last column, NaN where it is missing; 1 and 2 are controls and cases."""
        words = self._fam.samples["phenotype"]
        is_missing = words.isin(NO_PHENOTYPE).to_numpy()
        try:
            y = words.where(~is_missing, "nan").to_numpy(dtype=object).astype(np.float64)
        except ValueError as fault:
            raise SourceError(f"expected phenotypes that are numbers: {fault}", str(self._fam.fam)) from None
        y[y == -9] = np.nan
        found = set(np.unique(y[~np.isnan(y)]).tolist())
        if {1.0, 2.0} <= found <= {0.0, 1.0, 2.0}:
            self._target_classes = list(CASE_CONTROL)
            y = np.where(y == 0, np.nan, y - 1)
            self.notes.append("the phenotype is coded: 1, 'control', is 0, and 2, 'case', is 1")
        elif not found or found == {0.0}:
            remedy = "pass the targets as y: an array, or a .npy file of one number for each line"
            raise SourceError("no sample has a phenotype", str(self._fam.fam), remedy)
        return y


def _check_samples(sets: Sequence[Fileset]) -> None:
    first = sets[0]
    for other in sets[1:]:
        if not other.samples[["fid", "iid"]].equals(first.samples[["fid", "iid"]]):
            problem = f"expected the samples of {first.fam.name}, in their order"
            raise SourceError(problem, str(other.fam), "write both with the same samples: plink --keep")


def _with_ending(path: PathLike | Sequence[PathLike]) -> list[PathLike]:
    """Return the paths, with .bed where they name three files by what these have in common."""
    given = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    return [f"{item}.bed" if not Path(item).exists() and Path(f"{item}.bed").exists() else item for item in given]
