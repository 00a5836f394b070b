"""One cluster of threads and one of processes for all tests that neither kill nor configure theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from daskfs.cluster.open import open_cluster
from daskfs.cluster.workers import Workers


@pytest.fixture(scope="session")
def threads() -> Iterator[Workers]:
    with open_cluster("threads", n_workers=2, dashboard_address=None) as opened:
        yield opened


@pytest.fixture(scope="session")
def processes() -> Iterator[Workers]:
    with open_cluster("local", n_workers=2, dashboard_address=None) as opened:
        yield opened


@pytest.fixture(scope="session", params=["threads", "processes"])
def workers(request: pytest.FixtureRequest) -> Workers:
    return request.getfixturevalue(request.param)
