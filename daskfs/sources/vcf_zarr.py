"""Genotypes in VCF Zarr, the format of bio2zarr, read in place."""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from daskfs import errors, interrupts
from daskfs.documents import PATH
from daskfs.files import location
from daskfs.kernels.genotypes import (
    HALF_CALLS,
    IMPOSSIBLE,
    N_REMARKABLE,
    OTHER_ALLELES,
    SINGLE_COPIES,
    pack,
)
from daskfs.objects.path import ObjectPath
from daskfs.sources.files import explained_room, write_all
from daskfs.sources.genotype_filters import GenotypeOptions
from daskfs.sources.genotype_matrix import GENOTYPES_IN_BYTE, Genotypes, fill
from daskfs.sources.genotypes import GenotypeSource, Opened
from daskfs.store.foreign import open_foreign_array, read_foreign

SourceError = errors.SourceError.about("genotypes")

CALLS, SAMPLES = "call_genotype", "sample_id"
NAMED_BY = ("variant_id", "variant_contig", "contig_id", "variant_position", "variant_allele")


class VcfZarrOptions(GenotypeOptions):
    """Genotypes in VCF Zarr, the format of bio2zarr."""

    path: Annotated[str, PATH]
    allele: Literal["alt", "ref"] | None = Field(default=None, description="which allele to count")


class Calls(Genotypes):
    """The array call_genotype.

    Parameters
    ----------
    folder : Path

    Raises
    ------
    SourceError
        The array does not exist, or is not a matrix of calls with at most two alleles.

    Notes
    -----
    The first pass over all calls (`prepare`) decodes each chunk once and writes two bits per call to a temporary file
    in TMPDIR. All later reads use this file, also on workers that have access to it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = self.place = folder
        array = self._array()
        if array.ndim != 3 or array.shape[2] not in (1, 2) or np.dtype(array.dtype).kind != "i":
            problem = f"expected calls of one or two alleles, found shape {array.shape} of {array.dtype}"
            raise SourceError(problem, str(folder / CALLS), "read dosages of higher ploidy as a Zarr array: kind zarr")
        self.n_variants, self.n_samples, self.ploidy = (int(length) for length in array.shape)
        self.chunk_variants = int(array.chunks[0])
        chunk_samples = int(array.chunks[1])
        self._step_samples = chunk_samples * GENOTYPES_IN_BYTE // math.gcd(chunk_samples, GENOTYPES_IN_BYTE)
        self._packed: Path | None = None
        self._found = np.zeros(N_REMARKABLE, np.int64)

    def _array(self) -> Any:
        return open_foreign_array(self.folder / CALLS)

    def check_size(self) -> None:
        """Raise an error if the shape of the array has changed."""
        if self._array().shape != (self.n_variants, self.n_samples, self.ploidy):
            raise SourceError("the array changed", str(self.folder / CALLS), "ingest it again when it is complete")

    check_unchanged = check_size

    def prepare(self) -> None:
        """Decode each chunk once into a temporary file."""
        if not self._is_packed:
            self._pack_all()

    @property
    def _is_packed(self) -> bool:
        """Whether the packed calls are in a file that this process can read."""
        found = self._packed
        return found is not None and found.exists() and found.stat().st_size == self.n_variants * self.stride

    def _pack_all(self) -> None:
        self._found[:] = 0
        file, name = tempfile.mkstemp(prefix="daskfs-", suffix=".packed")
        path = Path(name)
        weakref.finalize(self, path.unlink, missing_ok=True)
        with os.fdopen(file, "r+b", buffering=0) as stream, explained_room(str(path.parent)):
            os.truncate(name, self.n_variants * self.stride)
            for variants, start, packed in self._blocks(0, self.n_variants, 0, self.n_samples):
                for j, row in enumerate(packed, variants.start):
                    write_all(stream.fileno(), row.data, j * self.stride + start)
        self._packed = path

    def read(self, first: int, last: int, start: int, stop: int) -> np.ndarray:
        """Return packed genotypes; see `Genotypes.read`."""
        packed = np.empty((last - first, stop - start), np.uint8)
        if self._packed is not None and self._is_packed:
            with self._packed.open("rb", buffering=0) as stream:
                if stop - start == self.stride:
                    fill(stream.fileno(), packed, first * self.stride, self._cut)
                    return packed
                for j, row in enumerate(packed, first):
                    fill(stream.fileno(), row, j * self.stride + start, self._cut)
            return packed
        begin, end = (min(byte * GENOTYPES_IN_BYTE, self.n_samples) for byte in (start, stop))
        for variants, byte, part in self._blocks(first, last, begin, end):
            packed[variants.start - first : variants.stop - first, byte - start : byte - start + part.shape[1]] = part
        return packed

    def _cut(self) -> errors.SourceError:
        return SourceError("the temporary file was truncated", str(self._packed), "keep it until the run is finished")

    def _blocks(self, first: int, last: int, begin: int, end: int) -> Iterator[tuple[slice, int, np.ndarray]]:
        """Yield range of variants, first byte and packed genotypes of chunks, extended along samples to whole bytes."""
        array, variants, samples = self._array(), self.chunk_variants, self._step_samples
        for j in [first, *range(first - first % variants + variants, last, variants)]:
            to = min(last, j - j % variants + variants)
            for i in [begin, *range(begin - begin % samples + samples, end, samples)]:
                interrupts.check()
                until = min(end, i - i % samples + samples)
                try:
                    calls = read_foreign(array, (slice(j, to), slice(i, until)))
                except errors.SourceError as fault:
                    chunk = f"variants {j} to {to - 1}, samples {i} to {until - 1}: {fault.problem}"
                    raise SourceError(chunk, str(self.folder / CALLS), fault.remedy) from None
                packed = np.empty((to - j, -(-(until - i) // GENOTYPES_IN_BYTE)), np.uint8)
                n_impossible = self._found[IMPOSSIBLE]
                pack(np.ascontiguousarray(np.clip(calls, -128, 127), dtype=np.int8), packed, self._found)
                if self._found[IMPOSSIBLE] > n_impossible:
                    at = np.argwhere(calls < -2)[0]
                    where = f"{self.folder / CALLS}, variant {j + at[0]}, sample {i + at[1]}"
                    problem = (
                        f"expected the number of an allele, -1 (missing) or -2 (no copy), found {calls[tuple(at)]}"
                    )
                    raise SourceError(problem, where, "write it again")
                yield slice(j, to), i // GENOTYPES_IN_BYTE, packed

    def remarks(self) -> list[str]:
        """Return notes on calls that do not have two known alleles of two possible ones."""
        found = self._found.tolist()
        said = {
            HALF_CALLS: "calls with one known and one missing allele are treated as missing",
            SINGLE_COPIES: "haploid calls (for example, on chromosome X) count as 0 or 1, where PLINK writes 0 or 2",
            OTHER_ALLELES: "variants have several alternate alleles, which are counted together",
        }
        return [f"{found[k]:,} {words}" for k, words in said.items() if found[k]]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the counts, which only the creating process needs."""
        return vars(self) | {"_found": np.zeros(N_REMARKABLE, np.int64)}

    def read_ids(self) -> np.ndarray:
        """Return variant_id."""
        has_ids = (self.folder / "variant_id").exists()
        return np.array(self._texts("variant_id") if has_ids else ["."] * self.n_variants, dtype=object)

    def read_names(self) -> list[str]:
        """Return variant ids; contig:position:ref:alt replaces missing ids and is appended to duplicates."""
        ids = pd.Series(self.read_ids(), dtype=object)
        is_vague = ((ids == ".") | (ids == "") | ids.duplicated(keep=False)).to_numpy()
        if is_vague.any():
            alleles, position = self._texts("variant_allele"), self._values("variant_position").tolist()
            contigs = self._contigs()
            for j in np.flatnonzero(is_vague).tolist():
                place = f"{contigs[j]}:{position[j]}:{':'.join(allele for allele in alleles[j] if allele)}"
                ids[j] = place if ids[j] in (".", "") else f"{ids[j]}@{place}"
        return [str(name) for name in ids]

    def _contigs(self) -> np.ndarray:
        """Return the name of each variant's contig."""
        contigs, numbers = np.array(self._texts("contig_id"), dtype=object), self._values("variant_contig")
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < len(contigs)):
            problem = f"expected contig numbers below {len(contigs)}, found others"
            raise SourceError(problem, str(self.folder / "variant_contig"), "write it again")
        return contigs[numbers]

    def read_variants(self) -> dict[str, np.ndarray]:
        """Return the known properties of the variants: "first" are the alternate alleles, "second" the reference."""
        has = {name: (self.folder / name).exists() for name in NAMED_BY}
        found = {}
        if has["variant_contig"] and has["contig_id"]:
            found["chromosome"] = self._contigs()
        if has["variant_position"]:
            found["position"] = np.maximum(self._values("variant_position").astype(np.int64), -1)
        if has["variant_allele"]:
            alleles = [[str(allele) for allele in of_one if allele] for of_one in self._texts("variant_allele")]
            found["first"] = np.array([",".join(of_one[1:]) for of_one in alleles], dtype=object)
            found["second"] = np.array([of_one[0] if of_one else "" for of_one in alleles], dtype=object)
        return found

    def samples(self) -> list[str]:
        """Return the ids of the samples."""
        return [str(name) for name in self._texts(SAMPLES)]

    def _values(self, name: str) -> np.ndarray:
        """Return an array with one value per variant, sample or contig, after checking its shape."""
        values = read_foreign(open_foreign_array(self.folder / name))
        n = {"sample_id": self.n_samples, "contig_id": len(values) if values.ndim else -1}.get(name, self.n_variants)
        if values.ndim != 1 + (name == "variant_allele") or len(values) != n:
            problem = f"expected {n:,} values, found shape {values.shape}"
            raise SourceError(problem, str(self.folder / name), "write it again")
        if name in ("variant_contig", "variant_position") and values.dtype.kind not in "iu":
            raise SourceError(
                f"expected whole numbers, found {values.dtype}", str(self.folder / name), "write it again"
            )
        return values

    def _texts(self, name: str) -> Any:
        """Return such an array of texts as nested lists."""
        values = self._values(name)
        try:
            texts = values.astype(object)
            for text in texts.ravel().tolist():
                str(text).encode().decode()  # NumPy accepts any four bytes as a character
        except (ValueError, SystemError) as fault:
            raise SourceError(f"expected texts: {fault}", str(self.folder / name), "write it again") from None
        return texts.tolist()


class VcfZarrSource(GenotypeSource):
    """Genotypes in VCF Zarr.

    Parameters
    ----------
    path : path-like
        The folder.
    y : array-like of shape (n_in_files,) or (n_in_files, n_targets), or path of a .npy file of it
        Targets of all samples, in the order of sample_id; samples whose target is NaN are dropped.
    target : str or list of str, optional
        Which of the `phenotypes` to use, if there are several; otherwise the name of `y`.
    missing : {"error", "drop", "mean", "zero"} or float
        Treatment of missing calls: an error, dropping the sample, the variant's mean (over the samples that are
        used), or this number. A call is missing if one of its alleles is.
    allele : {"alt", "ref"}
        What to count: all alternate alleles, or the reference (2 minus these; for haploid calls too).
    unlabelled : {"drop", "keep"}
        Treatment of samples without a target: "keep" sets it to NaN, so that a model can predict it.
    phenotypes, covariates : path-like, optional
        Tables with IID, instead of `y`; see `daskfs.sources.plink.PlinkSource`.
    covariate_names : str or list of str, optional
        Columns of `covariates` to use (by default all), or of `phenotypes` if `covariates` is not given. "PC1-PC10"
        means all columns from PC1 to PC10.
    **filters
        keep, remove, extract, exclude, min_frequency, max_missing: the samples and variants that are used; relatives,
        related_above: which samples are related. See `daskfs.sources.genotype_filters.GenotypeOptions`.

    Raises
    ------
    SourceError
        Arrays are missing, or the calls have more than two alleles.
    DataError
        `y` does not match the samples.

    Notes
    -----
    Each chunk is decoded once, to two bits per call in a temporary file in TMPDIR, from which blocks of dosages are
    decoded. Features are named by variant_id, samples ("iid") by sample_id. Notes report half-missing calls, haploid
    calls, and variants with several alternate alleles.
    """

    kind, options = "vcf_zarr", VcfZarrOptions

    def _open(self, path: Any) -> Opened:
        """Open the folder."""
        folder = location(path)
        if isinstance(folder, ObjectPath):
            raise SourceError("VCF Zarr can only be read from a local folder", str(folder), "copy it to a disk first")
        self._place, calls = str(folder), Calls(folder)
        read = [folder / name for name in (CALLS, SAMPLES, *NAMED_BY)]
        files = [file for part in read for file in sorted(part.rglob("*")) if file.is_file()]
        return Opened([calls], pd.DataFrame({"iid": calls.samples()}), files)

    @property
    def place(self) -> str:
        """The folder, for messages."""
        return self._place

    @property
    def encoding(self) -> dict[str, Any]:
        """Which allele was counted, how missing calls were filled, and the names."""
        joined = "\n".join([*self._covariate_names, *self._candidate_names])
        return {**super().encoding, "features": hashlib.sha256(joined.encode()).hexdigest()}
