"""What a process takes beside the data: the peak of client and workers over a few rows, by kind of cluster and method.

Runs each pipeline several times in a process of its own, as a user does, and reads the peaks from its result. What is
measured beyond the terms of the plan is the constants `BASE_*` of `daskfs.pipeline.planning` and their margin.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import yaml

MIB = 2**20
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
METHODS = {
    "message": {"method": "message", "n_subsets": 4},
    "substitution": {"method": "online_substitution", "n_features_to_select": 5},
    "screen": {"method": "online_substitution", "n_features_to_select": 5, "schedule": "screen"},
    "fgm": {"method": "fgm", "n_features_to_select": 4, "loss": "squared"},
    "mission": {"method": "mission", "n_features_to_select": 4},
    "asynchronous": {"method": "async_online_substitution", "n_features_to_select": 5, "n_workers": 2},
}
CLUSTERS = {
    "none": {"kind": "none"},
    "threads": {"kind": "threads", "n_workers": 2},
    "local": {"kind": "local", "n_workers": 2},
    "address": {"kind": "address", "n_workers": 2},
}


@contextmanager
def running_cluster(folder: Path) -> Iterator[str]:
    """Start a scheduler and two workers as Dask's documentation has it; yield the address."""
    dask, found = [sys.executable, "-m", "distributed.cli.dask_scheduler"], folder / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, "env": ENVIRONMENT}
    parts = [
        subprocess.Popen([*dask, "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(found)], **quiet)  # type: ignore[call-overload]
    ]
    while not found.exists():
        time.sleep(0.1)
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(found), "--nthreads", "1"]
    parts += [subprocess.Popen(worker, **quiet) for _ in range(2)]  # type: ignore[call-overload]
    try:
        yield json.loads(found.read_text())["address"]
    finally:
        for part in parts:
            part.terminate()
        for part in parts:
            part.wait()


def peaks(folder: Path, cluster: dict[str, object], method: dict[str, object]) -> dict[str, tuple[int, int]]:
    """Return measured and promised bytes of the client and of the largest worker."""
    document = {
        "version": 1,
        "name": "few",
        "source": {"kind": "sklearn", "name": "diabetes"},
        "select": method,
        "cluster": cluster | {"memory_limit": "2GiB"},
    }
    (folder / "few.yaml").write_text(yaml.safe_dump(document))
    command = [sys.executable, "-W", "ignore", "-m", "daskfs", "run", "few.yaml", "--force"]
    subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    memory = json.loads((folder / "runs/few/result.json").read_text())["memory"]
    measured, promised = memory["measured_nbytes"], memory["promised_nbytes"]
    found = {"client": (measured["client"], promised["client"])}
    if "worker" in promised:
        found["worker"] = (max(n for name, n in measured.items() if name != "client"), promised["worker"])
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--cluster", nargs="*", choices=CLUSTERS, default=list(CLUSTERS))
    parser.add_argument("--method", nargs="*", choices=METHODS, default=list(METHODS))
    options = parser.parse_args()
    print("| cluster | method | process | measured MiB, largest | promised MiB |\n|---|---|---|---|---|", flush=True)
    for kind in options.cluster:
        for name in options.method:
            with tempfile.TemporaryDirectory() as text:
                folder, cluster = Path(text), CLUSTERS[kind]
                with running_cluster(folder) if kind == "address" else nullcontext("") as address:
                    runs = [
                        peaks(folder, cluster | ({"address": address} if address else {}), METHODS[name])
                        for _ in range(options.repeats)
                    ]
            for process in runs[0]:
                most = max(run[process][0] for run in runs)
                line = f"| {kind} | {name} | {process} | {most / MIB:.1f} | {runs[0][process][1] / MIB:.1f} |"
                print(line, flush=True)


if __name__ == "__main__":
    main()
