"""A process that has compiled a kernel and one that loads it from disk get the same bits.

Workers may do the one and the client the other, and results are not to depend on the number of workers. The machine
code of a function differs between the two: it is optimised once by itself, and once more within a kernel that calls it.
That shows where a compiler may arrange sums anew (`daskfs.kernels.jit.inner_loop`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FITS = {
    "message": "[Message(n_subsets=2).fit(X, y), Message(n_subsets=2).fit(S, y)]",
    "message-classes": "[Message(n_subsets=2).fit(X, c), Message(n_subsets=2).fit(S, c)]",
    "message-counts": "[Message(n_subsets=2, loss='poisson').fit(X, k), Message(n_subsets=2, loss='huber').fit(X, y)]",
    "message-groups": "[Message(n_subsets=2, feature_groups=groups).fit(X, target) for target in (y, c)]",
    "substitution": "[OnlineSubstitution(6).fit(X, y), OnlineSubstitution(6).fit(S, y, w), screening.fit(X, y)]",
    "substitution-classes": "[OnlineSubstitution(6, rule=rule).fit(X, c) for rule in ('exchange', 'os')]",
    "substitution-groups": "[OnlineSubstitution(6, feature_groups=groups).fit(X, target, w) for target in (y, c)]",
    "fgm": "[FGM(6).fit(X, y), FGM(6).fit(X, c, w), FGM(6).fit(S, c), FGM(6, feature_groups=groups).fit(X, c)]",
    "mission": "[Mission(6).fit(S, y), Mission(6).fit(S, c), Mission(6).fit(X, d)]",
    "baselines": "[baselines.FullData().fit(X, y), baselines.FullData().fit(X, c), baselines.IHT(6).fit(X, y)]",
}

SCRIPT = """
import hashlib, sys, warnings
import numpy as np, scipy.sparse
from daskfs import FGM, Message, Mission, OnlineSubstitution, baselines
from daskfs.kernels import jit

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = np.where(rng.random((480, 40)) < 0.6, rng.standard_normal((480, 40)) + 0.5 * rng.standard_normal((480, 1)), 0.0)
z = X[:, [2, 5, 11, 16, 20, 23]] @ [1.0, -0.8, 0.6, 0.5, -0.3, 0.2] + 0.4
S, y, w = scipy.sparse.csr_array(X), z + rng.standard_normal(480), rng.uniform(0.5, 2.0, 480)
c, k, d = (z + rng.logistic(size=480) > 0.4).astype(int), rng.poisson(np.exp(0.4 * z)), np.digitize(y, [-0.5, 1.2])
groups, screening = np.arange(40) // 4, OnlineSubstitution(6, schedule="screen")


def bits(*values):
    found = hashlib.sha256()

    def take(value):
        if isinstance(value, np.ndarray):
            found.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, tuple):
            [take(one) for one in value]
        else:
            found.update(repr(value).encode())

    take(values)
    return found.hexdigest()


def traced(self, *arguments, run=jit.Kernel.__call__):
    before = bits(*arguments)
    result = run(self, *arguments)
    print("called", self.__module__, self.__name__, before, bits(*arguments, result))
    return result


jit.Kernel.__call__ = traced
for place, model in enumerate(eval(sys.argv[1])):
    print("result", place, bits(model.selected_, model.coef_, model.intercept_, model.scores_))
"""


def _lines(fits: str, cache: Path) -> list[list[str]]:
    """Return "called", module, name, digest of the arguments and of what became of them, of each call of a kernel, and
    "result", number and digest of each fit."""
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, fits],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return [line.split() for line in run.stdout.splitlines() if line.startswith(("called ", "result "))]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("fits", FITS.values(), ids=list(FITS))
def test_compiled_and_loaded_kernels_give_the_same_bits(fits: str, tmp_path: Path) -> None:
    """The fits, and every call with the same arguments: some have room in them that was never written."""
    compiled, loaded = ({tuple(line[:-1]): line[-1] for line in _lines(fits, tmp_path)} for _ in range(2))
    both = compiled.keys() & loaded.keys()
    assert sum(line[0] == "called" for line in both) > 5
    assert sum(line[0] == "result" for line in both) >= 2
    assert {line[:3] for line in both if compiled[line] != loaded[line]} == set()
