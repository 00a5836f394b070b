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
    "message": "Message(n_subsets=2).fit(X, y); Message(n_subsets=2).fit(S, y)",
    "message-classes": "Message(n_subsets=2).fit(X, c); Message(n_subsets=2).fit(S, c)",
    "message-counts": "Message(n_subsets=2, loss='poisson').fit(X, k); Message(n_subsets=2, loss='huber').fit(X, y)",
    "message-groups": "Message(n_subsets=2, feature_groups=groups).fit(X, y).fit(X, c)",
    "substitution": "OnlineSubstitution(6).fit(X, y).fit(S, y, w); OnlineSubstitution(6, schedule='screen').fit(X, y)",
    "substitution-classes": "OnlineSubstitution(6).fit(X, c).fit(S, c); OnlineSubstitution(6, rule='os').fit(X, c)",
    "substitution-groups": "OnlineSubstitution(6, feature_groups=groups).fit(X, y, w).fit(X, c)",
    "fgm": "FGM(6).fit(X, y).fit(X, c, w).fit(S, c); FGM(6, feature_groups=groups).fit(X, c)",
    "mission": "Mission(6).fit(S, y).fit(S, c).fit(X, d)",
    "baselines": "baselines.FullData().fit(X, y).fit(X, c); baselines.IHT(6).fit(X, y)",
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
groups = np.arange(40) // 4


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
exec(sys.argv[1])
"""


def _calls(fits: str, cache: Path) -> list[list[str]]:
    """Return module, name, digest of the arguments and of what became of them, of each call of a kernel."""
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, fits],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return [line.split()[1:] for line in run.stdout.splitlines() if line.startswith("called ")]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("fits", FITS.values(), ids=list(FITS))
def test_compiled_and_loaded_kernels_give_the_same_bits(fits: str, tmp_path: Path) -> None:
    compiled, loaded = _calls(fits, tmp_path), _calls(fits, tmp_path)
    found = {(module, name, given): after for module, name, given, after in compiled}
    again = {(module, name, given): after for module, name, given, after in loaded}
    assert len(found) > 5
    assert {call[:2] for call in found if again.get(call, found[call]) != found[call]} == set()
    assert again == found
