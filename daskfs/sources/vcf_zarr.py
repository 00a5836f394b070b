"""Genotypes in VCF Zarr, the layout that bio2zarr writes, read where they lie."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from daskfs import interrupts
from daskfs.documents import PATH
from daskfs.errors import ConfigError, SourceError
from daskfs.kernels.genotypes import pack
from daskfs.matrix.arrays import as_targets
from daskfs.sources.arrays import coded_texts, name_targets
from daskfs.sources.files import PathLike
from daskfs.sources.genotypes import GENOTYPES_IN_BYTE, Genotypes, GenotypeSource
from daskfs.sources.npy import array_of
from daskfs.sources.options import SourceOptions
from daskfs.sources.table import Fill
from daskfs.store.foreign import open_foreign_array

CALLS, SAMPLES = "call_genotype", "sample_id"
NAMED_BY = ("variant_id", "variant_contig", "contig_id", "variant_position", "variant_allele")
WINDOW_NBYTES = 2**24
"""Calls that are read at a time, if chunks are not larger."""


class VcfZarrOptions(SourceOptions):
    """Genotypes in VCF Zarr, the layout of bio2zarr."""

    path: Annotated[str, PATH]
    y: Annotated[str, PATH] = Field(description=".npy file of the targets, one for each sample")
    target: str | None = Field(default=None, description="name of the target")
    missing: Fill | None = Field(default=None, description="treatment of missing calls; drop leaves the sample out")
    allele: Literal["alt", "ref"] | None = Field(default=None, description="the allele that is counted")


class Calls(Genotypes):
    """The array call_genotype.

    Parameters
    ----------
    folder : Path

    Raises
    ------
    SourceError
        It is not there, or no matrix of calls of at most two alleles.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        array = self._array()
        if array.ndim != 3 or array.shape[2] not in (1, 2) or np.dtype(array.dtype).kind != "i":
            problem = f"expected calls of one or two alleles, found shape {array.shape} of {array.dtype}"
            raise SourceError(problem, str(folder / CALLS), "take dosages of more copies as a Zarr array: kind zarr")
        self.n_variants, self.n_samples, self.ploidy = (int(length) for length in array.shape)
        self._chunk_variants = int(array.chunks[0])

    def _array(self) -> Any:
        return open_foreign_array(self.folder / CALLS)

    def check_size(self) -> None:
        """Refuse an array whose shape has changed."""
        if self._array().shape != (self.n_variants, self.n_samples, self.ploidy):
            raise SourceError("the array changed", str(self.folder / CALLS), "ingest it again when it is whole")

    def windows(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield consecutive variants and their packed genotypes, whole chunks where these fit."""
        yield from self._packed(0, self.n_samples)

    def read_band(self, start: int, stop: int) -> np.ndarray:
        """Return the packed genotypes of some samples."""
        packed = np.empty((self.n_variants, stop - start), np.uint8)
        first, last = (min(byte * GENOTYPES_IN_BYTE, self.n_samples) for byte in (start, stop))
        for variants, window in self._packed(first, last):
            packed[variants] = window
        return packed

    def _packed(self, first: int, last: int) -> Iterator[tuple[slice, np.ndarray]]:
        array, n_bytes = self._array(), -(-(last - first) // GENOTYPES_IN_BYTE)
        step = max(1, WINDOW_NBYTES // max(1, (last - first) * self.ploidy))
        step = step - step % self._chunk_variants if step >= self._chunk_variants else step
        for start in range(0, self.n_variants, step):
            interrupts.check()
            stop = min(start + step, self.n_variants)
            try:
                calls = np.asarray(array[start:stop, first:last, :])
            except (RuntimeError, ValueError, OSError) as fault:
                problem = f"a chunk cannot be decoded: {fault}"
                raise SourceError(problem, str(self.folder / CALLS), "copy or write it again") from None
            packed = np.empty((stop - start, n_bytes), np.uint8)
            pack(np.ascontiguousarray(calls), packed)
            yield slice(start, stop), packed

    def names(self) -> list[str]:
        """Return variant ids; contig:position:ref:alt where there are none, added where several share one."""
        ids = pd.Series(self._texts("variant_id") if (self.folder / "variant_id").exists() else ["."] * self.n_variants)
        is_vague = ((ids == ".") | (ids == "") | ids.duplicated(keep=False)).to_numpy()
        if is_vague.any():
            contigs = np.array(self._texts("contig_id"), dtype=object)
            contig = contigs[np.asarray(open_foreign_array(self.folder / "variant_contig")[...])]
            position = np.asarray(open_foreign_array(self.folder / "variant_position")[...])
            alleles = self._texts("variant_allele")
            for j in np.flatnonzero(is_vague).tolist():
                place = f"{contig[j]}:{position[j]}:{':'.join(allele for allele in alleles[j] if allele)}"
                ids[j] = place if ids[j] in (".", "") else f"{ids[j]}@{place}"
        return [str(name) for name in ids]

    def samples(self) -> list[str]:
        """Return the samples' ids."""
        return [str(name) for name in self._texts(SAMPLES)]

    def _texts(self, name: str) -> Any:
        return np.asarray(open_foreign_array(self.folder / name)[...]).astype(object).tolist()


class VcfZarrSource(GenotypeSource):
    """Genotypes in VCF Zarr.

    Parameters
    ----------
    path : path-like
        The folder.
    y : array-like of shape (n_in_files,) or (n_in_files, n_targets), or path of a .npy file of it
        Targets of all samples, in the order of sample_id; samples whose target is NaN are left out.
    target : str or list of str, optional
        What `y` is called.
    missing : {"error", "drop", "mean", "zero"} or float
        What missing calls become: an error, samples that are left out, the variant's mean (of all samples), or this
        number. A call is missing where one of its alleles is.
    allele : {"alt", "ref"}
        What is counted: all alleles but the reference, or 2 minus these (of single copies, too).

    Raises
    ------
    SourceError
        Arrays are missing, or the calls are of more than two alleles.
    DataError
        `y` does not fit the samples.

    Notes
    -----
    Calls of some samples are packed to two bits, as many as a block has room for, and decoded a block at a time: a
    chunk is decompressed once for each such band. Features are called by variant_id, samples ("iid") by sample_id.
    """

    kind, options = "vcf_zarr", VcfZarrOptions

    def __init__(
        self,
        path: PathLike,
        y: Any,
        target: Any = None,
        missing: Any = "error",
        allele: Literal["alt", "ref"] = "alt",
    ) -> None:
        if allele not in ("alt", "ref"):
            raise ConfigError(f"expected alt or ref, found {allele!r}", "source.allele")
        folder = Path(path).expanduser()
        self._place = str(folder)
        calls = Calls(folder)
        self.feature_names, samples = calls.names(), calls.samples()
        lengths = ((self.feature_names, calls.n_variants, "variant_id"), (samples, calls.n_samples, SAMPLES))
        for found, n, name in lengths:
            if len(found) != n:
                raise SourceError(f"expected {n:,} names, found {len(found):,}", str(folder / name), "write it anew")
        super().__init__([calls], pd.DataFrame({"iid": samples}), missing, counts_first=allele == "alt")
        read = [folder / name for name in (CALLS, SAMPLES, *NAMED_BY)]
        self.files = [file for part in read for file in sorted(part.rglob("*")) if file.is_file()]
        y, self._target_classes = coded_texts(array_of(y), self.notes)
        self._y, self._y_is_given = as_targets(y, calls.n_samples), True
        self.target_names = name_targets(self._y, [target] if isinstance(target, str) else target)

    @property
    def place(self) -> str:
        """The folder."""
        return self._place

    @property
    def encoding(self) -> dict[str, Any]:
        """What was counted, what missing calls became, and the names."""
        joined = "\n".join(self.feature_names)
        return {**super().encoding, "features": hashlib.sha256(joined.encode()).hexdigest()}
