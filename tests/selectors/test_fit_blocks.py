"""Blocks that are given one after the other: which are taken, what is checked of them, what is held."""

from __future__ import annotations

import time
import tracemalloc
from functools import partial

import dask
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from daskfs.errors import ConfigError, DataError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.blocks import ColumnBlock, RowBlock
from daskfs.matrix.incoming import facts_of
from daskfs.matrix.names import Names
from daskfs.matrix.of_blocks import BlockMatrix
from daskfs.selectors.asy_os.selector import AsyncOnlineSubstitution
from daskfs.selectors.message.selector import Message
from daskfs.selectors.mission.selector import Mission
from daskfs.selectors.online_substitution.selector import OnlineSubstitution
from tests.contract.lab import assert_same_bits
from tests.refusals import refused
from tests.tolerances import assert_same_answer, tolerance_of

N_SAMPLES, N_FEATURES = 300, 40


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N_SAMPLES, N_FEATURES))
    return X, X[:, [3, 17, 30]] @ [2.0, -1.0, 1.0] + 0.5 * rng.standard_normal(N_SAMPLES)


def columns_of(X, width):
    return [X[:, a : a + width] for a in range(0, X.shape[1], width)]


def rows_of(X, y, length):
    return [(X[a : a + length], y[a : a + length]) for a in range(0, len(X), length)]


ONE_EPOCH = {"n_epochs": 1, "loss": "squared"}


@pytest.mark.parametrize("rule", ["exchange", "os", "paper"])
@pytest.mark.parametrize("width", [1, 7, 40])
def test_columns_that_pass_by_are_one_epoch(arrays, width, rule):
    X, y = arrays
    expected = OnlineSubstitution(4, rule=rule, **ONE_EPOCH).fit(X, y)
    found = OnlineSubstitution(4, rule=rule).fit_blocks(iter(columns_of(X, width)), y, n_features=N_FEATURES)
    assert_same_answer(found, expected)
    assert found.n_features_in_ == N_FEATURES


def test_columns_of_an_unknown_number_need_a_ridge_or_take_that_of_the_first_block(arrays):
    X, y = arrays
    with_ridge = OnlineSubstitution(4, ridge=0.1).fit_blocks(iter(columns_of(X, 7)), y)
    assert_same_answer(with_ridge, OnlineSubstitution(4, ridge=0.1, n_epochs=1).fit(X, y))
    found = OnlineSubstitution(4).fit_blocks(iter(columns_of(X, 7)), y)
    assert_same_answer(found, OnlineSubstitution(4).fit_blocks(iter(columns_of(X, 7)), y, n_features=7))
    assert set(found.selected_[:3]) == {3, 17, 30}


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, scipy.sparse.csr_array, scipy.sparse.csc_matrix])
def test_lists_of_any_kind_of_block_are_fitted_as_the_whole(arrays, kind):
    X, y = arrays
    X = np.where(np.abs(X) > 0.3, X, 0.0)
    frames = [kind(block) for block in columns_of(X, 9)]
    if kind is pd.DataFrame:
        frames = [frame.add_prefix(f"block{k}.") for k, frame in enumerate(frames)]
    found = OnlineSubstitution(4).fit_blocks(frames, y)
    assert_same_answer(found, OnlineSubstitution(4).fit(X, y))
    if kind is pd.DataFrame:
        assert found.get_feature_names_out()[0] == f"block{3 // 9}.3"
    for selector in (Mission(4, standardize=False, block_rows=50, n_epochs=2), Message(3)):
        blocks = [(kind(block), of_rows) for block, of_rows in rows_of(X, y, 70)]
        expected = type(selector)(**selector.get_params()).fit(kind(X), y)
        assert_same_answer(selector.fit_blocks(blocks), expected, tolerance_of(selector.method))


def test_labels_are_texts_where_the_blocks_have_texts(arrays):
    X, y = arrays
    text = np.where(y > 0.0, "yes", "no")
    for selector, blocks in (
        (OnlineSubstitution(4), {"blocks": columns_of(X, 9), "y": text}),
        (OnlineSubstitution(4), {"blocks": iter(columns_of(X, 9)), "y": text}),
        (AsyncOnlineSubstitution(4), {"blocks": iter(columns_of(X, 9)), "y": text}),
        (Mission(4), {"blocks": rows_of(X, text, 70)}),
        (Mission(4), {"blocks": iter(rows_of(X, text, 70))}),
    ):
        selector.fit_blocks(**blocks)
        assert selector.classes_.tolist() == ["no", "yes"]
        assert set(selector.predict(X)) == {"no", "yes"}
        assert selector.score(X, text) > 0.8


def test_classes_have_the_weights_of_their_labels(arrays):
    X, y = arrays
    labels = np.where(y > 0.0, "yes", "no")
    blocks = rows_of(X, labels, 70)
    selector = Mission(2, class_weight={"yes": 5.0, "no": 1.0}, random_state=0)
    whole = selector.fit(X, labels).coef_
    np.testing.assert_array_equal(selector.fit_blocks(blocks).coef_, whole)
    np.testing.assert_array_equal(selector.fit(X, labels).fit_blocks(blocks).coef_, whole)
    assert not np.array_equal(Mission(2, random_state=0).fit(X, labels).coef_, whole)


def test_a_stream_of_rows_is_learnt_from_whatever_its_blocks_are(arrays):
    X, y = arrays
    expected = Mission(4, block_rows=64).partial_fit(X, y)
    for length in (1, 33, 300):
        found = Mission(4, block_rows=64).fit_blocks(iter(rows_of(X, y, length)), n_samples=N_SAMPLES)
        assert_same_answer(found, expected, tolerance_of("mission"))
    unknown = [Mission(4, block_rows=64).fit_blocks(iter(rows_of(X, y, length))) for length in (1, 33)]
    assert_same_answer(*unknown, tolerance_of("mission"))
    assert set(unknown[0].selected_[:3]) == {3, 17, 30}


def test_a_stream_goes_on_with_partial_fit(arrays):
    X, y = arrays
    text = np.where(y > 0.0, "yes", "no")
    selector = Mission(4, block_rows=64).fit_blocks(iter(rows_of(X[:200], text[:200], 33)))
    selector.partial_fit(X[200:], text[200:])
    assert selector.result_.n_samples == N_SAMPLES
    assert selector.classes_.tolist() == ["no", "yes"]


def test_the_loss_of_rows_before_they_are_learnt_from_is_told_at_powers_of_two(arrays):
    X, y = arrays
    history = Mission(4).fit_blocks(iter(rows_of(X, y, 7))).result_.history
    assert history["rows_seen"].tolist() == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    n_new = np.diff(history["rows_seen"], prepend=0)
    so_far = np.cumsum(history["mean_loss"] * n_new) / np.cumsum(n_new)
    np.testing.assert_allclose(history["progressive_loss"], so_far, rtol=1e-12)
    assert history["progressive_loss"].iloc[-1] < history["progressive_loss"].iloc[2]


def test_what_passes_by_once_is_kept_in_files_by_those_who_ask_twice(arrays):
    X, y = arrays
    simulated = {"n_workers": 2, "schedule": "simulated"}
    found = AsyncOnlineSubstitution(4, **simulated).fit_blocks(iter(columns_of(X, 9)), y)
    assert_same_answer(found, AsyncOnlineSubstitution(4, **simulated).fit(X, y))
    with pytest.warns(UserWarning, match="in the order of their source"):
        found = Message(subset_size=100).fit_blocks(iter(rows_of(X, y, 70)))
    assert_same_answer(found, Message(subset_size=100).fit_matrix(ArrayMatrix(X, y, shuffled=True)))


def test_the_first_block_of_a_stream_may_be_empty(arrays):
    X, y = arrays
    for kind in (np.asarray, scipy.sparse.csr_array):
        blocks = [(kind(X[:0]), y[:0]), (kind(X[:9]), y[:9]), (kind(X[9:9]), y[:0]), (kind(X[9:]), y[9:])]
        found, expected = (Mission(4).fit_blocks(iter(some)) for some in (blocks, blocks[1::2]))
        assert_same_answer(found, expected, tolerance_of("mission"))
    with refused(DataError, "target", naming=["2"]):
        Mission(4).fit_blocks(iter(blocks[:1]))


@pytest.mark.parametrize("value", [1e300, 1e200, 1e39, np.inf, np.nan])
def test_a_value_beyond_single_precision_is_named_with_its_own_row(arrays, value):
    X, y = arrays
    X = np.hstack([X[:, :7], 1e3 * X[:, 7:]])
    X[103, 4] = value
    for fit in (
        lambda selector: selector.fit(X, y),
        lambda selector: selector.fit_blocks(rows_of(X, y, 70)),
        lambda selector: selector.fit_blocks(iter(rows_of(X, y, 70))),
        lambda selector: selector.partial_fit(X, y),
    ):
        if value == 1e39:  # of standardised columns it is one among 300
            fit(Mission(4))
            continue
        with refused(DataError, "values", at="column 4, row 103"):
            fit(Mission(4))


def test_later_calls_of_partial_fit_tell_the_loss_of_their_own_rows(arrays):
    X, y = arrays
    selector = Mission(4, block_rows=64)
    for first in range(0, N_SAMPLES, 100):
        selector.partial_fit(X[first : first + 100], y[first : first + 100])
    history = selector.result_.history
    whole = Mission(4, block_rows=64).fit_blocks(iter(rows_of(X, y, 100))).partial_fit(X, y).result_.history
    assert history["mean_loss"].iloc[-1] < 0.5 * history["mean_loss"].iloc[0]
    n_new = np.diff(whole["rows_seen"], prepend=0)
    so_far = np.cumsum(whole["mean_loss"] * n_new) / np.cumsum(n_new)
    np.testing.assert_allclose(whole["progressive_loss"], so_far, rtol=1e-12)
    assert any(note.endswith("of largest weight after 1 pass(es)") for note in selector.result_.notes)


MADE: list[int] = []


def made(start):
    MADE.append(start)
    return np.random.default_rng(start).standard_normal((N_SAMPLES, 4))


def test_delayed_blocks_are_computed_on_the_client_a_few_at_once(threads):
    blocks = [dask.delayed(made, pure=False)(start) for start in range(0, N_FEATURES, 4)]
    y = np.random.default_rng(0).standard_normal(N_SAMPLES)
    MADE.clear()
    expected = OnlineSubstitution(4, n_epochs=1).fit_blocks(blocks, y)
    assert sorted(MADE) == sorted([*range(0, N_FEATURES, 4)] * 2)  # to know how many columns, and for the epoch
    found = OnlineSubstitution(4, n_epochs=1, client=threads.client).fit_blocks(blocks, y)
    assert_same_bits(found, expected)
    matrix = BlockMatrix(blocks, "columns", [facts_of(block, "columns") for block in blocks])
    matrix.read_ahead(2, threads.client)
    MADE.clear()
    matrix.read(slice(None), slice(0, 4))
    for _ in range(6000):  # the machine may be busy
        if len(MADE) == 3:
            break
        time.sleep(0.01)
    time.sleep(0.05)
    assert sorted(MADE) == [0, 4, 8]
    matrix.close()


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_blocks_are_fetched_ahead_and_no_further(arrays, prefetch):
    X, y = arrays
    fetched = []

    def blocks():
        for start in range(0, N_FEATURES, 2):
            fetched.append(start)
            yield X[:, start : start + 2]

    ahead = []
    original = OnlineSubstitution._engine

    def engine(self, *args, **more):
        made = original(self, *args, **more)
        take = made.take
        made.take = lambda columns: (ahead.append(len(fetched) - int(columns.ids[0]) // 2 - 1), take(columns))
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OnlineSubstitution, "_engine", engine)
        OnlineSubstitution(2, block_columns=2).fit_blocks(blocks(), y, prefetch=prefetch, n_features=2)
    assert max(ahead) <= prefetch + 1
    assert len(fetched) == N_FEATURES // 2


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda b: [b[0], b[2]], "block 1.*begins with column 10.*20.*a gap"),
        (lambda b: [b[1], b[0]], "block 0.*begins with column 0.*10"),
        (lambda b: [b[0], b[0]], "block 1.*begins with column 10.*0: a repeated or overlapping"),
        (lambda b: [b[0], ColumnBlock(10, 21, b[1].X)], "block 1.*expected 11 columns from its bounds, found 10"),
        (lambda b: [b[0], ColumnBlock(10, 20, b[1].X[:-1])], "block 1.*expected 300 rows as in y, found 299"),
        (lambda b: [b[0], RowBlock(10, 20, b[1].X)], "expected blocks of columns, found a RowBlock"),
        (lambda b: [], "expected at least one block, found none"),
        (lambda b: [b[0].X, b[1].X[:, 0]], "expected a matrix of rows and columns, found 1 dim"),
    ],
)
@pytest.mark.parametrize("as_", [list, iter])
def test_blocks_that_do_not_fit_are_named(arrays, change, found, as_):
    X, y = arrays
    blocks = [ColumnBlock(a, a + 10, X[:, a : a + 10]) for a in range(0, 40, 10)]
    for selector in (OnlineSubstitution(3), AsyncOnlineSubstitution(3)):
        with pytest.raises(DataError, match=f"(?s){found}"):
            selector.fit_blocks(as_(change(blocks)), y)


@pytest.mark.filterwarnings("ignore:.*in the order of their source")
@pytest.mark.parametrize("as_", [list, iter])
def test_row_blocks_that_do_not_fit_are_named(arrays, as_):
    X, y = arrays
    frame = pd.DataFrame(X).add_prefix("x")
    for blocks, found in (
        ([(X[:9], y[:9]), (X[9:, :30], y[9:])], "block 1.*expected 40 columns as in the first block, found 30"),
        ([(X[:9], y[:9]), X[9:]], "block 1.*expected the target of its rows|expected the target of its rows.*block 1"),
        ([X], "block 0"),
        ([RowBlock(0, 9, X[:9], y[:9]), RowBlock(19, 300, X[19:], y[19:])], "block 1.*row 9.*19: a gap"),
        ([(frame[:9], y[:9]), (frame[frame.columns[::-1]][9:], y[9:])], "block 1.*'x0'.*'x39'"),
        ([(X[:9], y[:9]), (np.where(X > 4, np.nan, X)[:9] * np.nan, y[:9])], "NaN"),
    ):
        for selector in (Mission(3), Message(3)):
            with pytest.raises(DataError, match=f"(?s){found}"):
                selector.fit_blocks(as_(blocks))


def test_what_a_stream_cannot_give_is_said(arrays):
    X, y = arrays
    for options in ({"order": "shuffled"}, {"schedule": "screen"}):
        with refused(ConfigError, "parameters"):
            OnlineSubstitution(3, **options).fit_blocks(iter(columns_of(X, 9)), y)
    with refused(ConfigError, "streams", at="n_replicas", naming=["model"]):
        Mission(3, n_replicas=2).fit_blocks(iter(rows_of(X, y, 70)))
    with refused(DataError, "shapes", at="blocks", naming=["ndarray"]):
        OnlineSubstitution(3).fit_blocks(X, y)
    with refused(DataError, "shapes", naming=["target"]):
        OnlineSubstitution(3).fit_blocks(columns_of(X, 9))
    labels, late = np.where(y > 0, "yes", "no"), np.array(["maybe"] * N_SAMPLES)
    with refused(DataError, "shapes", at="y, row 0", naming=["'maybe'"]):
        Mission(3, block_rows=10).fit_blocks(iter([(X, labels)] * 16 + [(X, late)]))


def test_columns_that_are_always_included_stand_in_the_first_block(arrays):
    X, y = arrays
    expected = OnlineSubstitution(4, always_include=[5, 2], **ONE_EPOCH).fit(X, y)
    found = OnlineSubstitution(4, always_include=[5, 2]).fit_blocks(iter(columns_of(X, 9)), y, n_features=N_FEATURES)
    assert_same_answer(found, expected)
    with refused(DataError, "shapes", at="always_include", naming=["0", "8", "12"]):
        OnlineSubstitution(4, always_include=[12]).fit_blocks(iter(columns_of(X, 9)), y)


def peak_of(fit):
    fit()  # compiled, cached
    tracemalloc.start()
    fit()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def make_columns(k):
    return np.random.default_rng(k).standard_normal((4000, 50))


def make_rows(k):
    rng = np.random.default_rng(k)
    return rng.standard_normal((2000, 100)), rng.standard_normal(2000)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["columns", "promises of columns", "columns in files", "rows"])
def test_four_times_the_blocks_have_the_same_peak(kind):
    y = np.random.default_rng(0).standard_normal(4000)

    def fit(n_blocks):
        numbers = range(n_blocks)
        if kind == "columns":
            OnlineSubstitution(5, ridge=0.1).fit_blocks(map(make_columns, numbers), y)
        elif kind == "promises of columns":
            OnlineSubstitution(5, n_epochs=1).fit_blocks([partial(make_columns, k) for k in numbers], y)
        elif kind == "columns in files":
            AsyncOnlineSubstitution(5, n_epochs=1, n_workers=1).fit_blocks(map(make_columns, numbers), y)
        else:
            Mission(5, n_buckets=1024).fit_blocks(map(make_rows, numbers))

    few, many = peak_of(lambda: fit(32)), peak_of(lambda: fit(128))
    assert many < few + 2 * make_columns(0).nbytes, (few, many)  # one more may be on its way


def test_a_matrix_of_blocks_reads_what_its_blocks_hold(arrays):
    X, y = arrays
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    rng = np.random.default_rng(0)
    for axis, cut in (("rows", rows_of(X, y, 70)), ("columns", columns_of(X, 9))):
        for kind in (np.asarray, scipy.sparse.csr_array):
            items = [kind(block[0] if axis == "rows" else block) for block in cut]
            matrix = BlockMatrix(items, axis, [facts_of(item, axis) for item in items], y, None, Names(N_FEATURES))
            for _ in range(20):
                rows, columns = rng.permutation(N_SAMPLES)[:9], rng.permutation(N_FEATURES)[:9]
                start, stop = sorted(rng.integers(0, 40, 2))
                some = slice(int(start), int(stop))
                np.testing.assert_array_equal(matrix.read(rows, columns), X[np.ix_(rows, columns)])
                np.testing.assert_array_equal(matrix.read(some, columns), X[some][:, columns])
                np.testing.assert_array_equal(matrix.read(rows, some), X[rows][:, some])
                np.testing.assert_array_equal(matrix.read(some, some), X[some, some])
                for taken in (rows, some):
                    entries = matrix.sparse_rows(taken)
                    counts = None if entries is None else np.diff(entries.indptr)
                    np.testing.assert_array_equal(matrix.entry_counts(taken), counts)
                    if axis == "columns" or kind is np.asarray:
                        assert entries is None
                        continue
                    found = scipy.sparse.csr_array(
                        (entries.data, entries.indices, entries.indptr), shape=(len(entries.indptr) - 1, N_FEATURES)
                    )
                    np.testing.assert_array_equal(found.toarray(), X[taken])
