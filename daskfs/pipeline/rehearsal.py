"""A rehearsal: every selection on a few rows of noise, in a process of its own, so that what it runs is compiled.

The compiler takes hundreds of MiB, which a process does not give back: in this process or on a worker it would exceed
what was promised. Machine code stays on disk, so a kind of selection is rehearsed once on a machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from daskfs.kernels.numba_cache import CACHE_DIRECTORY, make_stamped
from daskfs.kernels.sources import stamp_of_all
from daskfs.losses import LOSSES
from daskfs.matrix.blocks import RowBlock
from daskfs.methods import find_method
from daskfs.store.feature_store import open_store
from daskfs.store.writer import StoreWriter

N_CLASSES = {"two classes": 2, "classes": 3}
SIZES = {"n_features_to_select": 4, "n_subsets": 3, "n_bootstraps": 2, "n_epochs": 2, "n_steps": 20, "max_iter": 20}
SHAPES = ((120, 10), (24, 40))
LIMIT = 1 << 30


def rehearse(selections: Iterable[Any], dtype: str) -> None:
    """Have the kernels compiled that selections run on stores of a type, where they are not on disk yet.

    Where that fails they are compiled when they are first called.

    Parameters
    ----------
    selections : iterable of entries of `select`
    dtype : str
        Of the store.
    """
    new = {}
    for selection in selections:
        options = _small(selection.model_dump(mode="json", exclude={"label", "random_state"}))
        mark = _mark(options, dtype)
        if not mark.exists():
            new[mark] = options
    if not new:
        return
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(CACHE_DIRECTORY.parent),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
    code = f"from daskfs.pipeline.rehearsal import perform; perform({json.dumps([*new.values()])!r}, {dtype!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=False, stdin=subprocess.DEVNULL, capture_output=True
    )
    if done.returncode == 0:
        with suppress(OSError):  # a full disk, a folder that cannot be written: it is rehearsed again then
            for mark in new:
                make_stamped(mark.parent)
                mark.touch()


def perform(selections: str, dtype: str) -> None:
    """Fit every selection on a tall store of noise and on a wide one with two equal columns.

    Parameters
    ----------
    selections : str
        JSON, a list of a method with its options each.
    dtype : str
        Of the stores.
    """
    with tempfile.TemporaryDirectory(prefix="daskfs-rehearsal-") as folder:
        for number, options in enumerate(json.loads(selections)):
            method = options.pop("method")
            for n_samples, n_features in SHAPES:
                path = Path(folder) / f"{number}-{n_features}.zarr"
                _write_noise(path, n_samples, n_features, dtype, _n_classes(options.get("loss")))
                with suppress(Exception):  # what fails on noise was compiled as far as it came
                    find_method(method)(**options, random_state=0, memory_limit=LIMIT).fit(open_store(path))


def _n_classes(loss: str | None) -> int:
    return N_CLASSES.get(LOSSES[loss].target, 0) if loss in LOSSES else 0


def _small(options: dict[str, Any]) -> dict[str, Any]:
    """Return options with the sizes of a rehearsal, without lists: columns that are named are not among the noise's."""
    return {
        name: min(value, SIZES[name]) if name in SIZES and isinstance(value, int) else value
        for name, value in options.items()
        if not isinstance(value, (list, dict))
    }


def _mark(options: dict[str, Any], dtype: str) -> Path:
    """Return the empty file that says that this was rehearsed."""
    kind = {name: value for name, value in options.items() if isinstance(value, (str, bool)) or value is None}
    digest = hashlib.sha256(json.dumps([kind, dtype], sort_keys=True).encode()).hexdigest()[:16]
    return CACHE_DIRECTORY / "rehearsed" / stamp_of_all() / digest


def _write_noise(path: Path, n_samples: int, n_features: int, dtype: str, n_classes: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (n_samples, n_features)) if dtype == "int8" else rng.random((n_samples, n_features))
    if n_features > n_samples:
        X[:, 1] = X[:, 0]
    y = rng.permutation(n_samples) % (n_classes or n_samples)
    with StoreWriter(path, n_features, dtype, target_names=["y"], source={"digest": "noise"}) as writer:
        writer.write(RowBlock(0, n_samples, X.astype(dtype), y.astype(np.float64)))
