"""docs/scale.md follows from the records, and the constants in them from the runs."""

from __future__ import annotations

import pytest

from benchmarks import scale, scale_page

RECORDS = scale.read()


def test_the_page_is_what_the_records_yield():
    assert scale_page.PAGE.read_text(encoding="utf-8") == scale_page.page(RECORDS), "python -m benchmarks.scale page"


def test_a_changed_record_changes_the_page():
    page = scale_page.page(RECORDS)
    for kind in ("run", "cluster", "constants", "plan", "asy-os", "simulated"):
        place = next(k for k, one in enumerate(RECORDS) if one["kind"] == kind)
        changed = scale_page.page([one if k != place else _larger(one) for k, one in enumerate(RECORDS)])
        assert changed != page, kind


def _larger(value):
    """Return a record with ten times larger numbers."""
    if isinstance(value, dict):
        return {key: _larger(one) if key not in ("shape", "seed") else one for key, one in value.items()}
    return 10.0 * value if isinstance(value, float) else value


def test_the_constants_are_those_of_the_runs():
    runs = [one for one in RECORDS if one["kind"] == "run"]
    found = next(one for one in RECORDS if one["kind"] == "constants")
    for name, chosen in (("work_s", runs), ("of_role_fit", [run for run in runs if run["role"] == "fit"])):
        # The fit is unique in its predictions, not in constants of operations that always occur together.
        for run in runs:
            old, new = (scale_page._predicted(run["counts"], work_s) for work_s in (found[name], scale.fitted(chosen)))
            assert new == pytest.approx(old, rel=0.02), run["key"]


def test_every_record_says_where_it_is_from():
    for one in RECORDS:
        assert {"key", "kind", "commit", "date", "machine", "versions", "load"} <= one.keys()


def test_known_constants_are_found_again():
    runs = [
        {"seconds": 2e-9 * a + 3e-8 * b, "counts": {"reading": a, "products": b}}
        for a, b in ((1e6, 1e6), (4e6, 1e5), (1e7, 3e6), (2e6, 9e6))
    ]
    assert scale.fitted(runs) == pytest.approx({"products": 3e-8, "reading": 2e-9}, rel=1e-3)


MESSAGES = {"trip_s": {"1000": 0.002, "1000000": 2.0}, "node_s": {"1000": 0.0, "1000000": 0.0}}
COLUMNS = {"of_each_held_s": 1e-9, "of_a_column_s": 0.0}


def test_one_worker_waits_for_each_of_its_messages():
    seconds, _, stale = scale_page.simulated(1000, 4000, 10, 1, MESSAGES, COLUMNS)
    column, width = 1000 * 10 * 1e-9, 200  # 4,000 columns in 20 blocks
    assert seconds == pytest.approx(2 * 4000 / width * (width * column + 0.002))
    assert stale == 0.0


def test_many_workers_wait_for_the_central_node():
    seconds, busy, stale = scale_page.simulated(1000, 4000, 64, 64, MESSAGES, COLUMNS)
    n_blocks = -(-2 * 4000 // 3)
    assert seconds >= n_blocks * 0.001
    assert busy > 0.9
    assert 50 < stale < 64
