"""What a planned run is said to take on a cluster that is not there."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from daskfs.cli import app
from daskfs.errors import ConfigError
from daskfs.pipeline.cost import Machine, Nodes, cost_of_step

MACHINE = Machine(1e9, {"other": 1e-9}, task_s=1e-3, request_s=0.05, round_trip_s=0.0)


def test_cores_share_the_work_until_the_scheduler_or_the_tasks_bound_it():
    costs = [cost_of_step("fgm", 4e12, 4, 10, 100_000, n, MACHINE) for n in (1, 100, 10**5)]
    assert [one.bound for one in costs] == ["cores", "cores", "scheduler"]
    assert costs[0].seconds == pytest.approx(100 * costs[1].seconds)
    assert costs[2].seconds == pytest.approx(100_000 * 1e-3)
    assert cost_of_step("fgm", 4e12, 4, 10, 100, 100, MACHINE).bound == "tasks"


def test_waiting_for_requests_counts():
    local, far = (
        cost_of_step("fgm", 4e9, 4, 1, 10, 1, Machine(1e9, {"other": 0.0}, 0.0, request_s, 0.0)).seconds
        for request_s in (0.0, 0.05)
    )
    assert far - local == pytest.approx(4e9 / 2**22 * 0.05)


@pytest.mark.parametrize("text", ["100", "0x4", "axb", "4x-1"])
def test_machines_that_cannot_be_are_refused(text):
    with pytest.raises(ConfigError, match="expected machines x cores"):
        Nodes.parse(text)


def test_a_plan_tells_time_and_money_on_machines_that_are_named(document, write):
    path = str(write(document))
    found = CliRunner().invoke(app, ["plan", path, "--on", "4x16", "--price", "0.05"], catch_exceptions=False)
    assert "on 4 machines of 16 cores:" in found.output
    assert "at 0.05 for an hour of a core" in found.output
    told = CliRunner().invoke(app, ["plan", path, "--on", "4x16", "--json"], catch_exceptions=False)
    steps = json.loads(told.output)["on"]["steps"]
    assert [step["name"] for step in steps] == ["ingest", "message", "evaluate"]
    assert all(step["seconds"] > 0 for step in steps)
