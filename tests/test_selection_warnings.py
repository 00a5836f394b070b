"""What a user must see of a selection is a warning, once, and a line where there is a command line."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from daskfs.baselines.columns.orthogonal_matching_pursuit import OrthogonalMatchingPursuit
from daskfs.cli import app
from daskfs.errors import Caution, SelectionWarning
from daskfs.methods import find_method
from daskfs.selectors.fgm.selector import FGM
from daskfs.selectors.message.selector import Message


def noise(n_samples=300, n_features=8):
    rng = np.random.default_rng(3)
    return rng.standard_normal((n_samples, n_features)), rng.standard_normal(n_samples)


@pytest.mark.parametrize("method", ["message", "full_data", "averaging", "median", "bolasso"])
def test_that_nothing_was_selected_is_warned_of_once(method):
    selector = find_method(method)(criterion="ebic", gamma=1.0)
    with pytest.warns(SelectionWarning, match=f"^{type(selector).__name__}: no feature was selected") as caught:
        selector.fit(*noise())
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "no feature was selected" in selector.result_.notes


def test_fewer_features_than_asked_for_are_warned_of():
    X, y = noise()
    X[:, 5:] = X[:, :3]  # five columns are linearly independent
    with pytest.warns(SelectionWarning, match="OrthogonalMatchingPursuit: 5 of the 7 features asked for were selected"):
        OrthogonalMatchingPursuit(7).fit(X, y)


@pytest.mark.slow
def test_fewer_features_are_no_warning_where_rows_held_out_may_choose_fewer():
    X, y = noise()
    y += X[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FGM(7, loss="squared", validation=0.3, patience=1).fit(X, y)


def test_a_selection_that_is_as_asked_for_warns_of_nothing_and_a_note_is_no_warning():
    X, y = noise()
    X[:, 3] = 1.0
    y += X[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        notes = Message(n_subsets=3).fit(X, y).result_.notes
    assert any("constant" in note for note in notes)
    assert not any(isinstance(note, Caution) for note in notes)


def test_the_command_line_shows_a_warning_as_a_line_for_each_selection(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = noise()
    rows = "\n".join(",".join(map(str, [*row, value])) for row, value in zip(X, y, strict=True))
    (tmp_path / "noise.csv").write_text("a,b,c,d,e,f,g,h,y\n" + rows + "\n")
    (tmp_path / "pipeline.yaml").write_text(
        "version: 1\nname: noise\nsource: {kind: csv, path: noise.csv, target: y}\nselect:\n"
        "- {method: message, label: three, n_subsets: 3}\n- {method: message, label: five, n_subsets: 5}\n"
    )
    done = CliRunner().invoke(app, ["run", "pipeline.yaml"])
    assert done.exit_code == 0, done.output
    warned = [line for line in done.stderr.splitlines() if "no feature" in line]
    assert warned == ["warning: Message: no feature was selected"] * 2
    assert "SelectionWarning" not in done.stderr
    assert ".py" not in done.stderr


def test_a_warning_names_the_line_of_the_user_whatever_lies_between():
    X, y = noise()
    frame = pd.DataFrame(X, columns=list("abcdefgh")).assign(
        city=np.where(y > 0, "rome", "oslo"), number=np.arange(300)
    )
    frame["id"] = [f"r{i}" for i in range(300)]
    with pytest.warns(SelectionWarning, match="'id': is an identifier") as caught:
        FGM(2, loss="squared").fit(frame, y)
    assert {one.filename for one in caught} == {__file__}
