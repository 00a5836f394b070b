"""The benchmarks of MESSAGE, small."""

from __future__ import annotations

import pandas as pd
import pytest

pytestmark = pytest.mark.nightly


@pytest.mark.filterwarnings("ignore::daskfs.errors.SelectionWarning")
def test_the_table_of_outliers_is_printed(load, capsys):
    small = ["--n-samples", "2000", "--n-features", "50", "--replicates", "2"]
    load("message_heavy_tails").main(small)
    printed = capsys.readouterr().out
    for word in ("ten rows", "leverage", "message, huber", "with ten corrupted rows MESSAGE finds"):
        assert word in printed


def test_large_data_are_measured_against_one_read(load, tmp_path, capsys):
    load("message_large").main(["power", "--scale", "0.01", "--output", str(tmp_path)])
    assert "power: 20,752 x 74" in capsys.readouterr().out
    results = pd.read_csv(tmp_path / "large.csv").set_index("method")
    assert results.loc["one read", "cpu_s"] > 0
    assert results.loc["message", "test_error"] < results.loc["averaging", "test_error"]
    assert not (tmp_path / "stores").exists()
    assert (tmp_path / "large_power.png").stat().st_size > 5_000


def test_sparse_rows_are_followed_as_entries_and_as_a_dense_block(load, capsys):
    load("message_kernels")
    module = load("message_sparse")
    X, y = module.draw(600, 2000)
    X = X.astype(float)  # for which other tests have compiled the kernels
    for loss in ("squared", "logistic"):
        functions, lambdas = module.our_functions(loss, X, y)
        of_entries, of_block = (functions[name]() for name in ("daskfs, refit", "daskfs, dense"))
        assert len(lambdas) > 1
        assert of_entries.selected().tolist() == of_block.selected().tolist()
    assert capsys.readouterr().out.count("MiB beside the rows") == 2
    assert module.scaled(X).shape[1] <= 2000


@pytest.mark.filterwarnings("ignore::daskfs.errors.SelectionWarning")
def test_a_minority_of_subsets_is_shown_to_admit_nothing(load, capsys):
    assert load("message_breakdown").main(["--seeds", "1", "--subsets", "25"]) == 0
    assert "a minority admits nothing" in capsys.readouterr().out
