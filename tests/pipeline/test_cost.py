"""What a planned run is said to take on a cluster that is not there."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from typer.testing import CliRunner

from daskfs.cli import app
from daskfs.errors import ConfigError
from daskfs.methods import METHODS, load
from daskfs.pipeline.cost import MEASURED, Machine, Nodes, cost_of_step
from daskfs.selectors.shared.work import Work
from tests.refusals import refused

MACHINE = Machine({"values read": 2.5e-10, "other": 1e-9, "fgm: values": 1e-9, "fgm: values selected": 1e-8}, 1e-3)


def test_cores_share_the_work_until_the_scheduler_or_the_tasks_bound_it():
    costs = [cost_of_step("lasso", 4e12, 10, 10_000, n, MACHINE) for n in (1, 100, 10**5)]
    assert [one.bound for one in costs] == ["cores", "cores", "scheduler"]
    assert costs[0].seconds == pytest.approx(100 * costs[1].seconds)
    assert costs[2].seconds == pytest.approx(10_000 * 1e-3)
    assert cost_of_step("lasso", 4e12, 10, 100, 100, MACHINE).bound == "tasks"


def test_no_core_shares_what_one_process_does():
    work = Work({"values": 1e13}, {"values selected": 1e10})
    one, many = (cost_of_step("fgm", 0.0, 1, 1000, n, MACHINE, work=work) for n in (1, 1000))
    assert (one.bound, many.bound) == ("cores", "client")
    assert one.seconds == pytest.approx(1e4 + 100.0)
    assert many.seconds == pytest.approx(1e1 + 100.0)


def test_few_tasks_at_once_use_few_cores():
    work = Work({"values": 1e13}, n_at_once=4)
    found = cost_of_step("fgm", 0.0, 1, 1000, 1000, MACHINE, work=work)
    assert (found.bound, found.seconds) == ("tasks", pytest.approx(2500.0))


def test_requests_are_waited_for_while_cores_work():
    near, far = (replace(MACHINE, latency_s=latency_s, n_ahead=8.0) for latency_s in (0.001, 10.0))
    local = cost_of_step("lasso", 4e9, 1, 10, 1, MACHINE)
    assert cost_of_step("lasso", 4e9, 1, 10, 1, near) == local
    found = cost_of_step("lasso", 4e9, 1, 10, 1, far)
    assert (found.bound, found.seconds) == ("requests", pytest.approx(4e9 / 2**22 * 10.0 / 8.0))


@pytest.mark.parametrize("name", ["message", "fgm", "online_substitution", "async_online_substitution", "mission"])
def test_what_every_method_counts_is_measured(name):
    selector = load(METHODS[name])()
    work = selector.plan(10_000, 2000, "float32", None).work
    assert MEASURED.seconds(name, work.by_tasks) + MEASURED.seconds(name, work.in_client) > 0.0


def test_what_all_methods_do_takes_them_the_same():
    work = Work({"values": 1e9, "values read": 1e9})
    assert cost_of_step("fgm", 0.0, 1, 1, 1, MACHINE, work=work).seconds == pytest.approx(1.0 + 0.25)
    assert cost_of_step("evaluate", 4e9, 1, 1, 1, MACHINE).seconds == pytest.approx(0.25)


def test_a_machine_is_what_its_file_says(tmp_path, document, write):
    path, pipeline = tmp_path / "machine.json", str(write(document))
    slower = {unit: 1000.0 * seconds for unit, seconds in MEASURED.work_s.items()}
    path.write_text(json.dumps(asdict(replace(MEASURED, work_s=slower))))
    assert Machine.read(path) == replace(MEASURED, work_s=slower)

    def core_s(*options: str) -> float:
        asked = ["plan", pipeline, "--on", "1x1", "--json", *options]
        return sum(step["core_s"] for step in json.loads(CliRunner().invoke(app, asked).output)["on"]["steps"])

    assert core_s("--machine", str(path)) == pytest.approx(1000.0 * core_s())


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "cannot read"),
        ("[]", "expected an object"),
        ('{"work_s": {}}', "expected an object"),
        ('{"work_s": {"values read": -1.0}, "task_s": 1.0}', "numbers of at least 0"),
        ('{"work_s": {"values read": 1.0}, "task_s": 1.0}', "is missing"),
        ('{"work_s": {}, "task_s": 1.0, "speed": 1.0}', "expected an object"),
    ],
)
def test_a_file_that_is_no_machine_is_refused_with_the_remedy(tmp_path, text, what):
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(ConfigError, match=what) as found:
        Machine.read(tmp_path / "m.json")
    assert "python -m benchmarks.scale" in str(found.value)


@pytest.mark.parametrize("text", ["100", "0x4", "axb", "4x-1"])
def test_machines_that_cannot_be_are_refused(text):
    with refused(ConfigError, "pipeline-files", at="--on", naming=["machines"]):
        Nodes.parse(text)


def test_a_plan_tells_time_and_money_on_machines_that_are_named(document, write):
    path = str(write(document))
    found = CliRunner().invoke(app, ["plan", path, "--on", "4x16", "--price", "0.05"], catch_exceptions=False)
    assert "on 4 machines of 16 cores:" in found.output
    assert "at 0.05 per core-hour" in found.output
    told = CliRunner().invoke(app, ["plan", path, "--on", "4x16", "--json"], catch_exceptions=False)
    steps = json.loads(told.output)["on"]["steps"]
    assert [step["name"] for step in steps] == ["ingest", "message", "evaluate"]
    assert all(step["seconds"] > 0 for step in steps)
