"""Memory: whole runs on small workers, held against what their plans promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import Contender, Job, tree

PIPELINE = """\
version: 1
name: out-of-core
source: {{kind: synthetic, n_samples: {n_samples}, n_features: {n_features}, correlation: 0.5, noise_scale: 0.5}}
store: {{path: store.zarr}}
select: {{method: message, subset_size: {subset_size}}}
evaluate: {{metrics: [mse, r2, selection_recall, selection_precision]}}
cluster: {{kind: local, n_workers: 2, memory_limit: {memory_limit}}}
output: run
"""


@dataclass
class Run:
    """A pipeline of the compound design with a noise of 0.5: at the paper's 2 small subsets cannot see the weakest."""

    text: str
    n_samples: int
    n_features: int
    memory_limit: str


def pipeline(folder: Path, seed: int, **case: Any) -> Run:
    """Return the pipeline."""
    return Run(PIPELINE.format(**case), case["n_samples"], case["n_features"], case["memory_limit"])


class Watch(threading.Thread):
    """Samples the resident memory of each process that daskfs starts, by its role."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.peaks, self.ended = pid, dict[str, int](), threading.Event()

    def run(self) -> None:
        """Look until the run has ended."""
        import psutil

        while not self.ended.wait(0.05):
            for process in tree(self.pid):
                try:
                    role, rss = self.role_of(process), process.memory_info().rss
                except psutil.Error:
                    continue
                self.peaks[role] = max(self.peaks.get(role, 0), rss)

    def role_of(self, process: Any) -> str:
        """Return what a process is."""
        if process.pid == self.pid:
            return "client"
        command = process.cmdline()
        if any("daskfs.pipeline.compile_ahead" in word for word in command):
            return "rehearsal"
        is_helper = any("resource_tracker" in word or "forkserver" in word for word in command)
        return "helper" if is_helper else "worker"


def ran(data: Run) -> dict[str, Any]:
    """Plan and run in a folder of its own; return promises and peaks."""
    from daskfs.pipeline.plan import REHEARSAL_NBYTES

    folder = Path(tempfile.mkdtemp())
    (folder / "pipeline.yaml").write_text(data.text)
    command = [sys.executable, "-m", "daskfs"]
    plan = subprocess.run(
        [*command, "plan", "pipeline.yaml", "--json"], cwd=folder, check=True, capture_output=True, text=True
    )
    promised = {"rehearsal": REHEARSAL_NBYTES, **json.loads(plan.stdout)["promised_nbytes"]}
    run = subprocess.Popen([*command, "run", "pipeline.yaml"], cwd=folder, env=os.environ)
    watch = Watch(run.pid)
    watch.start()
    code = run.wait()
    watch.ended.set()
    if code:
        raise RuntimeError(f"daskfs run ended with {code}")
    result = json.loads((folder / "run" / "result.json").read_text())
    for name, nbytes in result["memory"]["measured_nbytes"].items():  # each process's own peak
        role = name.partition(" ")[0].partition("-")[0]
        watch.peaks[role] = max(watch.peaks.get(role, 0), nbytes)
    return {"promised": promised, "peaks": watch.peaks, "metrics": result["metrics"]}


def judge(data: Run, answer: dict[str, Any]) -> dict[str, float]:
    """Say whether promises are kept, and whether the selection is right."""
    promised, peaks = answer["promised"], answer["peaks"]
    kept = all(nbytes <= promised.get(role, promised["client"]) for role, nbytes in peaks.items())
    found = {f"{role} MiB": peaks[role] / 2**20 for role in ("client", "worker")}
    found |= {f"{role} promised MiB": promised[role] / 2**20 for role in ("client", "worker")}
    metrics = answer["metrics"]
    return {
        **found,
        "promises kept": float(kept),
        "data GB": 4e-9 * data.n_samples * data.n_features,
        "recall": metrics["selection_recall"],
        "precision": metrics["selection_precision"],
    }


def cases(n_samples: int, n_features: int, subset_size: int | str, memory_limit: str) -> list[dict[str, Any]]:
    """Return the only case."""
    shape = {"n_samples": n_samples, "n_features": n_features}
    return [{**shape, "subset_size": subset_size, "memory_limit": memory_limit}]


JOBS = [
    Job(
        "out_of_core",
        "A run larger than memory",
        pipeline,
        {"daskfs run": Contender(ran)},
        {},
        judge,
        {
            "smoke": cases(4000, 200, 500, "256MiB"),
            "small": cases(250_000, 1000, 500, "216MiB"),
            "full": cases(1_831_054, 4096, "null", "2GiB"),
        },
        about=(
            "`daskfs run` of MESSAGE from synthetic data to the report, with two workers. The peak of each role "
            "of process is sampled from outside and told by the process itself; promised is what `daskfs plan` "
            "says."
        ),
        evidence=(
            "`daskfs run` of MESSAGE over {ours.data_GB:.2g} GB with two workers of {case.memory_limit} takes "
            "{ours.wall_s:.0f} s from the source to the report. Workers peak at {ours.worker_MiB:.0f} MiB; the "
            "plan promised {ours.worker_promised_MiB:.0f} MiB."
        ),
        cold=True,
        repeats=1,
        timeout_s=7200.0,
    ),
]
