"""Where no loss is named the target says which: the same for arrays, frames, stores, Dask collections and plans."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier, is_regressor
from sklearn.datasets import load_iris
from typer.testing import CliRunner

import daskfs
from daskfs.baselines import IHT, FullData, Grafting, L1Liblinear
from daskfs.cli import app
from daskfs.errors import ConfigError, DataError
from daskfs.losses import TargetKind
from daskfs.matrix.target import MOST_DOUBTED, MOST_GUESSED, ROWS_FOR_EACH, kind_of
from daskfs.methods import METHODS, find_method
from daskfs.parameters import LossOf, parameters_of
from tests.refusals import refused

N = 300
FEW = {"n_features_to_select": 2}
SELECTORS = [daskfs.Message(n_subsets=3), daskfs.OnlineSubstitution(2), daskfs.FGM(2), daskfs.Mission(2)]
GUESSED = pytest.mark.filterwarnings("ignore:.*the target takes 3 whole values")


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).standard_normal((N, 12))


@pytest.fixture(scope="module")
def z(X):
    return 2.0 * X[:, 3] - X[:, 7]


def targets(z):
    """Targets by name, with the number of classes that each has; 0: numbers."""
    three = np.digitize(z, [-1.0, 1.0])
    return {
        "numbers": (z, 0),
        "texts": (np.where(z > 0, "yes", "no"), 2),
        "booleans": (z > 0, 2),
        "zeros and ones": ((z > 0).astype(int), 2),
        "ones and twos": (np.where(z > 0, 1.0, 2.0), 2),
        "three texts": (np.array(["a", "b", "c"])[three], 3),
        "a category": (pd.Series(three).astype("category"), 3),
        "whole numbers": (three, 3),
        "too large to be labels": (np.where(z > 0, 2.0**53, 2.0**54), 0),
    }


@GUESSED
@pytest.mark.slow_cases("booleans", "ones and twos", "three texts", "whole numbers")
@pytest.mark.parametrize("name", list(targets(np.zeros(3))))
def test_arrays_frames_stores_and_dask_collections_get_the_same_loss(X, z, name, tmp_path):
    y, n_classes = targets(z)[name]
    expected = {0: "squared", 2: "logistic", 3: "multinomial"}[n_classes]
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(12)])
    values = pd.Series(np.asarray(y), name="label").astype("category" if name == "a category" else np.asarray(y).dtype)
    store = daskfs.ingest(frame.assign(label=values), tmp_path / "s.zarr", target="label", dtype="float64")
    given = {
        "array": (X, y),
        "frame": (frame, values),
        "store": (store, None),
        "half of a store": (store.split(0.5)[0], None),
        "dask array": (da.from_array(X, chunks=(100, -1)), da.from_array(np.asarray(y), chunks=100)),
        "dask frame": (dd.from_pandas(frame, npartitions=3), dd.from_pandas(values, npartitions=3)),
    }
    for kind, (rows, target) in given.items():
        selector = daskfs.Message(n_subsets=3).fit(rows, target)
        assert selector.loss_ == selector.result_.parameters["loss"] == expected, kind
        assert selector.loss == "auto"
        assert is_regressor(selector) == (n_classes == 0)
        assert is_classifier(selector) == (n_classes > 0)
        if n_classes and "store" not in kind:
            assert set(np.asarray(selector.predict(rows))) <= set(np.asarray(y)), kind


@GUESSED
@pytest.mark.parametrize("as_table", [False, True], ids=["array", "table"])
@pytest.mark.parametrize("dtype", ["boolean", "Int64", "int64[pyarrow]", object])
def test_classes_keep_the_type_of_their_values(X, z, dtype, as_table):
    y = z > 0 if dtype in ("boolean", object) else (z > 0).astype(int)
    rows = pd.DataFrame(X).assign(word=np.where(z > 1, "a", "b")).rename(columns=str) if as_table else X
    fitted = daskfs.FGM(2).fit(rows, pd.Series(y).astype(dtype))
    assert fitted.classes_.dtype == fitted.predict(rows).dtype == y.dtype


@GUESSED
@pytest.mark.parametrize("selector", SELECTORS, ids=lambda one: type(one).__name__)
def test_two_classes_are_not_regressed(X, z, selector):
    label = np.where(z > 0, "high", "low")
    fitted = selector.fit(X, label)
    assert fitted.loss_ in ("logistic", "squared_hinge")
    assert list(fitted.classes_) == ["high", "low"]
    assert fitted.score(X, label) > 0.9


@pytest.mark.slow_cases("iht_sgd")
@pytest.mark.filterwarnings("ignore:.*the target takes 3 whole values")
@pytest.mark.parametrize("method", list(METHODS))
def test_a_method_takes_three_classes_or_says_what_does(X, z, method):
    y = np.array(["a", "b", "c"])[np.digitize(z, [-1.0, 1.0])]
    selector = find_method(method)()
    selector.set_params(**{name: value for name, value in FEW.items() if name in selector.get_params()})
    tags = selector.__sklearn_tags__().classifier_tags
    if tags is not None and tags.multi_class:
        assert len(selector.fit(X, y).classes_) == 3
        assert selector.loss_ != "squared"
        return
    with pytest.raises(ValueError, match=r"Only binary classification|takes .*; use message, .* or fgm"):
        selector.fit(X, y)


def test_iris_is_classified_and_that_is_said():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match=r"takes 3 whole values, which were taken for classes .*'squared'.* numbers"):
        selector = daskfs.Message(n_subsets=2).fit(X, y)
    assert selector.loss_ == "multinomial"
    assert any("set that loss" in note for note in selector.result_.notes)
    assert daskfs.Message(n_subsets=2, loss="squared").fit(X, y).loss_ == "squared"  # named: without a word


@pytest.mark.parametrize(
    ("y", "n_classes", "is_doubted"),
    [
        (np.arange(N) % 2, 2, False),
        (np.arange(N) % 2 * 0.5, 0, False),
        (np.arange(N) % MOST_GUESSED, MOST_GUESSED, True),
        (np.arange(N) % (MOST_GUESSED + 1), 0, True),
        (np.arange(20 * MOST_DOUBTED) % (MOST_DOUBTED + 1), 0, False),
        (np.arange(ROWS_FOR_EACH * 4) % 4, 4, True),
        (np.arange(ROWS_FOR_EACH * 4 - 1) % 4, 0, False),
        (np.arange(N) % 3 + 0.5, 0, False),
        (np.ones(N), 0, False),
    ],
)
def test_few_whole_values_are_classes(y, n_classes, is_doubted):
    kind = kind_of(y)
    assert (kind.n_classes, kind.n_whole > 0) == (n_classes, is_doubted)
    assert not kind.is_declared


def test_many_whole_values_are_numbers_and_that_is_said(X):
    y = np.arange(N) % 30
    with pytest.warns(UserWarning, match=r"takes 30 whole values, which were taken for numbers .*'multinomial'"):
        assert daskfs.Message(n_subsets=2).fit(X + y[:, None] * (np.arange(12) == 3), y).loss_ == "squared"


@pytest.mark.parametrize("made", [daskfs.Message, daskfs.OnlineSubstitution, daskfs.FGM, daskfs.Mission, FullData])
def test_texts_are_not_squared(X, z, made, tmp_path):
    y = np.where(z > 0, "high", "low")
    with refused(ConfigError, "losses", at="loss", naming=["squared", "'logistic'"]):
        made(loss="squared").fit(X, y)
    store = daskfs.ingest(pd.DataFrame(X).assign(y=y), tmp_path / "s.zarr", target="y")
    with refused(ConfigError, "losses", at="loss", naming=["squared"]):
        made(loss="squared").fit(store)


@pytest.mark.parametrize("made", [daskfs.Message, daskfs.OnlineSubstitution, daskfs.FGM, daskfs.Mission, FullData])
def test_a_continuous_target_has_no_classes(X, z, made, tmp_path):
    store = daskfs.ingest(X, tmp_path / "s.zarr", y=z)
    for refuses in (
        lambda selector: selector.fit(store),
        lambda selector: selector.plan(*store.shape, store.dtype, None, target=kind_of(z)),
    ):
        with refused(ConfigError, "losses", at="loss", naming=["logistic", "'squared'"]):
            refuses(made(loss="logistic"))
    assert not is_classifier(made(loss="squared").fit(store))
    with refused(ConfigError, "losses", at="loss", naming=["squared_hinge"]):
        L1Liblinear(2).fit(store)


def test_a_plan_of_a_continuous_target_refuses_a_loss_of_classes(X, z, tmp_path):
    lines = ["version: 1", "name: p", "store: {path: s.zarr}", "select: {method: fgm, loss: logistic}", "output: run"]
    (tmp_path / "p.yaml").write_text("\n".join(lines))
    daskfs.ingest(X, tmp_path / "s.zarr", y=z)
    said = CliRunner().invoke(app, ["plan", str(tmp_path / "p.yaml")])
    assert said.exit_code == 2
    assert "the logistic loss needs class labels" in said.output


def test_methods_of_one_kind_say_so(X, z):
    with refused(ConfigError, "losses", at="loss", naming=["message", "mission", "fgm"]):
        IHT().fit(X, np.where(z > 0, "high", "low"))
    assert IHT(2).fit(X, (z > 0).astype(int)).loss_ == "squared"  # the numbers that they are, for there is no other way
    assert L1Liblinear(2).fit(X, z > 0).loss_ == "squared_hinge"
    with pytest.raises(ConfigError, match=r"looks? like classes; Grafting takes .*set loss='squared' if they are"):
        Grafting(2).fit(X, np.digitize(z, [-1.0, 1.0]))


@pytest.mark.parametrize("method", list(METHODS))
def test_no_loss_is_named_by_default(method):
    parameter = parameters_of(find_method(method)).get("loss")
    if parameter is not None:
        assert isinstance(parameter.kinds[0], LossOf)
        assert parameter.default == "auto"
        assert set(parameter.kinds[0].by_default) <= set(parameter.kinds[0].names)


def test_before_a_fit_it_is_neither_a_classifier_nor_a_regressor():
    assert not is_classifier(daskfs.Message())
    assert not is_regressor(daskfs.Message())
    assert is_classifier(daskfs.Message(loss="logistic"))
    assert is_regressor(daskfs.Message(loss="huber"))
    assert is_regressor(IHT())
    assert is_classifier(L1Liblinear())


def test_what_follows_from_the_loss_is_checked_once_it_is_known(X, z):
    weighted = daskfs.Mission(2, class_weight="balanced")
    weighted.fit(X, z > 0)
    with refused(ConfigError, "parameters", at="class_weight", naming=["squared"]):
        weighted.fit(X, z)


def test_rows_that_come_later_are_of_the_loss_of_the_first(X, z):
    y = np.where(z > 0, "high", "low")
    for selector in (daskfs.Message(n_subsets=2), daskfs.Mission(2)):
        selector.partial_fit(X[:150], y[:150]).partial_fit(X[150:], y[150:])
        assert selector.loss_ == "logistic"
        assert list(selector.classes_) == ["high", "low"]
    selector = daskfs.OnlineSubstitution(2).partial_fit_features(X[:, :6], y=y).partial_fit_features(X[:, 6:])
    assert selector.loss_ == "logistic"
    assert set(selector.predict(X)) == {"high", "low"}


def test_a_plan_knows_the_classes():
    size = (10_000, 500, "float32", None)
    nbytes = [daskfs.Mission(10).plan(*size, target=TargetKind(n)).task_nbytes for n in (0, 2, 3, 10)]
    assert nbytes[0] == nbytes[1] < nbytes[2] < nbytes[3]


def test_a_store_keeps_the_categories_of_its_target(X, z, tmp_path):
    y = pd.Series(np.where(z > 0, "yes", "no")).astype("category")
    store = daskfs.ingest(pd.DataFrame(X).assign(y=y), tmp_path / "s.zarr", target="y")
    assert store.target_classes == ("no", "yes")
    assert daskfs.open_store(tmp_path / "s.zarr").take(np.arange(9)).target_classes == ("no", "yes")
    assert daskfs.ingest(X, tmp_path / "numbers.zarr", y=z).target_classes is None


def test_a_selector_that_was_pickled_before_there_was_an_auto_still_predicts(X, z):
    selector = daskfs.Message(n_subsets=2, loss="logistic").fit(X, z > 0)
    state = selector.__getstate__()
    del state["loss_"]
    again = daskfs.Message.__new__(daskfs.Message)
    again.__setstate__(state)
    np.testing.assert_array_equal(again.predict(X), selector.predict(X))


@pytest.mark.parametrize(
    "y", [None, np.arange(18.0).reshape(9, 2), np.arange(8100.0).reshape(9, 900)], ids=["none", "two", "many"]
)
def test_a_store_without_a_target_or_with_several_is_refused(y, tmp_path):
    store = daskfs.ingest(np.arange(18.0).reshape(9, 2), tmp_path / "x.zarr", y=y)
    with refused(DataError, "target", at="y", naming=store.target_names[:5]) as fault:
        daskfs.FGM(1).fit(store)
    assert len(str(fault.value)) < 200
