"""What a first fit compiles: counted, for functions and their types are what compiling costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIT = """
import sys
import numpy as np
from numba.core import event
from daskfs.methods import find_method
from daskfs.pipeline.compile_ahead import SIZES, TALL

class Listener(event.Listener):
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        print(f"{function.__module__}.{function.__qualname__}")

    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
name, loss = sys.argv[1:]
method = find_method(name)
rng = np.random.default_rng(0)
X = rng.standard_normal(TALL).astype(np.float32)
y = X[:, 0] + rng.standard_normal(TALL[0])
y = {"squared": y, "logistic": y > 0, "poisson": np.floor(np.exp(y))}[loss].astype(float)
options = {key: size for key, size in SIZES.items() if key in method().get_params()}
method(**options, loss=loss).fit(X, y)
"""


def compiled_by(method, loss, folder):
    """The functions that a first fit compiles, numba's own among them; one for each time."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore::daskfs.errors.SelectionWarning", "-c", FIT, method, loss]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert not done.stderr, "what cannot be kept on disk is said"
    return done.stdout.split()


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["message", "online_substitution", "async_online_substitution", "fgm", "mission"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_first_fit_compiles_so_many_functions_at_most(method, loss, tmp_path):
    """A bound, not a goal, numba's own functions among them."""
    names = compiled_by(method, loss, tmp_path)
    assert len(names) < (230 if method == "message" else 150), len(names)
