"""Peak memory of kernels, as the operating system sees it, beside what plans promise for them.

Plans add up formulas that stand beside the kernels, such as `path_nbytes`. tracemalloc does not see what compiled code
allocates, so one process runs the kernels and reads the peak of its own resident memory around each.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from daskfs.kernels.glm import path as glm_paths
from daskfs.kernels.glm.fit import glm_fit, glm_fit_nbytes
from daskfs.kernels.glm.lsa import lsa_path, lsa_path_nbytes
from daskfs.kernels.glm.softmax import softmax_fit, softmax_nbytes
from daskfs.kernels.group_lasso import path as group_paths
from daskfs.kernels.group_lasso.groups import ColumnGroups
from daskfs.kernels.lasso.path import default_max_features, lasso_path, path_nbytes
from daskfs.kernels.linear.correlations import correlations, correlations_nbytes
from daskfs.kernels.linear.moments import moments

ROOT = Path(__file__).parents[2]
STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
Sizes = tuple[int, int]


def lasso(X: np.ndarray, y: np.ndarray) -> int:
    lasso_path(X, y, np.ones(len(y)), penalty=3.0, patience=None)
    return path_nbytes(*X.shape, 100, default_max_features(*X.shape))


def descent(X: np.ndarray, y: np.ndarray) -> int:
    lasso_path(X, y, np.ones(len(y)), penalty=3.0, patience=None, solver="descent")
    return path_nbytes(*X.shape, 100, default_max_features(*X.shape))


def logistic_path(X: np.ndarray, y: np.ndarray) -> int:
    glm_paths.glm_path(X, np.sign(y), np.ones(len(y)), loss="logistic", penalty=3.0, patience=None)
    return glm_paths.glm_path_nbytes(*X.shape, 100, glm_paths.default_max_features(*X.shape))


def group_path(X: np.ndarray, y: np.ndarray) -> int:
    sizes = np.full(X.shape[1] // 5, 5)
    groups = ColumnGroups(np.arange(X.shape[1]), np.arange(0, X.shape[1] + 1, 5))
    group_paths.group_path(X, y, np.ones(len(y)), groups, loss="squared", per_column=3.0, patience=None)
    most = group_paths.default_max_columns(*X.shape, len(sizes))
    return group_paths.group_path_nbytes(*X.shape, sizes, 100, most)


def logistic_lsa(X: np.ndarray, y: np.ndarray) -> int:
    lsa_path(X, np.sign(y), np.ones(len(y)), loss="logistic", penalty=3.0)
    return lsa_path_nbytes(*X.shape, 100)


def normal_equations(X: np.ndarray, y: np.ndarray) -> int:
    weight = np.ones(len(y))
    correlations(X, weight, moments(X, y, weight))
    return correlations_nbytes(*X.shape)


def logistic_fit(X: np.ndarray, y: np.ndarray) -> int:
    glm_fit(X, np.sign(y), np.ones(len(y)), loss="logistic")
    return glm_fit_nbytes(*X.shape)


def three_classes(X: np.ndarray, y: np.ndarray) -> int:
    softmax_fit(X, np.digitize(y, [-1.0, 1.0]).astype(float), np.ones(len(y)), 3)
    return softmax_nbytes(*X.shape, 3)


def classes_of_many_columns(X: np.ndarray, y: np.ndarray) -> int:
    softmax_fit(X, np.arange(len(y)) % 5.0, np.ones(len(y)), 5)
    return softmax_nbytes(*X.shape, 5)


KERNELS: dict[Callable[[np.ndarray, np.ndarray], int], tuple[Sizes, Sizes]] = {
    lasso: ((200, 1000), (4000, 20_000)),
    descent: ((200, 1000), (4000, 20_000)),
    logistic_path: ((200, 30), (100_000, 60)),
    group_path: ((300, 200), (3000, 1500)),
    logistic_lsa: ((200, 30), (100_000, 60)),
    normal_equations: ((200, 30), (5000, 600)),
    logistic_fit: ((200, 30), (100_000, 60)),
    three_classes: ((200, 10), (60_000, 60)),
    classes_of_many_columns: ((150, 200), (1200, 1000)),
}
"""Each kernel with sizes for which it is compiled, and sizes of which the largest arrays are the kernel's own."""


def resident_nbytes(line: str) -> int:
    """Return what the operating system says of this process."""
    return next(int(text.split()[1]) << 10 for text in STATUS.read_text().splitlines() if text.startswith(line))


def measure() -> None:
    """Print the promised and the measured peak of each kernel."""
    for kernel, sizes in KERNELS.items():
        for shape in sizes:  # the first compiles, or loads from disk
            rng = np.random.default_rng(0)
            X = rng.standard_normal(shape)
            y = X[:, :8].sum(axis=1) + 2.0 * rng.standard_normal(len(X))
            gc.collect()
            CLEAR_REFS.write_text("5")  # the peak begins at what is resident now
            before = resident_nbytes("VmRSS")
            promised = kernel(X, y)
            peak = resident_nbytes("VmHWM") - before
        print(json.dumps([kernel.__name__, promised, peak]), flush=True)


@pytest.fixture(scope="module")
def peaks() -> dict[str, tuple[int, int]]:
    if not os.access(CLEAR_REFS, os.W_OK):
        pytest.skip("no /proc/self/clear_refs: the peak of a process cannot be reset")
    command = [sys.executable, "-c", "from tests.kernels.test_memory import measure; measure()"]
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}  # freed arrays leave the process
    environment = os.environ | one_thread | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = map(json.loads, done.stdout.splitlines())
    return {name: (promised, peak) for name, promised, peak in lines}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [kernel.__name__ for kernel in KERNELS])
def test_a_kernel_takes_what_its_plan_promises(kernel, peaks):
    """Not more; and at least a fifth, since a promise that is far too high refuses data that would fit."""
    promised, peak = peaks[kernel]
    assert 0.2 * promised < peak <= promised + (1 << 20)
