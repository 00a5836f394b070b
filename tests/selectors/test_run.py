"""The run of a fit: steps resume, report, count, and send the matrix once."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from daskfs.cluster.workers import Here, Round
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.run import Run


@dataclass(frozen=True)
class Sums(Record):
    total: np.ndarray
    n_rows: int


@dataclass(frozen=True)
class Piece:
    name: str
    rows: slice


def sums_on(matrix, scale, part):
    rows = part.rows if isinstance(part, Piece) else part
    block = matrix.read(rows)
    return Sums(scale * block.sum(axis=0), len(block))


def added(one, other):
    return Sums(one.total + other.total, one.n_rows + other.n_rows)


class Sent(Here):
    """Remembers what was sent, and to how many tasks."""

    def __init__(self):
        self.kept, self.n_tasks = [], 0

    def keep(self, argument):
        self.kept.append(argument)
        return argument

    def map_blocks(self, function, items, *, name, shared=()):
        self.n_tasks += len(items)
        yield from super().map_blocks(function, items, name=name, shared=shared)


class Kept(dict):
    """A checkpoint in memory that fails after so many pieces."""

    def __init__(self, n_left=np.inf):
        super().__init__()
        self.n_left = n_left

    def load(self, name):
        return self.get(name)

    def save(self, name, arrays):
        if not self.n_left:
            raise KeyboardInterrupt
        self.n_left -= 1
        self[name] = arrays


class Heard:
    """A progress that writes down what it hears."""

    def __init__(self):
        self.said = []

    def start(self, name, total):
        self.said.append(f"{name} of {total}")

    def advance(self, k=1):
        self.said.append(k)

    def finish(self):
        self.said.append("done")


@pytest.fixture
def matrix():
    return ArrayMatrix(np.arange(24.0).reshape(8, 3))


def pieces(run, n=4):
    return [Piece(f"{k}", run.rows(k * 8 // n, (k + 1) * 8 // n)) for k in range(n)]


def test_a_map_returns_results_in_the_order_of_the_parts_and_a_reduce_their_sum(matrix):
    run = Run(matrix, "test")
    parts = run.map("sums", sums_on, pieces(run), 2.0)
    assert [part.n_rows for part in parts] == [2, 2, 2, 2]
    whole = run.reduce("sums", sums_on, pieces(run), added, 2.0)
    np.testing.assert_array_equal(whole.total, 2.0 * matrix.read(slice(None)).sum(axis=0))
    assert run.nbytes == {"sums": 5 * (24 + 8)}
    assert set(run.seconds) == {"sums"}


def moved(matrix, scale, state, rows):
    return Sums(state.total * scale + matrix.read(rows).sum(axis=0), state.n_rows + 1)


def same(state):
    return state


def test_a_chain_hands_its_state_from_round_to_round_and_counts_what_it_yields(matrix):
    run = Run(matrix, "test")
    legs = [[[run.rows(0, 2)], [run.rows(2, 4), run.rows(4, 6)]], [[run.rows(6, 8)]]]
    with run.timed("walk"):
        states = list(run.chain("walk", Round(moved, added, same), legs, Sums(np.zeros(3), 0), 0.5))
    X = matrix.read(slice(None))
    middle = X[:2].sum(axis=0) + X[2:6].sum(axis=0)  # half of the first round's, twice
    np.testing.assert_array_equal(states[0].total, middle)
    np.testing.assert_array_equal(states[1].total, 0.5 * middle + X[6:].sum(axis=0))
    assert [state.n_rows for state in states] == [4, 5]
    assert run.nbytes == {"walk": 2 * (24 + 8)}


def test_a_run_that_is_resumed_maps_what_is_missing_and_nothing_that_is_there(matrix):
    kept = Kept(n_left=3)
    run = Run(matrix, "test", checkpoint=kept)
    with pytest.raises(KeyboardInterrupt):
        run.map("sums", sums_on, pieces(run), 1.0, record=Sums)
    assert sorted(kept) == ["test-sums-0", "test-sums-1", "test-sums-2"]
    kept.n_left, workers, heard = np.inf, Sent(), Heard()
    run = Run(matrix, "test", workers, heard, kept)
    found = run.map("sums", sums_on, pieces(run), 1.0, record=Sums)
    assert workers.n_tasks == 1
    assert heard.said == ["test-sums of 4", 3, 1, "done"]
    for one, other in zip(found, Run(matrix, "test").map("sums", sums_on, pieces(run), 1.0), strict=True):
        np.testing.assert_array_equal(one.total, other.total)
        assert one.n_rows == other.n_rows


def test_a_loop_saves_its_state_at_most_once_per_second(matrix, monkeypatch):
    kept, now = Kept(), [100.0]
    monkeypatch.setattr("daskfs.selectors.shared.run.SAVE_S", 1.0)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    run = Run(matrix, "test", checkpoint=kept)
    for k, seconds in enumerate((0.0, 0.9, 0.2, 0.5)):
        now[0] += seconds
        run.save_so_far("loop", partial(Sums, np.full(3, k), k))
        run.within("other").save_so_far("loop", partial(Sums, np.full(3, k), k))
        expected = 2 if k >= 2 else 0
        found = {name: Sums.unpack(state).n_rows for name, state in kept.items()}
        assert found == {"test-loop": expected, "other-test-loop": expected}
    run.save("loop", Sums(np.zeros(3), 7))
    assert Sums.unpack(kept["test-loop"]).n_rows == 7


def test_the_same_step_with_another_key_or_of_another_class_is_kept_apart(matrix):
    kept = Kept()
    run = Run(matrix, "test", checkpoint=kept)
    for scale, key in ((1.0, "-a"), (2.0, "-b")):
        run.reduce("sum", sums_on, pieces(run), added, scale, record=Sums, key=key)
    other = run.within("class-1").reduce("sum", sums_on, pieces(run), added, 3.0, record=Sums, key="-a")
    assert sorted(kept) == ["class-1-test-sum-a", "test-sum-a", "test-sum-b"]
    once = run.reduce("sum", sums_on, [], added, record=Sums, key="-b")
    np.testing.assert_array_equal(3.0 * once.total, 2.0 * other.total)


def test_what_stands_inside_a_step_is_neither_shown_nor_counted_by_itself(matrix):
    heard = Heard()
    run = Run(matrix, "test", progress=heard)
    with run.reported("fit", 2) as advance:
        run.map("sums", sums_on, pieces(run), 1.0)
        advance()
        with run.timed("solve"):
            run.map("sums again", sums_on, pieces(run), 1.0)
        advance()
    assert heard.said == ["test-fit of 2", 0, 1, 1, "done"]
    assert set(run.seconds) == set(run.nbytes) == {"sums", "solve"}


@pytest.mark.parametrize("by", ["rows", "columns"])
def test_a_matrix_is_sent_once_however_many_steps_read_it_and_however_its_rows_are_taken(matrix, by):
    workers = Sent()
    run = Run(matrix, "test", workers).over(matrix.take(np.array([6, 1, 4])), by=by)
    for _ in range(3):
        (part,) = run.map("sums", sums_on, [Piece("all", run.rows(0, 3))], 1.0)
        again = run.reduce("sums", sums_on, [run.rows(0, 2), run.rows(2, 3)], added, 1.0)
    np.testing.assert_array_equal(part.total, matrix.read(np.array([6, 1, 4])).sum(axis=0))
    np.testing.assert_array_equal(again.total, part.total)
    assert len(workers.kept) == 1
    assert (workers.kept[0] is matrix) == (by == "rows")


def test_results_are_reduced_in_the_same_tree_with_any_workers(matrix):
    parts = [slice(k, k + 1) for k in range(8)]
    assert Run(matrix, "test").reduce("sum", first_of, parts, operator.add) == sum(range(0, 24, 3))


def first_of(matrix, rows):
    return float(matrix.read(rows)[0, 0])
