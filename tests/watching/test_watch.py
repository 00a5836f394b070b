"""A run that is watched: speed and time left by a clock that the test holds, parts, what was found, who is shown it."""

import ast
import json
import threading

import pytest

from daskfs.watching.base import Found, Watched, as_watched
from daskfs.watching.state import State
from daskfs.watching.terminal import Lines
from daskfs.watching.watch import Measured, Viewer, Watch, watch_of
from daskfs.watching.words import STEPS, words_of
from tests.imports import MODULES, tree_of


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def passes(self, seconds):
        self.now += seconds


class Onlooker(Viewer):
    """Keeps what it is shown."""

    def __init__(self, every_s=1.0):
        self.every_s, self.lines, self.said = every_s, [], []

    def beat(self, state):
        self.lines.append(state.to_line())

    def message(self, text):
        self.said.append(text)


class Steps:
    """Hears of steps alone, as users' own progress does."""

    def __init__(self):
        self.heard = []

    def start(self, name, total):
        self.heard.append((name, total))

    def advance(self, k=1):
        self.heard.append(k)

    def finish(self):
        self.heard.append("end")


@pytest.fixture
def clock():
    return Clock()


def of(name, read=0):
    return lambda: Measured({name: 3 << 20}, read)


def test_time_left_is_that_of_the_speed_so_far_and_what_was_resumed_says_nothing_of_it(clock):
    watch = Watch(clock=clock)
    watch.start("message-select", 100)
    watch.skip(50)
    assert watch.state.seconds_left is None
    clock.passes(10.0)
    watch.advance(5)
    assert watch.state.seconds_left == pytest.approx(90.0)
    clock.passes(2.0)
    assert watch.state.seconds_left == pytest.approx(88.0)
    watch.advance(45)
    assert watch.state.seconds_left is None, "nothing is left"
    assert watch.state.step.share == 1.0


def test_a_line_says_the_pass_its_part_the_share_the_speed_and_the_time_left(clock):
    read = [0]
    watch = Watch(Onlooker(), measure=lambda: Measured({}, read[0]), clock=clock)
    watch.start("fgm", 12)
    for _ in range(3):
        clock.passes(2.0)
        read[0] += 4_200_000_000
        watch.beat()
    watch.advance(2)
    watch.begin_part("fgm-scores", 100)
    watch.advance_part(41)
    assert watch.state.to_line() == "fgm, pass 3 of 12: scoring columns, 41 %, 2.1 GB/s, 30 s left"
    watch.begin_part("fgm-subproblems", 0)
    assert watch.state.heading == "fgm, pass 3 of 12: fitting the chosen columns"
    watch.end_part()
    watch.end_part()
    assert watch.state.heading == "fgm, pass 3 of 12"


def test_rows_are_told_of_an_ingest_and_of_a_matrix_whose_rows_have_known_bytes(clock):
    watch = Watch(clock=clock)
    watch.start("ingest", 0)
    clock.passes(2.0)
    watch.advance(5_000_000)
    assert watch.state.to_line() == "reading the source, 2.5 million rows/s, 2 s so far"
    read = [0]
    watch = Watch(Onlooker(), measure=lambda: Measured({}, read[0]), clock=clock)
    watch.row_nbytes = 400.0
    for _ in range(2):
        clock.passes(2.0)
        read[0] += 8_000
        watch.beat()
    assert watch.state.row_rate == pytest.approx(10.0)


def test_a_viewer_looks_when_its_time_has_come_within_a_step_too(clock):
    often, seldom = Onlooker(1.0), Onlooker(60.0)
    watch = Watch(often, seldom, clock=clock)
    watch.start("mission-train", 1)  # and nothing is heard of it for minutes
    for _ in range(125):
        clock.passes(1.0)
        watch.beat()
    assert len(often.lines) == 125
    assert seldom.lines == ["mission, learning, 1 min 0 s so far", "mission, learning, 2 min 0 s so far"]


def test_a_log_gets_a_line_for_each_step_that_took_a_second_and_one_a_minute(clock):
    lines = []
    watch = Watch(Lines(lines.append), clock=clock)
    for seconds in (0.5, 3.0):
        watch.start("evaluate", 1000)
        clock.passes(seconds)
        watch.advance(1000)
        watch.finish()
    assert lines == ["predicting the test rows: 1,000 rows in 3 s"]
    watch.start("fgm", 20)
    clock.passes(70.0)
    watch.beat()
    assert lines[1:] == ["fgm, pass 1 of 20, 1 min 10 s so far"]
    assert watch.seconds == {"evaluate": 3.5}


def test_what_was_found_is_asked_for_some_times_a_second_and_its_history_stays_short(clock):
    watch, asked = Watch(clock=clock), []

    def found(at):
        return lambda: asked.append(at) or Found(at, "pass", 100.0 - at, 2, ("age", "income"))

    for at in range(3):
        watch.learn(found(float(at)))
    assert asked == [0.0]
    watch.finish()
    assert asked == [0.0, 2.0], "what was found last is known in the end"
    clock.passes(1.0)
    watch.learn(found(0.0))
    for at in range(1, 2000):
        clock.passes(1.0)
        watch.learn(found(float(at)))
    state = watch.state
    assert (state.n_selected, state.selected) == (2, ("age", "income"))
    assert len(state.objective) <= 400
    assert state.objective[0] == (0.0, 100.0)
    assert state.objective[-1][0] > 1900
    clock.passes(1.0)
    watch.learn(found(0.0))
    assert watch.state.objective == ((0.0, 100.0),), "another fit begins anew"


def test_memory_stands_against_what_the_plan_promised(clock):
    watch = Watch(Onlooker(), measure=of("worker-0"), clock=clock)
    watch.promised = {"client": 1 << 20, "worker": 5 << 20}
    clock.passes(2.0)
    watch.beat()
    assert watch.state.memory_line() == "worker-0 3 of 5 MiB"


def test_workers_that_do_not_answer_are_no_fault_of_those_who_look(clock):
    def gone():
        raise OSError("the scheduler is gone")

    onlooker = Onlooker()
    watch = Watch(onlooker, measure=gone, clock=clock)
    clock.passes(2.0)
    watch.beat()
    assert onlooker.lines == ["preparing the next step, 2 s so far"]


def test_who_hears_of_steps_alone_is_told_of_these_and_of_what_was_resumed():
    steps = Steps()
    watch = Watch(follower=steps)
    watch.start("epoch", 5)
    watch.skip(2)
    watch.begin_part("scores", 7)
    watch.advance_part(3)
    watch.end_part()
    watch.advance()
    watch.learn(lambda: Found(1.0, "pass", 1.0, 0, ()))
    watch.finish()
    assert steps.heard == [("epoch", 5), 2, 1, "end"]


def test_one_watch_is_enough_for_a_run():
    watch = Watch()
    assert watch_of(watch) is watch
    assert as_watched(watch) is watch
    assert isinstance(watch, Watched)
    assert as_watched(None) is None


def test_a_state_goes_through_json_and_what_is_no_state_is_refused(clock):
    watch = Watch(Onlooker(), name="genes", measure=of("client", 10), clock=clock)
    watch.start("fgm", 3)
    watch.begin_part("fgm-scores", 4)
    watch.learn(lambda: Found(1.0, "pass", 5.0, 1, ("x1",)))
    clock.passes(2.0)
    watch.beat()
    document = json.loads(json.dumps(watch.state.to_document()))
    assert State.from_document(document) == watch.state
    for broken in ({}, document | {"memory": 3}, document | {"step": {"name": 1}}, document | {"objective": [1]}):
        with pytest.raises(ValueError, match="invalid state of a run"):
            State.from_document(broken)


def test_the_thread_that_looks_ends_with_the_block_whatever_ended_it():
    watch = Watch(Onlooker())

    def interrupted():
        with watch.beating(), watch.beating():
            assert any(thread.name == "daskfs-watch" for thread in threading.enumerate())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not any(thread.name == "daskfs-watch" for thread in threading.enumerate())


def steps_in_the_code():
    """The names of steps that are written in the code, where they are words."""
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            of_a_run = ast.unparse(node.func.value).endswith("run") or ast.unparse(node.func.value).endswith("progress")
            is_step = node.func.attr in ("map", "each", "reduce", "reported", "timed", "chain", "start")
            first = node.args[0]
            if of_a_run and is_step and isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield path.name, first.value


def test_every_step_has_words_for_whoever_watches():
    found = list(steps_in_the_code())
    assert len(found) > 20
    unsaid = {(file, step) for file, step in found if step not in {"epoch-1", *STEPS}}
    assert not unsaid, "say in daskfs/watching/words.py what these do"
    assert words_of("online_substitution-epoch-2")[1].doing == "epoch 2 over all columns"
