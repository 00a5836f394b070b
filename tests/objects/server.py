"""A server that speaks as much of S3 as daskfs asks for, and of gs and HTTP, with latency and faults on demand."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

FAULTS = ("500", "503", "slow", "truncated", "reset", "flipped")
KEYS = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "not-so-secret",
    "AWS_REGION": "us-east-1",
}


class ObjectServer:
    """A bucket in memory behind a socket of its own; a context manager.

    Parameters
    ----------
    latency_s : float
        Added to every request.
    faults : dict of float
        What share of requests meets each of `FAULTS`, drawn by `seed`.
    slow_s : float
        How long a slow answer takes.
    """

    def __init__(
        self, latency_s: float = 0.0, faults: dict[str, float] | None = None, seed: int = 0, slow_s: float = 0.2
    ) -> None:
        self.objects: dict[str, tuple[bytes, str, float]] = {}
        self.latency_s, self.faults, self.slow_s = latency_s, faults or {}, slow_s
        self.denied = False
        self.gate: Callable[[str], Any] = lambda key: None
        """Called with the path of each request before it is answered: it may wait for others."""
        self.seen: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.most_at_once = self._n_at_once = 0
        self._draws, self.lock = random.Random(seed), threading.Lock()
        self._server = _Threads(("127.0.0.1", 0), _handler(self))

    @property
    def url(self) -> str:
        """Where it listens; an object of a bucket is at ``{url}/bucket/key``."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """What says to a client of S3 where the server is."""
        return {**KEYS, "AWS_ENDPOINT_URL": self.url, "AWS_ALLOW_HTTP": "true"}

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def put(self, key: str, content: bytes) -> None:
        """Store an object as ``bucket/key``."""
        self.objects[key] = (content, hashlib.md5(content, usedforsecurity=False).hexdigest(), time.time())

    def hold_until(self, n_at_once: int) -> None:
        """Answer no request before so many are in progress at once, for at most a minute."""
        end = time.monotonic() + 60.0

        def gate(path: str) -> None:
            while self.most_at_once < n_at_once and time.monotonic() < end:
                time.sleep(0.001)

        self.gate = gate

    def draw(self) -> str | None:
        """Return the fault that this request meets, if any."""
        with self.lock:
            chosen = self._draws.random()
        for fault, share in self.faults.items():
            chosen -= share
            if chosen < 0:
                self.met[fault] += 1
                return fault
        return None

    def count(self, by: int) -> None:
        """Note that a request begins, or ends."""
        with self.lock:
            self._n_at_once += by
            self.most_at_once = max(self.most_at_once, self._n_at_once)


class _Threads(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients leave when they like."""


def _handler(server: ObjectServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = 1 << 16

        def log_message(self, *_: object) -> None:
            pass

        def _begin(self) -> bool:
            """Wait, and meet a fault; return whether all is over."""
            server.seen[self.command] += 1
            self.fault = server.draw()
            time.sleep(server.latency_s + (server.slow_s if self.fault == "slow" else 0.0))
            server.gate(self.path)
            if server.denied:
                self._answer(403, _fault("AccessDenied"))
            elif self.fault in ("500", "503"):
                self._answer(int(self.fault), _fault("SlowDown"))
            elif self.fault == "reset":
                self.close_connection = True
                self.connection.close()
            else:
                return False
            return True

        def handle_one_request(self) -> None:
            super().handle_one_request()

        def _answer(self, status: int, content: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            if "Content_Length" not in headers:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                part = content
                if getattr(self, "fault", None) == "truncated" and status < 300 and content:
                    part, self.close_connection = content[: len(content) // 2], True
                if getattr(self, "fault", None) == "flipped" and status < 300 and content:
                    part = content[:-1] + bytes([content[-1] ^ 1])
                self.wfile.write(part)

        def _counted(self, work: Any) -> None:
            server.count(1)
            try:
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if not self._begin():
                    work(unquote(urlsplit(self.path).path).lstrip("/"), content)
            finally:
                server.count(-1)

        def do_GET(self) -> None:
            self._counted(self._get)

        do_HEAD = do_GET

        def do_PUT(self) -> None:
            self._counted(self._put)

        def do_DELETE(self) -> None:
            self._counted(self._delete)

        def do_POST(self) -> None:
            self._counted(self._post)

        def _get(self, key: str, _: bytes) -> None:
            query = parse_qs(urlsplit(self.path).query)
            if "list-type" in query:
                return self._list(key.rstrip("/"), query)
            if key not in server.objects:
                return self._answer(404, _fault("NoSuchKey"))
            content, digest, changed = server.objects[key]
            headers = {
                "ETag": f'"{digest}"',
                "Last_Modified": formatdate(changed, usegmt=True),
                "Accept_Ranges": "bytes",
            }
            if self.headers.get("If-Match", headers["ETag"]) != headers["ETag"]:
                return self._answer(412, _fault("PreconditionFailed"))
            if self.command == "HEAD":
                return self._answer(200, Content_Length=str(len(content)), **headers)
            wanted = self.headers.get("Range")
            if wanted is None:
                return self._answer(200, content, **headers)
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start = int(first) if first else max(0, len(content) - int(last))
            stop = min(len(content), int(last) + 1) if last and first else len(content)
            if start >= len(content):
                return self._answer(416, _fault("InvalidRange"))
            told = f"bytes {start}-{stop - 1}/{len(content)}"
            return self._answer(206, content[start:stop], Content_Range=told, **headers)

        def _list(self, bucket: str, query: dict[str, list[str]]) -> None:
            prefix = f"{bucket}/{query.get('prefix', [''])[0]}"
            delimiter = query.get("delimiter", [""])[0]
            lines, groups = [], set()
            for key in sorted(server.objects):
                if key.startswith(prefix):
                    inner = key[len(prefix) :]
                    if delimiter and delimiter in inner:
                        groups.add(prefix[len(bucket) + 1 :] + inner.partition(delimiter)[0] + delimiter)
                        continue
                    content, digest, changed = server.objects[key]
                    when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(changed))
                    lines.append(
                        f"<Contents><Key>{escape(key[len(bucket) + 1 :])}</Key><LastModified>{when}</LastModified>"
                        f"<ETag>&quot;{digest}&quot;</ETag><Size>{len(content)}</Size></Contents>"
                    )
            lines += [f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(groups)]
            self._answer(
                200,
                f"<ListBucketResult><Name>{quote(bucket)}</Name><IsTruncated>false</IsTruncated>{''.join(lines)}"
                "</ListBucketResult>".encode(),
            )

        def _put(self, key: str, content: bytes) -> None:
            with server.lock:
                is_new = (
                    "*" in self.headers.get("If-None-Match", "")
                    or self.headers.get("x-goog-if-generation-match") == "0"
                )
                if is_new and key in server.objects:
                    return self._answer(412, _fault("PreconditionFailed"))
                server.put(key, content)
            return self._answer(200, ETag=f'"{server.objects[key][1]}"')

        def _delete(self, key: str, _: bytes) -> None:
            server.objects.pop(key, None)
            self._answer(204)

        def _post(self, key: str, content: bytes) -> None:
            bucket, found = key.rstrip("/"), []
            for part in content.decode().split("<Key>")[1:]:
                name = part.partition("</Key>")[0]
                server.objects.pop(f"{bucket}/{name}", None)
                found.append(f"<Deleted><Key>{name}</Key></Deleted>")
            self._answer(200, f"<DeleteResult>{''.join(found)}</DeleteResult>".encode())

    return Handler


def _fault(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
