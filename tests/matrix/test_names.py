"""Names are read, or made, when somebody asks; and are used like an array."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.errors import DataError
from daskfs.matrix.names import Names
from tests.refusals import refused

GIVEN = np.array(["age", "income", "height"], dtype=object)


def test_default_names_of_many_columns_take_no_memory():
    names = Names(10**12)
    assert (len(names), names[10**11], names[-1]) == (10**12, f"x{10**11}", f"x{10**12 - 1}")
    assert names.index("x123456789") == 123456789
    assert names[[3, -1]].tolist() == ["x3", f"x{10**12 - 1}"]
    assert "x999" in names
    assert "x0999" not in names
    assert not names.are_given


def test_names_are_read_when_they_are_asked_for_and_once():
    reads = []

    def read():
        reads.append(1)
        return GIVEN

    names = Names(3, read)
    assert (len(names), names.are_given, reads) == (3, True, [])
    assert names[1] == "income"
    assert names.index("height") == 2
    assert len(reads) == 1


@pytest.mark.parametrize("names", [Names(3, GIVEN), Names(3)])
def test_names_are_used_like_an_array(names):
    array = names.array()
    assert np.asarray(names).tolist() == list(names) == names.tolist() == array.tolist()
    assert (names == array).all()
    assert (names == Names(3, array)).all()
    assert (names != array).sum() == 0
    assert names[np.array([2, 0])].tolist() == [array[2], array[0]]
    assert names[1:].tolist() == array[1:].tolist()
    assert np.array(names).dtype == object


def test_a_name_that_is_not_there_is_refused_with_the_nearest():
    with refused(DataError, "shapes", at="names", naming=["did you mean", "'income'"]):
        Names(3, GIVEN).index("incom")
    with refused(DataError, "shapes", at="names", naming=["'y7'"]):
        Names(3).index("y7")
    with pytest.raises(IndexError):
        Names(3)[3]


def test_names_that_say_nothing_are_known():
    assert Names(2).are_default
    assert Names(2, np.array(["x0", "x1"], dtype=object)).are_default
    assert not Names(3, GIVEN).are_default


def test_an_error_says_the_name_or_the_number():
    assert Names(3, GIVEN).describe(1) == "column 'income'"
    assert Names(3).describe(1) == "column 1"
