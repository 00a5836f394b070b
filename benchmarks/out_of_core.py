"""A store larger than memory: ingest, then MESSAGE over it with small workers; is every memory promise kept?

    python benchmarks/out_of_core.py --size 30GB --memory-limit 2GiB            (about 15 minutes, 30 GB of disk)
    python benchmarks/out_of_core.py --size 1GB --n-features 1000 --subset-size 500 --memory-limit 216MiB
                                                                                (what the test suite runs)

Generates the design of Wang, Peng and Dunson (2014, section 4.1) straight into a store, with a noise of 0.5 (at their 2
the weakest signal, which shrinks with n, cannot be seen by subsets this small), runs `daskfs run` as a user
would, and watches the resident memory of every process of the run from outside. Prints what was promised by
`daskfs plan`, what the processes say themselves (VmHWM) and what was seen from outside; exits with 1 when a promise
is broken or the true features are not the selected ones.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from daskfs.cluster.open import parse_bytes
from daskfs.pipeline.planning import REHEARSAL_NBYTES

MIB = 2**20

PIPELINE = """\
version: 1
name: out-of-core
source: {{kind: synthetic, n_samples: {n_samples}, n_features: {n_features}, correlation: 0.5, noise_scale: 0.5}}
store: {{path: store.zarr}}
select: {{method: message, subset_size: {subset_size}}}
evaluate: {{metrics: [mse, r2, selection_recall, selection_precision]}}
cluster: {{kind: local, n_workers: {n_workers}, memory_limit: {memory_limit}}}
output: run
"""


class Watch(threading.Thread):
    """Samples the resident memory of a process and of all below it, and keeps the peak of each."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.root = psutil.Process(pid)
        self.peaks: dict[str, int] = {}
        self.total = 0

    def run(self) -> None:
        while True:
            total = 0
            try:
                processes = [self.root, *self.root.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            for process in processes:
                try:
                    role = self.role_of(process)  # before its memory, see there
                    rss = process.memory_info().rss
                except psutil.Error:
                    continue
                if role is None:
                    continue
                total += rss
                name = f"{role} (pid {process.pid})"
                self.peaks[name] = max(self.peaks.get(name, 0), rss)
            self.total = max(self.total, total)
            time.sleep(0.05)

    def role_of(self, process: psutil.Process) -> str | None:
        """Tell what a process is; None while it is still a fork of its parent, whose pages it shows as its own."""
        if process.pid == self.root.pid:
            return "client"
        command = process.cmdline()
        if command == self.root.cmdline():
            return None
        if any("daskfs.pipeline.compile_ahead" in word for word in command):
            return "rehearsal"
        is_helper = any("resource_tracker" in word or "forkserver" in word for word in command)
        return "helper of multiprocessing" if is_helper else "worker"


def measure(
    size: int, n_features: int, subset_size: int | None, n_workers: int, memory_limit: str, folder: Path
) -> dict:
    """Make the store, run MESSAGE over it, and return promises and peaks."""
    n_samples = size // (4 * n_features)
    pipeline = folder / "pipeline.yaml"
    pipeline.write_text(
        PIPELINE.format(
            n_samples=n_samples,
            n_features=n_features,
            subset_size="null" if subset_size is None else subset_size,
            n_workers=n_workers,
            memory_limit=memory_limit,
        )
    )
    command = [sys.executable, "-m", "daskfs"]
    planned = subprocess.run([*command, "plan", str(pipeline), "--json"], check=True, capture_output=True, text=True)
    promised = json.loads(planned.stdout)["promised_nbytes"]
    started = time.perf_counter()
    process = subprocess.Popen([*command, "run", str(pipeline)])
    watch = Watch(process.pid)
    watch.start()
    exit_code = process.wait()
    seconds = time.perf_counter() - started
    if exit_code:
        raise SystemExit(f"daskfs run ended with {exit_code}")
    result = json.loads((folder / "run" / "result.json").read_text())
    return {
        "n_samples": n_samples,
        "n_features": n_features,
        "store_nbytes": sum(path.stat().st_size for path in (folder / "store.zarr").rglob("*") if path.is_file()),
        "memory_limit_nbytes": parse_bytes(memory_limit),
        "promised_nbytes": promised,
        "seen_nbytes": watch.peaks,
        "seen_together_nbytes": watch.total,
        "seconds": seconds,
        "result": result,
    }


def check(measured: dict) -> list[str]:
    """Return the broken promises."""
    broken = []
    own = {f"{name} (its own VmHWM)": nbytes for name, nbytes in own_peaks(measured["result"]).items()}
    for name, nbytes in {**measured["seen_nbytes"], **own}.items():
        promised = promised_to(name, measured)
        if nbytes > promised:
            broken.append(f"{name}: {nbytes / MIB:.0f} MiB, promised {promised / MIB:.0f}")
    if measured["promised_nbytes"]["worker"] > measured["memory_limit_nbytes"]:
        broken.append("the plan promises more than the limit")
    metrics = measured["result"]["metrics"]
    if metrics["selection_recall"] < 1 or metrics["selection_precision"] < 1:
        broken.append(f"the selected features are not the true ones: {metrics}")
    return broken


def promised_to(name: str, measured: dict) -> int:
    """Return the bytes that a process may take."""
    role = name.partition(" ")[0].partition("-")[0]
    promised = {**measured["promised_nbytes"], "rehearsal": REHEARSAL_NBYTES}
    return promised.get(role, promised["client"])


def own_peaks(result: dict) -> dict[str, int]:
    """Return what every process said of its own peak."""
    return result["memory"]["measured_nbytes"]


def report(measured: dict) -> None:
    """Print the table."""
    print(
        f"\n{measured['n_samples']:,} x {measured['n_features']:,} float32, "
        f"store {measured['store_nbytes'] / 1e9:.2f} GB,"
        f" workers of {measured['memory_limit_nbytes'] / MIB:.0f} MiB, {measured['seconds']:.0f} s in all"
    )
    print(f"{'process':<42}{'peak MiB':>10}{'promised MiB':>14}")
    rows = {**measured["seen_nbytes"]}
    rows |= {f"{name} (its own VmHWM)": nbytes for name, nbytes in own_peaks(measured["result"]).items()}
    for name, nbytes in rows.items():
        print(f"{name:<42}{nbytes / MIB:>10.0f}{promised_to(name, measured) / MIB:>14.0f}")
    print(f"{'all processes together':<42}{measured['seen_together_nbytes'] / MIB:>10.0f}")
    seconds = ", ".join(f"{step} {s:.1f} s" for step, s in measured["result"]["time"].items())
    print(f"{seconds}; {measured['result']['metrics']}")


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="1GB", help="of the matrix in memory")
    parser.add_argument("--n-features", type=int, default=4096)
    parser.add_argument("--subset-size", type=int, help="rows; MESSAGE chooses by default")
    parser.add_argument("--n-workers", type=int, default=2)
    parser.add_argument("--memory-limit", default="216MiB", help="of each worker")
    parser.add_argument("--folder", type=Path, help="where to put the store; a temporary folder by default")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="daskfs-out-of-core-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        measured = measure(
            parse_bytes(options.size),
            options.n_features,
            options.subset_size,
            options.n_workers,
            options.memory_limit,
            folder,
        )
        report(measured)
        broken = check(measured)
        if options.json:
            options.json.write_text(json.dumps({**measured, "broken": broken}, indent=2))
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(f"BROKEN: {line}" for line in broken) or "every promise is kept")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
