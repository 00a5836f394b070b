"""MISSION of sparse sources without a store: ids, names that come back, files that follow, models that are saved."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from daskfs.errors import ConfigError, DataError, RunError, SelectionWarning
from daskfs.selectors.mission.selector import Mission
from daskfs.selectors.online_substitution.selector import OnlineSubstitution
from daskfs.selectors.shared.rows import ingest_order
from daskfs.sources.sparse.base import NamedIds, SparseBlock, SparseSource
from daskfs.sources.sparse.libsvm import LibsvmSource
from daskfs.sources.sparse.vw import VwSource
from tests.contract.lab import assert_same_bits
from tests.refusals import refused

N_WORDS, PER_ROW = 3000, 20
TRUE = {"w3": 4.0, "w10": -4.0, "w40": 3.0, "w77": -3.0, "w120": 4.0}


class Words(SparseSource):
    """Texts of words from a dictionary with rare words; features are ids, or numbers of columns."""

    kind = "words"
    feature_names = ()
    target_names = ("y",)

    def __init__(self, n_rows, seed=0, *, is_id=True, other_name="", with_names=True, weight=None):
        rng = np.random.default_rng(seed)
        share = 1.0 / (np.arange(N_WORDS) + 20.0)
        cut = np.cumsum(share / share.sum())
        words = np.searchsorted(cut, rng.random((n_rows, PER_ROW)))
        self.rows = [np.unique(row) for row in words]
        weights = np.zeros(N_WORDS)
        for name, one in TRUE.items():
            weights[int(name[1:])] = one
        z = np.array([weights[row].sum() for row in self.rows])
        self.y = np.where(z + rng.logistic(size=n_rows) > 0.0, 1.0, -1.0)
        self.features_are_ids, self.n_features = is_id, None if is_id else N_WORDS
        columns = np.arange(N_WORDS, dtype=np.uint64)
        self.ids = np.random.default_rng(9).integers(0, 2**63, N_WORDS, dtype=np.uint64) if is_id else columns
        self.other_name, self.with_names, self.weight, self.notes = other_name, with_names, weight, []

    def sparse_blocks(self, block_rows, block_nnz):
        for start in range(0, len(self.rows), block_rows):
            rows = self.rows[start : start + block_rows]
            features = np.concatenate([np.sort(self.ids[row]) for row in rows])
            indptr = np.cumsum([0, *map(len, rows)])
            known = np.unique(np.concatenate(rows))
            texts = [self.other_name if j == 10 and self.other_name else f"w{j}" for j in known]
            text = np.frombuffer("".join(texts).encode(), np.uint8).copy()
            names = NamedIds(self.ids[known], text, np.cumsum([0, *map(len, texts)]))
            weight = None if self.weight is None else self.weight[start : start + block_rows]
            y = self.y[start : start + block_rows]
            yield SparseBlock(start, indptr, features, None, y, weight, {}, names if self.with_names else None)

    def csr(self):
        indptr, columns = np.cumsum([0, *map(len, self.rows)]), np.concatenate(self.rows)
        return scipy.sparse.csr_array((np.ones(len(columns), np.float32), columns, indptr), (len(self.rows), N_WORDS))

    def row_blocks(self, *_):
        raise NotImplementedError

    def describe(self):
        return {}

    def digest(self):
        return ""


def make(**more):
    return Mission(**{"n_features_to_select": 5, "block_rows": 500, "n_buckets": 4096, **more})


@pytest.mark.slow
def test_a_source_is_learnt_from_as_its_rows_in_memory_are():
    source = Words(4000, is_id=False, with_names=False)
    for options in ({}, {"variant": "paper"}, {"loss": "squared_hinge"}):
        found = make(**options).fit_source(source, n_samples=4000)
        assert_same_but_for_history(found, make(**options).partial_fit(source.csr(), source.y))
        np.testing.assert_allclose(found.predict(source.csr()), found.predict(source))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_one_pass_over_known_rows_learns_as_a_stream_of_them_does(loss):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((1500, 12))
    y = 2.0 * X[:, 3] - X[:, 7] + rng.standard_normal(1500)
    y = y if loss == "squared" else np.where(y > 0.0, 1.0, -1.0)
    made = {"n_features_to_select": 3, "loss": loss, "refit": None, "n_buckets": 1024, "block_rows": 200}
    order = ingest_order(1500, 0)
    expected = Mission(**made).partial_fit(X[order], y[order])
    found = Mission(**made, n_epochs=1).fit(X, y)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.intercept_ == expected.intercept_


def test_where_all_columns_are_selected_each_has_its_own_coefficient(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.integers(1, 4, (400, 5))
    y = np.where(X @ [0.2, -2.0, 1.0, -0.5, 3.0] + rng.standard_normal(400) > 3.0, 1, -1)
    lines = [f"{label} " + " ".join(f"{j + 1}:{n}" for j, n in enumerate(row)) for label, row in zip(y, X, strict=True)]
    (tmp_path / "t.svm").write_text("\n".join(lines) + "\n")
    source = LibsvmSource(tmp_path / "t.svm")
    selector = make(n_features_to_select=5, n_buckets=64).fit_source(source)
    assert selector.selected_.tolist() != [0, 1, 2, 3, 4]
    np.testing.assert_allclose(selector.decision_function(source), selector.decision_function(X.astype(np.float32)))


def assert_same_but_for_history(found, expected):
    for name in ("selected_", "coef_", "intercept_", "scores_", "classes_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)


def test_rows_may_come_one_by_one():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((300, 6))
    y = 2.0 * X[:, 0] - X[:, 3] + 0.3 * rng.standard_normal(300)
    selector = Mission(2, random_state=0).partial_fit(X[:10], y[:10])
    for i in range(10, 300):
        selector.partial_fit(X[i : i + 1], y[i : i + 1])
    assert np.flatnonzero(selector.support_).tolist() == [0, 3]
    np.testing.assert_allclose(selector.coef_[[0, 3]], [2.0, -1.0], atol=0.4)


def test_the_first_rows_may_have_no_feature():
    X, y = np.zeros((80, 4)), np.arange(80) % 2
    X[40:, 1] = 2.0 * y[40:] - 1.0
    with pytest.warns(SelectionWarning, match="no feature was selected"):
        selector = Mission(1, random_state=0).partial_fit(scipy.sparse.csr_array(X[:40]), y[:40])
    assert selector.partial_fit(scipy.sparse.csr_array(X[40:]), y[40:]).selected_.tolist() == [1]


def test_names_of_ids_come_back_without_a_second_pass():
    selector = make().fit_source(Words(12_000))
    assert set(selector.result_.table["name"]) == set(TRUE)
    ids = Words(1).ids
    for name, index, coef in selector.result_.table[["name", "index", "coef"]].itertuples(index=False):
        assert index == ids[int(name[1:])]
        assert np.sign(coef) == np.sign(TRUE[name])
    assert selector.selected_.dtype == np.uint64
    np.testing.assert_array_equal(selector.selected_, selector.result_.table["index"])
    test = Words(1000, seed=1)
    assert selector.score(test) > 0.63  # most rows have none of the five words
    np.testing.assert_array_equal(selector.predict(test), np.where(selector.decision_function(test) > 0, 1.0, -1.0))


def test_a_table_of_names_is_bounded_by_the_active_features():
    selector = make().fit_source(Words(12_000))
    assert len(selector._stream.names.names) < 2600  # of 3,000 words: 5 active, up to 1,029 between two selections
    without = make().fit_source(Words(2000, with_names=False))
    assert without.result_.table["name"].tolist() == [str(j) for j in without.selected_]


def test_two_names_of_one_id_are_said():
    selector = make().fit_source(Words(6000))
    assert not any("the same id" in note for note in selector.result_.notes)
    with pytest.warns(SelectionWarning, match=r"different features with the same id.*'w10' and 'evil'"):
        selector.partial_fit(Words(500, seed=2, other_name="evil"))
    assert "w10" in set(selector.result_.table["name"])


@pytest.mark.slow
def test_a_saved_model_goes_on_as_the_one_that_was_saved(tmp_path):
    path = tmp_path / "model"
    for selector, more in (
        (make().fit_source(Words(3000)), (Words(500, seed=2),)),
        (make(class_weight={-1.0: 2.0, 1.0: 1.0}).fit_source(Words(3000)), (Words(500, seed=2),)),
        (make(variant="paper").fit_source(Words(1000)), (Words(500, seed=2),)),
        (make().partial_fit(np.eye(40)[:, :20] + 0.1, ["a", "b"] * 20), (np.eye(40)[:, :20], ["a", "b"] * 20)),
    ):
        selector.save(path)
        again = Mission.load(path)
        assert_same_bits(again, selector)
        assert again.result_.table.equals(selector.result_.table)
        assert again.get_params()["n_buckets"] == 4096
        assert_same_bits(again.partial_fit(*more), selector.partial_fit(*more))
        assert again.result_.table.equals(selector.result_.table)


class Kept(dict):
    """A checkpoint in memory."""

    def load(self, name):
        return self.get(name)

    def save(self, name, arrays):
        self[name] = {key: np.array(value) for key, value in arrays.items()}


class Interrupted(Words):
    """Words of which not all come."""

    def __init__(self, *args, after, **more):
        super().__init__(*args, **more)
        self.after = after

    def sparse_blocks(self, block_rows, block_nnz):
        for block in super().sparse_blocks(100, block_nnz):
            if block.start >= self.after:
                raise KeyboardInterrupt
            yield block


@pytest.mark.slow_cases("options1", "options2", "options4")
@pytest.mark.parametrize(
    "options",
    [{}, {"variant": "paper"}, {"loss": "squared"}, {"n_features_to_select": 200}, {"variant": "paper", "heap": True}],
)
def test_an_interrupted_stream_goes_on_to_the_same_bits(options, tmp_path):
    fit = {"n_samples": 6000, "keep": lambda block: np.arange(block.start, block.start + block.n_rows) % 5 != 0}
    expected = make(**options).fit_source(Words(7000), **fit)
    kept = Kept()
    for after in (0, 5200, 6200):  # before anything is learnt, within a block, again
        selector = make(**options)
        with pytest.raises(KeyboardInterrupt):
            selector.fit_source(Interrupted(7000, after=after), checkpoint=kept, **fit)
        assert len(kept) == (after > 0 and not options.get("heap"))
    found = make(**options).fit_source(Words(7000), checkpoint=kept, **fit)
    assert_same_bits(found, expected)
    assert found.result_.table.equals(expected.result_.table)
    assert found.result_.history.equals(expected.result_.history)
    selector.save(tmp_path / "model")  # of what was learnt before the interrupt
    assert Mission.load(tmp_path / "model").result_.n_samples >= 4000


def test_names_of_rows_that_are_kept_are_those_of_their_lines(tmp_path):
    lines = [f"{k // 4 % 2 * 2 - 1} |t " + " ".join(f"w{k}x{j}" for j in range(3)) for k in range(400)]
    (tmp_path / "a.vw").write_text("\n".join(lines) + "\n")
    source = VwSource(tmp_path / "a.vw")
    found = make(n_features_to_select=300).fit_source(source, keep=lambda block: np.arange(block.n_rows) % 4 == 3)
    assert found.result_.n_samples == 100
    assert found.result_.table["name"].str.startswith("t^w").all()


def test_what_is_no_saved_model_is_refused(tmp_path):
    path = tmp_path / "model"
    with refused(RunError, "streams", naming=["learns"]):
        make().fit(np.eye(40)[:, :20], np.arange(40) % 2).save(path)
    with refused(RunError, "sketches", naming=["file"]):
        Mission.load(path)
    make().fit_source(Words(100)).save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(RunError, match=r"damaged|cannot be read"):
        Mission.load(path)


def test_losses_so_far_are_told_with_the_rate():
    told = []
    make().fit_source(Words(1000), tell=told.append)
    assert [int(line.split()[0].replace(",", "")) for line in told] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]
    assert all("loss" in line and "rows/s" in line and " s " in line for line in told)


def test_some_rows_of_a_source_may_be_left_for_testing():
    source = Words(3000)
    keep = lambda block: (np.arange(block.start, block.start + block.n_rows) % 5) > 0  # noqa: E731
    found = make().fit_source(source, keep=keep)
    rest = Words(3000)
    rest.rows = [row for i, row in enumerate(source.rows) if i % 5]
    rest.y = source.y[np.arange(3000) % 5 > 0]
    assert_same_bits(found, make().fit_source(rest))
    assert found.result_.n_samples == 2400


def test_weights_of_a_source_count():
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 3000)
    weighted, source = Words(3000, weight=weight, is_id=False), Words(3000, is_id=False)
    found = make().fit_source(weighted, n_samples=3000)
    expected = make().partial_fit(source.csr(), source.y, sample_weight=weight)
    assert_same_but_for_history(found, expected)


def test_what_ids_cannot_do_is_said():
    with refused(ConfigError, "streams", at="tail", naming=["cell"]):
        make(tail="identity").fit_source(Words(100))
    selector = make().fit_source(Words(500))
    with refused(DataError, "streams", naming=["features"]):
        selector.predict(np.eye(5))
    with refused(DataError, "streams", at="partial_fit", naming=["64", "3,000"]):
        selector.partial_fit(Words(100, is_id=False))
    late = Words(8000)
    late.y[-1] = 7.0
    with refused(DataError, "shapes", at="y, row 3903", naming=["7.0"]):
        make().fit_source(late, classes=[-1.0, 1.0])
    with pytest.raises(DataError, match=r"expected a sparse source|expected an iterable|found one Words"):
        OnlineSubstitution(3).fit_blocks(Words(10), np.ones(10))


def test_files_are_learnt_from_one_after_the_other(tmp_path):
    rng = np.random.default_rng(0)
    paths = []
    for k in range(2):
        lines = []
        for _ in range(1500):
            features = np.unique(rng.integers(1, 2**40, 8))
            features = np.unique([*features, *rng.choice([5, 1000, 2**50], 2)])
            y = 1 if 5 in features and 2**50 not in features else -1
            lines.append(f"{y} " + " ".join(f"{j}:1" for j in features))
        paths.append(tmp_path / f"{k}.svm")
        paths[-1].write_text("\n".join(lines) + "\n")
    selector = make(n_features_to_select=3)
    for path in paths:
        selector.partial_fit(LibsvmSource(path, feature_ids=True))
    assert selector.result_.n_samples == 3000
    assert {5, 2**50} <= set(selector.selected_.tolist())
    assert selector.score(LibsvmSource(paths, feature_ids=True)) > 0.9


@pytest.mark.slow
def test_four_times_the_rows_of_a_source_have_the_same_peak():
    class Many(Words):
        """The same block over and over."""

        def __init__(self, n_blocks):
            super().__init__(4096)
            self.n_blocks, self.block = n_blocks, next(super().sparse_blocks(4096, 1 << 20))

        def sparse_blocks(self, block_rows, block_nnz):
            for k in range(self.n_blocks):
                block = self.block
                copied = block.indptr.copy(), block.features.copy(), None, block.y.copy(), None, {}, block.names
                yield SparseBlock(4096 * k, *copied)

    def peak(n_blocks):
        source = Many(n_blocks)
        tracemalloc.start()
        make(n_features_to_select=50).fit_source(source)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(2)
    few, many = peak(8), peak(32)
    assert many < few + 2 * 4096 * PER_ROW * 8, (few, many)
