"""Real model servers in processes of their own, and a proxy that makes one slow and makes it throttle."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.loopback import serving


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(command: Sequence[str], port: int, log: Path, seconds: float = 1200) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until it lists its models, for as long as the block runs; its whole process group is ended."""
    with log.open("ab") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        deadline = time.monotonic() + seconds
        while not _answers(port):
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.5)
        yield server
    finally:
        kill(server)


def kill(server: subprocess.Popen[bytes]) -> None:
    """Kill a server and its children at once, as a crash would."""
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5) as response:
            return bool(response.status == 200)
    except (OSError, http.client.HTTPException):
        return False


@dataclass
class Proxy:
    """Forwards requests to a server, each ``delay`` seconds late; every ``throttle``-th of them gets a 429 instead."""

    port: int
    delay: float = 0.0
    throttle: int = 0
    url: str = ""
    statuses: list[int] = field(default_factory=list)
    """Of chat completions, in the order of the answers."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    asked: int = 0

    def wait_for(self, answers: int, run: subprocess.Popen[str], seconds: float = 900) -> None:
        """Wait until the server has answered so many requests of a run."""
        deadline = time.monotonic() + seconds
        while self.statuses.count(200) < answers:
            assert run.poll() is None and time.monotonic() < deadline, f"{len(self.statuses)} answers"
            time.sleep(0.1)


@contextmanager
def proxied(port: int, delay: float = 0.0, throttle: int = 0) -> Iterator[Proxy]:
    proxy = Proxy(port, delay, throttle)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.forward(None)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with proxy.lock:
                proxy.asked += 1
                throttled = proxy.throttle and proxy.asked % proxy.throttle == 0
            time.sleep(proxy.delay)
            status = self.answer(429, b'{"error": {"message": "slow down"}}') if throttled else self.forward(body)
            with proxy.lock:
                proxy.statuses.append(status)

        def forward(self, body: bytes | None) -> int:
            """Return the status; a server that is gone ends the connection, as it would without a proxy."""
            request = urllib.request.Request(f"http://127.0.0.1:{proxy.port}{self.path}", body)
            request.add_header("content-type", "application/json")
            try:
                with urllib.request.urlopen(request, timeout=300) as response:
                    return self.answer(response.status, response.read())
            except urllib.error.HTTPError as refused:
                return self.answer(refused.code, refused.read())
            except (OSError, http.client.HTTPException):
                self.close_connection = True
                return 0

        def answer(self, status: int, content: bytes) -> int:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            if status == 429:
                self.send_header("retry-after", "1")
            self.end_headers()
            self.wfile.write(content)
            return status

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with serving(Handler) as address:
        proxy.url = f"{address}/v1"
        yield proxy
