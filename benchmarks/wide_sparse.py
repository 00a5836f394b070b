"""What a fit takes for each column of a sparse store most of whose columns are empty, beside what its plan promises.

    python benchmarks/wide_sparse.py [--n-features 1e7] [--methods message fgm mission online_substitution]

20,000 rows of 60 entries in Zipfian columns. Each method runs in a process of its own, after a small store that has it
load and compile. Peak is the anonymous memory of the process (RssAnon) above what it had before.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import daskfs
from daskfs import FGM, Message, Mission, OnlineSubstitution
from daskfs.errors import PlanError

METHODS = {
    "message": lambda: Message(n_subsets=4, max_features=5),
    "fgm": lambda: FGM(n_features_to_select=4, n_features_per_pass=2, loss="squared"),
    "mission": lambda: Mission(4, n_epochs=1, loss="squared", n_buckets=4096),
    "online_substitution": lambda: OnlineSubstitution(4, n_epochs=1),
}


def store_of(folder: Path, n_samples: int, n_features: int) -> daskfs.FeatureStore:
    """Write rows of 60 ones in Zipfian columns that lie anywhere."""
    rng = np.random.default_rng(0)
    columns = rng.zipf(1.3, (n_samples, 60)).astype(np.uint64) * np.uint64(2654435761) % np.uint64(n_features)
    rows = np.repeat(np.arange(n_samples), 60)
    X = sp.coo_array((np.ones(rows.size, np.float32), (rows, columns.ravel())), shape=(n_samples, n_features)).tocsr()
    X.sum_duplicates()
    y = np.asarray(X[:, [int(np.bincount(columns[:, 0].astype(np.int64)).argmax())]].toarray()).ravel()
    return daskfs.ingest(X, folder / "s.zarr", y=y + 0.1 * rng.standard_normal(n_samples))


def anonymous_nbytes() -> int:
    """Return the memory of this process that no file stands for."""
    return 1024 * int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0])


def measure(name: str, path: str, small: str) -> None:
    """Fit once, and print the line."""
    METHODS[name]().fit(daskfs.open_store(small))
    store, selector, peak, done = daskfs.open_store(path), METHODS[name](), [0], threading.Event()
    known = {"tile_shape": store.tile_shape, "n_entries": store.n_entries, "crowding": store.crowding()}
    try:
        plan = selector.plan(*store.shape, store.dtype, 16 << 30, **known)
        promised = plan.task_nbytes + plan.client_nbytes
        selector.set_params(memory_limit=max(plan.task_nbytes, 1 << 20))
    except PlanError as fault:
        print(f"| {name} | refused: {fault} | | | |", flush=True)
        return

    def watch() -> None:
        while not done.wait(0.01):
            peak[0] = max(peak[0], anonymous_nbytes())

    before, watching = anonymous_nbytes(), threading.Thread(target=watch)
    watching.start()
    start = time.process_time()
    selector.fit(store)
    seconds = time.process_time() - start
    done.set()
    watching.join()
    taken, p = peak[0] - before, store.shape[1]
    print(
        f"| {name} | {seconds:.1f} | {taken / 2**20:,.0f} | {taken / p:.0f} | {promised / 2**20:,.0f} "
        f"| {promised / p:.0f} |",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    if sys.argv[1:2] == ["--one"]:
        measure(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-features", type=float, default=1e7)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        (folder / "small").mkdir()
        store_of(folder / "small", 2000, 5000)
        store_of(folder, 20_000, int(options.n_features))
        print("| method | CPU s | peak MiB | bytes a column | promised MiB | bytes a column |")
        print("|---|---|---|---|---|---|")
        for method in options.methods:
            paths = str(folder / "s.zarr"), str(folder / "small" / "s.zarr")
            subprocess.run([sys.executable, __file__, "--one", method, *paths], check=True)


if __name__ == "__main__":
    main()
