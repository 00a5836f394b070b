"""Compiling in a process of its own: the compiler takes hundreds of MiB, which this process would not give back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from daskfs.kernels.numba_cache import CACHE_DIRECTORY


def compile_apart(*, generalised: bool, substitution: bool) -> None:
    """Have the kernels compiled that are not on disk yet; see `daskfs.kernels.warmup` for the parameters.

    Where that fails they are compiled when they are first called.
    """
    mark = CACHE_DIRECTORY / f"compiled-{int(generalised)}{int(substitution)}"
    if mark.exists():
        return
    code = f"from daskfs.kernels import warmup; warmup({generalised=}, {substitution=})"
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(CACHE_DIRECTORY.parent),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=False, stdin=subprocess.DEVNULL, capture_output=True
    )
    if done.returncode == 0:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
