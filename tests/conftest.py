"""One cluster of threads and one of processes for all tests that neither kill nor configure theirs."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import dask
import pytest
from hypothesis import HealthCheck, settings

from daskfs.cluster.open import open_cluster
from daskfs.cluster.workers import Workers
from daskfs.kernels.jit import Kernel
from tests.changed import changed_since, is_touched, may_be_touched
from tests.tiers import without_news

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for the workers, whose threads would wait for each other
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so shells start what runs in the background, and so would ours
    signal.signal(signal.SIGINT, signal.default_int_handler)

ON_BUSY_MACHINES = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.register_profile("same", ON_BUSY_MACHINES, max_examples=40, derandomize=True)  # the same in every run
settings.register_profile("explore", ON_BUSY_MACHINES, max_examples=1_000)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --changed."""
    parser.addoption(
        "--changed",
        nargs="?",
        const="HEAD",
        metavar="REV",
        help="run the tests that a change since a commit can touch (by default the last one), see tests/changed.py",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import files of tests that a change does not touch."""
    if (revision := config.getoption("--changed")) is None or not collection_path.name.startswith("test_"):
        return None
    return None if may_be_touched(collection_path, changed_since(revision)) else True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Do not look for garbage among what is imported and collected: it takes a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what -m does not name
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave cases to the night that try nothing new, and what a change does not touch if asked."""
    if (revision := config.getoption("--changed")) is not None:
        _keep_touched(config, items, changed_since(revision))
    cases = defaultdict(list)
    for item in items:
        if not hasattr(item, "callspec"):
            continue
        slow = {part for marker in item.iter_markers("slow_cases") for part in marker.args}
        if not slow.isdisjoint({item.callspec.id, *item.callspec.id.split("-")}):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("every_case") is None:
            cases[item.nodeid.partition("[")[0]].append(item)
    for of_test in cases.values():
        of_test.sort(key=lambda item: item.get_closest_marker("slow") is not None)  # what is tried by default is tried
        for item, is_old in zip(of_test, without_news(item.callspec.params for item in of_test), strict=True):
            if is_old:
                item.add_marker(pytest.mark.nightly)
    items.sort(key=_half)


FIRST_HALF = re.compile("message|lasso|auto|stab|knockoff|genotyp|variant|homotopy|selection_cv|trees|applied|pipeline")
SECOND_HALF = re.compile("online|substitution|fgm|mission|async|engine|mkl|lsa|sketch|pairs|additive|stream")


def _half(item: pytest.Item) -> int:
    """Return where a test stands. Two workers begin in the two halves: what one compiles, the other rarely needs.

    The name of the file decides, or else that of the test and its parameters.
    """
    for name in (item.nodeid.partition("::")[0], item.nodeid):
        if SECOND_HALF.search(name.lower()):
            return 2
        if FIRST_HALF.search(name.lower()):
            return 0
    return 1


def _keep_touched(config: pytest.Config, items: list[pytest.Item], changed: set[Path]) -> None:
    touched, others = [], []
    for item in items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        (touched if is_touched(item.path, parameters, changed) else others).append(item)
    items[:] = touched
    config.hook.pytest_deselected(items=others)


@pytest.fixture(scope="session", autouse=True)
def _compiled_where_called() -> Iterator[None]:
    """Pipelines that run in the process of the tests compile no kernels ahead: two processes take ten seconds."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("daskfs.pipeline.run.compile_ahead", lambda *arguments: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _not_flushed() -> Iterator[None]:
    """No test cuts the power, so none waits for the disk."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("os.fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _saved_always() -> Iterator[None]:
    """Loops save each state, however little time has passed, so that tests resume from any of them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("daskfs.selectors.shared.run.SAVE_S", 0.0)
        yield


DRAWN = {
    "report",
    "documentation",
    "benchmarks",
    "dashboard",
    "test_variants.py",
    "test_async_online_substitution_pipeline.py",
}
"""Folders and files whose tests look at figures. Elsewhere reports have none: a figure takes a tenth of a second."""


@pytest.fixture(scope="module", autouse=True)
def _undrawn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Figures are empty, except in `DRAWN`."""
    with pytest.MonkeyPatch.context() as patched:
        if DRAWN.isdisjoint(request.path.parts):
            patched.setattr("daskfs.figures.Figure.svg", "<svg></svg>")
        yield


@pytest.fixture(scope="session")
def threads() -> Iterator[Workers]:
    with open_cluster("threads", n_workers=2, dashboard_address=None) as opened:
        yield opened


@pytest.fixture(scope="session")
def processes() -> Iterator[Workers]:
    without_profile = {"distributed.worker.profile.enabled": False}  # which grows by megabytes a minute in each worker
    with dask.config.set(without_profile), open_cluster("local", n_workers=2, dashboard_address=None) as opened:
        yield opened


@pytest.fixture(scope="session", params=["threads", "processes"])
def workers(request: pytest.FixtureRequest) -> Workers:
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["interpreted", pytest.param("compiled", marks=pytest.mark.slow)])
def interpreted_by_default(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as Python code by default, and compiled where slow tests run.

    For kernels that few tests with small data call: compiling them takes longer.
    """
    if request.param == "interpreted":
        monkeypatch.setattr(Kernel, "__call__", lambda kernel, *arguments: kernel.py_func(*arguments))
