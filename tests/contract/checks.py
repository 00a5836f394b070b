"""What is asked of every method, each a sentence; `CHECKS` holds them in the order of a reader's interest.

A check asks the estimator what it is and is left out where it does not apply.
"""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import time
import tracemalloc
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from typer.testing import CliRunner

import daskfs
from daskfs.cli import app
from daskfs.cluster.workers import Here
from daskfs.documents import dump_yaml
from daskfs.errors import ConfigError, DataError, PlanError
from daskfs.matrix.target import kind_of_target
from daskfs.pipeline.predicting import linear_predictor
from daskfs.selectors.shared.run import Run
from tests.contract.cases import Case
from tests.contract.lab import (
    N_FEATURES,
    N_SAMPLES,
    OTHER_TILES,
    Heard,
    Interrupted,
    Kept,
    Lab,
    as_arrays,
    assert_same_bits,
    fit_while,
)
from tests.tolerances import assert_close, assert_same_answer, tolerance_of

Check = Callable[[Case, Lab], None]
CHECKS: list[Check] = []
QUICK: set[str] = set()
ONCE: set[str] = set()


def _check(*, quick: bool = False, once: bool = False) -> Callable[[Check], Check]:
    """Enter a check: into the default suite if `quick`; of a method's first case only if asking `once` is enough."""

    def enter(function: Check) -> Check:
        CHECKS.append(function)
        QUICK.update([function.__name__] * quick)
        ONCE.update([function.__name__] * once)
        return function

    return enter


@_check()
def same_bits_in_threads(case: Case, lab: Lab) -> None:
    _same_bits_on(case, lab, lab.client("threads"))


@_check()
def same_bits_in_two_processes(case: Case, lab: Lab) -> None:
    _same_bits_on(case, lab, lab.client("processes"))


@_check()
def arrays_in_memory_are_sent_once(case: Case, lab: Lab) -> None:
    """However many steps are mapped over them; dense, sparse and as rows of weighted samples."""
    client, y, sizes = lab.client("threads"), lab.y(case), []

    def scattered(data: Any, **options: Any) -> Any:
        buffers: list[pickle.PickleBuffer] = []
        head = pickle.dumps(data, protocol=5, buffer_callback=buffers.append)
        sizes.append(len(head) + sum(buffer.raw().nbytes for buffer in buffers))
        return scatter(data, **options)

    scatter = client.scatter
    weight = np.resize([1.0, 2.0, 0.0], len(y))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "scatter", scattered)
        for X, of_rows in ((lab.X, None), (scipy.sparse.csr_array(lab.X), None), (lab.X, weight)):
            nbytes = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes
            sizes.clear()
            case.make(client=client).fit(X, y, of_rows)
            assert sum(size >= nbytes for size in sizes) <= 1, sizes


def _same_bits_on(case: Case, lab: Lab, client: Any) -> None:
    """A store, rows of a store, arrays that must be sent there, dense and sparse."""
    store = lab.store(case.target)
    assert_same_bits(case.make(client=client).fit(store), case.make().fit(store))
    rows = store.take(np.arange(0, N_SAMPLES, 2))
    assert_same_bits(case.make(client=client).fit(rows), case.make().fit(rows))
    y = lab.y(case)
    for X in (lab.X, scipy.sparse.csr_array(lab.X)):
        assert_same_bits(case.make(client=client).fit(X, y), case.make().fit(X, y))


@_check()
def same_answer_with_tiles_of_any_shape(case: Case, lab: Lab) -> None:
    expected = case.make().fit(lab.store(case.target))
    for tile_shape in OTHER_TILES:
        assert_same_answer(case.make().fit(lab.store(case.target, tile_shape)), expected, case.rtol)


@_check(quick=True)
def a_memory_limit_is_planned_as_it_is_kept_and_keeps_the_answer(case: Case, lab: Lab) -> None:
    """`plan(limit)` accepts exactly what ``fit(memory_limit=limit)`` keeps, here and in the split rows."""
    store = lab.store(case.target)
    expected = case.make().fit(store)
    least = _least_limit(case, store)
    assert least > 1
    for limit in (least, least + least // 3, 10 * least):
        assert_same_answer(case.make(memory_limit=limit).fit(store), expected, case.rtol)
    for limit in (least - 1, least // 2):
        with pytest.raises(PlanError):
            case.make(memory_limit=limit).fit(store)


def _accepts(case: Case, store: Any, limit: int | None, n_threads: int = 1) -> Any:
    try:
        dtype = str(store.dtype)
        more = {"n_threads": n_threads, "tile_shape": store.tile_shape, "target": kind_of_target(store)}
        return case.make().plan(*store.shape, dtype, limit, **more)
    except PlanError:
        return None


def _least_limit(case: Case, store: Any, n_threads: int = 1) -> int:
    plan = _accepts(case, store, None, n_threads)
    refused, accepted = 0, 2 * (plan.task_nbytes + plan.client_nbytes)
    assert _accepts(case, store, accepted, n_threads)
    while accepted - refused > 1:
        middle = (accepted + refused) // 2
        if _accepts(case, store, middle, n_threads):
            accepted = middle
        else:
            refused = middle
    return accepted


@_check(quick=True)
def rows_of_a_split_are_those_rows_as_arrays(case: Case, lab: Lab) -> None:
    train, test = lab.store(case.target).split(0.25, random_state=1)
    selector = case.make().fit(train)
    assert_same_answer(selector, case.make().fit(as_arrays(train)), case.rtol)
    assert_close(selector.score(test), selector.score(as_arrays(test)))


@_check(quick=True)
def arrays_give_the_answer_of_their_store(case: Case, lab: Lab) -> None:
    """In C and in Fortran order."""
    store, y = lab.store(case.target), lab.y(case)
    assert_same_answer(case.make().fit(as_arrays(store)), case.make().fit(store), case.rtol)
    assert_same_answer(case.make().fit(np.asfortranarray(lab.X), y), case.make().fit(lab.X, y), case.rtol)


@_check(quick=True)
def blocks_one_after_the_other_give_the_answer_of_fit(case: Case, lab: Lab) -> None:
    """Those of a store, delayed or not, and promises of plain blocks; arrays in memory; of those who take blocks."""
    if not hasattr(case.make(), "fit_blocks"):
        return
    store = lab.store(case.target)
    expected = case.make().fit(store)
    for client in (None, lab.client("threads")):
        for blocks in _blocks_of(case, store):
            found = case.make(client=client).fit_blocks(blocks, **_target_of(case, store))
            assert_same_answer(found, expected, case.rtol)
            assert found.result_.table["name"].tolist() == names_in(found, lab, found.result_.table["index"])
    assert _tasks_on(lab.client("threads")) == []


def _takes_columns(case: Case) -> bool:
    return "y" in inspect.signature(case.make().fit_blocks).parameters


def _target_of(case: Case, store: Any) -> dict[str, Any]:
    return {"y": store.target} if _takes_columns(case) else {}


def _blocks_of(case: Case, store: Any) -> Iterator[Any]:
    """Blocks of a store, of several lengths."""
    if _takes_columns(case):
        yield store.column_blocks(delayed=True, block_columns=7)
        yield store.column_blocks(block_columns=11)
        columns = [slice(a, a + 4) for a in range(0, N_FEATURES, 4)]
        yield [partial(_frame, store, slice(None), some) for some in columns]
        yield (dask.delayed(_frame)(store, slice(None), some) for some in columns)
    else:
        yield store.row_blocks(delayed=True, block_rows=70)
        yield store.row_blocks(block_rows=201)


def _frame(store: Any, rows: slice, columns: slice) -> pd.DataFrame:
    return pd.DataFrame(store.read(rows, columns), columns=store.names[columns])


@_check(quick=True)
def sparse_columns_give_the_answer_of_dense_ones(case: Case, lab: Lab) -> None:
    y = lab.y(case)
    expected = case.make(**case.sparse).fit(lab.X, y)
    for kind in (_in_halves, scipy.sparse.csc_array, scipy.sparse.csr_matrix):
        given = kind(lab.X)
        before = given.copy()
        assert_same_answer(case.make(**case.sparse).fit(given, y), expected, case.rtol)
        for part in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(given, part), getattr(before, part))


def _in_halves(X: np.ndarray) -> scipy.sparse.csr_array:
    """Return a CSR array that has each entry twice, as its halves, those of a row from the last column to the first."""
    entries = scipy.sparse.coo_array(X)
    rows, columns, halves = (np.repeat(part, 2) for part in (entries.row, entries.col, entries.data / 2.0))
    order = np.lexsort((-columns, rows))
    starts = np.searchsorted(rows[order], np.arange(len(X) + 1))
    return scipy.sparse.csr_array((halves[order], columns[order], starts), shape=X.shape)


def names_in(selector: Any, lab: Lab, features: Iterable[int]) -> list[str]:
    """Return the names of selected features: columns, or what a map makes of them."""
    if selector.made_ is None:
        return [lab.names[j] for j in features]
    made = selector.made_
    names = dict(zip(made.columns.tolist(), made.names([lab.names[j] for j in made.parents]), strict=True))
    return [names[j] for j in features]


@_check(quick=True)
def a_sparse_store_gives_the_answer_of_a_dense_one(case: Case, lab: Lab) -> None:
    """And of some of its rows."""
    sparse, dense = lab.sparse_store(case.target), lab.store(case.target)
    found = case.make(**case.sparse).fit(sparse)
    assert_same_answer(found, case.make(**case.sparse).fit(dense), case.rtol)
    assert list(found.result_.table["name"]) == names_in(found, lab, found.result_.table["index"])
    assert_close(found.predict(sparse), found.predict(dense))
    rows = np.arange(0, N_SAMPLES, 2)
    of_rows = case.make(**case.sparse).fit(sparse.take(rows))
    assert_same_answer(of_rows, case.make(**case.sparse).fit(dense.take(rows)), case.rtol)


@_check()
def a_sparse_store_gives_the_same_bits_on_workers_and_the_same_answer_within_a_limit(case: Case, lab: Lab) -> None:
    sparse = lab.sparse_store(case.target)
    expected = case.make().fit(sparse)
    for where in ("threads", "processes"):
        assert_same_bits(case.make(client=lab.client(where)).fit(sparse), expected)
    more: dict[str, Any] = {"tile_shape": sparse.tile_shape, "n_entries": sparse.n_entries}
    plan = case.make().plan(*sparse.shape, "float64", None, target=kind_of_target(sparse), **more)
    limited = case.make(memory_limit=plan.task_nbytes + plan.client_nbytes).fit(sparse)
    assert_same_answer(limited, expected, case.rtol)


@_check()
def int8_columns_give_the_answer_of_the_same_numbers_in_float32(case: Case, lab: Lab) -> None:
    """Methods hold int8 columns as float32, or sum them exactly, as integers."""
    small, wide = lab.store(case.target, kind="int8"), lab.store(case.target, kind="int8 in float32")
    assert small.dtype == np.int8
    assert_same_answer(case.make().fit(small), case.make().fit(wide), tolerance_of(case.method, "float32"))


@_check()
def dask_collections_give_the_answer_of_their_store(case: Case, lab: Lab) -> None:
    y = lab.y(case)
    frame = pd.DataFrame(lab.X, columns=lab.names)
    array, lazy = da.from_array(lab.X, chunks=(150, 7)), dd.from_pandas(frame, npartitions=3)
    expected = case.make().fit(lab.store(case.target))
    for X, target in (
        (array, da.from_array(y, chunks=150)),
        (array, y),
        (lazy, dd.from_pandas(pd.Series(y, name="y"), npartitions=3)),
        (lazy, y),
    ):
        found = case.make().fit(X, target)
        assert_same_answer(found, expected, case.rtol)
    assert list(found.feature_names_in_) == lab.names
    assert not hasattr(case.make().fit(array, y), "feature_names_in_")


@_check(quick=True)
def the_result_names_the_store_and_its_features(case: Case, lab: Lab) -> None:
    store = lab.store(case.target)
    selector = case.make().fit(store)
    result = selector.result_
    assert (result.method, result.store_digest) == (case.method, store.digest)
    assert list(result.table["name"]) == names_in(selector, lab, result.table["index"])
    if selector.made_ is None:
        assert (result.n_samples, result.n_features) == store.shape
        assert list(result.feature_names) == lab.names
    assert set(case.options) <= set(result.parameters)


@_check(quick=True)
def what_comes_out_is_what_came_in_and_lazy_stays_lazy(case: Case, lab: Lab) -> None:
    """`transform`, `set_output` and `predict` on arrays, frames, sparse matrices, stores and Dask collections."""
    frame = pd.DataFrame(lab.X, columns=lab.names)
    y = lab.y(case)
    selector = case.make().fit(frame, y)
    store, made = lab.store(case.target), selector.made_
    columns = np.flatnonzero(selector.support_)
    names = names_in(selector, lab, np.sort(selector.selected_))
    chosen, of_store = (
        X[:, columns] if made is None else made.of(X[:, made.parents]) for X in (lab.X, store.read(slice(None)))
    )
    assert list(selector.get_feature_names_out()) == names
    np.testing.assert_array_equal(selector.transform(frame), chosen)
    np.testing.assert_array_equal(selector.transform(store), of_store)
    array, lazy = da.from_array(lab.X, chunks=(150, 7)), dd.from_pandas(frame, npartitions=3)
    prediction = selector.predict(frame)
    np.testing.assert_allclose(selector.predict(store), prediction[store.source_rows], rtol=1e-10, atol=1e-12)
    for output in ("default", "pandas"):
        selector.set_output(transform=output)
        found = selector.transform(frame)
        assert isinstance(found, pd.DataFrame if output == "pandas" else np.ndarray)
        if output == "pandas":
            assert list(found.columns) == names
        some, many = selector.transform(array), selector.transform(lazy)
        assert isinstance(some, da.Array)
        assert isinstance(many, dd.DataFrame)
        np.testing.assert_array_equal(some.compute(), chosen)
        assert list(many.columns) == names
        np.testing.assert_array_equal(many.compute().to_numpy(), chosen)
        for collection in (array, lazy):
            answer = selector.predict(collection)
            assert hasattr(answer, "__dask_graph__")
            np.testing.assert_allclose(np.asarray(answer), prediction, rtol=1e-10, atol=1e-12)
            assert selector.score(collection, y) == pytest.approx(selector.score(frame, y))


@_check()
def a_fit_resumed_after_any_save_ends_with_the_same_bits(case: Case, lab: Lab) -> None:
    store = lab.store(case.target)
    expected, whole = case.make().fit(store), Kept()
    assert_same_bits(fit_while(case.make(), store, checkpoint=whole), expected)
    n_saved = whole.n_saved
    assert n_saved > 0
    assert_same_bits(fit_while(case.make(), store, checkpoint=whole), expected)
    assert whole.n_saved == n_saved  # a finished fit is not fitted again
    for k in sorted({*range(1, n_saved + 1, 1 + n_saved // 8), n_saved}):
        kept = Kept(killed_after=k)
        with pytest.raises(Interrupted):
            fit_while(case.make(), store, checkpoint=kept)
        assert_same_bits(fit_while(case.make(), store, checkpoint=kept), expected)
        assert kept.n_saved <= n_saved + 1  # what was done is not done again


@_check(quick=True)
def progress_reaches_its_total(case: Case, lab: Lab) -> None:
    heard = Heard()
    fit_while(case.make(), lab.store(case.target), progress=heard)
    assert heard
    assert all(done == total for _, total, done in heard), heard


@_check(quick=True)
def a_value_that_is_no_number_is_named_by_column_and_source_row(case: Case, lab: Lab) -> None:
    frame = pd.DataFrame(lab.X, columns=lab.names)
    for value, word in ((np.nan, "nan"), (np.inf, "inf")):
        frame.loc[17, "gene3"] = value
        with pytest.raises(DataError, match=rf"(?is)gene3.*row 17\b.*{word}"):
            case.make().fit(frame, lab.y(case))
    store, name, row = lab.store_with_a_hole(case)
    with pytest.raises(DataError, match=rf"(?is){name}.*row {row}\b.*nan"):
        case.make().fit(store)


@_check(quick=True, once=True)
def more_features_than_there_are_is_refused(case: Case, lab: Lab) -> None:
    if "n_features_to_select" not in case.make().get_params():
        return  # the criterion or the hashing says how many
    ungrouped = {"feature_groups": None} if "feature_groups" in case.options else {}  # a group counts as one
    with pytest.raises(ConfigError, match=rf"{N_FEATURES + 1}.*{N_FEATURES}") as refused:
        case.make(n_features_to_select=N_FEATURES + 1, **ungrouped).fit(lab.store(case.target))
    assert refused.value.where == "n_features_to_select"


@_check(quick=True)
def it_is_cloned_copied_and_pickled(case: Case, lab: Lab) -> None:
    store = lab.store(case.target)
    selector = case.make().fit(store)
    for again in (copy.deepcopy(selector), pickle.loads(pickle.dumps(selector))):
        assert_same_bits(again, selector)
        np.testing.assert_array_equal(again.predict(store), selector.predict(store))
    fresh = clone(selector)
    assert not hasattr(fresh, "coef_")
    assert_same_bits(fresh.fit(store), selector)
    assert_same_bits(selector.fit(store), fresh)  # a fit forgets the one before


@_check(quick=True)
def nothing_stays_on_the_cluster(case: Case, lab: Lab) -> None:
    """Neither of a fit, while its selector and its result are held, nor of one that fails, while the fault is held."""
    client = lab.client("threads")
    selector = case.make(client=client).fit(lab.store(case.target))
    assert _tasks_on(client) == []
    store, _, _ = lab.store_with_a_hole(case)
    with pytest.raises(DataError) as fault:
        case.make(client=client).fit(store)
    assert _tasks_on(client) == [], fault
    del selector


def _tasks_on(client: Any) -> list[str]:
    """Return the keys that the scheduler keeps, once it has heard of what the client let go."""
    for _ in range(3000):  # the machine may be busy
        keys = client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks])
        if not keys:
            break
        time.sleep(0.02)
    return keys


@_check(quick=True)
def the_limit_that_a_refusal_names_is_accepted(case: Case, lab: Lab) -> None:
    store = lab.store(case.target)
    more: dict[str, Any] = {"tile_shape": store.tile_shape, "target": kind_of_target(store)}
    for n_samples, n_features in (store.shape, (1_000_000, 1000), (200, 100_000)):
        for n_threads in (1, 7):
            for limit in (1, 2**20, 2**24):
                size = (n_samples, n_features, str(store.dtype))
                try:
                    case.make().plan(*size, limit, n_threads=n_threads, **more)
                except PlanError as refused:
                    case.make().plan(*size, max(refused.needed_nbytes or 0, limit + 1), n_threads=n_threads, **more)


@_check(quick=True)
def a_fitted_selector_is_small_and_lets_go_of_the_rows(case: Case, lab: Lab) -> None:
    X = np.random.default_rng(3).standard_normal((4 * len(lab.X), lab.X.shape[1]))
    y = lab.y(case, X)
    reference = weakref.ref(X)
    gc.freeze()  # what was there before is not looked at: that takes a second
    try:
        selector = case.make().fit(X, y)
        n_nbytes = X.nbytes
        assert len(pickle.dumps(selector)) < n_nbytes / 8
        del X
        gc.collect()
        assert reference() is None
    finally:
        gc.unfreeze()
    assert _held_nbytes(selector) < n_nbytes / 4


def _held_nbytes(found: Any) -> int:
    """Return the bytes of all arrays that an object holds."""
    if isinstance(found, np.ndarray):
        return found.nbytes
    if isinstance(found, dict):
        return sum(map(_held_nbytes, found.values()))
    if isinstance(found, list | tuple | set):
        return sum(map(_held_nbytes, found))
    if type(found).__module__.partition(".")[0] in ("daskfs", "scipy"):
        slots = [
            name for kind in type(found).__mro__ for name in getattr(kind, "__slots__", ()) if hasattr(found, name)
        ]
        return _held_nbytes([*getattr(found, "__dict__", {}).values(), *(getattr(found, name) for name in slots)])
    return 0


@_check()
def a_task_takes_no_more_memory_than_promised(case: Case, lab: Lab) -> None:
    """All that Python allocates in a worker process, at a limit close to the least; kernels allocate little beside."""
    store = lab.tall_store(case)
    case = replace(case, options=case.options | case.on_tall_data)
    least = _least_limit(case, store, n_threads=2)
    limit = least + least // 8
    promised = _accepts(case, store, limit, n_threads=2).task_nbytes
    assert promised <= limit
    client = lab.client("processes")
    few = store.take(np.arange(2000))
    case.make(client=client).fit(few)
    everywhere = list(client.scheduler_info()["workers"])  # one task may have gone to one worker only
    client.gather([client.submit(_load, case, few, workers=[worker], pure=False) for worker in everywhere])
    client.run(_watch)
    try:
        case.make(client=client, memory_limit=limit).fit(store)
    finally:
        peaks = client.run(_peak)
    assert max(peaks.values()) <= promised + BESIDE_TASKS_NBYTES, f"{max(peaks.values()):,} of {promised:,}"


BESIDE_TASKS_NBYTES = 2 << 20
"""What a Dask worker itself allocates meanwhile: messages, and small results that wait to be fetched."""


def _load(case: Case, few: Any) -> None:
    """Fit in the worker itself: what modules and kernels take is no task's memory."""
    case.make().fit(few)


def _watch() -> None:
    gc.collect()
    tracemalloc.start()


def _peak() -> int:
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@_check(once=True)
def runs_in_a_pipeline(case: Case, lab: Lab) -> None:
    """By the command, from a table to the result of the same selector fitted to the run's store, and to predictions."""
    folder = lab.folder / f"pipeline-{case.name}"
    folder.mkdir()
    frame = pd.DataFrame(lab.X, columns=lab.names).assign(y=lab.y(case))
    frame.to_parquet(folder / "table.parquet")
    document = {
        "version": 1,
        "name": case.name,
        "source": {"kind": "parquet", "path": "table.parquet", "target": "y"},
        "store": {"path": "table.zarr", "dtype": "float64"},
        "split": None,
        "select": {"method": case.method, **case.options},
        "cluster": {"kind": "none", "memory_limit": "2GiB"},
        "output": "run",
    }
    (folder / "pipeline.yaml").write_text(dump_yaml(document))
    done = CliRunner().invoke(app, ["run", str(folder / "pipeline.yaml")], prog_name="daskfs")
    assert done.exit_code == 0, (done.output, done.exception)
    result = daskfs.SelectionResult.load(folder / "run")
    expected = case.make().fit(daskfs.open_store(folder / "table.zarr")).result_
    assert result.method == case.method
    pd.testing.assert_frame_equal(result.table, expected.table, rtol=case.rtol)
    assert (folder / "run" / "report.html").stat().st_size > 0
    _predicts_other_rows(case, folder, frame)


def _predicts_other_rows(case: Case, folder: Path, frame: pd.DataFrame) -> None:
    """The file, a frame and rows one by one get the predictions that the run gives the rows of its store."""
    store, model = daskfs.open_store(folder / "table.zarr"), daskfs.load(folder / "run")
    fitted = case.make().fit(store)
    predictor = linear_predictor(fitted.predictor(), Run(store, "evaluate", Here()))
    given = np.argsort(np.arange(len(frame)) if store.source_rows is None else store.source_rows)
    expected = fitted.response(predictor)[given]
    assert_close(model.predict(folder / "table.parquet"), expected, case.rtol)
    assert_close(fitted.predict(store)[given], expected)
    some = frame.drop(columns="y").iloc[17:60, ::-1]
    assert_close(model.predict(some), expected[17:60], case.rtol)
    assert_close(model.predict(some.iloc[5:6]), expected[22:23], case.rtol)
    if hasattr(fitted, "predict_proba"):
        assert_close(model.predict_proba(some), fitted.predict_proba(store)[given][17:60], case.rtol)
    assert model.ranking == list(fitted.result_.table["name"])
    assert_close(model.transform(some), fitted.transform(store)[given][17:60].astype(float))
