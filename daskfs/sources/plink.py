"""Genotypes in PLINK's .bed, .bim and .fam files: samples x variants, dosages of an allele."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from daskfs import errors
from daskfs.documents import PATH, Words
from daskfs.files import Location, location
from daskfs.sources.files import PathLike, expand_paths, in_braces, is_path, natural_order
from daskfs.sources.genotype_filters import GenotypeOptions
from daskfs.sources.genotypes import GenotypeSource, Opened
from daskfs.sources.phenotypes import code_phenotype
from daskfs.sources.plink_files import Fileset

SourceError = errors.SourceError.about("genotypes")


class PlinkOptions(GenotypeOptions):
    """Genotypes: a .bed file (or several, such as chr{1..22}.bed, one per chromosome), each with its .bim and .fam."""

    path: Annotated[Words, PATH]
    allele: Literal["a1", "a2"] | None = Field(default=None, description="which allele of .bim to count")


class PlinkSource(GenotypeSource):
    """Genotypes in PLINK's binary files.

    Parameters
    ----------
    path : path-like or list of path-like
        A .bed file, with or without its ending, with .bim and .fam in the same folder; several files with the same
        samples (for example, one per chromosome), or a pattern such as chr{1..22}.bed or chr*.bed, in natural order:
        their variants are concatenated.
    y : array-like of shape (n_in_files,) or (n_in_files, n_targets), or path of a .npy file of it, optional
        Targets of all samples in the .fam file; by default its phenotype.
    target : str or list of str, optional
        Which of the `phenotypes` to use, if there are several; otherwise the name of the target, by default
        "phenotype", or "target" if `y` is given.
    missing : {"error", "drop", "mean", "zero"} or float
        Treatment of missing dosages: an error, dropping the sample, the variant's mean (over the samples that are
        used), or this number.
    allele : {"a1", "a2"}
        The allele of the .bim file to count: "a1", the fifth column, is the minor allele if PLINK has ordered them.
    unlabelled : {"drop", "keep"}
        Treatment of samples without a target: "keep" sets it to NaN, so that a model can predict it.
    phenotypes, covariates : path-like, optional
        Text tables, separated by blanks, tabs or commas, with a header: FID IID NAME ..., or IID NAME ...; lines in any
        order. Covariates become the first features; categorical ones (sites, batches) become a dummy for each level
        except the first.
    covariate_names : str or list of str, optional
        Columns of `covariates` to use (by default all), or of `phenotypes` if `covariates` is not given. "PC1-PC10"
        means all columns from PC1 to PC10, and "sex" the sex in the .fam file if the table has no such column.
    **filters
        keep, remove, extract, exclude, min_frequency, max_missing: the samples and variants that are used; relatives,
        related_above: which samples are related. See `daskfs.sources.genotype_filters.GenotypeOptions`.

    Raises
    ------
    SourceError
        A missing file, a file of another format, or files that do not match.
    DataError
        `y` does not match the samples.

    Notes
    -----
    Features have the names of the variants in the .bim file; "." is replaced by chromosome:position:a1:a2, which is
    also appended to duplicate names. Family and individual ids are the label columns "fid" and "iid". Samples are
    dropped, with a note, if they have no phenotype (-9, NA; also 0 if the others are 1 and 2, controls and cases), lack
    a covariate, or are not in these tables.

    Blocks are int8 unless there are covariates, or missing dosages are replaced by a mean or a fraction. The file is
    stored by variant: packed bytes of as many samples as fit into the space of a block are read at once, and decoded
    block by block. There is no transposed copy, and the file is not memory-mapped. One pass beforehand counts missing
    dosages. `as_matrix` reads columns directly from the file, without a store.
    """

    kind, options, endings = "plink", PlinkOptions, (".bed",)
    allele_choices = ("a1", "a2")

    def _open(self, path: PathLike | Sequence[PathLike]) -> Opened:
        """Open the filesets."""
        given: list[Any] = [path] if is_path(path) else list(path)  # type: ignore[arg-type]
        with_endings = [_one_with_ending(location(item)) for item in in_braces(given)]
        sets = [Fileset(file) for file in expand_paths(with_endings, self.endings, natural_order)]
        self._fam = first = sets[0]
        for other in sets[1:]:
            if not other.samples[["fid", "iid"]].equals(first.samples[["fid", "iid"]]):
                problem = f"expected the samples of {first.fam.name}, in the same order"
                raise SourceError(problem, str(other.fam), "write both files with the same samples: plink --keep")
        if n_half := sum(fileset.n_half_diploid for fileset in sets):
            self.notes.append(f"{n_half:,} variants on X, Y or MT: one copy counts as two, as in PLINK")
        files = [file for fileset in sets for file in fileset.files]
        return Opened(sets, first.samples[["fid", "iid"]], files, first.samples["sex"])

    def _own_phenotype(self) -> np.ndarray:
        """Return the .fam file's last column, NaN if missing; 1 and 2 mean control and case."""
        coded = code_phenotype(self._fam.samples["phenotype"], "phenotype", str(self._fam.fam))
        if self._unlabelled != "keep" and not coded.y[~np.isnan(coded.y)].any():
            remedy = "set phenotypes (a table with FID and IID) and target, or y (an array, one number per line)"
            raise SourceError("no sample has a phenotype", str(self._fam.fam), remedy)
        self._target_classes = coded.classes
        self.notes += coded.notes
        return coded.y


def _one_with_ending(path: Location) -> Location:
    if path.suffix == ".bed" or glob.has_magic(str(path)) or path.exists():
        return path
    bed = path.with_name(f"{path.name}.bed")
    return bed if bed.exists() else path
