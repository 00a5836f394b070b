"""Genotypes in PLINK 2's .pgen, .pvar and .psam files, read by pgenlib."""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from daskfs import errors
from daskfs.documents import PATH, Words
from daskfs.files import Location
from daskfs.kernels.genotypes import MISSING_DOSAGE, pack_calls
from daskfs.objects.path import ObjectPath
from daskfs.sources.byte_streams import open_bytes
from daskfs.sources.files import PathLike, changed, check_file, expand_paths, natural_order, stamp
from daskfs.sources.genotype_filters import GenotypeOptions
from daskfs.sources.genotype_matrix import DOSAGE_STEPS, GENOTYPES_IN_BYTE, Dosages, Genotypes
from daskfs.sources.genotypes import GenotypeSource, Opened
from daskfs.sources.phenotypes import code_phenotype
from daskfs.sources.plink_files import named_variants

SourceError = errors.SourceError.about("genotypes")

NO_PHENOTYPE = ("FID", "IID", "SID", "PAT", "MAT", "SEX")
_VARIABLE = b"\x6c\x1b\x10"
_BLOCK_VARIANTS = 2**16
_REMEDY = "write the files again: plink2 --make-pgen"


class PgenOptions(GenotypeOptions):
    """Genotypes: a .pgen file of PLINK 2 (or several, such as chr{1..22}.pgen), each with its .pvar and .psam."""

    path: Annotated[Words, PATH]
    allele: Literal["alt", "ref"] | None = Field(default=None, description="which allele to count")


def read_table(path: Location, needs: Sequence[str]) -> pd.DataFrame:
    """Return a .pvar or .psam file as texts: its header begins with #, after lines that begin with ##.

    Raises
    ------
    SourceError
        No such header, or it lacks columns.
    """
    with open_bytes(path) as stream:
        line, n_before = stream.readline(), 0
        while line.startswith(b"##"):
            line, n_before = stream.readline(), n_before + 1
        names = line.decode("utf-8", "replace").removeprefix("#").split()
        if not line.startswith(b"#") or not {*needs} <= {*names}:
            problem = f"expected a header with # and {', '.join(needs)}, found {' '.join(names[:8])!r}"
            raise SourceError(problem, f"{path}, line {n_before + 1}", _REMEDY)
        used = [name for name in names if name not in ("QUAL", "FILTER", "INFO", "FORMAT", "CM")]
        options: dict[str, Any] = {"sep": r"\s+", "header": None, "names": names, "usecols": used, "dtype": str}
        try:
            return pd.read_csv(stream, na_filter=False, quoting=3, encoding="utf-8", engine="c", **options)
        except (UnicodeDecodeError, pd.errors.EmptyDataError, pd.errors.ParserError, ValueError) as fault:
            raise SourceError(
                f"expected lines of {len(names)} words: {str(fault).strip()}", str(path), _REMEDY
            ) from None


class _PgenFile(Genotypes):
    """A .pgen file with its .pvar and .psam in the same folder."""

    def __init__(self, pgen: Location) -> None:
        self.place, self._stamp = pgen, stamp(pgen)
        zipped = pgen.with_suffix(".pvar.zst")
        self.pvar = (
            zipped if zipped.is_file() and not pgen.with_suffix(".pvar").is_file() else pgen.with_suffix(".pvar")
        )
        self.psam = pgen.with_suffix(".psam")
        for file in (self.pvar, self.psam):
            if not file.is_file():
                raise SourceError(
                    "no such file next to the .pgen file", str(file), "copy .pgen, .pvar and .psam together"
                )
            check_file(file)
        self.n_variants, self.n_samples = len(self.lines), len(self.samples)
        n_alleles = self.lines["ALT"].str.count(",").to_numpy(dtype=np.int64) + 2
        offsets = np.concatenate([[0], np.cumsum(n_alleles)]).astype(np.uintp)
        self._offsets = offsets if (n_alleles > 2).any() else None
        self._local = threading.local()
        self.check_size()

    @cached_property
    def lines(self) -> pd.DataFrame:
        """The lines of the .pvar file."""
        return read_table(self.pvar, ("CHROM", "POS", "ID", "REF", "ALT"))

    @cached_property
    def samples(self) -> pd.DataFrame:
        """The lines of the .psam file."""
        return read_table(self.psam, ("IID",))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what can be read or opened again."""
        return {name: value for name, value in vars(self).items() if name not in ("lines", "samples", "_local")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _local=threading.local())

    @property
    def reader(self) -> Any:
        """The file, opened once in each thread."""
        if not hasattr(self._local, "reader"):
            pgenlib = _pgenlib(self.place)
            options = {} if self._offsets is None else {"allele_idx_offsets": self._offsets}
            try:
                path = str(self.place).encode()
                self._local.reader = pgenlib.PgenReader(path, self.n_samples, self.n_variants, **options)
            except (RuntimeError, ValueError, OSError) as fault:
                raise SourceError(
                    f"expected a .pgen file like its .pvar and .psam: {fault}", str(self.place), _REMEDY
                ) from None
        return self._local.reader

    def check_size(self) -> None:
        """Raise an error if the file does not match .pvar and .psam."""
        reader = self.reader
        found = reader.get_raw_sample_ct(), reader.get_variant_ct()
        if found != (self.n_samples, self.n_variants):
            problem = (
                f"expected {self.n_samples:,} samples x {self.n_variants:,} variants, found {found[0]:,} x {found[1]:,}"
            )
            raise SourceError(problem, str(self.place), "copy all three files again: they do not belong together")

    def check_unchanged(self) -> None:
        """Raise an error if the file is no longer the one that was opened."""
        if not self.place.exists() or stamp(self.place) != self._stamp:
            raise changed(self.place)

    def read_ids(self) -> np.ndarray:
        """Return the column ID of the .pvar file."""
        return self.lines["ID"].to_numpy(dtype=object)

    def read_names(self) -> list[str]:
        """Return the names of the variants, with position and alleles added to duplicates and used for '.'."""
        lines = self.lines
        return named_variants(
            lines["ID"], lines["CHROM"] + ":" + lines["POS"] + ":" + lines["ALT"] + ":" + lines["REF"]
        )

    def read_variants(self) -> dict[str, np.ndarray]:
        """Return the known properties of the variants: "first" are the alternate alleles, "second" the reference."""
        position = pd.to_numeric(self.lines["POS"], errors="coerce").fillna(-1).to_numpy(dtype=np.int64)
        texts = {"chromosome": "CHROM", "first": "ALT", "second": "REF"}
        found = {name: self.lines[column].to_numpy(dtype=object) for name, column in texts.items()}
        return found | {"position": np.maximum(position, -1)}

    def _read(self, first: int, last: int, dtype: type) -> np.ndarray:
        """Return copies of the reference allele, of shape (last - first, n_samples); -9 if missing."""
        found: np.ndarray = np.empty((last - first, self.n_samples), dtype)
        read = self.reader.read_range if dtype is np.int8 else self.reader.read_dosages_range
        if last > first:
            try:
                read(first, last, found, allele_idx=0)
            except (RuntimeError, ValueError, OSError) as fault:
                raise SourceError(f"variants {first} to {last - 1}: {fault}", str(self.place), _REMEDY) from None
        return found


class PgenCalls(_PgenFile):
    """Hard calls of a .pgen file."""

    def read(self, first: int, last: int, start: int, stop: int) -> np.ndarray:
        """Return packed genotypes; see `Genotypes.read`."""
        packed = np.empty((last - first, self.stride), np.uint8)
        pack_calls(self._read(first, last, np.int8), packed)
        return packed[:, start:stop]


class PgenDosages(Dosages, _PgenFile):
    """Dosages of a .pgen file."""

    def read(self, first: int, last: int, start: int, stop: int) -> np.ndarray:
        """Return dosages; see `Dosages`."""
        samples = slice(start * GENOTYPES_IN_BYTE, stop * GENOTYPES_IN_BYTE)
        copies = self._read(first, last, np.float32)[:, samples]
        is_missing = copies < 0
        np.rint((2 - copies) * DOSAGE_STEPS, out=copies)
        copies[is_missing] = MISSING_DOSAGE
        return copies.astype(np.uint16)


def has_dosages(pgen: Location) -> bool:
    """Return whether a .pgen file has dosages, from its header."""
    with pgen.open("rb") as stream:
        head = stream.read(12)
        if not head.startswith(_VARIABLE):
            return head[:2] == _VARIABLE[:2] and head[2:3] in (b"\x03", b"\x04")
        n_variants, _, control = struct.unpack("<IIB", head[3:])
        if control & 12 != 4:  # types of records have four bits, and no dosages
            return False
        n_blocks = -(-n_variants // _BLOCK_VARIANTS)
        stream.seek(8 * n_blocks, 1)
        for block in range(n_blocks):
            n = min(_BLOCK_VARIANTS, n_variants - block * _BLOCK_VARIANTS)
            if (np.frombuffer(stream.read(n), np.uint8) & 0x60).any():
                return True
            flags = -(-n // 8) if control >> 6 == 3 else 0
            stream.seek(n * ((control & 3) + 1) + n * ((control >> 4) & 3) + flags, 1)
    return False


def _pgenlib(path: Location) -> Any:
    try:
        import pgenlib
    except ImportError:
        remedy = 'pip install "daskfs[genetics]", or convert the files: plink2 --make-bed'
        raise SourceError(".pgen files need the package pgenlib", str(path), remedy) from None
    return pgenlib


class PgenSource(GenotypeSource):
    """Genotypes in PLINK 2's binary files.

    Parameters
    ----------
    path : path-like or list of path-like
        A .pgen file with .pvar (or .pvar.zst) and .psam in the same folder; several files with the same samples, or a
        pattern such as chr{1..22}.pgen: their variants are concatenated.
    y : array-like of shape (n_in_files,) or (n_in_files, n_targets), or path of a .npy file of it, optional
        Targets of all samples in the .psam file; by default its phenotype.
    target : str or list of str, optional
        Which of the `phenotypes`, or which column of .psam, to use, if there are several; or the name of `y`.
    missing : {"error", "drop", "mean", "zero"} or float
        Treatment of missing dosages; see `daskfs.sources.plink.PlinkSource`.
    allele : {"alt", "ref"}
        What to count: all alternate alleles, or the reference.
    unlabelled : {"drop", "keep"}
        Treatment of samples without a target.
    phenotypes, covariates : path-like, optional
        Tables with FID and IID, or IID; see `daskfs.sources.plink.PlinkSource`.
    covariate_names : str or list of str, optional
        Columns of `covariates`, or of `phenotypes` if `covariates` is not given. "sex" is that of .psam if the table
        has no such column.
    **filters
        keep, remove, extract, exclude, min_frequency, max_missing: the samples and variants that are used; relatives,
        related_above: which samples are related. See `daskfs.sources.genotype_filters.GenotypeOptions`.

    Raises
    ------
    SourceError
        A missing file, a file of another format, files that do not match, or pgenlib is not installed.
    DataError
        `y` does not match the samples.

    Notes
    -----
    Files with hard calls alone become two bits each, like .bed files. If a file has dosages, these are used, in steps
    of 1/16384, as the file has them. All samples of a variant are decoded at once.
    """

    kind, options, endings = "pgen", PgenOptions, (".pgen",)

    def _open(self, path: PathLike | Sequence[PathLike]) -> Opened:
        """Open the filesets."""
        sets: list[_PgenFile] = []
        for file in expand_paths(path, self.endings, natural_order):
            if isinstance(file, ObjectPath):
                problem, remedy = ".pgen files are only read from a local folder", "copy them to a disk first"
                raise SourceError(problem, str(file), remedy)
            sets.append(PgenDosages(file) if has_dosages(file) else PgenCalls(file))
        self._psam = first = sets[0]
        names = [name for name in ("FID", "IID") if name in first.samples]
        for other in sets[1:]:
            if not other.samples[names].equals(first.samples[names]):
                problem = f"expected the samples of {first.psam.name}, in the same order"
                raise SourceError(problem, str(other.psam), "write both files with the same samples: plink2 --keep")
        files = [file for one in sets for file in (one.place, one.pvar, one.psam)]
        return Opened(sets, first.samples[names].rename(columns=str.lower), files, first.samples.get("SEX"))

    def _own_phenotype(self) -> np.ndarray:
        """Return the .psam file's phenotype, NaN if missing."""
        known = [str(name) for name in self._psam.samples if name not in NO_PHENOTYPE]
        wanted = [self._wanted] if isinstance(self._wanted, str) else [*(self._wanted or known)]
        if len(wanted) != 1 or wanted[0] not in known:
            if self._unlabelled == "keep":
                return np.full(len(self._psam.samples), np.nan)
            problem = f"expected the name of a phenotype, found {', '.join(map(repr, wanted)) or 'none'}"
            remedy = f"set target to a column ({', '.join(known) or 'it has none'}), or set phenotypes or y"
            raise SourceError(problem, str(self._psam.psam), remedy)
        coded = code_phenotype(self._psam.samples[wanted[0]], wanted[0], str(self._psam.psam))
        self._target_classes = coded.classes
        self.notes += coded.notes
        return coded.y
