from __future__ import annotations

import pytest

from tests.contract.lab import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory, request):
    """The clusters are those of all tests, opened when first asked for."""
    return Lab(tmp_path_factory.mktemp("contract"), lambda kind: request.getfixturevalue(kind).client)
