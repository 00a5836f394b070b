"""Ahead-of-time compilation: run every selection on a few rows of noise in separate processes.

The compiler needs hundreds of MiB, which a process does not return to the system. In this process or on a worker it
would exceed the planned memory. It also holds one lock, so that two cores need two processes. Machine code is cached
on disk, so each kind of selection is compiled once per machine. No list of kernels is kept: a fit compiles those that
it calls.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np

from daskfs.kernels.kept import CACHE_DIRECTORY, make_stamped
from daskfs.kernels.sources import stamp_of_all
from daskfs.losses import LOSSES
from daskfs.matrix.blocks import RowBlock
from daskfs.store.feature_store import open_store
from daskfs.store.layout import Codec
from daskfs.store.writer import StoreWriter
from daskfs.watching.base import Progress, Silent

N_CLASSES = {"two classes": 2, "classes": 3}
SIZES = {"n_features_to_select": 4, "n_subsets": 3, "n_bootstraps": 2, "n_epochs": 2, "n_steps": 20, "max_iter": 20}
TALL, WIDE = (120, 10), (24, 40)
"""Rows and columns of the noise; one column is informative. The wide matrix has two equal columns."""
LARGE = (1 << 14, 16)
"""Shape of a tile that is large enough for the kernels that check and decode large tiles."""
TEXTS = {
    "csv": "a,b,y\n" + '1.25,x,0\n12345678.901234567e-3,"y, ""z""",1\n,x,1\n' * 8,
    "svm": "1 1:0.5 3:12345678.901234567e-3\n0 2:1\n" * 8,
    "vw": "1 |n a:0.5 b:12345678.901234567e-3\n0 |n c |m d\n" * 8,
    "bed": "l\x1b\x01" + "ab" * 70,
}
"""Sample text of each format, by file extension. A named target is called y. The .bed file of genotypes, whose bytes
are ASCII here, has 5 samples and 70 variants."""
LIMIT = 1 << 30
N_PROCESSES = 2
SILENT = Silent()


def compile_ahead(selections: Iterable[Mapping[str, Any]], dtype: str, progress: Progress = SILENT) -> None:
    """Compile the kernels that selections call on matrices of a dtype, unless they are in the cache on disk.

    If this fails, the kernels are compiled when they are first called.

    Parameters
    ----------
    selections : iterable of mappings
        The method and its parameters, as in `select` of a pipeline; optionally ``n_classes`` of the target (0:
        numbers), and ``then_refit`` if the pipeline's common refit follows. Or only ``text``, a key of `TEXTS`, to
        compile its reader.
    dtype : str
        dtype of the matrix.
    progress : Progress, optional
        Receives the progress, one step for each fit.
    """
    new = {}
    for selection in selections:
        options = _small(selection)
        mark = _mark(options, dtype)
        if not mark.exists():
            new[mark] = options
    if not new:
        return
    # Several methods are divided among the processes; a single method is divided by tall and wide matrices.
    together = [[TALL, WIDE]] if len(new) > 1 else [[TALL], [WIDE]]
    jobs = [(options, shapes) for options in new.values() for shapes in together]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(N_PROCESSES):
            running.append(_start(jobs[number::N_PROCESSES], dtype))
        progress.start("warmup", len(jobs))
        _tell_of_each(running, progress)
        codes = [process.wait() for process in running]
        progress.finish()
    finally:
        for process in running:
            process.terminate()  # it still runs only after an interrupt
            if process.stdout is not None:
                process.stdout.close()
    if not any(codes):
        with suppress(OSError):  # without the mark, for example on a full disk, it is compiled again next time
            for mark in new:
                make_stamped(mark.parent)
                mark.touch()


def kinds_of(method: str, loss: str | None = None) -> list[dict[str, Any]]:
    """Return selections with a method for each kind of target, with the given loss or all that it supports."""
    from daskfs.methods import find_method
    from daskfs.parameters import LossOf, parameters_of

    parameter = parameters_of(find_method(method)).get("loss")
    if parameter is None or not isinstance(parameter.kinds[0], LossOf):
        return [{"method": method}]
    by_target = parameter.kinds[0].by_target
    if loss is not None:
        own = N_CLASSES.get(LOSSES[loss].target, 0) if loss in LOSSES else 0
        several = {3: loss} if own == 2 and parameter.kinds[0].several else {}  # one-vs-rest
        by_target = {own: loss} | several
    return [{"method": method, "loss": name, "n_classes": n_classes} for n_classes, name in by_target.items()]


def _tell_of_each(running: Iterable[subprocess.Popen[bytes]], progress: Progress) -> None:
    """Report progress for each line that the processes write, one per job, until they have ended."""
    pipes = {process.stdout.fileno(): process.stdout for process in running if process.stdout is not None}
    while pipes:
        for number in wait(pipes):
            if pipes[number].readline():  # type: ignore[index]
                progress.advance()
            else:
                pipes.pop(number).close()  # type: ignore[arg-type]


def _start(jobs: list[tuple[dict[str, Any], Any]], dtype: str) -> subprocess.Popen[bytes]:
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    code = f"from daskfs.pipeline.compile_ahead import rehearse; rehearse({json.dumps(jobs)!r}, {dtype!r})"
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "bufsize": 0, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, **quiet)  # type: ignore[call-overload, no-any-return]


def rehearse(jobs: str, dtype: str) -> None:
    """Fit selections to stores of noise, or read sample texts.

    Parameters
    ----------
    jobs : str
        JSON list of pairs: a method with its parameters, or a text, and the shapes of the stores.
    dtype : str
        dtype of the stores.
    """
    from daskfs.methods import find_method
    from daskfs.pipeline.steps import refit
    from daskfs.selectors.shared.run import Run

    with tempfile.TemporaryDirectory(prefix="daskfs-rehearsal-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # noise causes warnings, which PYTHONWARNINGS=error would turn into errors
        for number, (options, shapes) in enumerate(json.loads(jobs)):
            if "text" in options:
                _read_text(Path(folder) / f"{number}.{options['text']}", dtype)
                print(flush=True)  # read by `_tell_of_each`
                continue
            method, then_refit = options.pop("method"), options.pop("then_refit", False)
            loss = options.get("loss", find_method(method).loss)
            n_classes = options.pop("n_classes", N_CLASSES.get(LOSSES[loss].target, 0) if loss in LOSSES else 0)
            for n_samples, n_features in shapes:
                path = Path(folder) / f"{number}-{n_features}.zarr"
                _write_noise(path, n_samples, n_features, dtype, n_classes)
                with suppress(Exception):  # a fit that fails on noise has still compiled its first kernels
                    selector = find_method(method)(**options, random_state=0, memory_limit=LIMIT).fit(open_store(path))
                    if then_refit:
                        refit.run(selector, Run(open_store(path), method), "ridge")
            print(flush=True)
        _read_large_tiles(Path(folder), dtype)


def _read_text(path: Path, dtype: str) -> None:
    """Compile the kernels that read a text format."""
    from daskfs.sources import csv_records
    from daskfs.sources.ingest import ingest

    path.write_text(TEXTS[path.suffix[1:]], newline="")
    if path.suffix == ".bed":
        return _read_genotypes(path)
    options: dict[str, Any] = {"target": "y", "missing": "mean"} if path.suffix == ".csv" else {}
    least, csv_records.WORTH_COMPILING_NBYTES = csv_records.WORTH_COMPILING_NBYTES, 0
    try:
        with suppress(Exception):
            ingest(path, path.with_suffix(".zarr"), dtype=dtype, **options)
    finally:
        csv_records.WORTH_COMPILING_NBYTES = least


def _read_genotypes(path: Path) -> None:
    """Compile the kernels that decode genotypes, by rows and by columns, for some samples and for all."""
    from daskfs.sources.plink import PlinkSource

    path.with_suffix(".bim").write_text("".join(f"1 rs{j} 0 {j} A G\n" for j in range(70)))
    path.with_suffix(".fam").write_text("".join(f"f s{i} 0 0 1 {i}.5\n" for i in range(5)))
    for missing in ("mean", "zero"):
        source = PlinkSource(path, missing=missing)
        matrix = source.as_matrix()
        for _ in source.row_blocks(2, np.float32):
            pass
        for rows in (slice(None), slice(1, 3)):
            matrix.read(rows)
            n_rows = len(range(5)[rows])
            matrix.read(rows, slice(None), np.empty((70, n_rows), matrix.dtype).T)


def _small(selection: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with small sizes and without lists; columns in them are replaced by columns of the noise."""
    small = {
        name: min(value, SIZES[name]) if name in SIZES and isinstance(value, int) else value
        for name, value in selection.items()
        if not isinstance(value, (list, dict)) and name not in ("label", "random_state")
    }
    if selection.get("feature_groups") is not None:
        small["feature_groups"] = "schema"  # groups of the noise
    if selection.get("always_include"):
        small["always_include"] = [0]
    if isinstance(selection.get("n_features_to_select"), dict):
        small["n_features_to_select"] = "cv"
    if isinstance(selection.get("feature_map"), dict):
        small["feature_map"] = selection["feature_map"]["map"]
    return small


def _mark(options: dict[str, Any], dtype: str) -> Path:
    """Return the path of the empty file that marks these options as compiled."""
    kind = {
        name: value
        for name, value in options.items()
        if isinstance(value, (str, bool)) or value is None or name in ("n_classes", "always_include")
    }
    digest = hashlib.sha256(json.dumps([kind, dtype], sort_keys=True).encode()).hexdigest()[:16]
    return CACHE_DIRECTORY / "rehearsed" / stamp_of_all() / digest


def _write_noise(path: Path, n_samples: int, n_features: int, dtype: str, n_classes: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (n_samples, n_features)) if dtype == "int8" else rng.random((n_samples, n_features))
    if n_features > n_samples:
        X[:, 1] = X[:, 0]
    rank = np.argsort(
        np.argsort(X[:, 2] + 0.3 * rng.random(n_samples))
    )  # so that some feature is selected and refitted
    y = rank * (n_classes or n_samples) // n_samples
    source = {"digest": "noise", "table_columns": {"category": [1, 4]}}
    with StoreWriter(path, n_features, dtype, target_names=["y"], source=source) as writer:
        writer.write(RowBlock(0, n_samples, X.astype(dtype), y.astype(np.float64)))


def _read_large_tiles(folder: Path, dtype: str) -> None:
    """Compile the kernels that read large tiles, for each codec; the tiles of noise are too small for them."""
    codecs: tuple[Codec, ...] = ("raw", "lz4")
    for codec in codecs:
        path = folder / f"{codec}.zarr"
        with StoreWriter(path, LARGE[1], dtype, source={"digest": "zeros"}, codec=codec) as writer:
            writer.write(RowBlock(0, LARGE[0], np.zeros(LARGE, dtype)))
        open_store(path).read(slice(None))
