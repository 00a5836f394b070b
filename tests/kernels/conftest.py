from collections.abc import Iterator

import pytest

from daskfs import interrupts


@pytest.fixture(autouse=True)
def _in_a_guard() -> Iterator[None]:
    """Kernels are called within a guard, as in a fit: it would be opened anew for each call."""
    with interrupts.guard():
        yield
