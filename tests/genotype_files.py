"""Genotypes as PLINK's files and as VCF Zarr, with a table of phenotypes: of samples s0, s1, ... of the family f."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import zarr

from daskfs.sources.genotype_matrix import GenotypeMatrix
from daskfs.sources.plink import PlinkSource


def bed_of(dosages: np.ndarray) -> bytes:
    """Return a .bed file of dosages of its first allele (samples x variants); what is not 0, 1 or 2 is missing."""
    of_variants = dosages.T
    codes = np.select([of_variants == 0, of_variants == 1, of_variants == 2], [3, 2, 0], 1)
    bits = np.stack([codes & 1, codes >> 1], axis=2).reshape(len(codes), -1)
    return b"\x6c\x1b\x01" + np.packbits(bits, axis=1, bitorder="little").tobytes()


def write_plink(bed: Path, dosages: np.ndarray, names: Sequence[str] | None = None, chromosome: str = "1") -> Path:
    """Write .bed, .bim and .fam, without phenotypes; return the first."""
    names = [f"rs{j}" for j in range(dosages.shape[1])] if names is None else names
    bed.write_bytes(bed_of(dosages))
    bed.with_suffix(".bim").write_text("".join(f"{chromosome}\t{name}\t0\t{j}\tA\tG\n" for j, name in enumerate(names)))
    bed.with_suffix(".fam").write_text("".join(f"f s{i} 0 0 0 -9\n" for i in range(len(dosages))))
    return bed


def write_vcf_zarr(path: Path, dosages: np.ndarray, chunks: tuple[int, int] = (1000, 1000)) -> Path:
    """Write the arrays that bio2zarr makes of a VCF file and that are read; -1 is missing."""
    of_variants = dosages.T
    calls = np.stack([of_variants == 2, of_variants >= 1], axis=2).astype(np.int8)
    calls[of_variants < 0] = -1
    root = zarr.open_group(str(path), mode="w", zarr_format=2)
    root.attrs["vcf_zarr_version"] = "0.4"
    root.create_array("call_genotype", data=calls, chunks=(*chunks, 2))
    arrays = {
        "sample_id": np.array([f"s{i}" for i in range(len(dosages))]),
        "variant_id": np.array([f"rs{j}" for j in range(len(calls))]),
        "contig_id": np.array(["1"]),
        "variant_contig": np.zeros(len(calls), np.int16),
        "variant_position": np.arange(len(calls), dtype=np.int32),
        "variant_allele": np.array([["G", "A"]] * len(calls)),
    }
    for name, values in arrays.items():
        root.create_array(name, data=values)
    return path


def write_phenotypes(path: Path, phenotypes: Mapping[str, np.ndarray]) -> Path:
    """Write a table by FID and IID, NA where one is missing."""
    lines = ["\t".join(["FID", "IID", *phenotypes])]
    for i, values in enumerate(zip(*phenotypes.values(), strict=True)):
        lines.append("\t".join(["f", f"s{i}", *("NA" if np.isnan(y) else repr(float(y)) for y in values)]))
    path.write_text("\n".join(lines) + "\n")
    return path


N, P, CAUSAL = 400, 700, np.array([11, 94, 300, 301, 455, 680])


def cohort(folder, seed=0, n=N, p=P, n_classes=0):
    """Return a matrix of two covariates and variants in linkage disequilibrium; some are missing, equal or constant."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((2 * n, p))
    for j in range(1, p):
        r = 0.9 if j % 10 else 0.1
        z[:, j] = r * z[:, j - 1] + np.sqrt(1.0 - r * r) * z[:, j]
    alleles = z > np.repeat(rng.uniform(-0.5, 1.2, p // 10), 10)
    dosages = (alleles[:n].astype(np.int8) + alleles[n:]).astype(np.int8)
    dosages[:, 96], dosages[:, 200] = dosages[:, 94], 1
    age = rng.uniform(40.0, 70.0, n).round()
    y = 0.6 * dosages[:, CAUSAL].sum(axis=1) + 0.05 * age + rng.standard_normal(n)
    dosages[rng.random(dosages.shape) < 0.002] = -1
    cuts = np.quantile(y, np.arange(1, n_classes) / n_classes) if n_classes else ()
    phenotypes = {"T": 1.0 + np.digitize(y, cuts) if n_classes else y, "age": age, "PC1": rng.standard_normal(n)}
    options = {"target": "T", "covariate_names": ["age", "PC1"], "missing": "mean"}
    bed, table = write_plink(folder / "set.bed", dosages), write_phenotypes(folder / "t.pheno", phenotypes)
    return PlinkSource(bed, phenotypes=table, **options).as_matrix()


def counted_passes(monkeypatch):
    """Return a list that grows by the number of vectors of each pass over genotype files."""
    found, products = [], GenotypeMatrix.products_of_each

    def counted(self, matrices, vectors):
        found.append(len(vectors))
        return products(self, matrices, vectors)

    monkeypatch.setattr(GenotypeMatrix, "products_of_each", counted)
    return found
