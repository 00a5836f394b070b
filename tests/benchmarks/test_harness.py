"""The harness itself: who is measured when, what becomes of errors, and what pages and trends make of records."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from benchmarks import __main__ as commands
from benchmarks import harness, tables
from benchmarks.harness import Contender, Job, NotApplicable


def burn(seconds: float) -> None:
    started = time.process_time()
    while time.process_time() - started < seconds:
        pass


def job(run=None, peers=None, **options) -> Job:
    """A job over numbers, whose answer is their sum."""
    return Job(
        "sums",
        "Sums",
        lambda folder, seed, n: list(range(n)),
        run or {"sum": Contender(sum)},
        peers or {},
        lambda data, answer: {"off by": answer - sum(range(len(data)))},
        {scale: [{"n": 3}, {"n": 10}] for scale in harness.SCALES},
        **options,
    )


@pytest.fixture
def answered(tmp_path):
    """Answer requests about a job in this process."""

    def answer(job: Job, contender: str, n: int = 10, warm_up: int | None = None):
        request = {"job": job.name, "marker": str(tmp_path / "marker"), "data": str(tmp_path / "data.pickle")}
        harness.answered({**request, "make": {"case": {"n": n}, "seed": 0}}, {job.name: job})
        warm = None
        if warm_up is not None:
            warm = str(tmp_path / "warm.pickle")
            harness.answered({**request, "data": warm, "make": {"case": {"n": warm_up}, "seed": 0}}, {job.name: job})
        return harness.answered({**request, "contender": contender, "warm_up": warm}, {job.name: job})

    return answer


def test_contenders_take_turns_over_the_repeats(monkeypatch):
    monkeypatch.setattr(harness, "make_data", lambda job, case, seed, folder: (folder.mkdir(), folder / "data")[1])
    monkeypatch.setattr(harness, "in_own_process", lambda *_: {"status": "skipped", "reason": "of this test"})
    job_of_two = job(peers={"B": Contender(sum)})
    records = list(harness.measure(job_of_two, "small", 2, say=lambda text: None))
    assert [(r["case"]["n"], r["repeat"], r["contender"]) for r in records] == [
        (n, repeat, name) for n in (3, 10) for repeat in (0, 1) for name in ("sum", "B")
    ]
    assert {r["ours"] for r in records if r["contender"] == "B"} == {False}
    only_b = harness.measure(job_of_two, "small", 1, only="B", say=lambda text: None)
    assert {record["contender"] for record in only_b} == {"B"}


def test_a_run_that_was_stopped_goes_on_after_its_last_record(monkeypatch, tmp_path, capsys):
    measured = []

    def measure(job, name, contender, data, warm_up):
        if len(measured) == 3:
            measured.append("stopped")
            raise KeyboardInterrupt
        measured.append((Path(data).parent.name, name))
        return {"status": "skipped", "reason": "of this test"}

    made = []
    monkeypatch.setattr(
        harness,
        "make_data",
        lambda job, case, seed, folder: (made.append(folder.name), folder.mkdir(), folder / "data")[2],
    )
    monkeypatch.setattr(harness, "in_own_process", measure)
    monkeypatch.setitem(commands.JOBS, "sums", job(peers={"B": Contender(sum)}))
    command = ["run", "sums", "--scale", "small", "--repeats", "1", "--records", str(tmp_path)]
    with pytest.raises(KeyboardInterrupt):
        commands.main(command)
    assert harness.read(tmp_path) == []
    made.clear()
    assert commands.main(command) == 0
    assert "goes on after 3 records" in capsys.readouterr().out
    assert measured == [("case-0-0", "sum"), ("case-0-0", "B"), ("case-1-0", "sum"), "stopped", ("case-1-0", "B")]
    assert "case-0-0" not in made
    records = harness.read(tmp_path)
    assert [(one["case"]["n"], one["contender"]) for one in records] == [(3, "sum"), (3, "B"), (10, "sum"), (10, "B")]
    assert len({one["run"] for one in records}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["sums.jsonl"]


def test_data_that_cannot_be_made_are_a_reason_for_all(monkeypatch):
    def make(job, case, seed, folder):
        if "warm-up" in folder.name:
            return folder
        raise RuntimeError("DASKFS_DATA is not set")

    monkeypatch.setattr(harness, "make_data", make)
    for record in harness.measure(job(), "small", 1, say=lambda text: None):
        assert record["status"] == "skipped"
        assert "DASKFS_DATA" in record["reason"]


def test_what_is_measured_and_judged(answered):
    record = answered(job({"slow": Contender(lambda data: (burn(0.2), sum(data))[1])}), "slow")
    assert record["status"] == "ok"
    assert record["quality"] == {"off by": 0.0}
    assert record["n_calls"] == 1
    assert record["cpu_s"] >= 0.2
    assert record["peak_nbytes"] >= record["base_nbytes"] > 0
    assert record["versions"]["python"]
    json.dumps(record)


@pytest.mark.slow
def test_short_calls_are_repeated_and_preparing_is_not_measured(answered):
    prepared = Contender(sum, prepare=lambda data: (burn(0.2), data)[1])
    record = answered(job({"sum": prepared}), "sum")
    assert record["n_calls"] == harness.MAX_CALLS
    assert record["cpu_s"] < 0.2


@pytest.mark.slow
def test_the_warm_up_has_its_own_data(answered):
    seen = []
    record = answered(job({"sum": Contender(lambda data: (seen.append(len(data)), sum(data))[1])}), "sum", 10, 3)
    assert record["status"] == "ok"
    assert seen[:2] == [3, 10]


def of_more_than_three(data):
    if len(data) <= 3:
        raise NotApplicable("has fewer rows")
    return sum(data)


@pytest.mark.slow
def test_what_does_not_apply_to_the_data_of_the_warm_up_is_measured(answered):
    contender = Contender(of_more_than_three)
    assert answered(job({"sum": contender}), "sum", 10, 3)["status"] == "ok"
    assert answered(job({"sum": contender}), "sum", 3, 3)["status"] == "skipped"


@pytest.mark.slow
def test_memory_beyond_the_data_is_seen(answered):
    record = answered(job({"list": Contender(lambda data: len(bytearray(b"x") * (64 << 20)) * 0 + sum(data))}), "list")
    assert record["peak_nbytes"] - record["base_nbytes"] > 50 << 20


def refuses(data):
    raise NotApplicable("too wide")


def fails(data):
    raise ValueError("singular")


def lacks(data):
    import no_such_library  # noqa: F401


@pytest.mark.slow_cases("contender0", "contender2")
@pytest.mark.parametrize(
    ("contender", "status", "reason"),
    [
        (Contender(refuses), "skipped", "too wide"),
        (Contender(fails), "failed", "ValueError: singular"),
        (Contender(lacks, ("no_such_library",)), "skipped", "not installed: no_such_library"),
    ],
)
def test_an_error_is_a_record(answered, contender, status, reason, capfd):
    record = answered(job({"it": contender}), "it")
    assert (record["status"], record["reason"]) == (status, reason)


def test_a_library_that_is_missing_is_told_without_a_process(monkeypatch):
    monkeypatch.setattr(harness, "run_child", lambda *_: pytest.fail("no process was needed"))
    monkeypatch.delenv("DASKFS_NO_PYTHON", raising=False)
    for contender in (Contender(sum, ("no_such_library",)), Contender(sum, python="DASKFS_NO_PYTHON")):
        record = harness.in_own_process(job(), "it", contender, Path("data"), None)
        assert record["status"] == "skipped"
        assert any(word in record["reason"] for word in ("no_such_library", "DASKFS_NO_PYTHON"))


def test_a_child_that_dies_or_hangs_is_a_record(monkeypatch, tmp_path):
    dies = tmp_path / "python"
    dies.write_text("#!/bin/sh\necho out of luck\nexit 3\n")
    hangs = tmp_path / "slow"
    hangs.write_text("#!/bin/sh\nexec sleep 100\n")
    for path, reason in ((dies, "out of luck"), (hangs, "not done after 0.3 s")):
        path.chmod(0o755)
        monkeypatch.setenv("DASKFS_OTHER", str(path))
        contender = Contender(sum, python="DASKFS_OTHER")
        record = harness.in_own_process(job(timeout_s=0.3 if path == hangs else 60.0), "it", contender, tmp_path, None)
        assert record["status"] == "failed"
        assert reason in record["reason"]


def test_a_child_that_works_too_long_is_stopped_by_its_cpu_time(monkeypatch, tmp_path):
    works = tmp_path / "python"
    works.write_text("#!/bin/sh\nwhile :; do :; done\n")
    works.chmod(0o755)
    monkeypatch.setenv("DASKFS_OTHER", str(works))
    monkeypatch.setattr(harness, "PATIENCE", 10**6)
    record = harness.in_own_process(job(timeout_s=0.3), "it", Contender(sum, python="DASKFS_OTHER"), tmp_path, None)
    assert record["status"] == "failed"
    assert "CPU time" in record["reason"]


def test_the_warm_up_is_the_most_similar_case():
    cases = [{"loss": "squared", "n": 10}, {"loss": "logistic", "n": 10}]
    two = Job("a", "A", sum, {}, {}, sum, {"smoke": cases})
    assert harness.warm_up_case(two, {"loss": "logistic", "n": 1000}) == cases[1]


def test_records_are_appended(tmp_path):
    for run in ("2026-01-02", "2026-01-01"):
        harness.keep([{"job": "a", "run": run, "date": run}], "a", tmp_path)
    (tmp_path / "papers.jsonl").write_text('{"figure": "1"}\n')
    assert [record["run"] for record in harness.read(tmp_path)] == ["2026-01-01", "2026-01-02"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "papers.jsonl"]


def record(contender: str, cpu_s: float, repeat: int = 0, run: str = "1", **others) -> harness.Record:
    """A record of the job `sums`."""
    return {
        "job": "sums", "scale": "small", "run": run, "date": run, "commit": f"c{run}", "dirty": False,
        "machine": {"cpu": "Z80", "cores": 1, "memory_gib": 1}, "case": {"n": 10}, "contender": contender,
        "ours": contender == "sum", "repeat": repeat, "seed": repeat, "status": "ok", "cpu_s": cpu_s, "wall_s": cpu_s,
        "n_calls": 1, "peak_nbytes": 3 << 20, "base_nbytes": 1 << 20, "quality": {"off by": 0.0}, **others,
    }  # fmt: skip


def test_a_table_has_medians_ranges_and_ratios_of_the_same_repeat(monkeypatch):
    monkeypatch.setattr(tables, "JOBS", {"sums": job(peers={"B": Contender(sum), "C": Contender(sum)})})
    records = [record("sum", cpu, k) for k, cpu in enumerate((1.0, 2.0, 4.0))]
    records += [record("B", cpu, k) for k, cpu in enumerate((3.0, 6.0, 12.0))]
    records.append(record("C", 0.0, status="skipped", reason="not installed: c"))
    page = tables.page(records)
    assert "| **sum** | 0 | 2 (1 to 4) | 1 | 2 (1 to 4) | 3 | 2 |" in page
    assert "| B | 0 | 6 (3 to 12) | 3 | 6 (3 to 12) | 3 | 2 |" in page
    assert "| C | skipped: not installed: c |" in page
    assert "3 repeats, 1, commit c1, 1 cores, Z80, 1 GiB" in page


def test_the_newest_run_is_shown(monkeypatch):
    monkeypatch.setattr(tables, "JOBS", {"sums": job()})
    page = tables.page([record("sum", 7.0, run="1"), record("sum", 5.0, run="2")])
    assert "| 5 |" in page
    assert "| 7 |" not in page


def test_evidence_is_made_of_medians(monkeypatch):
    text = "{ours.cpu_s:.1f} s, {times:.1f} times, {case.n}, {ours.off_by:.0f}"
    monkeypatch.setattr(tables, "JOBS", {"sums": job(peers={"B": Contender(sum)}, evidence=text)})
    assert tables.evidence([record("sum", 2.0), record("B", 5.0)]) == "- 2.0 s, 2.5 times, 10, 0"


def test_a_ratio_that_became_worse_is_flagged(monkeypatch):
    monkeypatch.setattr(tables, "JOBS", {"sums": job(peers={"B": Contender(sum)})})
    before = [record("sum", 1.0), record("B", 2.0)]
    level = [record("sum", 10.0, run="2"), record("B", 20.0, run="2")]
    worse = [record("sum", 2.0, run="3"), record("B", 2.0, run="3")]
    elsewhere = [one | {"machine": {"cpu": "6502", "cores": 1, "memory_gib": 1}} for one in worse]
    assert tables.trend([*before, *level]) == []
    assert tables.trend([*before, *elsewhere]) == []
    (flagged,) = tables.trend([*before, *level, *worse])
    assert "CPU time 1 of the rival's, 0.5 at c" in flagged
