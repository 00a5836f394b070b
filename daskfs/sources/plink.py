"""Genotypes in PLINK's .bed, .bim and .fam files: samples x variants, dosages of an allele."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from daskfs.documents import PATH, Words
from daskfs.errors import ConfigError, SourceError
from daskfs.files import Location, location
from daskfs.objects.path import ObjectPath
from daskfs.sources.files import PathLike, expand_paths
from daskfs.sources.genotypes import GenotypeSource
from daskfs.sources.options import SourceOptions
from daskfs.sources.phenotypes import code_phenotype
from daskfs.sources.plink_files import Fileset
from daskfs.sources.table import Fill


class PlinkOptions(SourceOptions):
    """Genotypes: a .bed file (or several, of chromosomes, or a glob) with .bim and .fam beside each."""

    path: Annotated[Words, PATH]
    y: Annotated[str | None, PATH] = Field(
        default=None, description=".npy file of the targets, one for each line of .fam; by default .fam's phenotype"
    )
    phenotypes: Annotated[str | None, PATH] = Field(
        default=None, description="table of phenotypes with a line of names: FID IID NAME ..., in any order"
    )
    covariates: Annotated[str | None, PATH] = Field(
        default=None, description="table of covariates by FID and IID, which become the first features"
    )
    covariate_names: Words | None = Field(
        default=None,
        description="columns of covariates that are taken, by default all; without covariates those of phenotypes: "
        "[age, sex, PC1-PC10]",
    )
    target: str | None = Field(default=None, description="which of the phenotypes, or the name of y")
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
        Which of the `phenotypes`, where there are several; else what the target is called: "phenotype", or "target"
        where `y` is given.
    missing : {"error", "drop", "mean", "zero"} or float
        What missing dosages become: an error, samples that are left out, the variant's mean (of all samples of the
        file), or this number.
    allele : {"a1", "a2"}
        The allele of the .bim file that is counted: "a1", the fifth column, is the minor one where PLINK has ordered
        them.
    unlabelled : {"drop", "keep"}
        Treatment of samples without a target: "keep" makes it NaN, for a model to predict.
    phenotypes, covariates : path-like, optional
        Tables of words between blanks, tabs or commas, names in the first line: FID IID NAME ..., or IID NAME ...;
        lines in any order. Covariates become the first features, those of words (sites, batches) a column for each
        word but the first.
    covariate_names : str or list of str, optional
        Which columns of `covariates` are taken, by default all; without `covariates` which of `phenotypes`. "PC1-PC10"
        names all columns from the one to the other.

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
    a phenotype (-9, NA; 0, too, where the others are 1 and 2, controls and cases), without one of the covariates or
    without a line in these tables are left out, which a note says.

    Blocks are int8 unless there are covariates, or missing dosages become a mean or another number that is not whole.
    The file stands by variants: bytes of some samples are gathered, at two bits a dosage as many as a block has room
    for, and decoded a block at a time. There is no transposed copy, and no page of the file is mapped. One pass
    beforehand counts what is missing. `as_matrix` is read column by column where the file lies, without a store.
    """

    kind, options, endings = "plink", PlinkOptions, (".bed",)

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        y: Any = None,
        target: str | Sequence[str] | None = None,
        missing: Any = "error",
        allele: Literal["a1", "a2"] = "a1",
        phenotypes: PathLike | None = None,
        covariates: PathLike | None = None,
        covariate_names: str | Sequence[str] | None = None,
        unlabelled: Literal["drop", "keep"] = "drop",
    ) -> None:
        if allele not in ("a1", "a2"):
            raise ConfigError(f"expected a1 or a2, found {allele!r}", "source.allele")
        sets = [Fileset(file) for file in expand_paths(_with_ending(path), self.endings)]
        _check_samples(sets)
        self._fam = sets[0]
        super().__init__(
            sets,
            sets[0].samples[["fid", "iid"]],
            [file for fileset in sets for file in fileset.files],
            target=target,
            y=y,
            phenotypes=phenotypes,
            covariates=covariates,
            covariate_names=covariate_names,
            missing=missing,
            counts_first=allele == "a1",
            unlabelled=unlabelled,
        )
        n_half = sum(fileset.n_half_diploid for fileset in sets)
        if n_half:
            self.notes.append(f"{n_half:,} variants on X, Y or MT: one copy counts as two, as PLINK writes it")

    def _own_phenotype(self) -> np.ndarray:
        """Return the .fam file's last column, NaN where it is missing; 1 and 2 are controls and cases."""
        coded = code_phenotype(self._fam.samples["phenotype"], "phenotype", str(self._fam.fam))
        if self._unlabelled != "keep" and not coded.y[~np.isnan(coded.y)].any():
            remedy = "give phenotypes (a table by FID and IID) and target, or y (an array, one number for each line)"
            raise SourceError("no sample has a phenotype", str(self._fam.fam), remedy)
        self._target_classes = coded.classes
        self.notes += coded.notes
        return coded.y


def _check_samples(sets: Sequence[Fileset]) -> None:
    first = sets[0]
    for other in sets[1:]:
        if not other.samples[["fid", "iid"]].equals(first.samples[["fid", "iid"]]):
            problem = f"expected the samples of {first.fam.name}, in their order"
            raise SourceError(problem, str(other.fam), "write both with the same samples: plink --keep")


def _with_ending(path: PathLike | Sequence[PathLike]) -> list[PathLike]:
    """Return the paths, with .bed where they name three files by what these have in common."""
    given = [path] if isinstance(path, (str, os.PathLike, ObjectPath)) else list(path)
    return [_one_with_ending(location(item)) for item in given]


def _one_with_ending(path: Location) -> Location:
    if path.suffix == ".bed" or glob.has_magic(str(path)) or path.exists():
        return path
    bed = path.with_name(f"{path.name}.bed")
    return bed if bed.exists() else path
