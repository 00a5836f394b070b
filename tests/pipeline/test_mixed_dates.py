"""A column whose dates are written in two ways is one of dates, by every road."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from daskfs import FGM, ingest
from daskfs.errors import SelectionWarning, SourceError
from daskfs.pipeline.drafting import draft
from tests.refusals import refused


def test_dates_in_two_formats_are_one_date(tmp_path):
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 700, 300), unit="D")
    written = np.where(rng.random(300) < 0.7, days.strftime("%Y-%m-%d"), days.strftime("%d.%m.%Y"))
    frame = pd.DataFrame({"day": written, "a": rng.standard_normal(300)})
    y = 2.0 * (days.month == 7) + frame["a"]
    frame.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    drafted = draft(tmp_path / "t.csv", "y", tmp_path)
    (day,) = [one for one in drafted.look.inferred.columns if one.name == "day"]
    assert day.entry["format"] == "%Y-%m-%d | %d.%m.%Y"
    assert day.suspicions == ["dates are written in two formats, %Y-%m-%d and %d.%m.%Y"]
    store = ingest(tmp_path / "t.csv", tmp_path / "t.zarr", schema=drafted.schema, dtype="float64")
    july = store.read(np.argsort(store.source_rows), np.array([list(store.feature_names).index("day.month=7")]))
    np.testing.assert_array_equal(july[:, 0], days.month == 7)
    with pytest.warns(SelectionWarning, match="'day': dates are written in two formats"):
        selector = FGM(2, loss="squared").fit(frame, y)
    assert set(selector.get_feature_names_out()) == {"day.month=7", "a"}
    with refused(SourceError, "text-tables", naming=["2021/02/03"]):
        bad = frame.assign(y=y, day=["2021/02/03", *written[1:]])
        bad.to_csv(tmp_path / "bad.csv", index=False)
        ingest(tmp_path / "bad.csv", tmp_path / "bad.zarr", schema=drafted.schema)
