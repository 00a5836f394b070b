"""Pipelines whose selections are given to stability selection, to knockoffs or to split inference."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from daskfs import Knockoffs, OnlineSubstitution, SplitInference, StabilitySelection, open_store
from daskfs.errors import ConfigError
from daskfs.pipeline.config import build_pipeline
from daskfs.pipeline.run import run_pipeline

SELECT = {"method": "online_substitution", "n_features_to_select": 12}


def document(**sections):
    source = {"kind": "synthetic", "design": "message", "n_samples": 400, "n_features": 40, "n_informative": 10}
    common = {"version": 1, "name": "run", "source": source, "select": SELECT, "split": None}
    return {**common, "cluster": {"kind": "none"}, **sections}


def built(folder, **sections):
    return build_pipeline(document(**sections), "pipeline.yaml", folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sections", "cls"),
    [({"stability": {"n_pairs": 4, "threshold": 0.9}}, StabilitySelection), ({"knockoffs": {"fdr": 0.3}}, Knockoffs)],
    ids=["stability", "knockoffs"],
)
def test_a_section_is_about_the_selection(tmp_path, sections, cls):
    pipeline = built(tmp_path, **sections)
    run_pipeline(pipeline)
    (options,) = sections.values()
    inside = OnlineSubstitution(12, memory_limit="1GiB")
    expected = cls(inside, **options).fit(open_store(tmp_path / "runs/run.zarr"))
    found = json.loads(Path(tmp_path / "runs/run/result.json").read_text(encoding="utf-8"))
    assert found["method"] == cls.method
    assert found["parameters"]["selector"]["method"] == "online_substitution"
    table = pd.read_csv(tmp_path / "runs/run/selected.csv")
    np.testing.assert_array_equal(table["index"], expected.selected_)
    np.testing.assert_allclose(table["score"], expected.scores_[expected.selected_])
    page = Path(tmp_path / "runs/run/report.html").read_text(encoding="utf-8")
    assert (
        "expected false selections: at most" if cls is StabilitySelection else "false discovery rate: at most"
    ) in page


@pytest.mark.slow
def test_intervals_of_the_rows_that_did_not_select_are_in_table_and_report(tmp_path):
    run_pipeline(built(tmp_path, split_inference={"level": 0.9, "share": 0.6}))
    inside = OnlineSubstitution(12, memory_limit="1GiB")
    expected = SplitInference(inside, level=0.9, share=0.6).fit(open_store(tmp_path / "runs/run.zarr"))
    table = pd.read_csv(tmp_path / "runs/run/selected.csv")
    np.testing.assert_array_equal(table["index"], expected.selected_)
    for name in ("std_error", "lower", "upper"):
        np.testing.assert_allclose(table[name], expected.result_.table[name])
    page = Path(tmp_path / "runs/run/report.html").read_text(encoding="utf-8")
    assert "selection on 240 rows, estimation on the other 160: the 90% intervals are valid after the selection" in page


def test_it_is_about_every_selection_of_a_list(tmp_path):
    second = {"method": "orthogonal_matching_pursuit", "n_features_to_select": 5}
    pipeline = built(tmp_path, select=[SELECT, second], stability={"n_pairs": 3})
    made = [one.make_selector(10**9) for one in pipeline.selections.values()]
    assert [(one.method, one.selector.method, one.n_pairs) for one in made] == [
        ("stability", "online_substitution", 3),
        ("stability", "orthogonal_matching_pursuit", 3),
    ]


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"stability": {}, "knockoffs": {}},
            "expected stability, knockoffs or split_inference, found stability and knockoffs",
        ),
        ({"stability": {"n_pair": 3}}, r"stability\.n_pair: .*n_pairs"),
        ({"stability": {"threshold": 0.4}}, r"stability\.threshold: .*0\.5"),
        ({"knockoffs": {"fdr": 2}}, r"knockoffs\.fdr"),
        ({"split_inference": {"level": 1.5}}, r"split_inference\.level"),
        ({"knockoffs": {"selector": "fgm"}}, r"knockoffs\.selector"),
        ({"store": "none", "stability": {}}, "stability reads rows more than once"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, sections, message):
    with pytest.raises(ConfigError, match=message):
        built(tmp_path, **sections)


def test_the_section_is_kept_with_the_run(tmp_path):
    resolved = built(tmp_path, knockoffs={"fdr": 0.2}).to_document()
    assert resolved["knockoffs"]["fdr"] == 0.2
    assert resolved["knockoffs"]["n_draws"] == 1
    again = build_pipeline(resolved, "pipeline.yaml", tmp_path)
    assert again.knockoffs.fdr == 0.2
