"""The tutorial's commands run, and end in what the page shows."""

from __future__ import annotations

import os
import re

import pytest

from docs.make_tutorial import PAGE, SESSIONS, prepare, run

TEXT = PAGE.read_text(encoding="utf-8")


def shown(name):
    found = re.search(rf"<!-- transcript: {name} -->\n\n```text\n(.*?)\n```", TEXT, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("name", SESSIONS)
def test_the_page_shows_the_commands_of_the_session(name):
    assert tuple(re.findall(r"^\$ (.*)$", shown(name), re.MULTILINE)) == SESSIONS[name].commands
    assert len(SESSIONS[name].commands) <= 5


@pytest.mark.slow
@pytest.mark.parametrize("name", SESSIONS)
def test_its_commands_end_in_a_report(name, tmp_path):
    session = SESSIONS[name]
    if session.data is not None and "DASKFS_DATA" not in os.environ:
        pytest.skip("DASKFS_DATA, the folder of the real files, is not set")
    prepare(session, tmp_path)
    for command in session.commands:
        done = run(command, tmp_path)
        assert done.returncode == 0, done.stdout
        if " init " in command:
            judged = [line for line in shown(name).splitlines() if line.startswith("  ")]
            told = done.stdout.splitlines()
            assert not [
                line for line in judged[:5] if not any(one.startswith(line.removesuffix(" ...")) for one in told)
            ]
    assert list(tmp_path.glob("runs/*/report.html"))


def test_the_simulated_table_yields_the_terms_that_it_was_made_of():
    """The terms of the formula come first; then missing kinds, a fifth of which are markets."""
    run_of_message = shown("messy").partition("$ daskfs run")[2].partition("$ daskfs")[0]
    names = re.findall(r"^ +\d+ +\d+ +(\S.*?)(?: +-?[\d.]+){5}$", run_of_message, re.MULTILINE)
    towns = {f"town=town {number:03d}" for number in range(3)}
    assert set(names[:8]) == {"visits", "discount", "area", "kind=market", "date.weekday=5", *towns}
    assert names[8:] == ["kind=missing"]
