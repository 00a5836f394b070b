"""From raw logs and texts in one command: how well pipelines of papers predict, and small files through the same."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.integration.test_commands import ROOT, run_elsewhere

CRITEO, TEXT = (ROOT / "pipelines" / "papers" / f"mission_{name}.yaml" for name in ("criteo", "text"))


def metrics_and_names(pipeline: Path, folder: Path, *overrides: str) -> tuple[dict[str, float], list[str], str]:
    """Run a pipeline; return its metrics, the names it selected, most important first, and what it said."""
    done = run_elsewhere(pipeline, folder, *overrides)
    assert done.returncode == 0, done.stderr
    selected = pd.read_csv(folder / "run" / "selected.csv", dtype={"name": str}, keep_default_na=False)
    assert not selected["name"].str.fullmatch(r"\d{12,}").any(), "a feature without a name"
    assert selected["name"][0] in (folder / "run" / "report.html").read_text(encoding="utf-8")
    return json.loads((folder / "run" / "metrics.json").read_text()), selected["name"].to_list(), done.stderr


def write_clicks(path: Path, n_rows: int) -> None:
    """Write a log in which I2 of 100 or more and one value of C7 mean a click."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(n_rows):
        counts = rng.integers(0, 5, 13)
        strings = [f"{value:08x}" for value in rng.integers(1, 50, 26).tolist()]
        says, brings = rng.random(2) < 0.3
        counts[1], strings[6] = 100 if says else 3, "0000cafe" if brings else strings[6]
        clicked = rng.random() < (0.9 if says or brings else 0.1)
        lines.append("\t".join([str(int(clicked)), *map(str, counts.tolist()), *strings]) + "\n")
    path.write_text("".join(lines), encoding="utf-8")


def write_reviews(path: Path, n_rows: int) -> None:
    """Write reviews of random words, of which "not bad" is for and "bad" alone against, one class after the other."""
    rng = np.random.default_rng(0)
    rows = []
    for row in range(n_rows):
        words = [f"word{j}" for j in rng.integers(0, 300, 30).tolist()]
        words.insert(int(rng.integers(0, 30)), "not bad" if row < n_rows // 2 else "bad")
        rows.append(json.dumps({"text": " ".join(words), "label": "pos" if row < n_rows // 2 else "neg"}) + "\n")
    path.write_text("".join(rows), encoding="utf-8")


@pytest.mark.slow
def test_a_small_click_log_is_learnt_from_as_it_is_read_and_its_fields_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("DASKFS_DATA", str(tmp_path))
    write_clicks(tmp_path / "clicks.tsv", 3000)
    settings = (f"source.path={tmp_path}/clicks.tsv", "select.n_features_to_select=20")
    metrics, names, said = metrics_and_names(CRITEO, tmp_path, *settings)
    assert metrics["auc"] > 0.8
    assert set(names[:2]) == {"C7=0000cafe", "I2=98..108"}
    assert "loss" in said, "the progressive loss"


@pytest.mark.nightly
def test_small_reviews_are_selected_by_their_pairs_of_words(tmp_path, monkeypatch):
    monkeypatch.setenv("DASKFS_DATA", str(tmp_path))
    write_reviews(tmp_path / "reviews.jsonl", 800)
    settings = (f"source.path={tmp_path}/reviews.jsonl", "select.n_features_to_select=20", "select.n_buckets=65536")
    metrics, names, _ = metrics_and_names(TEXT, tmp_path, *settings)
    assert metrics["accuracy"] > 0.95
    assert "not bad" in names[:2]


@pytest.mark.nightly
@pytest.mark.skipif("DASKFS_DATA" not in os.environ, reason="DASKFS_DATA, the folder of the real files, is not set")
@pytest.mark.parametrize(
    ("pipeline", "metric", "least", "mark"), [(CRITEO, "auc", 0.72, "="), (TEXT, "accuracy", 0.88, " ")]
)
def test_raw_files_are_predicted_as_well_as_by_l1_of_all_features_in_memory(pipeline, metric, least, mark, tmp_path):
    metrics, names, _ = metrics_and_names(pipeline, tmp_path)
    assert metrics[metric] >= least
    assert any(mark in name for name in names[:30])
