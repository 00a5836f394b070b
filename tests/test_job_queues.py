"""Jobs of batch systems without one: their scripts, what `jobqueue.yaml` says, what states and logs mean.

What a real SLURM does is in `tests/integration/test_slurm.py`.
"""

from __future__ import annotations

import signal
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import dask
import distributed
import pytest

from daskfs.cluster import job_watch
from daskfs.cluster.allocation import Allocated
from daskfs.cluster.certificates import new_certificates, security_of
from daskfs.cluster.job_states import (
    BatchSystem,
    last_lines_of_logs,
    state_of_slurm,
    states_of_lsf,
    states_of_oar,
    states_of_pbs,
    states_of_sge,
)
from daskfs.cluster.job_watch import JobWatch
from daskfs.cluster.jobqueue import JOB_QUEUES, JobOptions, job_script, seconds_of_walltime
from daskfs.cluster.open import open_cluster
from daskfs.errors import ConfigError, RunError
from daskfs.pipeline.checks import check_pipeline
from daskfs.pipeline.config import Cluster, load_pipeline
from tests.refusals import refused

MIB = 2**20
EXAMPLES = sorted((Path(__file__).parents[1] / "pipelines" / "hpc").glob("*.yaml"))


@pytest.fixture
def dask_jobqueue():
    before = signal.getsignal(signal.SIGINT)
    try:
        return pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed: pip install 'daskfs[hpc]'")
    finally:
        signal.signal(signal.SIGINT, before)  # which it replaces


GIVEN = {
    "n_workers": 8, "cores": 4, "processes": 2, "memory_limit": 1000 * MIB, "queue": "long", "account": "money",
    "walltime": "02:00:00", "python": "/opt/python", "interface": "ib0", "local_directory": "/scratch",
    "prologue": ["module load gcc"], "directives": ["--special"], "log_directory": "/shared/logs",
}  # fmt: skip


@pytest.mark.parametrize("kind", JOB_QUEUES)
def test_a_script_is_the_one_of_dask_jobqueue_with_what_workers_need(dask_jobqueue, kind):
    script = job_script(JobOptions(kind, **GIVEN))
    job_cls = getattr(dask_jobqueue, f"{JOB_QUEUES[kind]}Cluster").job_cls
    account = "account" if kind in ("slurm", "pbs") else "project"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # OAR's, of memory that it cannot reserve
        plain = job_cls(
            "tls://SCHEDULER:PORT", name="NAME", cores=4, processes=2, memory="2000MiB", queue="long",
            walltime=GIVEN["walltime"], python="/opt/python", interface="ib0", local_directory="/scratch",
            job_name="daskfs", job_script_prologue=["module load gcc"], job_extra_directives=["--special"],
            log_directory="/shared/logs",
            **{account: "money"},
        )  # fmt: skip
    *expected, command = plain.job_script().strip().splitlines()
    memory = ("--mem=", "mem=", "#BSUB -M")  # of the job: ours asks for the process beside its workers too
    absent = [line for line in expected if line not in script.splitlines() and not any(word in line for word in memory)]
    assert absent == []
    for word in command.split():
        assert word in script.splitlines()[-1].split()
    assert "export NUMBA_NUM_THREADS=1" in script
    assert f"export MALLOC_TRIM_THRESHOLD_={1000 * MIB // 16}" in script
    assert script.index("MALLOC_TRIM_THRESHOLD_") < script.index("module load gcc") < script.index("dask_worker")
    assert "--lifetime 6480s --lifetime-stagger 360s" in script
    assert "--memory-limit 0.98GiB" in script or "--memory-limit 1000.00MiB" in script


def test_a_job_asks_for_the_memory_of_its_workers_and_of_what_starts_them(dask_jobqueue):
    options = JobOptions("slurm", **GIVEN)
    assert options.n_jobs == 4
    assert options.threads_of_worker == 2
    assert options.memory_of_job == (2 * 1000 + 256) * MIB
    assert "#SBATCH --mem=2256M" in job_script(options)
    assert "#PBS -l select=1:ncpus=4:mem=2256MB" in job_script(JobOptions("pbs", **GIVEN))
    of_lsf = job_script(JobOptions("lsf", **GIVEN | {"walltime": "02:00"}))
    assert f"#BSUB -M {-(-2256 * MIB // 1000)}" in of_lsf.splitlines()  # in kB, unless lsf.conf says otherwise


OF_A_SITE = {
    "cores": 16, "processes": 4, "memory": "64 GiB", "queue": "regular", "account": "site", "walltime": "24:00:00",
    "job-script-prologue": ["module load site"], "worker-extra-args": ["--resources", "gpu=1"], "interface": "ib1",
    "log-directory": "/shared/site", "name": "of-site", "python": "/site/python",
}  # fmt: skip


def test_what_a_pipeline_does_not_say_is_as_jobqueue_yaml_says(dask_jobqueue):
    with dask.config.set({f"jobqueue.slurm.{key}": value for key, value in OF_A_SITE.items()}):
        cluster = Cluster(kind="slurm", n_workers=8)
        jobs = cluster.jobs("/default/logs")
        assert (jobs.n_jobs, jobs.threads_of_worker, str(jobs.logs)) == (2, 4, "/shared/site")
        script = job_script(jobs)
        own = job_script(Cluster(kind="slurm", queue="mine", prologue=["module load mine"], cores=4).jobs())
    assert cluster.limits_nbytes["worker"] == (64 * 2**30 - 256 * MIB) // 4
    for line in (
        "#SBATCH -J of-site",
        "#SBATCH -p regular",
        "#SBATCH -A site",
        "#SBATCH --cpus-per-task=16",
        "#SBATCH --mem=65536M",
        "#SBATCH -t 24:00:00",
        "module load site",
    ):
        assert line in script.splitlines()
    assert "/site/python -m" in script
    assert "--resources gpu=1" in script
    assert "--interface ib1" in script
    assert "#SBATCH -p mine" in own
    assert "module load mine" in own
    assert "regular" not in own
    assert "module load site" not in own


def test_a_section_of_its_own_is_read(dask_jobqueue):
    slurm = dask.config.get("jobqueue.slurm")
    with dask.config.set({"jobqueue.big": {**slurm, "queue": "huge", "cores": 64, "processes": 1}}):
        options = JobOptions("slurm", config_name="big", memory_limit=2**30)
        assert options.threads_of_worker == 64
        assert "#SBATCH -p huge" in job_script(options)


@pytest.mark.parametrize(
    ("walltime", "kind", "seconds"),
    [
        ("30", "slurm", 1800), ("30:00", "slurm", 1800), ("1-12", "slurm", 129600), ("1-00:30:00", "slurm", 88200),
        ("01:30:00", "pbs", 5400), ("3600", "sge", 3600), ("02:30", "lsf", 9000), ("45", "lsf", 2700),
        ("2", "oar", 7200), ("2:30:00", "oar", 9000),
    ],
)  # fmt: skip
def test_a_walltime_is_read_as_its_batch_system_reads_it(walltime, kind, seconds):
    assert seconds_of_walltime(walltime, kind) == seconds


def test_a_worker_ends_before_its_job_and_not_with_all_others():
    assert JobOptions("slurm", walltime="00:30:00").lifetime == (1620.0, 90.0)
    assert JobOptions("slurm", walltime="1-00:00:00").lifetime == (77760.0, 4320.0)
    lives, spread = JobOptions("slurm", walltime="00:05:00").lifetime
    assert lives + spread < 300 - 10
    with dask.config.set({"jobqueue.slurm.worker-extra-args": ["--lifetime", "55m"]}):
        assert JobOptions("slurm", walltime="01:00:00").lifetime is None
    with refused(ConfigError, "clusters", at="cluster.walltime", naming=["lifetime"]):
        _ = JobOptions("slurm", walltime="00:00:10").lifetime


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cores": 2, "processes": 3}, "cluster.processes: expected at most one process"),
        ({"cores": 2, "memory": 100 * MIB, "memory_limit": 90 * MIB}, "cluster.memory: a job has 100 MiB, but its 2"),
        ({"walltime": "soon"}, "cluster.walltime: expected a time, found 'soon'"),
    ],
)
def test_options_that_contradict_each_other_are_refused(dask_jobqueue, options, message):
    with pytest.raises(ConfigError, match=message):
        job_script(JobOptions("slurm", **options))


def test_without_dask_jobqueue_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    with refused(ConfigError, "clusters", at="cluster.kind", naming=["'daskfs[hpc]'"]), open_cluster("slurm"):
        pass


def test_a_folder_of_logs_that_cannot_be_made_is_named_before_any_job_is_asked_for(dask_jobqueue, tmp_path):
    (tmp_path / "file").write_text("")
    logs = tmp_path / "file" / "logs"
    with (
        refused(RunError, "clusters", at=f"cluster.log_directory {logs}"),
        open_cluster("slurm", log_directory=str(logs)),
    ):
        pass


def test_an_interrupt_is_one_after_dask_jobqueue_was_imported(dask_jobqueue, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "dask_jobqueue"]:
        monkeypatch.delitem(sys.modules, name)
    before = signal.getsignal(signal.SIGINT)
    job_script(JobOptions("slurm"))
    assert signal.getsignal(signal.SIGINT) is before


def test_a_misspelt_option_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'wall_time'"), open_cluster("slurm", wall_time=3):
        pass


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "local", "queue": "long"}, "queue: has no effect with kind: local; write kind: slurm or pbs"),
        ({"kind": "slurm", "address": "tcp://a:1"}, "address: has no effect with kind: slurm; write kind: address"),
        ({"kind": "slurm", "n_workers": 3, "adapt": {"maximum": 4}}, "n_workers: has no effect with adapt"),
        ({"kind": "slurm", "adapt": {"minimum": 5, "maximum": 4}}, "expected at most 4, found 5"),
        ({"kind": "slurm", "walltime": "soon"}, "walltime"),
        ({"kind": "ssh"}, "hosts: this key is required with kind: ssh"),
        ({"kind": "ssh", "hosts": ["one"]}, "at least 2 items"),
        ({"kind": "address", "address": "tcp://a:1", "scheduler_file": "s.json"}, "leave out scheduler_file"),
        ({"kind": "kubernetes"}, "dask-kubernetes"),
    ],
)
def test_a_key_that_has_no_effect_is_named(given, message):
    with pytest.raises(ValueError, match=message):
        Cluster(**given)


def test_a_cluster_section_survives_the_way_through_a_run_folder():
    given = {"kind": "slurm", "adapt": {"minimum": 1, "maximum": 6}, "cores": 2, "walltime": "01:00:00"}
    cluster = Cluster(**given)
    again = Cluster.model_validate(cluster.model_dump(mode="json"))
    assert again == cluster
    assert again.n_workers == 6
    assert again.jobs() == cluster.jobs()


@pytest.mark.parametrize(
    ("state", "exit_code", "text", "is_over"),
    [
        ("PENDING", "", "pending (Priority)", False),
        ("RUNNING", "0:0", "running", False),
        ("FAILED", "3:0", "FAILED, exit code 3", True),
        ("TIMEOUT", "0:15", "TIMEOUT, signal 15", True),
        ("CANCELLED by 1000", "0:0", "CANCELLED", True),
        ("CANCELLED+", "0:0", "CANCELLED", True),
        ("OUT_OF_MEMORY", "0:125", "OUT_OF_MEMORY, signal 125", True),
        ("NODE_FAIL", "", "NODE_FAIL", True),
        ("COMPLETING", "0:0", "completing", False),
    ],
)
def test_states_of_slurm(state, exit_code, text, is_over):
    found = state_of_slurm(state, "Priority", exit_code)
    assert (found.text, found.is_over) == (text, is_over)
    assert found.is_cancelled == state.startswith("CANCELLED")
    assert found.is_ending == (state == "COMPLETING")


class OneJob:
    """As much of a cluster of dask-jobqueue as is watched: one job without a worker."""

    def __init__(self):
        self.scheduler = SimpleNamespace(workers={}, close=None)
        self.workers, self.worker_spec = {"0": SimpleNamespace(job_id="7")}, {"0": {}}
        self.loop = SimpleNamespace(add_callback=lambda call, *arguments: None)
        self.scale = lambda jobs: None


def test_a_job_that_is_cancelled_as_it_starts_is_replaced_once_its_batch_system_says_so(monkeypatch):
    """SLURM shows COMPLETING first, for jobs that fail as for those that are cancelled."""
    states, told = [*["RUNNING"] * 2, *["COMPLETING"] * 2, "CANCELLED"], []

    def asked(jobs):
        found = state_of_slurm(states[0])
        del states[: len(states) > 1]
        return {"7": found}

    monkeypatch.setitem(job_watch.BATCH_SYSTEMS, "slurm", BatchSystem(asked, lambda job: None))
    monkeypatch.setattr(job_watch, "_LOOK_S", 0.001)
    monkeypatch.setattr(job_watch, "_FIRST_ASK_S", 0.001)
    watch = JobWatch("slurm", Path(), 1, told.append)
    with watch.watching(OneJob(), 1):
        end = time.monotonic() + 60.0
        while not any("submitting another" in line for line in told) and time.monotonic() < end:
            assert watch.fault is None
            time.sleep(0.001)
    assert any("job 7 was cancelled before its worker started" in line for line in told), told


def test_states_of_pbs():
    table = """Job id            Name             User              Time Use S Queue
----------------  ---------------- ----------------  -------- - -----
12.pbs01          daskfs           me                0        Q workq
13.pbs01          of a user        me                00:01:02 R workq
14.pbs01          daskfs           me                00:01:02 F workq
"""
    found = states_of_pbs(table)
    assert {job: (state.text, state.is_over) for job, state in found.items()} == {
        "12": ("queued", False), "13": ("running", False), "14": ("finished", True),
    }  # fmt: skip


def test_states_of_sge():
    table = """job-ID  prior   name       user         state submit/start at     queue     slots ja-task-ID
-----------------------------------------------------------------------------------------------
     12 0.55500 daskfs     me           qw    11/22/2026 18:00:00                1
     13 0.55500 daskfs     me           r     11/22/2026 18:00:00 all.q@n1       1
     14 0.00000 daskfs     me           Eqw   11/22/2026 18:00:00                1
"""
    found = states_of_sge(table)
    assert {job: (state.text, state.is_over) for job, state in found.items()} == {
        "12": ("queued", False), "13": ("running", False), "14": ("in an error state (Eqw)", True),
    }  # fmt: skip


def test_states_of_lsf_and_oar():
    table = (
        "12|PEND|-|New job is waiting for scheduling;\nJob <99> is not found\n13|RUN|-|-\n14|EXIT|3|-\n15|DONE|-|-\n"
    )
    found = states_of_lsf(table)
    assert {job: (state.text, state.is_over) for job, state in found.items()} == {
        "12": ("pending (New job is waiting for scheduling)", False), "13": ("running", False),
        "14": ("EXIT, exit code 3", True), "15": ("DONE", True),
    }  # fmt: skip
    found = states_of_oar("12: Waiting\n13: Running\n14: Error\n")
    assert {job: (state.text, state.is_over) for job, state in found.items()} == {
        "12": ("waiting", False), "13": ("running", False), "14": ("Error", True),
    }  # fmt: skip


def test_the_logs_of_a_job_are_told_from_those_of_others(tmp_path):
    (tmp_path / "daskfs-12.err").write_text("".join(f"line {k}\n" for k in range(100)))
    (tmp_path / "daskfs-12.out").write_text("")
    (tmp_path / "daskfs-112.err").write_text("of another\n")
    shown = last_lines_of_logs([tmp_path, tmp_path / "absent"], "12")
    assert shown[0] == f"the last lines of {tmp_path}/daskfs-12.err:"
    assert shown[1:] == [f"  line {k}" for k in range(88, 100)]
    assert last_lines_of_logs([tmp_path], "1") == []


def third_of(item: int) -> float:
    return 1.0 / (3.0 + item)


def test_a_scheduler_that_speaks_tls_is_found_by_its_file_and_opened_with_its_certificates(tmp_path):
    files = new_certificates(tmp_path)
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}
    there = str(tmp_path / "scheduler.json")
    with (
        distributed.LocalCluster(
            n_workers=1, processes=False, protocol="tls://", security=security_of(files), host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as own,
    ):  # fmt: skip
        with refused(ConfigError, "clusters", at="cluster.tls", naming=["ca_file"]):
            open_cluster("address", address=own.scheduler_address, connect_timeout_s=0.5).__enter__()
        with open_cluster("address", address=own.scheduler_address, tls=files) as workers:
            workers.client.write_scheduler_file(there)
            assert dict(workers.map_blocks(third_of, [1], name="third")) == {0: 0.25}
        with open_cluster("address", scheduler_file=there, tls=files) as workers:
            assert dict(workers.map_blocks(third_of, [1], name="third")) == {0: 0.25}


def test_a_scheduler_file_that_nobody_writes_is_waited_for_as_long_as_asked(tmp_path):
    with refused(RunError, "clusters", naming=["0.3", "cluster.connect_timeout_s"]):
        open_cluster("address", scheduler_file=str(tmp_path / "none.json"), connect_timeout_s=0.3).__enter__()


def test_workers_of_a_running_scheduler_are_waited_for_as_long_as_asked():
    told: list[str] = []
    with distributed.LocalCluster(
        n_workers=0, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as own:
        options = {"address": own.scheduler_address, "tell": told.append}
        with refused(RunError, "clusters", naming=["cluster.wait_timeout_s"]):
            open_cluster("address", **options).__enter__()
        own.loop.call_later(0.5, own.scale, 1)
        with open_cluster("address", wait_timeout_s=30.0, **options) as workers:
            assert workers.n_threads >= 1
    assert "waiting for workers: 0 of 1" in told


def test_a_task_of_an_allocation_knows_its_part():
    of_slurm = {"SLURM_PROCID": "3", "SLURM_NTASKS": "6", "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0"}
    assert Allocated.of("slurm", of_slurm) == (3, 6, "daskfs-12-0")
    assert Allocated.of("slurm", of_slurm | {"SLURM_PROCID": "1"}).is_client
    of_mpi = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "3", "PBS_JOBID": "7.pbs"}
    assert Allocated.of("mpi", of_mpi) == (0, 3, "daskfs-7.pbs")
    with refused(ConfigError, "clusters", at="--runner", naming=["6", "daskfs run"]):
        Allocated.of("slurm", {})
    with refused(ConfigError, "clusters", at="--runner", naming=["2"]):
        Allocated.of("slurm", of_slurm | {"SLURM_NTASKS": "2"})


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_examples_of_each_kind_of_cluster_are_valid(file):
    check_pipeline(load_pipeline(file))


def test_each_batch_system_has_an_example():
    kinds = {load_pipeline(file).cluster.kind for file in EXAMPLES if file.stem != "slurm_site"}
    assert {*JOB_QUEUES} <= kinds
