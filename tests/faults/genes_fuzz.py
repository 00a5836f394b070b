"""Genotypes and cells in files of odd bytes: read as what they say, or refused with an error that names a file.

Good files with some bytes changed, cut or moved, in a process of limited memory; `campaign` gives a row for each case:

    read        values that the format can have
    refused     an error of daskfs that names the file
    unplaced    one that does not
    wrong       values that the bytes do not say
    traceback   an exception that is no error of daskfs
    hung        nothing within `PATIENCE_S`
    died        the process did; another goes on with the next case

    python -m tests.faults.genes_fuzz bed 0 0 100000    # kind, seed, first case, number of cases
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.faults.fuzz import MEMORY_NBYTES, PATIENCE_S, START_S, Hung, changed_bytes

GOOD = ("read", "refused")
KINDS = ("bed", "phenotypes", "vcf_zarr", "anndata", "h5ad")
N, P = 9, 7
"""Samples or cells, and variants or genes."""


class Outcome(NamedTuple):
    """What became of one case."""

    number: int
    verdict: str
    text: str


def write_good(kind: str, folder: Path) -> None:
    """Write files that are as they should be."""
    import zarr

    from tests.genotype_files import write_phenotypes, write_plink, write_vcf_zarr

    rng = np.random.default_rng(0)
    dosages = rng.integers(-1, 3, (N, P)).astype(np.int8)
    phenotypes = {"height": rng.random(N), "ill": rng.integers(1, 3, N).astype(float), "age": np.arange(N) + 30.0}
    if kind in ("bed", "phenotypes"):
        bed = write_plink(folder / "set.bed", dosages)
        fam = bed.with_suffix(".fam")
        fam.write_text("".join(f"f s{i} 0 0 1 {i}.5\n" for i in range(N)))
    if kind != "bed":
        write_phenotypes(folder / "set.pheno", phenotypes)
    if kind == "vcf_zarr":
        write_vcf_zarr(folder / "set.vcz", dosages, (4, 5))
    if kind in ("anndata", "h5ad"):
        import h5py
        from scipy.sparse import random as random_matrix

        X = random_matrix(N, P, 0.3, "csr", rng=rng, dtype=np.float32)
        root = zarr.open_group(str(folder / "set.zarr"), mode="w", zarr_format=2) if kind == "anndata" else None
        with h5py.File(folder / "set.h5ad", "w") if root is None else _Kept(root) as root:
            root.attrs["encoding-type"] = "anndata"
            group = root.create_group("X")
            group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", [N, P]
            obs, var = root.create_group("obs"), root.create_group("var")
            of: list[tuple[Any, str, Any]] = [(group, name, getattr(X, name)) for name in ("data", "indices", "indptr")]
            of += [(obs, "names", [f"c{i}" for i in range(N)]), (var, "names", [f"g{j}" for j in range(P)])]
            for place, name, given in [*of, (obs, "age", np.arange(N) / 2)]:
                values = np.asarray(given)
                if kind == "h5ad":
                    place[name] = values.tolist() if values.dtype.kind == "U" else values
                else:
                    place.create_array(name, data=values)
            for table in (obs, var):
                table.attrs["encoding-type"], table.attrs["_index"] = "dataframe", "names"


class _Kept:
    def __init__(self, root: Any) -> None:
        self.root = root

    def __enter__(self) -> Any:
        return self.root

    def __exit__(self, *_: object) -> None:
        pass


def damage(rng: random.Random, files: list[Path]) -> list[Path]:
    """Change one or two of the files; return which."""
    chosen = rng.sample(files, min(len(files), rng.choice([1, 1, 1, 2])))
    for file in chosen:
        way = rng.random()
        if way < 0.03:
            file.unlink()
        elif way < 0.06:
            other = rng.choice(files)
            file.write_bytes(other.read_bytes() if other.exists() else b"")
        elif way < 0.5 and file.suffix not in (".bim", ".fam", ".pheno"):
            content = bytearray(file.read_bytes())
            for _ in range(rng.choice([1, 1, 2, 9])):
                content[rng.randrange(len(content))] = rng.randrange(256)
            file.write_bytes(content)
        else:
            file.write_bytes(changed_bytes(rng, file.read_bytes()))
    return chosen


def said_by(bed: bytes, n_samples: int) -> np.ndarray:
    """Return the dosages that a .bed file's bytes say."""
    packed = np.frombuffer(bed[3:], np.uint8).reshape(-1, -(-n_samples // 4))
    codes = (packed[:, :, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
    return np.array([2, 0, 1, 0])[codes.reshape(len(packed), -1)[:, :n_samples]].T


def look(kind: str, folder: Path, rng: random.Random) -> str:
    """Read the files; return "" where what was read can be, else what is wrong."""
    from daskfs.sources.plink import PlinkSource
    from daskfs.sources.sparse.anndata import AnnDataSource
    from daskfs.sources.vcf_zarr import VcfZarrSource

    if kind in ("anndata", "h5ad"):
        source = AnnDataSource(folder / ("set.zarr" if kind == "anndata" else "set.h5ad"), target="age")
        source.check()
        for block in source.sparse_blocks(rng.choice([2, 100]), rng.choice([3, 1000])):
            if block.features.max(initial=0) >= source.n_features or not np.isfinite(block.data).all():
                return "entries outside"
        return ""
    missing = rng.choice(["zero", "mean", "drop"])
    if kind == "vcf_zarr":
        source: Any = VcfZarrSource(
            folder / "set.vcz", phenotypes=folder / "set.pheno", target="height", missing=missing
        )
    elif kind == "phenotypes":
        options = {"phenotypes": folder / "set.pheno", "target": rng.choice(["height", "ill", ["height", "ill"]])}
        if rng.random() < 0.3:
            options |= {"covariates": folder / "set.pheno", "covariate_names": ["age"]}
        source = PlinkSource(folder / "set.bed", missing=missing, **options)
    else:
        source = PlinkSource(folder / "set.bed", missing=missing)
    blocks = list(source.row_blocks(rng.choice([1, 3, 100]), np.float64))
    X = np.concatenate([block.X for block in blocks])
    if not np.isfinite(X).all() or not np.isfinite(np.concatenate([block.y for block in blocks])).all():
        return "values that are not finite"
    if kind == "bed" and missing == "zero" and len(X) == len(source._samples):
        expected = said_by((folder / "set.bed").read_bytes(), len(X))
        return "" if np.array_equal(X, expected) else "other dosages"
    matrix = source.as_matrix()
    return "" if np.allclose(matrix.read(slice(None)), X, rtol=1e-6) else "another matrix"


def judge(kind: str, seed: int, number: int, good: Path, folder: Path) -> Outcome:
    """Run one case in this process."""
    from daskfs.errors import DaskfsError

    rng = random.Random(f"{kind}-{seed}-{number}")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(good, folder)
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    if kind == "phenotypes":
        files = [folder / "set.pheno"]
    elif kind == "vcf_zarr":
        files = [file for file in files if file.suffix != ".pheno"]
    elif kind in ("anndata", "h5ad"):
        files = [file for file in files if ".pheno" not in file.name]
    damage(rng, files)
    signal.alarm(PATIENCE_S)
    faulthandler.dump_traceback_later(2 * PATIENCE_S, exit=True)  # of what hangs in a library
    try:
        wrong = look(kind, folder, rng)
    except DaskfsError as fault:
        text = str(fault)
        return Outcome(number, "refused" if "set" in text else "unplaced", text[:400])
    except Hung:
        return Outcome(number, "hung", traceback.format_exc()[-4000:])
    except BaseException:
        return Outcome(number, "traceback", traceback.format_exc()[-4000:])
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
    return Outcome(number, "wrong" if wrong else "read", wrong)


def campaign(kind: str, seed: int = 0, n: int = 1000) -> list[Outcome]:
    """Run so many cases, in processes of limited memory, and return what became of each."""
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join(path for path in (root, os.environ.get("PYTHONPATH", "")) if path)
    outcomes: list[Outcome] = []
    while len(outcomes) < n:
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.genes_fuzz", kind, str(seed), str(len(outcomes)), str(n)],
            cwd=root,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=START_S + PATIENCE_S * n / 10,
            check=False,
        )
        outcomes += [Outcome(*json.loads(line)) for line in done.stdout.splitlines() if line.startswith("[")]
        if len(outcomes) < n:
            outcomes.append(Outcome(len(outcomes), "died", f"{done.returncode}: {done.stderr[-3000:]}"))
    return outcomes


def main() -> None:
    """Run cases and print one line of JSON for each; after that, counts."""
    kind, seed, first, stop = sys.argv[1], *map(int, sys.argv[2:5])
    warnings.simplefilter("ignore")

    def hung(*_: object) -> None:
        raise Hung

    signal.signal(signal.SIGALRM, hung)
    with tempfile.TemporaryDirectory(prefix="daskfs-fuzz-") as name:
        good, folder, counts = Path(name) / "good", Path(name) / "case", Counter[str]()
        good.mkdir()
        write_good(kind, good)
        shutil.copytree(good, folder)
        look(kind, folder, random.Random(0))  # everything is loaded and compiled
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_AS)  # less where the campaign itself is limited
        resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY_NBYTES, most))
        is_long = stop - first > 20_000
        for number in range(first, stop):
            outcome = judge(kind, seed, number, good, folder)
            counts[outcome.verdict] += 1
            if not is_long or outcome.verdict not in GOOD:
                print(json.dumps(outcome), flush=True)
        if is_long:
            print(kind, dict(counts))


if __name__ == "__main__":
    main()
