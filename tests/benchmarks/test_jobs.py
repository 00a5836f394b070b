"""All jobs are complete, and run at their smallest; pages say what the records say."""

from __future__ import annotations

import re

import pytest

from benchmarks import harness, tables
from benchmarks.__main__ import main
from benchmarks.jobs import JOBS, genotypes


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_complete(name):
    job = JOBS[name]
    assert set(job.scales) == set(harness.SCALES)
    assert job.name == name
    assert job.about
    assert job.rival is None or job.rival in job.peers
    for cases in job.scales.values():
        assert {tuple(case) for case in cases} == {tuple(job.scales["smoke"][0])}


@pytest.mark.nightly
@pytest.mark.parametrize("name", JOBS)
def test_a_job_runs_at_its_smallest(name):
    records = list(harness.measure(JOBS[name], "smoke"))
    assert {record["contender"] for record in records} == set(JOBS[name].contenders)
    assert [record for record in records if record["status"] == "failed"] == []
    left_out = ("no data", "has fewer columns")
    records = [record for record in records if not record.get("reason", "").startswith(left_out)]
    assert all(record["status"] == "ok" for record in records if record["ours"] and "cv" not in record["contender"])


@pytest.mark.nightly
def test_a_gigabyte_on_workers_of_216_mib_keeps_every_promise():
    (record,) = harness.measure(JOBS["out_of_core"], "small")
    quality = record["quality"]
    assert quality["promises kept"] == quality["recall"] == quality["precision"] == 1.0
    assert quality["worker promised MiB"] <= 216


@pytest.mark.slow
def test_a_job_is_run_by_its_name(capsys):
    assert main(["run", "ingest", "--only", "Arrow"]) == 0
    assert "Arrow, read alone: " in capsys.readouterr().out


def test_jobs_are_listed_and_unknown_ones_refused(capsys):
    assert main(["list"]) == 0
    assert "message_paths: " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["run", "massage_paths"])
    assert "massage_paths" in capsys.readouterr().err


def test_the_page_is_made_of_the_records():
    """If it fails: ``python -m benchmarks tables``."""
    assert tables.PAGE.read_text(encoding="utf-8") == tables.page(harness.read())


@pytest.mark.parametrize("path", tables.SECTIONED, ids=lambda path: path.name)
def test_marked_sections_are_made_of_the_records(path):
    text = path.read_text(encoding="utf-8")
    assert tables.SECTION.search(text)
    assert text == tables.filled(text, harness.read())


def test_all_evidence_of_the_readme_is_made_of_records():
    """Every number there is in a section that records make."""
    text = tables.SECTIONED[0].read_text(encoding="utf-8")
    evidence = text.partition("## Evidence")[2].partition("\n## ")[0]
    assert tables.SECTION.search(evidence)
    by_hand = tables.SECTION.sub("", evidence)
    assert re.findall(r"\d", by_hand) == []
    lines = tables.evidence(harness.read()).splitlines()
    assert len(lines) >= 4


def test_every_record_is_of_a_job_and_says_where_it_is_from():
    for record in harness.read():
        assert record["job"] in JOBS
        assert record["contender"] in JOBS[record["job"]].contenders
        assert "transcribed" in record or (record["commit"] != "unknown" and record["machine"]["cpu"])


def test_growth_between_two_sizes_is_extrapolated():
    run = []
    for factor, cpu_s in ((1, 1.0), (2, 8.0)):
        case = {"n_samples": 1000 * factor, "n_variants": 2000 * factor}
        run += [
            {"case": case, "scale": "full", "contender": "a", "ours": True, "repeat": 0, "status": "ok", "cpu_s": cpu_s}
        ]
        run[-1] |= {"wall_s": 1.0, "peak_nbytes": 1, "base_nbytes": 0, "quality": {}}
    hours = 8.0 * (genotypes.BIOBANK[0] * genotypes.BIOBANK[1] / 8e6) ** 1.5 / 3600
    assert f"| a | 1.50 | {hours:,.0f} |" in genotypes.with_growth(run)
    assert "exponent" not in genotypes.with_growth(run[:1])
