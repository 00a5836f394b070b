"""A simulated biobank in 2-bit .bed through online substitution: memory promised and measured, time, variants found.

    python benchmarks/biobank.py --samples 20000 --variants 10000
    python benchmarks/biobank.py --samples 200000 --variants 100000 --memory 2GiB   # 5 GB in --folder meanwhile

Variants lie in blocks of 20, each correlated with the one before; 0.1 % of the dosages are missing and become the
variant's mean. `--causal` variants, spread evenly, have normal effects, which explain `--heritability` of the
phenotype. The pipeline has ``store: none`` (the .bed file is read), or with ``--store`` one in between. It runs as
``daskfs run`` in a process of its own, whose peak is the kernel's.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numba
import numpy as np

BLOCK = 20
"""Variants that are correlated."""
COPIED = 200
"""Of 256 bytes that are those of the variant before: correlations of neighbours of 0.78."""
N_FREQUENCIES = 64


def tables(rng):
    """Return for each frequency of the first allele a table from 16 random bits to a byte of four genotypes."""
    frequencies = rng.uniform(0.05, 0.5, N_FREQUENCIES)
    found = np.empty((N_FREQUENCIES, 1 << 16), np.uint8)
    codes = (np.arange(256)[:, None] >> 2 * np.arange(4)) & 3
    for k, q in enumerate(frequencies):
        chances = np.array([q * q, 0.0, 2 * q * (1 - q), (1 - q) ** 2])[codes].prod(axis=1)
        edges = np.round(np.cumsum(chances) / chances.sum() * (1 << 16)).astype(np.int64)
        found[k] = np.searchsorted(edges, np.arange(1 << 16), "right")
    return found


@numba.njit
def draw(table, before, is_first, state, out):
    """Fill a variant's bytes; some are those of the variant before, one dosage in a thousand is missing."""
    for b in range(out.shape[0]):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        if not is_first and (state >> np.uint64(16)) & np.uint64(255) < COPIED:
            byte = before[b]
        else:
            byte = table[state >> np.uint64(48)]
        before[b] = byte
        if (state >> np.uint64(24)) & np.uint64(255) == 0:  # the first of four samples, once in 256 bytes
            byte = (byte & 0xFC) | 1
        out[b] = byte
    return state


def dosages(packed, n_samples):
    codes = (packed[:, None] >> 2 * np.arange(4, dtype=np.uint8)) & 3
    found = np.array([2.0, np.nan, 1.0, 0.0])[codes.ravel()[:n_samples]]
    return np.where(np.isnan(found), np.nanmean(found), found)


def write(folder, n_samples, n_variants, n_causal, heritability, seed):
    """Write .bed, .bim and .fam; return the path, the causal variants and their shares of the variance."""
    rng = np.random.default_rng(seed)
    of_bytes, stride = tables(rng), -(-n_samples // 4)
    causal = (np.arange(n_causal) * n_variants // n_causal + BLOCK // 2).tolist()
    effects = dict(zip(causal, rng.standard_normal(n_causal), strict=True))
    genetic, state = np.zeros(n_samples), np.uint64(0x9E3779B97F4A7C15 + seed)
    before, step = np.zeros(stride, np.uint8), max(1, 2**24 // stride)
    path = Path(folder) / "biobank.bed"
    with path.open("wb") as stream:
        stream.write(b"\x6c\x1b\x01")
        window = np.empty((step, stride), np.uint8)
        for start in range(0, n_variants, step):
            stop = min(start + step, n_variants)
            for j in range(start, stop):
                frequency = j // BLOCK * 31 % N_FREQUENCIES
                state = np.uint64(state)  # numba returns an int, and takes it for a signed one
                state = draw(of_bytes[frequency], before, j % BLOCK == 0, state, window[j - start])
                if j in effects:
                    g = dosages(window[j - start], n_samples)
                    genetic += effects[j] * (g - g.mean()) / g.std()
            stream.write(window[: stop - start])
    genetic *= np.sqrt(heritability / genetic.var())
    y = genetic + np.sqrt(1.0 - heritability) * rng.standard_normal(n_samples)
    with path.with_suffix(".bim").open("w") as stream:
        stream.writelines(f"{1 + j * 22 // n_variants}\trs{j}\t0\t{1000 * j + 1}\tA\tG\n" for j in range(n_variants))
    with path.with_suffix(".fam").open("w") as stream:
        stream.writelines(f"{i} {i} 0 0 {1 + i % 2} -9\n" for i in range(n_samples))
    with path.with_suffix(".pheno").open("w") as stream:
        stream.write("FID IID height\n")
        stream.writelines(f"{i} {i} {y[i]:.6f}\n" for i in rng.permutation(n_samples).tolist())
    size = np.array(list(effects.values())) ** 2
    return path, np.array(causal), heritability * size / size.sum()


def run(folder, path, n_selected, memory, with_store, n_epochs):
    document = {
        "version": 1,
        "name": "biobank",
        "source": {
            "kind": "plink",
            "path": str(path),
            "phenotypes": str(path.with_suffix(".pheno")),
            "target": "height",
            "missing": "mean",
        },
        "store": {"path": str(folder / "store.zarr")} if with_store else "none",
        "split": None,
        "select": {"method": "online_substitution", "n_features_to_select": n_selected, "n_epochs": n_epochs},
        "cluster": {"kind": "none", "memory_limit": memory},
        "output": str(folder / "run"),
    }
    file = folder / "biobank.yaml"
    file.write_text(json.dumps(document))
    print(subprocess.run([sys.executable, "-m", "daskfs", "plan", str(file)], capture_output=True, text=True).stdout)
    before, since = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "daskfs", "run", str(file), "--force"], stdout=subprocess.PIPE)
    printed, _ = process.communicate()
    seconds, after = time.perf_counter() - since, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(printed.decode())
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu, json.loads((folder / "run" / "result.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--variants", type=int, default=10_000)
    parser.add_argument("--causal", type=int, default=100)
    parser.add_argument("--selected", type=int, default=100)
    parser.add_argument("--heritability", type=float, default=0.4)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--folder", default=None, help="where the files lie meanwhile; TMPDIR by default")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(prefix="biobank-", dir=args.folder) as name:
        folder, since = Path(name), time.process_time()
        made = write(folder, args.samples, args.variants, args.causal, args.heritability, args.seed)
        path, causal, shares = made
        print(f"{path.stat().st_size / 1e9:.2f} GB written in {time.process_time() - since:.0f} CPU s")
        seconds, cpu, record = run(folder, path, args.selected, args.memory, args.store, args.epochs)
        import pandas as pd

        table = pd.read_csv(folder / "run" / "selected.csv")
        selected = set(table["name"].str.removeprefix("rs").astype(int))
        found = np.array([j in selected for j in causal.tolist()])
        near = np.array([any(k in selected for k in range(j - 2, j + 3)) for j in causal.tolist()])
        large = shares > 30 / args.samples  # a chi-squared of 30 on its own: genome-wide significant
        memory = record["memory"]
        print(
            f"{'through a store' if args.store else 'out of the .bed file'}: {seconds:.0f} s, {cpu:.0f} CPU s; "
            f"promised {memory['promised_nbytes']['client'] / 2**20:.0f} MiB, "
            f"measured {memory['measured_nbytes']['client'] / 2**20:.0f} MiB\n"
            f"causal variants selected {found.sum()} of {len(found)} ({near.sum()} within two neighbours); "
            f"of {large.sum()} that are significant on their own {found[large].sum()} ({near[large].sum()})"
        )
        print(record["notes"])


if __name__ == "__main__":
    main()
