"""Targets given as texts: names of classes, and never amounts of money that somebody forgot to turn into numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from daskfs import OnlineSubstitution, ingest
from daskfs.errors import DataError
from tests.refusals import refused

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.standard_normal((200, 3)), columns=["a", "b", "c"])
VALUES = (100.0 * (X["a"] - X["b"]) + 1000.0).round(2)
AMOUNTS = [f"${value:,.2f}" for value in VALUES]


@pytest.mark.parametrize("frame", [X, X.assign(city=RNG.choice(["oslo", "rome", "lima"], 200)), X.to_numpy()])
@pytest.mark.parametrize("loss", ["auto", "squared"])
def test_amounts_are_not_taken_for_classes_by_a_fit(frame, loss):
    with refused(DataError, "text-tables", at="y", naming=["200", "schema='judge'"]):
        OnlineSubstitution(2, loss=loss).fit(frame, AMOUNTS)


def test_amounts_are_not_taken_for_classes_by_ingest_which_reads_them_as_the_error_says(tmp_path):
    with refused(DataError, "text-tables", at="column 'price'", naming=["200"]):
        ingest(X.assign(price=AMOUNTS), tmp_path / "s.zarr", target="price")
    store = ingest(X.assign(price=AMOUNTS), tmp_path / "s.zarr", target="price", schema="judge")
    np.testing.assert_allclose(np.sort(store.target), np.sort(VALUES))
    assert set(OnlineSubstitution(2).fit(store).get_feature_names_out()) == {"a", "b"}


def test_digits_are_names_of_classes():
    y = np.where(X["a"] > 0, "8", "3")
    assert list(OnlineSubstitution(1).fit(X, y).classes_) == ["3", "8"]


def test_digits_are_names_of_classes_in_a_store_too_whatever_else_the_frame_holds(tmp_path):
    y = RNG.integers(0, 3, 200).astype(str)
    for number, frame in enumerate((X, X.assign(city=RNG.choice(["oslo", "rome", "lima"], 200)))):
        store = ingest(frame.assign(kind=y), tmp_path / f"{number}.zarr", target="kind")
        assert store.target_classes == ("0", "1", "2")
