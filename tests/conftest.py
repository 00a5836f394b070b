"""One cluster of threads and one of processes for all tests that neither kill nor configure theirs."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import dask
import pytest
from hypothesis import HealthCheck, settings

from daskfs.cluster.open import open_cluster
from daskfs.cluster.workers import Workers

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so shells start what runs in the background, and so would ours
    signal.signal(signal.SIGINT, signal.default_int_handler)

BUSY = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile(
    "same", derandomize=True, **BUSY
)  # the same examples in every run, however busy the machine is
settings.register_profile("explore", max_examples=1_000, **BUSY)
settings.load_profile("same")


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
