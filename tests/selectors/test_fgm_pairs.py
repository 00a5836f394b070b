"""FGM selects squares and products of columns as it would if they were columns, and makes those alone."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import yaml
from sklearn.base import clone
from sklearn.preprocessing import PolynomialFeatures

import daskfs
from daskfs.cells import digits
from daskfs.errors import ConfigError, PlanError
from daskfs.feature_maps import Polynomial, products
from daskfs.kernels.fgm.pairs import n_implicit, number_of
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.result import SelectionResult
from daskfs.selected_table import parents_in
from daskfs.sources.ingest import ingest
from tests.refusals import refused

NAMES = ["age", "income", "rooms", "debt", "years", "visits", "height", "taps"]


def table(n_samples=900, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, len(NAMES))) + 3.0
    u = X - 3.0
    z = u[:, 0] * u[:, 1] - 1.5 * u[:, 2] ** 2 + u[:, 4] + 1.5
    return X, np.where(z + 0.3 * rng.standard_normal(n_samples) > 0.0, "yes", "no")


TERMS = {"age * income", "rooms^2", "years"}


def test_what_counts_is_selected_named_and_predicted_from():
    X, y = table()
    frame = pd.DataFrame(X, columns=NAMES)
    selector = daskfs.FGM(3, n_features_per_pass=1, feature_map=Polynomial()).fit(frame, y)
    assert {*selector.get_feature_names_out()} == TERMS == {*selector.result_.table["name"]}
    assert selector.n_features_in_ == 8
    assert selector.result_.n_features == n_implicit(8)
    assert [NAMES[j] for j in np.flatnonzero(selector.support_)] == ["age", "income", "rooms", "years"]
    X_new, y_new = table(seed=1)
    assert selector.score(pd.DataFrame(X_new, columns=NAMES), y_new) > 0.88
    linear = daskfs.FGM(3).fit(frame, y)
    assert linear.score(pd.DataFrame(X_new, columns=NAMES), y_new) < 0.75


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_each_product_is_shown_with_what_its_columns_do_alone(kind):
    """Scores of the squared and logistic loss are squared correlations with the target, where columns have no prior."""
    X, y = table()
    X -= 3.0
    X[:, 7] = 0.0  # constant
    selector = daskfs.FGM(3, n_features_per_pass=1, feature_map="pairs").fit(kind(X), y)
    made = {(0, 1): X[:, 0] * X[:, 1], (2,): X[:, 2] ** 2, (4,): X[:, 4]}
    if kind is np.asarray:
        u = X - X.mean(axis=0)
        made |= {(0, 1): u[:, 0] * u[:, 1], (2,): u[:, 2] ** 2}
    alone = np.array([np.corrcoef(x, y == "yes")[0, 1] ** 2 if x.any() else 0.0 for x in X.T])
    ranks = {j: 1 + int((alone > alone[j]).sum()) for j in range(8)}
    table_ = selector.result_.table
    assert len(table_) == 3
    for row in table_.to_dict("records"):
        parents = parents_in(row)
        numbers = tuple(int(parent.name.removeprefix("x")) for parent in parents)
        assert row["name"] == " * ".join(f"x{j}" for j in numbers) + "^2" * (numbers == (2,))
        expected = np.corrcoef(made[numbers], y == "yes")[0, 1] ** 2
        assert row["first_score"] == pytest.approx(expected, rel=1e-4)
        assert [parent.score for parent in parents] == pytest.approx(alone[list(numbers)], rel=1e-4)
        assert [parent.rank for parent in parents] == [ranks[j] for j in numbers]


@pytest.mark.slow
def test_what_columns_do_alone_is_what_fgm_sees_of_them_without_a_map(tmp_path):
    """Of three classes, dummies, weights and rows held out, in a store: the same ranks as in the first pass."""
    rng = np.random.default_rng(2)
    X = (rng.random((400, 12)) < 0.3).astype(float)
    y = (X[:, 0] * X[:, 1] + X[:, 5] + (rng.random(400) < 0.3)).astype(int).clip(0, 2)
    store = ingest(X, tmp_path / "x.zarr", y=y, weight=rng.integers(1, 4, 400).astype(float))
    options = {"n_features_to_select": 12, "n_features_per_pass": 12, "loss": "logistic"}
    options |= {"validation": 0.2, "random_state": 0}
    for feature_map in ("pairs", "histogram_intersection"):
        table_ = daskfs.FGM(**options, feature_map=feature_map).fit(store).result_.table
        found = {of.name: of for row in table_.to_dict("records") for of in parents_in(row)}
        assert len(found) > 5
        assert all(0.0 <= of.score <= 1.0 for of in found.values())
        for name, of in found.items():
            plain = daskfs.FGM(**options | {"n_features_to_select": of.rank}, max_passes=1).fit(store)
            assert name in {*plain.result_.table["name"]}
            if of.rank > 1:
                fewer = daskfs.FGM(**options | {"n_features_to_select": of.rank - 1}, max_passes=1).fit(store)
                assert name not in {*fewer.result_.table["name"]}


def test_the_features_of_new_data_are_made_of_what_they_are_products_of():
    X, y = table()
    selector = daskfs.FGM(3, n_features_per_pass=1, feature_map="pairs").fit(pd.DataFrame(X, columns=NAMES), y)
    X_new = table(40, seed=2)[0]
    u = X_new - X.mean(axis=0)
    expected = {"years": X_new[:, 4], "age * income": u[:, 0] * u[:, 1], "rooms^2": u[:, 2] ** 2}
    expected = np.column_stack([expected[name] for name in selector.get_feature_names_out()])
    made = np.asarray(selector.transform(pd.DataFrame(X_new, columns=NAMES)))
    np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-6)
    z = selector.decision_function(pd.DataFrame(X_new, columns=NAMES))
    ascending = np.argsort(selector.selected_)
    np.testing.assert_allclose(z, made @ selector.coef_[ascending] + selector.intercept_, rtol=1e-9)

    import dask.dataframe as dd

    lazy = dd.from_pandas(pd.DataFrame(X_new, columns=NAMES), npartitions=3)
    np.testing.assert_allclose(np.asarray(selector.transform(lazy).compute()), made)
    assert (np.asarray(selector.predict(lazy).compute()) == selector.predict(pd.DataFrame(X_new, columns=NAMES))).all()
    again = pickle.loads(pickle.dumps(selector))
    X_new = pd.DataFrame(X_new, columns=NAMES)
    np.testing.assert_array_equal(again.predict(X_new), selector.predict(X_new))
    assert clone(selector).feature_map == "pairs"


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_same_is_selected_from_the_columns_as_if_they_were_made(loss, is_sparse):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((500, 12)) * (rng.random((500, 12)) < (0.4 if is_sparse else 1.0))
    y = X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3] + X[:, 5] + X[:, 7] ** 2 > 0.8
    options = {
        "n_features_to_select": 12,
        "n_features_per_pass": 2,
        "loss": loss,
        "C": 0.01,
        "certify": True,
        "normalize": True,
    }
    u = X if is_sparse else X - X.mean(axis=0)
    made = PolynomialFeatures(2, include_bias=False).fit_transform(u)
    explicit = daskfs.FGM(**options).fit(made, y)
    implicit = daskfs.FGM(**options, feature_map=Polynomial())
    implicit.fit(scipy.sparse.csr_matrix(X) if is_sparse else X, y)
    assert {*implicit.selected_.tolist()} == {*explicit.selected_.tolist()}
    np.testing.assert_allclose(np.sort(implicit.scores_), np.sort(explicit.scores_[explicit.selected_]), rtol=1e-5)
    assert implicit.dual_gap_ == pytest.approx(explicit.dual_gap_, rel=1e-4)


@pytest.fixture(scope="module")
def sparse_data():
    rng = np.random.default_rng(5)
    X = scipy.sparse.csr_array((rng.random((1200, 300)) < 0.2).astype(np.float32))
    dense = X.toarray()
    z = dense[:, 3] - dense[:, 8] + 3.0 * dense[:, 10] * dense[:, 20] + rng.standard_normal(1200) * 0.4
    return X, (z > 0.3).astype(int)


@pytest.mark.slow
def test_workers_change_no_bit(sparse_data, workers, tmp_path):
    X, y = sparse_data
    options = {"n_features_to_select": 15, "n_features_per_pass": 3, "feature_map": Polynomial(gamma=2.0)}
    found = []
    for matrix in (ArrayMatrix(scipy.sparse.csr_matrix(X), y), ingest(X, tmp_path / "s.zarr", y=y)):
        alone = daskfs.FGM(**options).fit_matrix(matrix)
        spread = daskfs.FGM(**options).fit_matrix(matrix, workers=workers)
        np.testing.assert_array_equal(alone.selected_, spread.selected_)
        np.testing.assert_array_equal(alone.coef_, spread.coef_)
        found.append({*alone.selected_.tolist()})
    assert found[0] == found[1]  # a store has the rows in another order
    assert {3, 8, number_of(10, 20, 300)} <= found[0]


def test_a_hierarchy_selects_products_of_what_is_selected():
    X, y = table()
    selector = daskfs.FGM(4, n_features_per_pass=1, feature_map=Polynomial(hierarchy="weak")).fit(X, y)
    columns = {j for j in selector.selected_.tolist() if j < 8}
    made = selector.made_.parents_of()
    assert len(columns) < 4
    assert all(columns & {*of.tolist()} for of in made)


@pytest.mark.slow
def test_of_sparse_columns_products_of_selected_ones_alone_are_summed(sparse_data, monkeypatch):
    """A weak hierarchy costs what the selected columns cost, not a pass over all pairs."""
    counts = []
    kernel = products.offer_sparse_pairs
    monkeypatch.setattr(products, "offer_sparse_pairs", lambda *given: (kernel(*given), counts.append(given[-1][0])))
    X, y = sparse_data
    found = {}
    for hierarchy in ("weak", None):
        counts.clear()
        daskfs.FGM(4, n_features_per_pass=1, feature_map=Polynomial(hierarchy=hierarchy)).fit(X, y)
        found[hierarchy] = sum(counts) / len(counts)
    assert found["weak"] < found[None] / 10


PIPELINE = {
    "version": 1,
    "name": "pairs",
    "source": {"kind": "csv", "path": "people.csv", "target": "bought"},
    "store": {"path": "people.zarr"},
    "split": {"test": 0.2},
    "features": {"map": "pairs", "gamma": 2.0},
    "select": {"method": "fgm", "n_features_to_select": 3, "n_features_per_pass": 1},
    "output": "run",
}


@pytest.fixture
def folder(tmp_path):
    X, y = table()
    pd.DataFrame(X, columns=NAMES).assign(bought=y).to_csv(tmp_path / "people.csv", index=False)
    return tmp_path


def written(folder, **changes):
    (folder / "pairs.yaml").write_text(yaml.safe_dump({**PIPELINE, **changes}))
    return load_pipeline(folder / "pairs.yaml")


@pytest.mark.slow
def test_a_pipeline_selects_products_and_its_result_is_read_again(folder):
    outcome = run_pipeline(written(folder))
    (result,) = outcome.results.values()
    assert {*result.table["name"]} == TERMS
    again = SelectionResult.load(folder / "run")
    assert [*again.table["name"]] == [*result.table["name"]]
    pd.testing.assert_frame_equal(again.table, result.table, check_exact=True)
    page = (folder / "run" / "report.html").read_text()
    (line,) = (row for row in result.table.to_dict("records") if row["name"] == "age * income")
    age, income = parents_in(line)
    assert (age.name, income.name) == ("age", "income")
    assert max(age.score, income.score) < line["first_score"] / 5
    cells = [line["name"], *map(digits, (line["first_score"], age.score, income.score)), str(age.rank)]
    assert all(f">{cell}</td>" in page for cell in cells)
    assert "rank alone" in page


def test_a_pipeline_restricts_products_by_names(folder):
    pipeline = written(folder, features={"map": "pairs", "between": [["age", "rooms"], ["inc*", "debt"]]})
    (result,) = run_pipeline(pipeline).results.values()
    assert "age * income" in {*result.table["name"]}
    assert "rooms^2" not in {*result.table["name"]}


def test_a_plan_says_how_many_features_there_are_and_what_a_pass_costs():
    plan = daskfs.FGM(20, feature_map="pairs").plan(1_000_000, 4_590_000, "float32", 3 << 30, n_entries=29_000_000)
    assert "10,534,052,295,000 squares and products of 4,590,000 columns" in plan.text
    assert "products of entries per pass" in plan.text
    assert "one for the scores of the original columns" in plan.text
    with pytest.raises(PlanError):
        daskfs.FGM(20, feature_map="pairs").plan(1_000_000, 4_590_000, "float32", 100 << 20, n_entries=29_000_000)


def test_a_plan_counts_what_is_asked_for_where_names_are_known(folder):
    from daskfs.pipeline.checks import check_pipeline
    from daskfs.pipeline.facts import facts_of
    from daskfs.pipeline.plan import plan_pipeline

    def text(pipeline):
        return plan_pipeline(pipeline, facts_of(pipeline, check_pipeline(pipeline))).to_text()

    between = {"map": "pairs", "between": [["age", "rooms"], ["inc*", "debt"]]}
    before = text(written(folder, features=between))
    assert "36 squares and products of 8 columns" in before
    assert "whose names are not known yet" in before
    ingest(folder / "people.csv", folder / "people.zarr", target="bought")
    assert "4 squares and products of 8 columns, and of these themselves, " in text(written(folder, features=between))
    with refused(ConfigError, "feature-maps", at="within", naming=["'incomes'", "'income'"]):
        text(written(folder, features={"map": "pairs", "within": [["age", "incomes"]]}))


def test_a_map_and_groups_are_not_asked_for_together():
    X, y = table(60)
    with pytest.raises(ConfigError):
        daskfs.FGM(3, feature_map="pairs", feature_groups=[[0, 1]]).fit(X, y)


def test_numbers_are_those_of_all_products():
    X, y = table()
    selector = daskfs.FGM(1, feature_map=Polynomial(within=[0, 1], r=0.0, squares=False)).fit(X, y)
    assert selector.selected_.tolist() == [number_of(0, 1, 8)]
