"""Genotypes in VCF Zarr, the layout that bio2zarr writes, read where they lie."""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from daskfs import interrupts
from daskfs.documents import PATH, Words
from daskfs.errors import ConfigError, SourceError
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
from daskfs.sources.files import PathLike, explained_room, write_all
from daskfs.sources.genotype_matrix import GENOTYPES_IN_BYTE, Genotypes, fill
from daskfs.sources.genotypes import GenotypeSource
from daskfs.sources.options import SourceOptions
from daskfs.sources.table import Fill
from daskfs.store.foreign import open_foreign_array, read_foreign

CALLS, SAMPLES = "call_genotype", "sample_id"
NAMED_BY = ("variant_id", "variant_contig", "contig_id", "variant_position", "variant_allele")


class VcfZarrOptions(SourceOptions):
    """Genotypes in VCF Zarr, the layout of bio2zarr."""

    path: Annotated[str, PATH]
    y: Annotated[str | None, PATH] = Field(default=None, description=".npy file of the targets, one for each sample")
    phenotypes: Annotated[str | None, PATH] = Field(
        default=None, description="table of phenotypes with a line of names: IID NAME ..., in any order"
    )
    covariates: Annotated[str | None, PATH] = Field(
        default=None, description="table of covariates by IID, which become the first features"
    )
    covariate_names: Words | None = Field(
        default=None,
        description="columns of covariates that are taken, by default all; without covariates those of phenotypes: "
        "[age, sex, PC1-PC10]",
    )
    target: str | None = Field(default=None, description="which of the phenotypes, or the name of y")
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

    Notes
    -----
    The first pass over all calls (`windows`) decodes each chunk once, and leaves two bits a call in a temporary file
    (a quarter of a byte, below TMPDIR), out of which everything is read from then on, on workers that see it, too.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = self.place = folder
        array = self._array()
        if array.ndim != 3 or array.shape[2] not in (1, 2) or np.dtype(array.dtype).kind != "i":
            problem = f"expected calls of one or two alleles, found shape {array.shape} of {array.dtype}"
            raise SourceError(problem, str(folder / CALLS), "take dosages of more copies as a Zarr array: kind zarr")
        self.n_variants, self.n_samples, self.ploidy = (int(length) for length in array.shape)
        self.chunk_variants = int(array.chunks[0])
        chunk_samples = int(array.chunks[1])
        self._step_samples = chunk_samples * GENOTYPES_IN_BYTE // math.gcd(chunk_samples, GENOTYPES_IN_BYTE)
        self._packed: Path | None = None
        self._found = np.zeros(N_REMARKABLE, np.int64)

    def _array(self) -> Any:
        return open_foreign_array(self.folder / CALLS)

    def check_size(self) -> None:
        """Refuse an array whose shape has changed."""
        if self._array().shape != (self.n_variants, self.n_samples, self.ploidy):
            raise SourceError("the array changed", str(self.folder / CALLS), "ingest it again when it is whole")

    check_unchanged = check_size

    def windows(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield consecutive variants and their packed genotypes."""
        if not self._is_packed:
            self._pack_all()
        yield from super().windows()

    @property
    def _is_packed(self) -> bool:
        """Whether all calls lie in a file that is seen from here."""
        found = self._packed
        return found is not None and found.exists() and found.stat().st_size == self.n_variants * self.stride

    def _pack_all(self) -> None:
        """Decode all chunks, each once, into a temporary file."""
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

    def _cut(self) -> SourceError:
        return SourceError("the temporary file was cut", str(self._packed), "keep it until the work is done")

    def _blocks(self, first: int, last: int, begin: int, end: int) -> Iterator[tuple[slice, int, np.ndarray]]:
        """Yield variants, the first byte and the packed genotypes of each chunk, or of as many as make whole bytes."""
        array, variants, samples = self._array(), self.chunk_variants, self._step_samples
        for j in [first, *range(first - first % variants + variants, last, variants)]:
            to = min(last, j - j % variants + variants)
            for i in [begin, *range(begin - begin % samples + samples, end, samples)]:
                interrupts.check()
                until = min(end, i - i % samples + samples)
                try:
                    calls = read_foreign(array, (slice(j, to), slice(i, until)))
                except SourceError as fault:
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
        """Return what to say of calls that are not two alleles of two."""
        found = self._found.tolist()
        said = {
            HALF_CALLS: "calls of one known allele and a missing one are missing",
            SINGLE_COPIES: "calls of a single copy (of chromosome X, say) count 0 or 1, where PLINK writes 0 or 2",
            OTHER_ALLELES: "variants have several alleles beside the reference, which count alike",
        }
        return [f"{found[k]:,} {words}" for k, words in said.items() if found[k]]

    def __getstate__(self) -> dict[str, Any]:
        """Leave the counts behind: whoever asks for them has them."""
        return vars(self) | {"_found": np.zeros(N_REMARKABLE, np.int64)}

    def read_names(self) -> list[str]:
        """Return variant ids; contig:position:ref:alt where there are none, added where several share one."""
        has_ids = (self.folder / "variant_id").exists()
        ids = pd.Series(self._texts("variant_id") if has_ids else ["."] * self.n_variants, dtype=object)
        is_vague = ((ids == ".") | (ids == "") | ids.duplicated(keep=False)).to_numpy()
        if is_vague.any():
            alleles, position = self._texts("variant_allele"), self._values("variant_position").tolist()
            contigs = self._contigs()
            for j in np.flatnonzero(is_vague).tolist():
                place = f"{contigs[j]}:{position[j]}:{':'.join(allele for allele in alleles[j] if allele)}"
                ids[j] = place if ids[j] in (".", "") else f"{ids[j]}@{place}"
        return [str(name) for name in ids]

    def _contigs(self) -> np.ndarray:
        """Return the contig of each variant."""
        contigs, numbers = np.array(self._texts("contig_id"), dtype=object), self._values("variant_contig")
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < len(contigs)):
            problem = f"expected numbers of {len(contigs)} contigs, found others"
            raise SourceError(problem, str(self.folder / "variant_contig"), "write it again")
        return contigs[numbers]

    def read_variants(self) -> dict[str, np.ndarray]:
        """Return what the arrays that are there say of the variants: first are all alleles but the reference."""
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
        """Return the samples' ids."""
        return [str(name) for name in self._texts(SAMPLES)]

    def _values(self, name: str) -> np.ndarray:
        """Return an array of something of each variant, each sample or each contig."""
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
        """Return such an array, of texts, as lists."""
        values = self._values(name)
        try:
            texts = values.astype(object)
            for text in texts.ravel().tolist():
                str(text).encode().decode()  # NumPy makes texts of any four bytes
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
        Targets of all samples, in the order of sample_id; samples whose target is NaN are left out.
    target : str or list of str, optional
        Which of the `phenotypes`, where there are several; else what `y` is called.
    missing : {"error", "drop", "mean", "zero"} or float
        What missing calls become: an error, samples that are left out, the variant's mean (of all samples), or this
        number. A call is missing where one of its alleles is.
    allele : {"alt", "ref"}
        What is counted: all alleles but the reference, or 2 minus these (of single copies, too).
    unlabelled : {"drop", "keep"}
        Treatment of samples without a target: "keep" makes it NaN, for a model to predict.
    phenotypes, covariates : path-like, optional
        Tables by IID, in place of `y`; see `daskfs.sources.plink.PlinkSource`.
    covariate_names : str or list of str, optional
        Which columns of `covariates` are taken, by default all; without `covariates` which of `phenotypes`. "PC1-PC10"
        names all columns from the one to the other.

    Raises
    ------
    SourceError
        Arrays are missing, or the calls are of more than two alleles.
    DataError
        `y` does not fit the samples.

    Notes
    -----
    Each chunk is decoded once, to two bits a call in a temporary file (below TMPDIR), out of which dosages of some
    samples are decoded a block at a time. Features are called by variant_id, samples ("iid") by sample_id. What is
    missing in half, of one copy only, or of several alternate alleles is counted and said.
    """

    kind, options = "vcf_zarr", VcfZarrOptions

    def __init__(
        self,
        path: PathLike,
        y: Any = None,
        target: Any = None,
        missing: Any = "error",
        allele: Literal["alt", "ref"] = "alt",
        phenotypes: PathLike | None = None,
        covariates: PathLike | None = None,
        covariate_names: str | Sequence[str] | None = None,
        unlabelled: Literal["drop", "keep"] = "drop",
    ) -> None:
        if allele not in ("alt", "ref"):
            raise ConfigError(f"expected alt or ref, found {allele!r}", "source.allele")
        folder = location(path)
        if isinstance(folder, ObjectPath):
            raise SourceError("a VCF Zarr is read from a folder alone", str(folder), "copy it to a disk first")
        self._place = str(folder)
        calls = Calls(folder)
        samples = calls.samples()
        read = [folder / name for name in (CALLS, SAMPLES, *NAMED_BY)]
        super().__init__(
            [calls],
            pd.DataFrame({"iid": samples}),
            [file for part in read for file in sorted(part.rglob("*")) if file.is_file()],
            target=target,
            y=y,
            phenotypes=phenotypes,
            covariates=covariates,
            covariate_names=covariate_names,
            missing=missing,
            counts_first=allele == "alt",
            unlabelled=unlabelled,
        )

    @property
    def place(self) -> str:
        """The folder."""
        return self._place

    @property
    def encoding(self) -> dict[str, Any]:
        """What was counted, what missing calls became, and the names."""
        joined = "\n".join(self.feature_names)
        return {**super().encoding, "features": hashlib.sha256(joined.encode()).hexdigest()}
