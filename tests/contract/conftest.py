from __future__ import annotations

import pytest

from tests.contract.lab import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("contract"))
    yield lab
    lab.close()
