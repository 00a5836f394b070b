"""What an error is about: its class, its topic, its place and the values that it names, whatever its words are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import pytest

from daskfs.errors import DaskfsError


@contextmanager
def refused(
    kind: type[DaskfsError], topic: str, *, at: str = "", naming: Collection[str] = ()
) -> Iterator[pytest.ExceptionInfo[DaskfsError]]:
    """Expect an error.

    Parameters
    ----------
    kind : type
        Its class.
    topic : str
        What ``daskfs explain`` explains it under, see `daskfs.error_topics`.
    at : str
        Part of its place: a file, a row, a key, a parameter.
    naming : collection of str
        What its text names: whole numbers, names and options; of prose at most the term that says which error it is.
    """
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    assert error.topic == topic, f"expected an error about {topic}, found one about {error.topic}: {error}"
    assert at in error.where, f"expected an error at {at!r}, found {error.where!r}: {error}"
    missing = [name for name in naming if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", str(error))]
    assert not missing, f"expected an error that names {missing}, found: {error}"
