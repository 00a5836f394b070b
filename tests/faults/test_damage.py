"""Whatever is wrong with a store is named or makes no difference: nothing is silent, no traceback, nothing hangs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.faults.damage import BAD, COMMANDS, LAYOUTS, Case, all_cases, as_table, build, campaign, judge


def bad(outcomes):
    return [outcome for outcome in outcomes if outcome.verdict in BAD]


@pytest.mark.nightly
def test_some_damage_of_each_kind_is_named_or_makes_no_difference():
    outcomes = campaign(seed=0, n=50)
    assert bad(outcomes) == []
    assert Counter(outcome.verdict for outcome in outcomes)["named"] > 100
    assert as_table(outcomes).count("\n") > 15


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_all_damage_is_named_or_makes_no_difference():
    outcomes = campaign(seed=1)
    assert bad(outcomes) == []
    for command in COMMANDS:
        of_command = [outcome for outcome in outcomes if outcome.command == command]
        assert sum(outcome.kind.startswith("metadata") for outcome in of_command) >= 250
        assert sum(outcome.verdict == "named" for outcome in of_command) > 500


@pytest.mark.slow
def test_every_file_is_damaged_in_every_way(tmp_path):
    stores = build(tmp_path)
    cases = all_cases(stores)
    assert {case.layout for case in cases} == set(LAYOUTS)
    for path in (path for path in stores["raw"][0].rglob("*") if path.is_file()):
        name = path.relative_to(stores["raw"][0]).as_posix()
        kinds = {case.kind for case in cases if case.layout == "raw" and case.target == name}
        assert {"flip", "truncate", "grow", "remove", "zero", "empty", "pipe", "folder", "link to /dev/zero"} <= kinds
    assert sum(case.kind == "statistics swapped" for case in cases) >= 8
    assert sum(case.kind.startswith("metadata") for case in cases) >= 250


def test_a_wrong_result_an_error_that_names_nothing_and_a_whole_verdict_are_told():
    path, case = Path("/s.zarr"), Case("flip", "raw", "X/c/0/0", lambda *_: None)
    whole = {"kind": "result", "content": {"selected": [1]}}
    named = {"where": "/s.zarr/X", "remedy": "ingest", "text": "/s.zarr/X: wrong; ingest"}
    for command, answer, verdict in (
        ("fgm", {"kind": "result", "content": {"selected": [2]}}, "silent"),
        ("fgm", {"kind": "result", "content": {"selected": [1]}}, "unaffected"),
        ("verify", {"kind": "result", "content": []}, "silent"),
        ("verify", {"kind": "result", "content": ["/s.zarr/X: wrong"]}, "named"),
        ("fgm", {"kind": "error", "content": named}, "named"),
        ("fgm", {"kind": "error", "content": named | {"where": ""}}, "traceback"),
        ("fgm", {"kind": "error", "content": named | {"remedy": ""}}, "traceback"),
        ("fgm", {"kind": "hung", "content": "no answer"}, "hung"),
        ("fgm", {"kind": "traceback", "content": "KeyError: 'x'"}, "traceback"),
    ):
        assert judge(case, command, answer, whole, path)[0] == verdict
