"""A fit leaves the process as it was: numba of others compiles, and nothing that others use is changed."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import dask
import numpy as np
import pytest
from threadpoolctl import threadpool_info

import daskfs
from tests.neighbours import user_functions

METHODS = ["message", "online_substitution", "async_online_substitution", "fgm", "mission"]
ROOT = Path(__file__).parents[2]


def run(folder, *arguments):
    """What a fresh process prints, whose caches of machine code lie in a folder."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, user_functions.__file__, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().split("\n")


def assert_all_are_right(printed):
    assert printed[-1] == f"{len(user_functions.PLAIN)} functions, 0 wrong", "\n".join(printed)


@pytest.mark.slow
def test_functions_of_others_compile_between_fits(tmp_path):
    """The first process compiles our kernels, the second loads them; each has functions before, between and after."""
    for _ in range(2):
        assert_all_are_right(run(tmp_path, "mission", "between"))


@pytest.mark.nightly
@pytest.mark.parametrize("when", ["before", "after", "between"])
@pytest.mark.parametrize("method", METHODS)
def test_functions_of_others_compile_beside_every_method(method, when, tmp_path):
    for _ in range(2):
        assert_all_are_right(run(tmp_path, method, when))


@pytest.mark.nightly
@pytest.mark.parametrize("method", METHODS)
def test_a_cache_is_whole_whoever_compiles_first(method, tmp_path):
    """A user's function that is compiled first once left files that no later process could load."""
    assert_all_are_right(run(tmp_path, method, "before"))
    for when in ("after", "between"):
        assert_all_are_right(run(tmp_path, method, when))


def wrong_there(method):
    user_functions.fit(method)
    return user_functions.wrong(user_functions.PLAIN[:12])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["online_substitution"])
def test_functions_of_others_compile_on_workers(method, processes):
    assert processes.client.submit(wrong_there, method, pure=False).result() == []


@pytest.mark.slow
def test_functions_of_others_compile_in_threads(threads):
    assert threads.client.submit(wrong_there, "online_substitution", pure=False).result() == []


@pytest.mark.nightly
@pytest.mark.parametrize("method", METHODS)
def test_functions_of_others_compile_on_workers_of_others(method, tmp_path):
    for _ in range(2):
        assert_all_are_right(run(tmp_path, method, "workers"))


@pytest.mark.nightly
@pytest.mark.parametrize("method", METHODS)
def test_functions_of_others_compile_in_a_notebook(method, tmp_path, monkeypatch):
    """A cell of theirs, a fit, and the cells again; then once more in a new kernel, with what is on disk."""
    pytest.importorskip("ipykernel")
    manager_of_kernels = pytest.importorskip("jupyter_client.manager")

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cells = [
        "from tests.neighbours.user_functions import PLAIN, fit, wrong",
        "assert wrong(PLAIN[::2]) == [], wrong(PLAIN[::2])",
        f"fit({method!r})",
        "assert wrong(PLAIN) == [], wrong(PLAIN)",
        "assert wrong(PLAIN[:6], cache=True) == []",
    ]
    for _ in range(2):
        manager, client = manager_of_kernels.start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
        try:
            for cell in cells:
                reply = client.execute_interactive(cell, timeout=550, output_hook=lambda _: None)
                assert reply["content"]["status"] == "ok", reply["content"]
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def what_others_use():
    """What a fit might change and others in the process would feel."""
    import matplotlib as mpl
    import numba
    from sklearn.base import BaseEstimator

    modules = ["numba", "numba.core.codegen", "numba.core.types", "numba.core.compiler", "numba.np.arrayobj"]
    modules += ["numba.core.typed_passes", "numba.core.dispatcher", "llvmlite.binding", "concurrent.futures", "zarr"]
    attributes = {}
    for name in modules:
        module = importlib.import_module(name)
        own = (key for key in vars(module) if not key.startswith("__"))
        attributes[name] = {key: id(vars(module)[key]) for key in own if not isinstance(vars(module)[key], type(os))}
    return {
        "attributes": attributes,
        "call types": numba.core.types.Function.get_call_type,
        "bases": BaseEstimator.__mro__,
        "gc": (gc.isenabled(), gc.get_threshold()),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "warnings": list(warnings.filters),
        "environment": dict(os.environ),
        "threads": {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()},
        "numba threads": numba.get_num_threads(),
        "dask": dask.config.collect(),
        "logging": (logging.root.level, list(logging.root.handlers), logging.root.manager.disable),
        "backend": mpl.get_backend(),
        "numpy": np.geterr(),
        "hooks": (sys.excepthook, sys.unraisablehook, sys.getswitchinterval(), sys.getrecursionlimit()),
    }


@pytest.mark.parametrize("end", ["fitted", "failed", "interrupted"])
def test_a_fit_leaves_the_process_as_it_was(end, monkeypatch):
    user_functions.fit("online_substitution")  # loads what is loaded once
    before = what_others_use()
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 8)), rng.standard_normal(60)
    if end == "fitted":
        daskfs.OnlineSubstitution(3).fit(X, y)
    elif end == "failed":
        X[7, 2] = np.nan
        with pytest.raises(daskfs.errors.DaskfsError):
            daskfs.OnlineSubstitution(3).fit(X, y)
    else:

        def interrupt(*_):
            os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr("daskfs.selectors.online_substitution.selector.OnlineSubstitution._fit", interrupt)
        with pytest.raises(KeyboardInterrupt):
            daskfs.OnlineSubstitution(3).fit(X, y)
        monkeypatch.undo()
    after = what_others_use()
    assert before.pop("threads").items() <= after.pop("threads").items(), "libraries may be loaded, not limited"
    assert after == before


@pytest.mark.nightly
@pytest.mark.parametrize("library", ["skglm", "umap", "pynndescent"])
def test_libraries_on_numba_work_after_a_fit(library, tmp_path):
    pytest.importorskip(library)
    code = {
        "skglm": "from skglm import Lasso; print(Lasso(alpha=0.1).fit(X, X[:, 0]).coef_.shape)",
        "umap": "import umap; print(umap.UMAP(n_epochs=5).fit_transform(X).shape)",
        "pynndescent": "import pynndescent; print(pynndescent.NNDescent(X).query(X[:2])[0].shape)",
    }[library]
    text = (
        "import numpy as np\nfrom tests.neighbours.user_functions import fit\nfit('online_substitution')\n"
        "X = np.random.default_rng(0).standard_normal((200, 10))\n"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", text + code], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
