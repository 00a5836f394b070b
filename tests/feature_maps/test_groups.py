"""Groups of columns: as users say them, their scores, the tree whose parts are left out, and FGM that selects them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import daskfs
from daskfs.errors import DaskfsError
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.kernels.fgm.topk import largest
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.names import Names
from daskfs.result import SelectionResult
from daskfs.selectors.fgm.candidates import StoredGroups
from daskfs.selectors.fgm.plan import Units, choose_sizes, cut_columns
from daskfs.selectors.fgm.selector import FGM
from daskfs.selectors.fgm.standardising import Scaling, column_moments
from daskfs.selectors.shared.run import Run
from tests.refusals import refused
from tests.tolerances import FLOAT32, answer_of, assert_close, assert_same_answer

NAMES = Names(5, np.array(["age", "job=a", "job=b", "day.month", "day.year"], dtype=object))
SCORES = st.one_of(st.just(0.0), st.sampled_from([1.0, 2.0]), st.floats(0.0, 1e6))


def lists_of(groups):
    return [groups[g].tolist() for g in range(groups.n_groups)]


@pytest.mark.parametrize(
    ("wanted", "lists", "names"),
    [
        ([1, 0, 0, 1, 2], [[0, 3], [1, 2], [4]], ["1", "0", "2"]),
        (np.array([7, 7, 7, 7, 7]), [[0, 1, 2, 3, 4]], ["7"]),
        (["a", None, "b", "a", float("nan")], [[0, 3], [1], [2], [4]], ["a", "job=a", "b", "day.year"]),
        (pd.Series({"day.year": "date", "day.month": "date"}), [[0], [1], [2], [3, 4]], [*NAMES[:3], "date"]),
        ([[0, 1], ["job=a", "job=b"]], [[0, 1], [1, 2], [3], [4]], ["group 0", "group 1", *NAMES[3:]]),
        ({"job": ["job=a", 2], "age": "age"}, [[1, 2], [0], [3], [4]], ["job", "age", *NAMES[3:]]),
        (
            {"person": {"age": 0, "job": [1, 2]}, "day": [3, 4]},
            [[0, 1, 2], [0], [1, 2], [3, 4]],
            ["person", "person/age", "person/job", "day"],
        ),
        ("schema", [[0], [1, 2], [3, 4]], ["age", "job", "day"]),
    ],
)
def test_groups_are_said_in_many_ways(wanted, lists, names):
    of_table = np.array(["age", "job", "job", "day", "day"], dtype=object)
    groups = FeatureGroups.given(wanted, 5, NAMES, of_table)
    assert lists_of(groups) == lists
    assert list(groups.names) == names


@pytest.mark.parametrize("form", ["mapping", "tree", "lists"])
def test_names_of_all_groups_are_looked_up_at_once(form, monkeypatch):
    def one_by_one(names, name, *bounds):
        raise AssertionError("scans all names for one")

    monkeypatch.setattr(Names, "index", one_by_one)
    names = Names(6, np.array(list("abcdef"), dtype=object))
    wanted = {"mapping": {"g": ["a", "c"], "h": "e"}, "tree": {"t": {"g": ["a", "c"]}, "h": ["e", 1]}}
    found = FeatureGroups.given(wanted.get(form, [["a", "c"], ["e"]]), 6, names)
    assert found.members[: found.bounds[1]].tolist() == [0, 2]


def test_groups_of_a_file_may_overlap_and_name_features_that_are_not_there(tmp_path):
    path = tmp_path / "genes.csv"
    path.write_text("name,pathway\nage,one\njob=a,one\njob=a,two\nnobody,two\nday.year,\n")
    groups = FeatureGroups.given({"file": str(path), "column": "pathway"}, 5, NAMES)
    assert lists_of(groups) == [[0, 1], [1], [2], [3], [4]]
    assert groups.is_tree
    assert groups.text == "a tree of 5 groups of 1 to 2 columns each"
    with refused(DaskfsError, "groups", naming=["'gene'"]):
        FeatureGroups.given({"file": str(path), "column": "gene"}, 5, NAMES)


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ([1, 2], "expected a label for each of 5 columns, found 2"),
        ([[0, 5]], "expected columns from 0 to 4, found 5"),
        ([["agee"]], "expected the name of a column, found 'agee'"),
        ([[0, 0]], "a column occurs twice"),
        ({"a": {}}, "expected columns, found none"),
        ({"a": []}, "expected columns, found none"),
        ("schema", "does not know the table columns"),
        ({"file": "/nowhere.csv", "column": "a"}, "cannot be read"),
    ],
)
def test_groups_that_cannot_be_are_refused_with_their_place(wanted, problem):
    with pytest.raises(DaskfsError, match=problem):
        FeatureGroups.given(wanted, 5, NAMES)


@st.composite
def trees(draw, n_columns):
    """Draw nested groups, in any order: each is split in two or more, some not at all."""
    lists, waiting = [], [list(draw(st.permutations(range(n_columns))))]
    while waiting:
        group = waiting.pop()
        lists.append(group)
        if len(group) > 1 and draw(st.booleans()):
            cuts = sorted(draw(st.sets(st.integers(1, len(group) - 1), min_size=1, max_size=3)))
            waiting += [group[a:b] for a, b in zip([0, *cuts], [*cuts, len(group)], strict=True)]
    return draw(st.permutations(lists))


@pytest.mark.slow
@given(st.data())
def test_a_pruned_tree_gives_what_a_scan_of_all_groups_gives(data):
    n_columns = data.draw(st.integers(2, 30))
    groups = FeatureGroups.given(data.draw(trees(n_columns)), n_columns)
    scores = data.draw(arrays(np.float64, n_columns, elements=SCORES))
    n_wanted = data.draw(st.integers(1, groups.n_groups + 2))
    found, sums, n_visited = groups.largest(scores, n_wanted)
    everything, all_sums = largest(groups.sums(scores), 0, n_wanted)
    np.testing.assert_array_equal(found, everything)
    np.testing.assert_array_equal(sums, all_sums)
    assert n_visited <= groups.n_groups


@pytest.mark.slow
@given(st.data())
def test_a_tree_pruned_with_what_chance_gives_is_a_scan_of_all_groups_too(data):
    """A part may be worth more than the whole then: it has less by chance."""
    n_columns = data.draw(st.integers(2, 30))
    groups = FeatureGroups.given(data.draw(trees(n_columns)), n_columns)
    scores = data.draw(arrays(np.float64, n_columns, elements=st.integers(0, 20).map(float)))
    by_chance = groups.sums(data.draw(arrays(np.float64, n_columns, elements=st.integers(0, 20).map(float))))
    n_wanted = data.draw(st.integers(1, groups.n_groups + 2))
    found, excess, _ = groups.largest(scores, n_wanted, by_chance)
    sums = groups.sums(scores)
    order = np.lexsort((np.arange(groups.n_groups), by_chance - sums))
    expected = order[sums[order] > 0.0][:n_wanted]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(excess, (sums - by_chance)[expected])


@pytest.mark.slow
def test_most_of_a_large_tree_is_left_out():
    """The prototype visited 493 of 32,767 groups of a binary tree, the best first; here level by level."""
    n_columns = 1 << 14
    lists = [range(a, a + width) for width in 2 ** np.arange(15) for a in range(0, n_columns, width)]
    groups = FeatureGroups.given(lists, n_columns)
    assert groups.is_tree
    shares = []
    for seed in range(5):
        scores = np.random.default_rng(seed).standard_normal(n_columns) ** 2
        scores[:8] *= 1000.0
        shares.append(groups.largest(scores, 10)[2] / groups.n_groups)
    print(f"share of the groups visited: {np.median(shares):.4f}")
    assert max(shares) < 0.05


@pytest.mark.slow
@given(st.data())
def test_a_group_scores_the_sum_of_the_squares_of_its_columns_dense_or_sparse(data):
    n_samples, n_columns = 40, data.draw(st.integers(2, 12))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    X = np.where(rng.random((n_samples, n_columns)) < 0.5, rng.standard_normal((n_samples, n_columns)), 0.0)
    lists = data.draw(st.lists(st.sets(st.integers(0, n_columns - 1), min_size=1), min_size=1, max_size=5))
    groups = FeatureGroups.given([sorted(columns) for columns in lists], n_columns)
    v = rng.standard_normal((2, n_samples))
    sizes = choose_sizes(None, 3, None, Units(groups.n_groups, groups.most_columns, groups.most_groups))
    standardised = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0.0, X.std(axis=0), np.inf)
    expected = [np.linalg.norm(v @ standardised[:, columns]) ** 2 for columns in lists_of(groups)]
    found = []
    for kind in (np.asarray, scipy.sparse.csr_array):
        run = Run(ArrayMatrix(kind(X)), "fgm").over(ArrayMatrix(kind(X)), by="columns")
        cut = cut_columns(run.shape, sizes, run.limits, "in place", 2)
        moments = column_moments(run, cut, np.ones(n_samples), False)
        candidates = StoredGroups(run, cut, Scaling.of(moments, n_samples, True, True), groups, False)
        found.append(candidates.worst_case(v, groups.n_groups, 3, np.empty(0, np.int64)))
        scores = np.zeros(groups.n_groups)
        scores[found[-1].units] = found[-1].scores
        np.testing.assert_allclose(scores, expected, rtol=1e-8, atol=1e-8)
        assert found[-1].quadratic == pytest.approx(sum(sorted(expected)[-3:]))
    assert_close(found[0].scores, found[1].scores)


def make(n_samples=600, n_features=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features)).astype(np.float32)
    y = X[:, :10].astype(float) @ rng.standard_normal(10) + 0.5 * rng.standard_normal(n_samples)
    return X, (y > 0.0).astype(float)


@pytest.mark.nightly
@pytest.mark.parametrize("solver", ["apg", "exact"])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_overlapping_groups_are_what_copies_of_their_columns_are(solver, loss):
    X, y = make()
    lists = [list(range(k, k + 8)) for k in range(0, 53, 4)]
    options = {"n_features_per_pass": 3, "loss": loss, "C": 0.05, "solver": solver, "inner_tol": 1e-6, "max_inner": 500}
    members, labels = np.concatenate(lists), np.repeat(np.arange(len(lists)), 8)
    shared = FGM(5, feature_groups=lists, debias=False, **options).fit(X, y)
    copied = FGM(5, feature_groups=labels, debias=False, **options).fit(X[:, members], y)
    np.testing.assert_array_equal(shared.groups_, copied.groups_)
    np.testing.assert_allclose(shared.group_scores_, copied.group_scores_, rtol=1e-3)
    together = np.bincount(members, weights=copied.coef_, minlength=60)
    np.testing.assert_allclose(shared.coef_, together, atol=1e-3 * np.abs(together).max())
    np.testing.assert_array_equal(shared.selected_.size, np.unique(members[np.isin(labels, copied.groups_)]).size)


def test_groups_of_one_column_are_columns():
    X, y = make()
    for more in ({"n_features_to_select": 7}, {"tol": 0.01}, {"validation": 0.2, "C": "validation"}):
        alone, grouped = (FGM(**more, feature_groups=given).fit(X, y) for given in (None, list(range(60))))
        expected = answer_of(alone)
        del expected["stopped"]  # which speaks of features, not of groups
        assert_same_answer(grouped, expected, FLOAT32)


def test_a_group_is_selected_whole_and_groups_are_counted():
    X, y = make()
    labels = np.arange(60) // 5
    selector = FGM(2, feature_groups=labels).fit(X, y)
    assert set(selector.groups_) == {0, 1}
    np.testing.assert_array_equal(np.sort(selector.selected_), np.arange(10))
    assert selector.group_names_.tolist() == [str(g) for g in selector.groups_]
    assert (np.diff(selector.group_scores_) <= 0.0).all()
    table = selector.result_.table
    assert table["group"].astype(int).tolist() == (selector.selected_ // 5).tolist()
    assert selector.transform(X).shape == (600, 10)


@pytest.mark.parametrize("asked", [3, 9, 10, 11, 23])
def test_columns_are_counted_exactly_where_sizes_allow_it(asked):
    X, y = make()
    groups = [list(range(0, 5)), list(range(5, 12)), list(range(12, 30))]
    selector = FGM(asked, feature_groups=groups, counts="features").fit(X, y)
    assert len(selector.selected_) == asked
    for columns in groups:
        assert np.isin(columns, selector.selected_).all() or not np.isin(columns, selector.selected_).any()


def test_groups_that_do_not_fit_in_the_number_asked_for_are_told_of():
    X, y = make(n_features=20)
    with pytest.warns(UserWarning, match="10 of the 13 features asked for"):
        selector = FGM(13, feature_groups=np.arange(20) // 10, counts="features").fit(X, y)
    assert any("no further group fits" in note for note in selector.result_.notes)


def test_the_score_of_a_group_may_be_the_mean_of_its_columns():
    """Ten columns that say a little win against one that says more by their sum, and lose by their mean."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 11))
    y = X[:, 0] + 0.5 * X[:, 1:].sum(axis=1)
    groups = [[0], list(range(1, 11))]
    for score, first in (("sum", 1), ("mean", 0)):
        selector = FGM(1, feature_groups=groups, group_score=score, loss="squared").fit(X, y)
        assert selector.groups_.tolist() == [first]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*constant")
def test_a_group_is_not_taken_for_its_size():
    """Of 400 dummies that say nothing the sum of scores is larger than of two that matter, over many draws."""
    first: dict[str, list[int]] = {"sum": [], "excess": []}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        many, few = rng.integers(0, 400, 3000), rng.integers(0, 3, 3000)
        X = np.concatenate([many[:, None] == np.arange(400), few[:, None] == np.arange(3)], axis=1).astype(float)
        y = (few == 0) * 0.25 + rng.standard_normal(3000)
        for score, found in first.items():
            selector = FGM(1, feature_groups=[range(400), range(400, 403)], group_score=score, loss="squared").fit(X, y)
            found += selector.groups_.tolist()
    assert sum(first["sum"]) < 6
    assert sum(first["excess"]) == 10


def test_a_tree_says_how_much_of_it_was_looked_at():
    X, y = make()
    tree = {"all": {f"g{k}": {"a": [5 * k, 5 * k + 1], "b": [5 * k + 2, 5 * k + 3, 5 * k + 4]} for k in range(12)}}
    whole = FGM(2, feature_groups=tree).fit(X, y)
    assert any("the tree was pruned" in note for note in whole.result_.notes)
    mean = FGM(2, feature_groups=tree, group_score="mean").fit(X, y)
    assert any("no subtree could be skipped" in note for note in mean.result_.notes)


@pytest.fixture
def store(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((400, 4)), columns=list("abcd"))
    frame["job"] = rng.choice(["x", "y", "z"], 400)
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, 400), "D")
    frame["y"] = 3.0 * (frame["job"] == "y") + frame["b"] + 0.1 * rng.standard_normal(400)
    day = {"dtype": "date", "encoding": {"date_parts": ["year", "month"], "as": "number"}}
    columns = {name: {} for name in frame} | {"day": day, "job": {"dtype": "string"}}
    return daskfs.ingest(frame, tmp_path / "t.zarr", target="y", schema={"columns": columns})


def test_a_store_of_a_table_knows_which_features_came_from_which_column(store):
    assert store.table_columns.tolist() == ["a", "b", "c", "d", "job", "job", "job", "day", "day"]
    for matrix in (store, store.take(np.arange(300))):
        selector = FGM(2, feature_groups="schema").fit(matrix)
        assert set(selector.group_names_) == {"job", "b"}
    names = selector.get_feature_names_out()
    assert names.tolist() == ["b", "job=x", "job=y", "job=z"]


def test_groups_are_in_the_saved_result(store, tmp_path):
    result = FGM(2, feature_groups="schema").fit(store).result_
    result.save(tmp_path / "result")
    pd.testing.assert_frame_equal(SelectionResult.load(tmp_path / "result").table, result.table, check_dtype=False)


def test_arrays_have_no_schema():
    with refused(DaskfsError, "groups", at="feature_groups", naming=["know"]):
        FGM(1, feature_groups="schema").fit(*make())


def test_a_plan_counts_the_columns_of_groups():
    sizes = {"n_samples": 100_000, "n_features": 1000, "dtype": "float32", "memory_limit": None}
    alone = FGM(10).plan(**sizes)
    grouped = FGM(10, feature_groups=np.arange(1000) // 50).plan(**sizes)
    assert grouped.client_nbytes > alone.client_nbytes + 400 * 100_000 * 4
    assert "20 groups of 50 columns each" in grouped.text
    assert FGM(10, feature_groups="schema").plan(**sizes).client_nbytes == alone.client_nbytes  # known with a store
