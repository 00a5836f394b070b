"""PLINK's three files of a set of genotypes: .bed (dosages), .bim (variants), .fam (samples)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from daskfs import interrupts
from daskfs.errors import SourceError
from daskfs.sources.files import changed
from daskfs.sources.genotypes import Genotypes

MAGIC = b"\x6c\x1b\x01"
"""A .bed file whose variants come one after the other."""
_SAMPLE_MAJOR = b"\x6c\x1b\x00"
WINDOW_NBYTES = 2**24
"""Read at a time where a file is read from its begin to its end."""

VARIANT_COLUMNS = ("chromosome", "variant", "centimorgan", "position", "a1", "a2")
SAMPLE_COLUMNS = ("fid", "iid", "father", "mother", "sex", "phenotype")
NO_PHENOTYPE = ("-9", "NA", "nan", "NaN", ".")
"""What .fam files have where nothing is known; of cases and controls, 0, too."""


class Fileset(Genotypes):
    """A .bed file with its .bim and .fam, which lie beside it.

    Parameters
    ----------
    bed : Path

    Attributes
    ----------
    bed, bim, fam : Path
    variants, samples : DataFrame of str
        Of `VARIANT_COLUMNS` and `SAMPLE_COLUMNS`.

    Raises
    ------
    SourceError
        A file is missing, is no such file, or they do not fit.
    """

    def __init__(self, bed: Path) -> None:
        self.bed, self.bim, self.fam = bed, bed.with_suffix(".bim"), bed.with_suffix(".fam")
        for file in self.files:
            if not file.is_file():
                problem = "no such file beside the .bed file" if file != bed else "no such file"
                raise SourceError(problem, str(file), "copy all three: .bed, .bim and .fam, of one name")
        self._check_head()
        self.variants = read_words(self.bim, VARIANT_COLUMNS)
        self.samples = read_words(self.fam, SAMPLE_COLUMNS)
        self.n_variants, self.n_samples = len(self.variants), len(self.samples)
        self.check_size()

    @property
    def files(self) -> list[Path]:
        """All three."""
        return [self.bed, self.bim, self.fam]

    def _check_head(self) -> None:
        with self.bed.open("rb") as stream:
            head = stream.read(len(MAGIC))
        if head == _SAMPLE_MAJOR:
            problem = "expected variants one after the other, found samples one after the other"
            raise SourceError(problem, str(self.bed), "write it anew: plink --make-bed")
        if head != MAGIC:
            problem = f"expected a PLINK .bed file, which begins with 6c 1b 01, found {head.hex(' ') or 'nothing'}"
            raise SourceError(problem, str(self.bed), "genomic intervals, too, are called .bed; name the genotypes")

    def check_size(self) -> None:
        """Refuse a .bed file that does not have the length that its samples and variants ask for."""
        expected, found = len(MAGIC) + self.n_variants * self.stride, self.bed.stat().st_size
        if found != expected:
            shape = f"{self.n_samples:,} samples x {self.n_variants:,} variants"
            problem = f"expected {expected:,} bytes for {shape}, found {found:,}"
            raise SourceError(problem, str(self.bed), "copy all three files again: they are not of one set")

    @cached_property
    def names(self) -> list[str]:
        """Names of the variants; where several share one, or it is '.', with position and alleles."""
        ids = self.variants["variant"]
        is_vague = (ids == ".") | ids.duplicated(keep=False)
        if is_vague.any():
            vague = self.variants[is_vague]
            place = vague["chromosome"] + ":" + vague["position"] + ":" + vague["a1"] + ":" + vague["a2"]
            ids = ids.copy()
            ids[is_vague] = np.where(vague["variant"] == ".", place, vague["variant"] + "@" + place)
        return [str(name) for name in ids]

    def windows(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield consecutive variants and their packed genotypes, uint8 of shape (n_variants, stride)."""
        step = max(1, WINDOW_NBYTES // self.stride)
        with self.bed.open("rb", buffering=0) as stream:
            for first in range(0, self.n_variants, step):
                interrupts.check()
                last = min(first + step, self.n_variants)
                packed = np.empty((last - first, self.stride), np.uint8)
                self._fill(stream.fileno(), packed, len(MAGIC) + first * self.stride)
                yield slice(first, last), packed

    def read_band(self, start: int, stop: int) -> np.ndarray:
        """Return the packed genotypes of some samples, uint8 of shape (n_variants, n_bytes).

        Parameters
        ----------
        start, stop : int
            Bytes of each variant, of four samples each.
        """
        packed = np.empty((self.n_variants, stop - start), np.uint8)
        with self.bed.open("rb", buffering=0) as stream:
            if (start, stop) == (0, self.stride):
                self._fill(stream.fileno(), packed, len(MAGIC))
            else:
                for j, row in enumerate(packed):
                    if j % 4096 == 0:
                        interrupts.check()
                    self._fill(stream.fileno(), row, len(MAGIC) + j * self.stride + start)
        return packed

    def _fill(self, file: int, array: np.ndarray, offset: int) -> None:
        view = array.reshape(-1).data
        while len(view):
            n_read = os.preadv(file, [view], offset)
            if n_read == 0:
                raise changed(self.bed)
            view, offset = view[n_read:], offset + n_read


def read_words(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Return a file of words between blanks or tabs, so many in each line, as texts.

    Raises
    ------
    SourceError
        A line has more words, or fewer, or the text is no UTF-8.
    """
    remedy = f"give each line {len(columns)} words: {', '.join(columns)}"
    try:
        words = pd.read_csv(
            path, sep=r"\s+", header=None, dtype=str, na_filter=False, quoting=3, encoding="utf-8", engine="c"
        )
    except UnicodeDecodeError as fault:
        raise SourceError(
            f"expected text in UTF-8 ({fault})", str(path), "check that the file is what it says"
        ) from None
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
