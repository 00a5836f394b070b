"""A real SLURM of one's own: munged, slurmctld and two emulated nodes below a folder, on loopback, as any user.

Debian's packages are installed where they may be: by root, when a test that takes long asks for them.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "srun")
PACKAGES = ["slurmctld", "slurmd", "slurm-client", "munge", "slurm-wlm-torque"]
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
N_NODES = 2

CONFIGURATION = """
ClusterName=daskfs
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={base}/munge/socket
SlurmctldPort={port}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=2
MinJobAge=300
InactiveLimit=0
StateSaveLocation={base}/state
SlurmdSpoolDir={base}/spool/%n
SlurmctldPidFile={base}/slurmctld.pid
SlurmdPidFile={base}/slurmd.%n.pid
SlurmctldLogFile={base}/log/slurmctld.log
SlurmdLogFile={base}/log/slurmd.%n.log
{nodes}
PartitionName=debug Nodes=n[1-{n_nodes}] Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    return [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]


def install() -> None:
    """Install SLURM, one process at a time; skip the test where that cannot be."""
    if not missing():
        return
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        pytest.skip(f"SLURM is not installed (no {missing()[0]}), and installing it takes root and Debian's apt-get")
    with (Path(tempfile.gettempdir()) / "daskfs-slurm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if missing():
            for command in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *PACKAGES]):
                quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
                with suppress(subprocess.TimeoutExpired):
                    subprocess.run(["apt-get", *command], env=quiet, capture_output=True, timeout=240, check=False)
    if missing():
        pytest.skip(f"SLURM cannot be installed (no {missing()[0]}): apt-get does not reach its packages")


@contextmanager
def slurm() -> Iterator[Path]:
    """Start SLURM and have its commands speak to it; yield its folder, which others can enter."""
    base = Path(tempfile.mkdtemp(prefix="daskfs-slurm-"))
    base.chmod(0o755)
    before = os.environ.copy()
    os.environ |= {"SLURM_CONF": str(base / "slurm.conf"), "PATH": PATH}
    try:
        _configure(base)
        _start(base)
        yield base
    finally:
        _stop(base)
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(base, ignore_errors=True)


def _configure(base: Path) -> None:
    for name in ("munge", "state", "spool", "log"):
        (base / name).mkdir()
    key = base / "munge" / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    host, user = socket.gethostname().partition(".")[0], psutil.Process().username()
    port, *ports = _free_ports(1 + N_NODES)
    of_each = f"NodeHostname={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=16000 State=UNKNOWN"
    nodes = [f"NodeName=n{i} Port={ports[i - 1]} {of_each}" for i in range(1, N_NODES + 1)]
    text = CONFIGURATION.format(base=base, host=host, user=user, port=port, nodes="\n".join(nodes), n_nodes=N_NODES)
    (base / "slurm.conf").write_text(text)
    (base / "cgroup.conf").write_text("CgroupAutomount=no\n")


def _free_ports(n_ports: int) -> list[int]:
    with contextmanager(_sockets)(n_ports) as found:
        return [one.getsockname()[1] for one in found]


def _sockets(n_ports: int) -> Iterator[list[socket.socket]]:
    found = [socket.create_server(("127.0.0.1", 0)) for _ in range(n_ports)]
    yield found
    for one in found:
        one.close()


def _start(base: Path) -> None:
    munge = [f"--{name}={base}/munge/{file}" for name, file in {"socket": "socket", "pid-file": "pid"}.items()]
    munge += [f"--{name}-file={base}/munge/{file}" for name, file in {"key": "munge.key", "log": "log"}.items()]
    munge += [f"--seed-file={base}/munge/seed", "--force", "--num-threads=2"]
    _said("munged", *munge)
    _said("slurmctld", "-c")
    for i in range(1, N_NODES + 1):
        _said("slurmd", "-N", f"n{i}")
    end = time.monotonic() + 60.0
    while _said("sinfo", "--noheader", "--Node", "--format=%T", may_fail=True).split().count("idle") < N_NODES:
        if time.monotonic() > end:
            raise RuntimeError("SLURM's nodes do not start:\n" + (base / "log" / "slurmctld.log").read_text())
        time.sleep(0.05)


def _said(*command: str, may_fail: bool = False) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode and not may_fail:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def _stop(base: Path) -> None:
    """End all daemons and what they have started, by their numbers."""
    with suppress(subprocess.TimeoutExpired, FileNotFoundError):
        _said("scancel", "--user", psutil.Process().username(), may_fail=True)
        end = time.monotonic() + 10.0
        while _said("squeue", "--noheader", may_fail=True).strip() and time.monotonic() < end:
            time.sleep(0.1)
    started = processes_of(base)
    for process in started:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGTERM)
    for process in psutil.wait_procs(started, timeout=10.0)[1]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes_of(base), timeout=5.0)


def processes_of(base: Path) -> list[psutil.Process]:
    """Return the daemons below a folder, by their pid files, and their children."""
    found = []
    for file in [*base.glob("slurmd.*.pid"), base / "slurmctld.pid", base / "munge" / "pid"]:
        with suppress(OSError, ValueError, psutil.NoSuchProcess):
            process = psutil.Process(int(file.read_text()))
            if process.name().startswith(("slurm", "munge")):
                found += [process, *process.children(recursive=True)]
    return found
