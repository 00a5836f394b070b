"""Dosages in BGEN files, read by the package bgen."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from daskfs import errors
from daskfs.documents import PATH, Words
from daskfs.files import Location, location
from daskfs.kernels.genotypes import MISSING_DOSAGE
from daskfs.objects.path import ObjectPath
from daskfs.sources.byte_streams import open_bytes
from daskfs.sources.files import PathLike, changed, expand_paths, natural_order, stamp
from daskfs.sources.genotype_filters import GenotypeOptions
from daskfs.sources.genotype_matrix import DOSAGE_STEPS, GENOTYPES_IN_BYTE, Dosages
from daskfs.sources.genotypes import GenotypeSource, Opened
from daskfs.sources.plink_files import named_variants

SourceError = errors.SourceError.about("genotypes")

_REMEDY = "write it again: plink2 --export bgen-1.2 bits=8"
_N_HEADERS = 2
"""Lines of a .sample file before the samples: names and types of the columns."""


class BgenOptions(GenotypeOptions):
    """Dosages: a BGEN file (or several, such as chr{1..22}.bgen), with one .sample file."""

    path: Annotated[Words, PATH]
    sample: Annotated[str | None, PATH] = Field(
        default=None, description=".sample file; default: that with the name of the first BGEN file"
    )
    allele: Literal["alt", "ref"] | None = Field(
        default=None, description="which allele to count: the second of the file, or the first"
    )


class BgenFile(Dosages):
    """A BGEN file; its second allele counts as the first of `Genotypes`."""

    def __init__(self, place: Location) -> None:
        self.place, self._stamp = place, stamp(place)
        self._local = threading.local()
        header = self._reader.header
        self.n_variants, self.n_samples = int(header.nvariants), int(header.nsamples)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what can be read or opened again."""
        return {name: value for name, value in vars(self).items() if name not in ("_local", "_lines")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _local=threading.local())

    @property
    def _reader(self) -> Any:
        """The file, opened once in each thread."""
        if not hasattr(self._local, "reader"):
            try:
                import bgen
            except ImportError:
                remedy = 'pip install "daskfs[genetics]", or convert the file: plink2 --make-pgen'
                raise SourceError("BGEN files need the package bgen", str(self.place), remedy) from None
            try:
                self._local.reader = bgen.BgenReader(str(self.place), delay_parsing=False)
            except (ValueError, RuntimeError, OSError, MemoryError) as fault:
                raise SourceError(f"expected a BGEN file: {fault}", str(self.place), _REMEDY) from None
        return self._local.reader

    @cached_property
    def _lines(self) -> pd.DataFrame:
        """Id, chromosome, position and alleles of each variant."""
        found, reader = [], self._reader
        for j in range(self.n_variants):
            one = reader[j]
            if len(one.alleles) != 2:
                problem = f"expected two alleles, found {len(one.alleles)}"
                raise SourceError(problem, f"{self.place}, variant {one.rsid!r}", "split it: plink2 --max-alleles 2")
            found.append((one.rsid or one.varid or ".", one.chrom, int(one.pos), *one.alleles))
        return pd.DataFrame(found, columns=["id", "chromosome", "position", "first", "second"])

    @property
    def own_samples(self) -> list[str] | None:
        """Ids of the samples in the file, None if it has none."""
        return [str(name) for name in self._reader.samples] if self._reader.header.has_sample_ids else None

    def check_size(self) -> None:
        """Do nothing: opening the file has compared its length."""

    def check_unchanged(self) -> None:
        """Raise an error if the file is no longer the one that was opened."""
        if not self.place.exists() or stamp(self.place) != self._stamp:
            raise changed(self.place)

    def read_ids(self) -> np.ndarray:
        """Return the rsids."""
        return self._lines["id"].to_numpy(dtype=object)

    def read_names(self) -> list[str]:
        """Return the names of the variants, with position and alleles added to duplicates and used for '.'."""
        lines = self._lines
        places = (
            lines["chromosome"] + ":" + lines["position"].astype(str) + ":" + lines["second"] + ":" + lines["first"]
        )
        return named_variants(lines["id"], places)

    def read_variants(self) -> dict[str, np.ndarray]:
        """Return the known properties of the variants; see `Genotypes.read_variants`."""
        names = {"chromosome": "chromosome", "first": "second", "second": "first"}
        found = {name: self._lines[column].to_numpy(dtype=object) for name, column in names.items()}
        return found | {"position": self._lines["position"].to_numpy(dtype=np.int64)}

    def read(self, first: int, last: int, start: int, stop: int) -> np.ndarray:
        """Return dosages; see `Dosages`."""
        samples = slice(start * GENOTYPES_IN_BYTE, min(stop * GENOTYPES_IN_BYTE, self.n_samples))
        found = np.empty((last - first, samples.stop - samples.start), np.uint16)
        for j in range(first, last):
            try:
                dosage = np.asarray(self._reader[j].alt_dosage)[samples]
            except (ValueError, RuntimeError, OSError) as fault:
                raise SourceError(f"variant {j}: {fault}", str(self.place), _REMEDY) from None
            steps = np.rint(np.nan_to_num(dosage, nan=0.0) * DOSAGE_STEPS)
            found[j - first] = np.where(np.isnan(dosage), MISSING_DOSAGE, steps)
        return found


def read_samples(path: Location) -> pd.DataFrame:
    """Return the samples of a .sample file: columns fid, iid, and sex if it has one.

    Raises
    ------
    SourceError
        It does not begin with ID_1 ID_2, or a line has another number of words.
    """
    with open_bytes(path) as stream:
        lines = [line.split() for line in stream.read().decode("utf-8", "replace").splitlines() if line.strip()]
    if len(lines) < _N_HEADERS or [name.upper() for name in lines[0][:2]] != ["ID_1", "ID_2"]:
        found = " ".join(lines[0][:8]) if lines else ""
        raise SourceError(f"expected a header ID_1 ID_2 missing ..., found {found!r}", f"{path}, line 1", _REMEDY)
    for number, words in enumerate(lines, 1):
        if len(words) != len(lines[0]):
            problem = f"expected {len(lines[0])} words, found {len(words)}"
            raise SourceError(problem, f"{path}, line {number}", "write a value for each column")
    table = pd.DataFrame(lines[_N_HEADERS:], columns=[name.lower() for name in lines[0]], dtype=object)
    table = table.rename(columns={"id_1": "fid", "id_2": "iid"})
    return table[[name for name in ("fid", "iid", "sex") if name in table]]


class BgenSource(GenotypeSource):
    """Dosages in BGEN files.

    Parameters
    ----------
    path : path-like or list of path-like
        A BGEN file (1.1 to 1.3, two alleles per variant); several files with the same samples, or a pattern such as
        chr{1..22}.bgen: their variants are concatenated.
    y : array-like of shape (n_in_files,) or (n_in_files, n_targets), or path of a .npy file of it, optional
        Targets of all samples.
    target : str or list of str, optional
        Which of the `phenotypes` to use, if there are several; otherwise the name of `y`.
    missing : {"error", "drop", "mean", "zero"} or float
        Treatment of missing dosages; see `daskfs.sources.plink.PlinkSource`.
    allele : {"alt", "ref"}
        What to count: the second allele of the file, or the first. plink2 writes the reference first with
        ``--export bgen-1.2 ref-first``.
    sample : path-like, optional
        The .sample file; by default that with the name of the first BGEN file, or the ids in the file.
    unlabelled : {"drop", "keep"}
        Treatment of samples without a target.
    phenotypes, covariates : path-like, optional
        Tables with FID and IID, or IID; see `daskfs.sources.plink.PlinkSource`.
    covariate_names : str or list of str, optional
        Columns of `covariates`, or of `phenotypes` if `covariates` is not given. "sex" is that of the .sample file if
        the table has no such column.
    **filters
        keep, remove, extract, exclude, min_frequency, max_missing: the samples and variants that are used; relatives,
        related_above: which samples are related. See `daskfs.sources.genotype_filters.GenotypeOptions`.

    Raises
    ------
    SourceError
        A missing file, a file of another format, files that do not match, or the package bgen is not installed.
    DataError
        `y` does not match the samples.

    Notes
    -----
    Dosages are kept in steps of 1/16384. Each read of a variant decompresses it again, so a file that is read in many
    passes is faster as .pgen (``plink2 --make-pgen``).
    """

    kind, options, endings = "bgen", BgenOptions, (".bgen",)

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        y: Any = None,
        target: str | Sequence[str] | None = None,
        missing: Any = "error",
        allele: str | None = None,
        sample: PathLike | None = None,
        phenotypes: PathLike | None = None,
        covariates: PathLike | None = None,
        covariate_names: str | Sequence[str] | None = None,
        unlabelled: Literal["drop", "keep"] = "drop",
        **filters: Any,
    ) -> None:
        self._sample = sample
        super().__init__(
            path, y, target, missing, allele, phenotypes, covariates, covariate_names, unlabelled, **filters
        )

    def _open(self, path: PathLike | Sequence[PathLike]) -> Opened:
        """Open the files."""
        places = expand_paths(path, self.endings, natural_order)
        if any(isinstance(place, ObjectPath) for place in places):
            problem, remedy = "BGEN files are only read from a local folder", "copy them to a disk first"
            raise SourceError(problem, str(places[0]), remedy)
        sets = [BgenFile(place) for place in places]
        beside = places[0].with_suffix(".sample") if self._sample is None else location(self._sample)
        own = sets[0].own_samples
        if self._sample is not None or beside.is_file():
            samples, files = read_samples(beside), [*places, beside]
        elif own is not None:
            samples, files = pd.DataFrame({"iid": own}, dtype=object), places
        else:
            remedy = "set sample: the .sample file that belongs to the BGEN file"
            raise SourceError("expected ids of the samples, found none", str(places[0]), remedy)
        for one in sets:
            if one.n_samples != len(samples) or one.own_samples != own:
                problem = f"expected {len(samples):,} samples, as in {files[-1].name}, found {one.n_samples:,}"
                problem = problem if one.n_samples != len(samples) else f"expected the samples of {places[0].name}"
                raise SourceError(problem, str(one.place), "use files of the same samples, in the same order")
        return Opened(sets, samples.drop(columns="sex", errors="ignore"), files, samples.get("sex"))
