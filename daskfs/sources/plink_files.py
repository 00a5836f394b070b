"""PLINK's three files of a fileset: .bed (dosages), .bim (variants), .fam (samples)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from daskfs import errors, interrupts
from daskfs.files import Location
from daskfs.objects.path import ObjectPath
from daskfs.sources.files import as_file, changed, stamp
from daskfs.sources.genotype_matrix import Genotypes, fill

SourceError = errors.SourceError.about("genotypes")

MAGIC = b"\x6c\x1b\x01"
"""Start of a .bed file in variant-major order."""
_SAMPLE_MAJOR = b"\x6c\x1b\x00"

VARIANT_COLUMNS = ("chromosome", "variant", "centimorgan", "position", "a1", "a2")
SAMPLE_COLUMNS = ("fid", "iid", "father", "mother", "sex", "phenotype")
HALF_DIPLOID = ("X", "Y", "XY", "MT", "M", "23", "24", "25", "26")
"""Chromosomes of which some samples have a single copy."""


class Fileset(Genotypes):
    """A .bed file with its .bim and .fam files in the same folder.

    Parameters
    ----------
    bed : Path

    Attributes
    ----------
    bed, bim, fam : Path
    variants, samples : DataFrame of str
        Columns `VARIANT_COLUMNS` and `SAMPLE_COLUMNS`.

    Raises
    ------
    SourceError
        A file is missing or of another format, or the files do not match.
    """

    def __init__(self, bed: Location) -> None:
        self.place = bed
        self.bed, self.bim, self.fam = bed, bed.with_suffix(".bim"), bed.with_suffix(".fam")
        for file in self.files:
            if not file.is_file():
                problem = "no such file next to the .bed file" if file != bed else "no such file"
                raise SourceError(problem, str(file), "copy all three: .bed, .bim and .fam, with the same name")
        self._check_head()
        self.n_variants, self.n_samples = len(self.variants), len(self.samples)
        self._stamp = stamp(bed)
        self.check_size()

    @cached_property
    def variants(self) -> pd.DataFrame:
        """The lines of the .bim file."""
        return read_words(self.bim, VARIANT_COLUMNS)

    @cached_property
    def samples(self) -> pd.DataFrame:
        """The lines of the .fam file."""
        return read_words(self.fam, SAMPLE_COLUMNS)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the tables, which can be read again."""
        return {name: value for name, value in vars(self).items() if name not in ("variants", "samples")}

    @property
    def files(self) -> list[Location]:
        """The three files."""
        return [self.bed, self.bim, self.fam]

    def _check_head(self) -> None:
        with self.bed.open("rb") as stream:
            head = stream.read(len(MAGIC))
        if head == _SAMPLE_MAJOR:
            problem = "expected variant-major order, found sample-major order"
            raise SourceError(problem, str(self.bed), "write it again: plink --make-bed")
        if head != MAGIC:
            problem = f"expected a PLINK .bed file, which begins with 6c 1b 01, found {head.hex(' ') or 'nothing'}"
            raise SourceError(problem, str(self.bed), "genomic intervals are called .bed too; name the genotypes")

    def check_size(self) -> None:
        """Refuse a .bed file whose length does not match its samples and variants."""
        expected, found = len(MAGIC) + self.n_variants * self.stride, self.bed.stat().st_size
        if found != expected:
            shape = f"{self.n_samples:,} samples x {self.n_variants:,} variants"
            problem = f"expected {expected:,} bytes for {shape}, found {found:,}"
            raise SourceError(problem, str(self.bed), "copy all three files again: they do not belong together")

    def check_unchanged(self) -> None:
        """Refuse a .bed file whose size or modification time has changed since it was opened."""
        if not self.bed.exists() or stamp(self.bed) != self._stamp:
            raise changed(self.bed)

    @property
    def n_half_diploid(self) -> int:
        """Number of variants on chromosomes of which some samples have a single copy."""
        chromosomes = self.variants["chromosome"].str.removeprefix("chr").str.upper()
        return int(chromosomes.isin(HALF_DIPLOID).sum())

    def read_ids(self) -> np.ndarray:
        """Return the second column of the .bim file."""
        return self.variants["variant"].to_numpy(dtype=object)

    def read_names(self) -> list[str]:
        """Return the names of the variants, with position and alleles added to duplicates and used for '.'."""
        lines = self.variants
        places = lines["chromosome"] + ":" + lines["position"] + ":" + lines["a1"] + ":" + lines["a2"]
        return named_variants(lines["variant"], places)

    def read_variants(self) -> dict[str, np.ndarray]:
        """Return chromosomes, positions and alleles from the .bim file; see `Genotypes.read_variants`."""
        lines = self.variants
        position = pd.to_numeric(lines["position"], errors="coerce").fillna(-1).to_numpy(dtype=np.int64)
        texts = {"chromosome": "chromosome", "first": "a1", "second": "a2"}
        found = {name: lines[column].to_numpy(dtype=object) for name, column in texts.items()}
        return found | {"position": np.maximum(position, -1)}

    def read(self, first: int, last: int, start: int, stop: int) -> np.ndarray:
        """Return packed genotypes; see `Genotypes.read`."""
        packed = np.empty((last - first, stop - start), np.uint8)
        origin = len(MAGIC) + first * self.stride
        if isinstance(self.bed, ObjectPath):
            lines = np.frombuffer(self.bed.asked(origin, (last - first) * self.stride), np.uint8)
            if lines.size != (last - first) * self.stride:
                raise self._cut()
            return lines.reshape(last - first, self.stride)[:, start:stop]
        with self.bed.open("rb", buffering=0) as stream:
            if stop - start == self.stride:
                fill(stream.fileno(), packed, origin, self._cut)
                return packed
            for j, row in enumerate(packed):
                if j % 4096 == 0:
                    interrupts.check()
                fill(stream.fileno(), row, origin + j * self.stride + start, self._cut)
        return packed

    def _cut(self) -> errors.SourceError:
        return changed(self.bed)


def named_variants(ids: pd.Series, places: pd.Series) -> list[str]:
    """Return the names of variants: ids, with position and alleles added to duplicates and used for '.'."""
    is_vague = (ids == ".") | ids.duplicated(keep=False)
    vague = np.where(ids == ".", places, ids + "@" + places) if is_vague.any() else ids
    return [str(name) for name in np.where(is_vague, vague, ids)]


def read_words(path: Location, columns: Sequence[str]) -> pd.DataFrame:
    """Return a text file of words between blanks or tabs, with a fixed number of words per line.

    Raises
    ------
    SourceError
        A line has more or fewer words, or the text is not UTF-8.
    """
    remedy = f"each line must have {len(columns)} words: {', '.join(columns)}"
    try:
        words = pd.read_csv(
            as_file(path), sep=r"\s+", header=None, dtype=str, na_filter=False, quoting=3, encoding="utf-8", engine="c"
        )
    except UnicodeDecodeError as fault:
        raise SourceError(f"expected text in UTF-8 ({fault})", str(path), "check the format of the file") from None
    except (pd.errors.EmptyDataError, pd.errors.ParserError, ValueError) as fault:
        raise SourceError(f"expected lines of {len(columns)} words: {str(fault).strip()}", str(path), remedy) from None
    if words.shape[1] != len(columns):
        problem = f"expected {len(columns)} words in a line, found {words.shape[1]}"
        raise SourceError(problem, f"{path}, line 1", remedy)
    words.columns = pd.Index(columns)
    last = words[columns[-1]]
    is_short = last.isna() | (last == "")
    if is_short.any():
        n_found = int((words.iloc[int(np.argmax(is_short))].fillna("") != "").sum())
        where = f"{path}, line {int(np.argmax(is_short)) + 1}"
        raise SourceError(f"expected {len(columns)} words in a line, found {n_found}", where, remedy)
    return words
