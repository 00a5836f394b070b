"""Genotypes and cells from file to blocks: daskfs against bed-reader, zarr and anndata, time and peak memory.

    python benchmarks/ingest_genotypes.py [--samples 20000] [--variants 5000] [--rounds 3] [--anndata-python PYTHON]
    python benchmarks/ingest_genotypes.py --growth

Simulated genotypes (`biobank.py`) as .bed and as VCF Zarr (chunks of 1,000 x 1,000), counts of cells as .h5ad by rows
and by columns. Each way runs in a process of its own, in turn, one thread each; CPU seconds of the best round and the
peak of the process, which reads a small file before. bed-reader reads blocks of 1,000 variants, of which it keeps none.
anndata asks for pandas before 3: PYTHON is of an environment of its own (``python -m venv``, ``pip install anndata``).
With ``--growth`` a .bed file and one of four times the samples are ingested within 256 MiB: the peak is the same.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

PEAK = "peak = 1024 * int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
BY_ANNDATA = "import sys, time\nimport anndata\ndef work(path): return anndata.read_h5ad(path).X.nnz\n"


def read(way: str, path: Path, folder: Path) -> int:
    """Read a file one way; return how many values or entries it had."""
    if way == "bed-reader":
        from bed_reader import open_bed

        with open_bed(path, num_threads=1) as bed:
            n_samples, n_variants = bed.shape
            for start in range(0, n_variants, 1000):
                bed.read(np.s_[:, start : start + 1000], dtype="int8")
        return n_samples * n_variants
    if way == "zarr":
        import zarr

        array: Any = zarr.open_array(str(path / "call_genotype"), mode="r")
        for start in range(0, array.shape[0], array.chunks[0]):
            array[start : start + array.chunks[0]]
        return int(array.shape[0] * array.shape[1])
    if way.startswith("cells"):
        from daskfs.sources.sparse.anndata import AnnDataSource

        return sum(len(block.data) for block in AnnDataSource(path).sparse_blocks(8192, 2**20))
    from daskfs.sources.ingest import ingest
    from daskfs.sources.registry import as_source

    table = folder / "biobank.pheno"
    source: Any = as_source(path, options={"phenotypes": table, "missing": "zero"})
    n_samples, n_features = source.estimate_shape()
    if way == "store":
        ingest(source, folder / f"{time.time_ns()}.store", dtype="int8", memory_limit="256MiB")
    elif way == "columns":
        for _ in source.as_matrix().column_blocks(block_columns=1000, prefetch=0):
            pass
    else:
        for _ in source.row_blocks(1000, np.float32):
            pass
    return int(n_samples * n_features)


def measured(way: str, python: str, path: Path, folder: Path, small: Path) -> dict[str, float]:
    """Read a small file and then this one in a process of its own; return count, CPU seconds and bytes."""
    here = str(Path(__file__).parent)
    own = f"import sys, time; sys.path.insert(0, {here!r})\nfrom pathlib import Path\nimport ingest_genotypes as own\n"
    own += f"def work(path): return own.read({way!r}, Path(path), Path(path).parent)\n"
    code = (BY_ANNDATA if way == "anndata" else own) + (
        f"import json\nwork({str(small)!r})\n{PEAK}; before = peak\n"
        f"since = time.process_time()\nn = work({str(path)!r})\n"
        f"seconds = time.process_time() - since\n{PEAK}\nprint(json.dumps([n, seconds, peak - before, peak]))"
    )
    done = subprocess.run([python, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return dict(zip(("n", "seconds", "above", "peak"), json.loads(done.stdout.splitlines()[-1]), strict=True))


def write_cells(path: Path, n_cells: int, n_genes: int, form: str) -> Path:
    """Write counts as anndata does."""
    import h5py
    import scipy.sparse

    rng = np.random.default_rng(0)
    rates = rng.gamma(0.3, 0.5, n_genes)
    some = scipy.sparse.csr_matrix(rng.poisson(rates, (500, n_genes)).astype(np.float32))
    X = scipy.sparse.vstack([some] * (n_cells // 500)).asformat(form)
    with h5py.File(path, "w") as root:
        root.attrs["encoding-type"], root.attrs["encoding-version"] = "anndata", "0.1.0"
        group = root.create_group("X")
        group.attrs["encoding-type"], group.attrs["encoding-version"] = f"{form}_matrix", "0.1.0"
        group.attrs["shape"] = X.shape
        for name in ("data", "indices", "indptr"):
            values = getattr(X, name)
            group.create_dataset(name, data=values, chunks=(min(2**16, len(values)),), compression="lzf")
        for table, letter, n in (("obs", "c", X.shape[0]), ("var", "g", X.shape[1])):
            frame = root.create_group(table)
            frame.attrs["encoding-type"], frame.attrs["encoding-version"] = "dataframe", "0.2.0"
            frame.attrs["_index"], frame.attrs["column-order"] = "_index", np.array([], dtype=h5py.string_dtype())
            frame["_index"] = [f"{letter}{k}" for k in range(n)]
            frame["_index"].attrs["encoding-type"], frame["_index"].attrs["encoding-version"] = "string-array", "0.2.0"
    return path


def write_genotypes(folder: Path, n_samples: int, n_variants: int, with_vcf: bool = True) -> Path:
    """Write .bed and, of the same genotypes, VCF Zarr; return the first."""
    import biobank
    import genotypes_real

    folder.mkdir()
    path, _, _ = biobank.write(folder, n_samples, n_variants, 10, 0.4, 0)
    if with_vcf:
        from daskfs.sources.plink import PlinkSource

        X = PlinkSource(path, phenotypes=path.with_suffix(".pheno"), missing=-1).as_matrix().read(slice(None))
        variants = [(f"rs{j}", "1", j) for j in range(n_variants)]
        samples = [("0", str(i)) for i in range(n_samples)]
        genotypes_real.write_vcf_zarr(folder / "set.vcz", genotypes_real.GenotypeSet(X, variants, samples, {}))
    return path


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--variants", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--anndata-python", default=None)
    parser.add_argument("--growth", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="genotypes-") as name:
        folder = Path(name)
        small = write_genotypes(folder / "small", 400, 100)
        if given.growth:
            for n_samples in (given.samples, 4 * given.samples):
                path = write_genotypes(folder / str(n_samples), n_samples, given.variants, with_vcf=False)
                found = measured("store", sys.executable, path, path.parent, small)
                rate = found["n"] / found["seconds"] / 1e6
                print(f"{path.stat().st_size / 2**20:,.0f} MiB of .bed: peak {found['peak'] / 2**20:.0f} MiB, "
                      f"{rate:.0f} million genotypes per CPU-second")  # fmt: skip
            return
        path = write_genotypes(folder / "large", given.samples, given.variants)
        cells = {form: write_cells(folder / f"{form}.h5ad", given.samples, 2000, form) for form in ("csr", "csc")}
        few = {form: write_cells(folder / f"few_{form}.h5ad", 500, 2000, form) for form in ("csr", "csc")}
        vcf = path.parent / "set.vcz"
        files = {
            (".bed", "rows"): (path, small),
            (".bed", "columns"): (path, small),
            (".bed", "bed-reader"): (path, small),
            (".bed", "store"): (path, small),
            ("VCF Zarr", "rows"): (vcf, small.parent / "set.vcz"),
            ("VCF Zarr", "zarr"): (vcf, small.parent / "set.vcz"),
        }
        for form in ("csr", "csc"):
            files[f".h5ad, {form}", "cells"] = cells[form], few[form]
            if given.anndata_python:
                files[f".h5ad, {form}", "anndata"] = cells[form], few[form]
        best: dict[tuple[str, str], dict[str, float]] = {}
        for _ in range(given.rounds):
            for key, (file, before) in files.items():
                python = given.anndata_python if key[1] == "anndata" else sys.executable
                found = measured(key[1], python, file, folder, before)
                if key not in best or found["seconds"] < best[key]["seconds"]:
                    best[key] = found
        for (kind, way), found in best.items():
            file = files[kind, way][0]
            parts = [one for one in file.rglob("*") if one.is_file()] if file.is_dir() else [file]
            nbytes = sum(one.stat().st_size for one in parts)
            print(
                f"{kind:10} {way:11} {found['n'] / found['seconds'] / 1e6:7.0f} million per CPU-second, "
                f"{nbytes / found['seconds'] / 2**20:6.0f} MiB/s of the file; peak {found['peak'] / 2**20:5.0f} MiB"
            )


if __name__ == "__main__":
    main()
