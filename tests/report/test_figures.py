"""Figures as they are drawn: what is written on them lies within them, and apart."""

from itertools import pairwise

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from daskfs.errors import ConfigError
from daskfs.evidence import CalibrationBin, DataRecord, EvidenceRecord, FeatureRecord, QualityRecord
from daskfs.figures import metric_by_size
from daskfs.result import SelectionResult
from daskfs.selected_table import selection_table
from tests.refusals import refused

mpl.use("agg")
LONG = [f"Date and time of the departure from the first airport.month={k}" for k in range(60)]


def hard_result(history_kind, history):
    """Many features with long names, numbers of many digits, sizes that are close together."""
    n = len(LONG)
    bins = [CalibrationBin(x, x, x - 3e6, x + 3e6, 20) for x in np.linspace(123_456_789.0, 234_567_890.0, 10)]
    quality = QualityRecord(
        200, "the mean", {}, {}, bins, np.linspace(-2e8, 2e8, 32).tolist(), list(range(31)), [], [], "r2",
        list(range(1, 31)), np.linspace(0.1, 0.5, 30).tolist(),
    )  # fmt: skip
    table = selection_table(range(n), np.linspace(2e6, -1e6, n), np.linspace(1.0, 0.1, n), np.array(LONG, dtype=object))
    table = table.assign(lower=table["coef"] - 1e5, upper=table["coef"] + 1e5)
    data = DataRecord("s", "Revenue in the year after, all shops together, in EUR", None, "", 1, None, None, None)
    features = [FeatureRecord("Date", 1234.5, 0.0, 1.0)] * n
    return SelectionResult(
        "m", table, 0.0, {}, 200, 100, history, score_kind="inclusion frequency", history_kind=history_kind,
        evidence=EvidenceRecord(data, features, test=quality),
    )  # fmt: skip


HISTORIES = {
    "criterion path": {"lambda": np.geomspace(9e6, 1e-3, 50), "df": range(50), "gic": np.linspace(3e9, 1e9, 50)},
    "passes": {"pass": range(40), "features": range(40), "objective": np.linspace(1e8, 1e5, 40), "gap": [0.5] * 40},
    "cross-validation": {
        "features": range(1, 41), "mse": np.linspace(1e8, 9e7, 40), "standard_error": 1e6, "chosen": np.arange(40) == 5,
    },
}  # fmt: skip


def overlaps_and_what_sticks_out(figure):
    """Draw a figure on axes of its own; return the pairs of labels that overlap, and the texts beyond its edges."""
    axes = figure.on()
    canvas = axes.get_figure()
    canvas.draw_without_rendering()
    wrong = []
    for axis, low, high in ((axes.xaxis, "x0", "x1"), (axes.yaxis, "y0", "y1")):
        ends = sorted(axis.get_view_interval())
        ticks = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=True)
        labels = [label for at, label in ticks if label.get_text() and ends[0] <= at <= ends[1]]
        assert len(labels) > 1, "an axis needs numbers to be read"
        labels.sort(key=lambda one: getattr(one.get_window_extent(), low))
        for one, other in pairwise(labels):
            if getattr(one.get_window_extent(), high) > getattr(other.get_window_extent(), low) + 0.5:
                wrong.append((one.get_text(), other.get_text()))
        wrong += [
            one.get_text()
            for one in (*labels, axis.label)
            if one.get_text() and not _is_within(one.get_window_extent(), canvas.bbox)
        ]
    plt.close(canvas)
    return wrong


def _is_within(box, frame):
    return box.x0 >= frame.x0 - 1 and box.x1 <= frame.x1 + 1 and box.y0 >= frame.y0 - 1 and box.y1 <= frame.y1 + 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", HISTORIES)
def test_labels_do_not_overlap_and_stay_within_the_figure(kind):
    figures = hard_result(kind, pd.DataFrame(HISTORIES[kind])).figures()
    drawn = figures if kind == "passes" else {"history": figures["history"]}
    assert set(drawn) in ({"history"}, {*figures}), "those that do not depend on the history are looked at once"
    wrong = {name: overlaps_and_what_sticks_out(one) for name, one in drawn.items()}
    assert not any(wrong.values()), wrong


@pytest.mark.slow
def test_sizes_that_are_close_together_have_labels_that_are_not():
    sizes = [1, 2, 3, 10_000, 10_001, 10_002]
    assert overlaps_and_what_sticks_out(metric_by_size({"fgm": (sizes, [0.5] * 6)}, "accuracy")) == []


def message(scores, frequencies=None):
    n = len(scores)
    table = selection_table(range(n), np.linspace(2.0, 1.0, n), scores)
    return SelectionResult(
        "message", table, 0.0, {}, 100, 9, scores=frequencies, score_kind="inclusion frequency",
        history=pd.DataFrame(HISTORIES["criterion path"]), history_kind="criterion path",
    )  # fmt: skip


def test_votes_that_are_all_the_same_are_not_drawn_as_bars():
    result = message([1.0, 1.0, 1.0])
    assert list(result.figures()) == ["coefficients", "history"]
    assert [bar.get_width() for bar in result.plot().patches] == [2.0, 1.5, 1.0]
    with refused(ConfigError, "run-folders", at="message.plot", naming=["coefficients", "history"]):
        result.plot(kind="scores")
    plt.close("all")


def test_votes_are_drawn_beside_those_of_features_that_were_not_selected():
    bars = message([1.0, 1.0], np.array([1.0, 1.0, 0.25, 0.0])).plot(kind="scores").patches
    assert [(bar.get_width(), bar.get_fill()) for bar in bars] == [(1.0, True), (1.0, True), (0.25, False)]
    plt.close("all")


def test_effects_have_the_intervals_of_their_coefficients():
    result = message([1.0, 0.9])
    result.table = result.table.assign(lower=[1.0, np.nan], upper=[2.5, np.nan])
    result.evidence = EvidenceRecord(
        DataRecord("s", "weight", None, "", 1, None, None, None),
        [FeatureRecord("a", 2.0, None, None), FeatureRecord("b", 0.5, None, None)],
    )
    axes = result.plot()
    (error,) = axes.containers[1].lines[2]
    assert [bar.get_width() for bar in axes.patches] == [4.0, 0.5]
    assert [segment[:, 0].tolist() for segment in error.get_segments()] == [[2.0, 5.0]]
    assert axes.get_xlabel() == "weight per standard deviation"
    assert "Largest: 4 (2 to 5), of x0." in result.figures()["effects"].text
    plt.close("all")


def test_the_path_is_drawn_against_the_number_of_features():
    (line, _) = message([1.0]).plot(kind="history").lines
    assert line.get_xdata().tolist() == [*range(50)]
    plt.close("all")
