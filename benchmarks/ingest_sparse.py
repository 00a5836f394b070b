"""From text to blocks of entries: daskfs against scikit-learn and Vowpal Wabbit, time and peak memory.

    python benchmarks/ingest_sparse.py [--nnz 4e6] [--rounds 3] [--json out.json]

Rows of 60 entries in the format of LIBSVM (values of 16 digits as scikit-learn writes single precision, of four digits,
ones) and of Vowpal Wabbit (words with and without values in two namespaces), a click log such as Criteo's (13 counts
and 26 strings, a fifth of them missing), which pandas reads in chunks and does not hash, and words of JSON lines as
1-3-grams, which scikit-learn hashes to 2^20 or, with their names, counts. A table of six categories, two of them of as
many levels as there are rows by half, and two numbers, as CSV and as Parquet, one-hot: beside it pandas' and polars'
dummies of the hundred most frequent levels of each column (all others are one; more a dense table cannot hold),
scikit-learn's encoder of all, and the pairs of two fields in the click log. Each way runs in a process of its own, in
turn, after a small file that has it load and compile; CPU seconds of the best round. daskfs yields blocks and keeps
none (its columns are known only after a pass beforehand, which counts; ids are read at once), scikit-learn has all rows
in memory at the end, Vowpal Wabbit learns from them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.preprocessing import OneHotEncoder

from daskfs.cluster.memory import peak_memory_nbytes
from daskfs.sources.registry import make_source
from daskfs.sources.sparse.base import SparseSource
from daskfs.sources.sparse.clicks import ClicksSource
from daskfs.sources.sparse.libsvm import LibsvmSource
from daskfs.sources.sparse.matrices import MatrixSource
from daskfs.sources.sparse.pairs import PairsSource
from daskfs.sources.sparse.text import TextSource
from daskfs.sources.sparse.vw import VwSource

ROW_NNZ, BLOCK_ROWS, BLOCK_NNZ = 60, 8192, 2**20
COUNTS, STRINGS = [f"I{j}" for j in range(1, 14)], [f"C{j}" for j in range(1, 27)]


def columns_of(rng: np.random.Generator, n_rows: int) -> scipy.sparse.csr_matrix:
    """Return rows of ones in Zipfian columns."""
    columns = np.minimum(rng.zipf(1.3, (n_rows, ROW_NNZ)), 10**6) - 1 + rng.integers(0, 1000, (n_rows, ROW_NNZ))
    X = scipy.sparse.csr_matrix(
        (np.ones(columns.size, np.float32), columns.ravel(), np.arange(0, columns.size + 1, ROW_NNZ)),
        (n_rows, 10**6 + 1000),
    )
    X.sum_duplicates()
    X.data[:] = 1.0
    return X


def write_svm(path: Path, values: str, n_rows: int) -> int:
    """Write rows in the format of LIBSVM; return how many entries they have."""
    rng = np.random.default_rng(0)
    X = columns_of(rng, n_rows)
    if values != "ones":
        X.data = rng.random(X.nnz, dtype=np.float32)
    if values == "4 digits":
        X = X.astype(np.float64)
        X.data = np.round(X.data, 4) + 0.0001
        X.data = np.round(X.data, 4)
    dump_svmlight_file(X, rng.choice([-1, 1], n_rows), str(path), zero_based=False)
    return X.nnz


def write_npz(path: Path, values: str, n_rows: int) -> int:
    """Write rows as SciPy does, not compressed; return how many entries they have."""
    X = columns_of(np.random.default_rng(0), n_rows)
    scipy.sparse.save_npz(path, X, compressed=False)
    return X.nnz


def write_vw(path: Path, values: str, n_rows: int) -> int:
    """Write rows of Vowpal Wabbit's text, of 200,000 words by Zipf's law; return how many entries they have."""
    rng = np.random.default_rng(0)
    letters = rng.integers(97, 123, (200_000, 12), dtype=np.uint8)
    vocabulary = [bytes(row[:n]).decode() for row, n in zip(letters, rng.integers(3, 13, 200_000), strict=True)]
    shares = np.cumsum(1.0 / np.arange(1, 200_001))
    nnz = 0
    with path.open("w") as file:
        for label in rng.choice([-1, 1], n_rows).tolist():
            drawn = np.searchsorted(shares, rng.random(ROW_NNZ) * shares[-1])
            words = [vocabulary[j] for j in np.unique(drawn)]
            nnz += len(words)
            if values == "4 digits":
                words = [
                    f"{word}:{value:.4f}" for word, value in zip(words, rng.random(len(words)) + 1e-4, strict=True)
                ]
            file.write(f"{label} |title {' '.join(words[:10])} |body {' '.join(words[10:])}\n")
    return nnz


def write_log(path: Path, values: str, n_rows: int) -> int:
    """Write a click log; return how many entries it has."""
    rng = np.random.default_rng(0)
    n_rows = n_rows * ROW_NNZ // 39
    nnz = 0
    with path.open("w") as file:
        file.write("\t".join(["click", *COUNTS, *STRINGS]) + "\n")
        for label in rng.integers(0, 2, n_rows).tolist():
            counts = np.exp(rng.normal(2, 2, 13)).astype(np.int64).astype(str).tolist()
            strings = [f"{7919 * value:08x}" for value in np.minimum(rng.zipf(1.2, 26), 10**5).tolist()]
            is_there = (rng.random(39) < 0.8).tolist()
            nnz += sum(is_there)
            found = [text if there else "" for text, there in zip([*counts, *strings], is_there, strict=True)]
            file.write("\t".join([str(label), *found]) + "\n")
    return nnz


def write_json(path: Path, values: str, n_rows: int) -> int:
    """Write texts of 200 words by Zipf's law; return how many words they have."""
    rng = np.random.default_rng(0)
    n_rows = max(1, n_rows // 30)
    letters = rng.integers(97, 123, (50_000, 10), dtype=np.uint8)
    vocabulary = np.array([bytes(row[: 3 + k % 8]).decode() for k, row in enumerate(letters)])
    shares = np.cumsum(1.0 / np.arange(1, 50_001))
    with path.open("w") as file:
        for label in rng.integers(0, 2, n_rows).tolist():
            words = vocabulary[np.searchsorted(shares, rng.random(200) * shares[-1])]
            file.write(json.dumps({"text": " ".join(words), "label": label}) + "\n")
    return 200 * n_rows


def write_table(path: Path, values: str, n_rows: int) -> int:
    """Write a table of categories and numbers as CSV or Parquet; return how many entries it has one-hot."""
    import pandas as pd

    rng = np.random.default_rng(0)
    n_rows = n_rows * ROW_NNZ // 8
    columns = {f"small{j}": rng.integers(0, 10 ** (j + 1), n_rows).astype(str) for j in range(3)}
    columns["zipf"] = np.minimum(rng.zipf(1.2, n_rows), 10**9).astype(str)
    for j in range(2):
        columns[f"user{j}"] = np.char.add("u", rng.integers(0, max(1, n_rows // 2), n_rows).astype(str))
    frame = pd.DataFrame(columns | {f"x{j}": rng.standard_normal(n_rows).round(4) for j in range(2)})
    frame["y"] = rng.integers(0, 2, n_rows)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    return 6 * n_rows + int((frame[["x0", "x1"]] != 0).to_numpy().sum())


CATEGORIES = ["small0", "small1", "small2", "zipf", "user0", "user1"]
SCHEMA = {"columns": {name: {"dtype": "string"} for name in CATEGORIES} | {"x0": {}, "x1": {}, "y": {"role": "target"}}}
MOST_LEVELS = 100


def one_hot(path: Path) -> SparseSource:
    """Return a table as a source of entries."""
    kind = "csv" if path.suffix == ".csv" else "parquet"
    source: Any = make_source(kind, path=path, schema=SCHEMA, one_hot="sparse")
    return source


def frame_of(path: Path) -> Any:
    """Read a table with pandas."""
    import pandas as pd

    types = dict.fromkeys(CATEGORIES, str)
    return pd.read_csv(path, dtype=types) if path.suffix == ".csv" else pd.read_parquet(path)


def by_pandas_dummies(path: Path) -> None:
    """Return dummies of the most frequent levels, in sparse columns."""
    import pandas as pd

    frame = frame_of(path)
    for name in CATEGORIES:
        known = frame[name].value_counts().index[:MOST_LEVELS]
        frame[name] = frame[name].where(frame[name].isin(known), "other")
    pd.get_dummies(frame, columns=CATEGORIES, sparse=True, dtype=np.float32)


def by_polars_dummies(path: Path) -> None:
    """Return dummies of the most frequent levels, in dense columns of bytes."""
    import polars as pl

    types = dict.fromkeys(CATEGORIES, pl.String)
    frame = pl.read_csv(path, schema_overrides=types) if path.suffix == ".csv" else pl.read_parquet(path)
    for name in CATEGORIES:
        known = frame[name].value_counts(sort=True)[name].head(MOST_LEVELS)
        kept = pl.when(pl.col(name).is_in(known.implode())).then(pl.col(name)).otherwise(pl.lit("other"))
        frame = frame.with_columns(kept.alias(name))
    frame.to_dummies(CATEGORIES)


def by_encoder(path: Path) -> None:
    """Encode all levels with scikit-learn, which has learnt them from the same rows."""
    OneHotEncoder(dtype=np.float32).fit_transform(frame_of(path)[CATEGORIES])


def texts_in(path: Path) -> list[str]:
    """Read the texts of JSON lines."""
    with path.open() as file:
        return [json.loads(line)["text"] for line in file]


def by_pandas(path: Path) -> None:
    """Read a log in chunks."""
    import pandas as pd

    for _ in pd.read_csv(path, sep="\t", chunksize=8192):
        pass


def read_blocks(source: SparseSource) -> int:
    """Read all blocks; return how many entries they have."""
    return sum(len(block.features) for block in source.sparse_blocks(BLOCK_ROWS, BLOCK_NNZ))


def by_vw(path: Path) -> None:
    """Learn from a file."""
    from vowpalwabbit import Workspace

    Workspace(f"-d {path} --quiet -b 22").finish()


TABLES: dict[str, Callable[[Path], object]] = {
    "daskfs, one-hot": lambda path: read_blocks(one_hot(path)),
    "OneHotEncoder, all levels": by_encoder,
    "pandas, 100 levels": by_pandas_dummies,
    "polars, 100 levels": by_polars_dummies,
}
WAYS: dict[str, dict[str, Callable[[Path], object]]] = {
    "svm": {
        "daskfs": lambda path: read_blocks(LibsvmSource(path)),
        "daskfs, ids": lambda path: read_blocks(LibsvmSource(path, feature_ids=True)),
        "scikit-learn": lambda path: load_svmlight_file(str(path)),
    },
    "vw": {
        "daskfs": lambda path: read_blocks(VwSource(path)),
        "daskfs, no names": lambda path: read_blocks(VwSource(path, tell_names=False)),
        "Vowpal Wabbit": by_vw,
    },
    "tsv": {
        "daskfs": lambda path: read_blocks(ClicksSource(path, "click", counts=COUNTS)),
        "daskfs, no names": lambda path: read_blocks(ClicksSource(path, "click", counts=COUNTS, tell_names=False)),
        "daskfs, pairs of 2 fields": lambda path: read_blocks(
            PairsSource(ClicksSource(path, "click", counts=COUNTS), [["C1", "C2"]])
        ),
        "pandas in chunks": by_pandas,
    },
    "csv": TABLES,
    "parquet": TABLES,
    "npz": {
        "daskfs": lambda path: read_blocks(MatrixSource(path)),
        "scipy": scipy.sparse.load_npz,
    },
    "jsonl": {
        "daskfs": lambda path: read_blocks(TextSource(path, ngram_range=(1, 3))),
        "daskfs, no names": lambda path: read_blocks(TextSource(path, ngram_range=(1, 3), tell_names=False)),
        "HashingVectorizer": lambda path: HashingVectorizer(ngram_range=(1, 3)).transform(texts_in(path)),
        "CountVectorizer": lambda path: CountVectorizer(ngram_range=(1, 3)).fit_transform(texts_in(path)),
    },
}


PEERS = {"Wabbit": "vowpalwabbit", "polars": "polars"}
"""What may be missing here."""


def measure(way: str, path: Path, small: Path) -> dict[str, float]:
    """Run one way in a fresh process."""
    command = [sys.executable, __file__, "--one", way, str(path), str(small)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Run it."""
    if sys.argv[1:2] == ["--one"]:
        way, path, small = sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])
        read = WAYS[path.suffix[1:]][way]
        read(small)
        cpu = time.process_time()
        read(path)
        print(json.dumps({"cpu_s": time.process_time() - cpu, "peak_nbytes": peak_memory_nbytes()}))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nnz", type=float, default=4e6)
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts")
    parser.add_argument("--only", nargs="+", choices=list(WAYS), help="kinds of text")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {}
    print(f"{'text':<18}{'way':<26}{'CPU s':>7}{'MB per CPU s':>14}{'M entries per CPU s':>21}{'peak MiB':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for suffix, write, kinds in (
            (".svm", write_svm, ("16 digits", "4 digits", "ones")),
            (".vw", write_vw, ("4 digits", "ones")),
            (".tsv", write_log, ("clicks",)),
            (".jsonl", write_json, ("words",)),
            (".npz", write_npz, ("ones",)),
            (".csv", write_table, ("table",)),
            (".parquet", write_table, ("table",)),
        ):
            if options.only and suffix[1:] not in options.only:
                continue
            for kind in kinds:
                path, small = Path(folder, f"rows{suffix}"), Path(folder, f"small{suffix}")
                nnz = write(path, kind, int(options.nnz) // ROW_NNZ)
                write(small, kind, 100)
                ways = [way for way in WAYS[suffix[1:]] if all(find_spec(m) for w, m in PEERS.items() if w in way)]
                rounds = [(way, measure(way, path, small)) for _ in range(options.rounds) for way in ways]
                for way in ways:
                    found = min((one for name, one in rounds if name == way), key=lambda one: one["cpu_s"])
                    results[f"{suffix[1:]}, {kind}, {way}"] = {**found, "nnz": nnz}
                    print(
                        f"{suffix[1:] + ', ' + kind:<18}{way:<26}{found['cpu_s']:>7.2f}"
                        f"{path.stat().st_size / 1e6 / found['cpu_s']:>14.0f}{nnz / 1e6 / found['cpu_s']:>21.1f}"
                        f"{found['peak_nbytes'] / 2**20:>10.0f}"
                    )
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
