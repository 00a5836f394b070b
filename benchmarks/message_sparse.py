"""MESSAGE's subset kernels on sparse rows: the entries against the same rows as a dense block, and other libraries.

    DASKFS_DATA=... python benchmarks/message_sparse.py [--tasks drawn news rcv1] [--repeats 3]
        [--peers-python ENV/bin/python]   an environment with adelie and python-glmnet (both want numpy < 2)

    drawn   20,000 x 50,000, about 60 words per row, frequencies like those of a language, ten of which matter
    news    20 newsgroups, all words of two posts or more: computers and science from the rest
    rcv1    1,500 news stories

One Lasso path with the criterion, as for one subset: squared loss (of the classes -1 and 1, where there are classes)
and logistic loss. CPU milliseconds on one core, and the peak of memory that one path takes beside the rows. The others
are given the λ at which ours stops, columns scaled before the clock starts, in their own sparse format; celer fits no
intercept, which is another problem. "refit" and "lasso" are what ours shows the criterion; the others refit nothing.
Prints the table.

    DASKFS_DATA=... python benchmarks/message_sparse.py --fits [basehock smsspam ...] --before ../before

Whole fits of `Message` on the texts of `open_sets.py`, by this checkout and by another: features selected, accuracy on
the rows held out, CPU seconds of a fit, means over the folds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy is imported

import numpy as np  # noqa: E402
import scipy.sparse as sp  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from message_kernels import Clock, measure  # noqa: E402

TEXTS = ["basehock", "pcmac", "relathe", "rcv1", "20news pc v mac", "aclimdb", "rtpolarity", "smsspam"]
DENSE_NBYTES = 4 << 30  # beyond, the dense block is left out


def draw(n_samples: int = 20_000, n_features: int = 50_000) -> tuple[sp.csr_matrix, np.ndarray]:
    """Draw texts whose words are as frequent as one over their rank; the target depends on ten of the middle."""
    rng = np.random.default_rng(0)
    share = 1.0 / (10.0 + np.arange(n_features))
    words = rng.choice(n_features, size=(n_samples, 60), p=share / share.sum())
    rows = np.repeat(np.arange(n_samples), 60)
    X = sp.csr_matrix((np.ones(words.size, np.float32), (rows, words.ravel())), shape=(n_samples, n_features))
    X.sum_duplicates()
    z = X[:, 100:200:10] @ (np.resize([2.0, -2.0], 10))
    return X, np.where(z + rng.logistic(size=n_samples) > 0, 1.0, -1.0)


def load(name: str) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return rows and classes -1 and 1."""
    if name == "drawn":
        return draw()
    from message_stability import _loader
    from sklearn.feature_extraction.text import TfidfVectorizer

    X, y, _ = _loader().load("text_20news_bydate" if name == "news" else "rcv1_small")
    if name == "rcv1":
        return sp.csr_matrix(X, dtype=np.float32), np.where(np.asarray(y) == np.max(y), 1.0, -1.0)
    texts = [row["text"] if "text" in row else row.get("body", "") for row in X]
    first = np.array([str(label).split(".")[0] for label in y])
    X = TfidfVectorizer(min_df=2, sublinear_tf=True, dtype=np.float32).fit_transform(texts)
    return X, np.where(np.isin(first, ["comp", "sci"]), 1.0, -1.0)


def our_functions(loss: str, X: sp.csr_matrix, y: np.ndarray) -> tuple[Clock, np.ndarray]:
    """Ours on entries and, where it fits, on the dense block; and the λ at which our stop ends the grid."""
    from daskfs.kernels.blocks.column_entries import column_entries, dense_block
    from daskfs.kernels.glm.path import glm_path
    from daskfs.kernels.lasso.criteria import feature_penalty
    from daskfs.kernels.lasso.path import lasso_path

    weight, options = np.ones(len(y)), {"penalty": feature_penalty("ebic", *X.shape)}
    if loss == "logistic":
        options["loss"] = loss
    path: Callable = lasso_path if loss == "squared" else glm_path
    entries = column_entries(X.indptr, X.indices, X.data, X.shape[1])
    grid = {"solver": "descent"} if loss == "squared" else {}
    stopped = path(entries, y, weight, **options, **grid).lambdas

    def from_rows() -> object:
        return path(column_entries(X.indptr, X.indices, X.data, X.shape[1]), y, weight, **options)

    functions: Clock = {
        "daskfs, refit": from_rows,
        "daskfs, lasso": lambda: path(
            column_entries(X.indptr, X.indices, X.data, X.shape[1]), y, weight, gic_rss="lasso", **options
        ),
    }
    if 4 * X.shape[0] * X.shape[1] < DENSE_NBYTES:
        block = dense_block(entries)
        functions["daskfs, dense"] = lambda: path(block, y, weight, **options)
    tracemalloc.start()
    from_rows()
    print(f"  {tracemalloc.get_traced_memory()[1] / 2**20:.0f} MiB beside the rows", flush=True)
    tracemalloc.stop()
    return functions, stopped


def peer_functions(loss: str, Z: sp.csc_matrix, y: np.ndarray, lambdas: np.ndarray) -> Clock:
    """Those of the others that this interpreter can import; Z has columns of standard deviation 1, not centred."""
    found: Clock = {}
    target = y - y.mean() if loss == "squared" else y
    for name in ("celer", "adelie", "glmnet"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if name == "celer":
            problem, alphas = ("lasso", lambdas) if loss == "squared" else ("logreg", lambdas * len(y))
            found[name] = lambda m=module, p=problem, a=alphas: m.celer_path(Z, target, p, alphas=a)
        elif name == "adelie":
            glm = module.glm.gaussian(y=y) if loss == "squared" else module.glm.binomial(y=(y > 0).astype(float))
            matrix = module.matrix.standardize(module.matrix.sparse(Z, n_threads=1), scales=np.ones(Z.shape[1]))
            found[name] = lambda m=module, g=glm, x=matrix: m.grpnet(
                x, g, lmda_path=lambdas, early_exit=False, progress_bar=False, n_threads=1, intercept=True
            )
        else:
            model = module.ElasticNet if loss == "squared" else module.LogitNet
            found[name] = lambda m=model: m(n_splits=0, standardize=False, lambda_path=lambdas).fit(Z, y)
    return found


def scaled(X: sp.csr_matrix) -> sp.csc_matrix:
    """Return the columns that vary, divided by their standard deviations."""
    X = X.astype(np.float64).tocsc()
    mean = np.asarray(X.mean(axis=0)).ravel()
    scale = np.sqrt(np.maximum(np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2, 0.0))
    varies = scale > 1e-12
    return sp.csc_matrix(X[:, varies] @ sp.diags(1.0 / scale[varies]))


def measure_elsewhere(python: str, Z: sp.csc_matrix, y: np.ndarray, lambdas: np.ndarray, loss: str, repeats: int):
    """Measure what another interpreter can import."""
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "task.npz")
        np.savez(files, data=Z.data, indices=Z.indices, indptr=Z.indptr, shape=Z.shape, y=y, lambdas=lambdas)
        command = [python, __file__, "--peer", str(files), loss, str(repeats)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tempfile.gettempdir())
    if done.returncode:
        print(f"  not measured: {done.stderr.strip().splitlines()[-1]}")
        return {}
    return json.loads(done.stdout)


def peer_main(files: str, loss: str, repeats: str) -> None:
    """Measure here, print as JSON."""
    data = np.load(files)
    Z = sp.csc_matrix((data["data"], data["indices"], data["indptr"]), shape=tuple(data["shape"]))
    print(json.dumps(measure(peer_functions(loss, Z, data["y"], data["lambdas"]), int(repeats))))


def run(name: str, repeats: int, peers_python: str | None) -> None:
    """Measure one task with both losses and print it."""
    X, y = load(name)
    print(f"{name}: {X.shape[0]:,} x {X.shape[1]:,}, {X.nnz:,} entries ({X.nnz / np.prod(X.shape):.2%})")
    Z = scaled(X)
    for loss in ("squared", "logistic"):
        functions, lambdas = our_functions(loss, X, y)
        times = measure({**functions, **peer_functions(loss, Z, y, lambdas)}, repeats)
        if peers_python:
            times |= measure_elsewhere(peers_python, Z, y, lambdas, loss, repeats)
        for solver, seconds in times.items():
            ratio = seconds / times["daskfs, lasso"]
            print(f"  {loss:9s} {len(lambdas):3d} λ  {solver:15s} {1e3 * seconds:10.1f} ms {ratio:8.1f}", flush=True)


def fits_of(name: str) -> None:
    """Fit every fold of a set with the daskfs that is imported; print what is found as JSON."""
    from open_sets import open_set

    from daskfs import Message

    data = open_set(name)
    found = []
    for train, test in data.folds():
        seconds = []
        for _ in range(1 if found else 2):  # the first compiles
            start = time.process_time()
            selector = Message(random_state=0).fit(data.X[train], data.y[train])
            seconds.append(time.process_time() - start)
        right = float(np.mean(selector.predict(data.X[test]) == data.y[test]))
        found.append([len(selector.selected_), right, min(seconds)])
    print(json.dumps([*data.X.shape, *np.mean(found, axis=0)]))


def compare_fits(names: list[str], before: str | None) -> None:
    """Print a table of whole fits, a row for each set."""
    here = str(Path(__file__).resolve().parents[1])
    for name in names:
        row = []
        for checkout in [before, here] if before else [here]:
            environment = {**os.environ, "PYTHONPATH": checkout}
            command = [sys.executable, __file__, "--fit", name]
            try:
                done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=200)
            except subprocess.TimeoutExpired:
                row.append("not done in 200 s")
                continue
            if done.returncode:
                raise SystemExit(done.stderr)
            *shape, n_selected, right, seconds = json.loads(done.stdout.splitlines()[-1])
            row.append(f"{n_selected:.1f} / {right:.3f} / {seconds:.2f}")
        print(f"| {name} {int(shape[0]):,} x {int(shape[1]):,} | {' | '.join(row)} |", flush=True)


def main() -> None:
    """Run the tasks that are asked for."""
    warnings.simplefilter("ignore")  # the others' warnings of convergence at their default tolerances
    if sys.argv[1:2] == ["--peer"]:
        peer_main(*sys.argv[2:])
        return
    if sys.argv[1:2] == ["--fit"]:
        fits_of(sys.argv[2])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=["drawn", "news", "rcv1"], default=["drawn", "news", "rcv1"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peers-python", help="of an environment with adelie and python-glmnet")
    parser.add_argument("--fits", nargs="*", help="whole fits on these sets; on none named, on all texts")
    parser.add_argument("--before", help="another checkout, for --fits")
    options = parser.parse_args()
    if options.fits is not None:
        compare_fits(options.fits or TEXTS, options.before)
        return
    for name in options.tasks:
        run(name, options.repeats, options.peers_python)


if __name__ == "__main__":
    main()
