"""Genotypes of mice and of maize, as arrays and as PLINK's files and VCF Zarr.

    DASKFS_DATA=... python -m benchmarks.genotypes_real FOLDER

writes the dosages of geno_mice_bglr (1,814 x 10,346; HDL) and of geno_maize_gapit (281 x 3,093; days to pollen) to
FOLDER/genotypes, where genotypes_plink.yaml and genotypes_vcf_zarr.yaml of pipelines/ look for them if DASKFS_DATA
names FOLDER. The job `genotypes_real` reads the arrays.
"""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import zarr

CODES = np.array([3, 2, 0, 1], np.uint8)
"""Of .bed files, for 0, 1 and 2 of the first allele, and for -1: missing."""


class GenotypeSet(NamedTuple):
    """Samples x variants."""

    dosages: np.ndarray
    """int8, -1 where missing."""
    variants: list[tuple[str, str, int]]
    """Name, chromosome and position of each."""
    samples: list[tuple[str, str]]
    """Family and individual."""
    phenotypes: dict[str, np.ndarray]
    """NaN where missing."""


def mice(folder: Path) -> GenotypeSet:
    """Return the mice of BGLR; their families are the cages."""
    with np.load(folder / "geno_mice_bglr" / "geno_mice_bglr.npz") as found:
        arrays = {name: found[name] for name in ("X", "names", "Y", "ynames", "cage")}
    variants = [(str(name), "1", j + 1) for j, name in enumerate(arrays["names"])]
    samples = [(str(cage), f"mouse{i}") for i, cage in enumerate(arrays["cage"])]
    columns = {str(name): arrays["Y"][:, k] for k, name in enumerate(arrays["ynames"])}
    return GenotypeSet(arrays["X"], variants, samples, {"HDL": columns["Biochem.HDL"], "BMI": columns["Obesity.BMI"]})


def maize(folder: Path) -> GenotypeSet:
    """Return the lines of GAPIT; traits are of more lines, in another order."""

    def lines_of(name: str) -> list[list[str]]:
        with gzip.open(folder / "geno_maize_gapit" / f"{name}.txt.gz", "rt") as file:
            return [line.rstrip("\n").split("\t") for line in file]

    header, *rows = lines_of("mdp_numeric")
    traits, *values = lines_of("mdp_traits")
    of_line = {line[0]: [float(word) for word in line[1:]] for line in values}
    places = {name: (chromosome, int(position)) for name, chromosome, position in lines_of("mdp_SNP_information")[1:]}
    missing = [np.nan] * (len(traits) - 1)
    found = np.array([of_line.get(row[0], missing) for row in rows])
    return GenotypeSet(
        np.array([row[1:] for row in rows]).astype(float).astype(np.int8),
        [(name, *places[name]) for name in header[1:]],
        [("0", row[0]) for row in rows],
        {name: found[:, k] for k, name in enumerate(traits[1:])},
    )


SETS = {"mice": (mice, "HDL"), "maize": (maize, "dpoll")}


def write_plink(path: Path, genotypes: GenotypeSet) -> Path:
    """Write .bed, .bim and .fam; return the first."""
    dosages, stem = genotypes.dosages, Path(path).with_suffix("")
    padded = np.zeros((dosages.shape[1], -(-len(dosages) // 4) * 4), np.uint8)
    padded[:, : len(dosages)] = CODES[dosages.T]
    packed = np.bitwise_or.reduce(padded.reshape(len(padded), -1, 4) << np.array([0, 2, 4, 6], np.uint8), axis=2)
    bed = stem.with_suffix(".bed")
    bed.write_bytes(b"\x6c\x1b\x01" + packed.tobytes())
    lines = [f"{chromosome}\t{name}\t0\t{position}\tA\tG\n" for name, chromosome, position in genotypes.variants]
    stem.with_suffix(".bim").write_text("".join(lines))
    stem.with_suffix(".fam").write_text("".join(f"{fid} {iid} 0 0 0 -9\n" for fid, iid in genotypes.samples))
    return bed


def write_phenotypes(path: Path, genotypes: GenotypeSet, order: Sequence[int] | None = None) -> Path:
    """Write a table of phenotypes by FID and IID, NA where one is missing."""
    lines = ["FID\tIID\t" + "\t".join(genotypes.phenotypes) + "\n"]
    for i in range(len(genotypes.samples)) if order is None else order:
        words = ["NA" if np.isnan(y[i]) else repr(float(y[i])) for y in genotypes.phenotypes.values()]
        lines.append("\t".join([*genotypes.samples[i], *words]) + "\n")
    path.write_text("".join(lines))
    return path


def write_vcf_zarr(path: Path, genotypes: GenotypeSet, chunks: tuple[int, int] = (1000, 1000)) -> Path:
    """Write the arrays that bio2zarr makes of a VCF file and that are read here."""
    known = np.maximum(genotypes.dosages.T, 0)
    calls = np.stack([known == 2, known >= 1], axis=2).astype(np.int8)
    calls[genotypes.dosages.T < 0] = -1
    root = zarr.open_group(str(path), mode="w", zarr_format=2)
    root.attrs["vcf_zarr_version"] = "0.4"
    root.create_array("call_genotype", data=calls, chunks=(*chunks, 2))
    contigs = sorted({chromosome for _, chromosome, _ in genotypes.variants})
    arrays = {
        "sample_id": np.array([iid for _, iid in genotypes.samples]),
        "variant_id": np.array([name for name, _, _ in genotypes.variants]),
        "contig_id": np.array(contigs),
        "variant_contig": np.array([contigs.index(one) for _, one, _ in genotypes.variants], np.int16),
        "variant_position": np.array([position for _, _, position in genotypes.variants], np.int32),
        "variant_allele": np.array([["G", "A"]] * len(genotypes.variants)),
    }
    for name, values in arrays.items():
        root.create_array(name, data=values)
    return path


def main(folder: Path) -> None:
    """Write the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (read, _) in SETS.items():
        genotypes = read(Path(os.environ["DASKFS_DATA"]))
        write_plink(folder / f"{name}.bed", genotypes)
        write_phenotypes(folder / f"{name}.pheno", genotypes)
        write_vcf_zarr(folder / f"{name}.vcz", genotypes)


if __name__ == "__main__":
    main(Path(sys.argv[1]) / "genotypes")
