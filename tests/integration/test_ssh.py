"""Workers that ssh starts: a server of ssh in this process stands for other machines."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import daskfs
from daskfs.cluster.certificates import new_certificates
from daskfs.errors import RunError
from tests.integration.workshop import ENVIRONMENT

asyncssh = pytest.importorskip("asyncssh", reason="asyncssh is not installed: pip install 'daskfs[ssh]'")
pytestmark = pytest.mark.nightly


async def serve(process: Any) -> None:
    """Run what is asked for in a shell; with the connection all that it has started ends."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "bufsize": 0}
    shell = subprocess.Popen(process.command, shell=True, env=ENVIRONMENT, start_new_session=True, **pipes)

    async def pass_on(source: Any, sink: Any) -> None:
        while data := await asyncio.to_thread(source.read, 4096):
            sink.write(data.decode())

    try:
        await asyncio.gather(pass_on(shell.stdout, process.stdout), pass_on(shell.stderr, process.stderr))
        process.exit(await asyncio.to_thread(shell.wait))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.communicate()


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names that the user's own configuration of ssh knows."""
    home = tmp_path / ".ssh"
    home.mkdir()
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(home / "id_ed25519")
    key.write_public_key(home / "key.pub")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def listen() -> Any:
        keys = {"server_host_keys": [key], "authorized_client_keys": str(home / "key.pub")}
        return await asyncssh.listen("127.0.0.1", 0, process_factory=serve, **keys)

    async def close() -> None:
        server.close()
        await server.wait_closed()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    server = asyncio.run_coroutine_threadsafe(listen(), loop).result()
    port = server.get_port()
    (home / "config").write_text(f"Host node*\n  HostName 127.0.0.1\n  Port {port}\n")
    (home / "known_hosts").write_text(f"[127.0.0.1]:{port} {(home / 'key.pub').read_text()}")
    monkeypatch.setenv("HOME", str(tmp_path))
    yield ["node0", "node1", "node2"]
    asyncio.run_coroutine_threadsafe(close(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def square(item: int) -> int:
    return item * item


@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "tls"])
def test_workers_on_other_machines_work(hosts, tmp_path, has_tls):
    tls = new_certificates(tmp_path) if has_tls else None
    options = {"hosts": hosts, "cores": 2, "memory_limit": 600 * 2**20, "local_directory": str(tmp_path), "tls": tls}
    with daskfs.open_cluster("ssh", **options) as workers:
        assert workers.n_threads == 4
        assert workers.client.scheduler.address.startswith("tls://" if has_tls else "tcp://")
        assert dict(workers.map_blocks(square, range(8), name="square")) == {k: k * k for k in range(8)}


def test_a_host_that_cannot_be_reached_is_an_error_with_a_remedy(hosts):
    with (
        pytest.raises(RunError, match=r"cluster\.hosts: the cluster does not start.*ssh HOST"),
        daskfs.open_cluster("ssh", hosts=["node0", "node1"], python="/no/python"),
    ):
        pass
