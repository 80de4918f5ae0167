"""A real S3 service on this machine with faults to order: throttling, no conditional writes.

Requests that change something are served one at a time: a conditional write is atomic, as S3 promises and moto alone does not.
"""

from __future__ import annotations

import io
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

import fsspec
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

BUCKET = "sweeps"
ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}, by order of the test</Message></Error>"
CONDITIONS = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")

Environ = dict[str, Any]
Respond = Callable[..., Any]


class Faults:
    """A WSGI application in front of moto that injects faults; each fault is off until it is set."""

    def __init__(self) -> None:
        self.app = DomainDispatcherApplication(create_backend_app)
        self.changing = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Switch all faults off and reset the counts."""
        self.throttled: Callable[[str, str], bool] = lambda method, path: False
        """Whether a request, by method and path, is answered 503 SlowDown."""
        self.conditions = "kept"
        """``kept`` or ``refused`` (501 NotImplemented)."""
        self.after: Callable[[str, str], None] = lambda method, path: None
        """Called after each request, with its method and path."""
        self.count: Counter[str] = Counter()
        """How often each fault was played."""

    def __call__(self, environ: Environ, respond: Respond) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path.startswith("/moto-api"):
            return self.app(environ, respond)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) if method in ("PUT", "POST") else b""
        answer = self.faulty(environ, method, path, body)
        respond(*answer[:2])
        self.after(method, path)
        return [] if method == "HEAD" else [answer[2]]

    def faulty(self, environ: Environ, method: str, path: str, body: bytes) -> tuple[str, list[tuple[str, str]], bytes]:
        if self.throttled(method, path):
            return self.error("503 Slow Down", "SlowDown")
        if self.conditions == "refused" and method == "PUT" and any(name in environ for name in CONDITIONS):
            return self.error("501 Not Implemented", "NotImplemented")
        return self.passed(environ, method, body)

    def error(self, status: str, code: str) -> tuple[str, list[tuple[str, str]], bytes]:
        self.count[code] += 1
        text = ERROR.format(code=code).encode()
        return status, [("Content-Type", "application/xml"), ("Content-Length", str(len(text)))], text

    def passed(self, environ: Environ, method: str, body: bytes) -> tuple[str, list[tuple[str, str]], bytes]:
        """Moto's own answer."""
        environ["wsgi.input"] = io.BytesIO(body)
        response: list[Any] = []
        with self.changing:
            answer = self.app(environ, lambda status, headers, exc=None: response.extend((status, headers)))
            content = b"".join(answer)
        return response[0], response[1], content


class Service:
    """A moto server with one bucket, and the environment in which a client finds it."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.server, self.thread = self._start(0)
        self.port = self.server.server_address[1]
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "a-secret-that-must-stay-here",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "1",
        }

    def empty(self) -> None:
        """Forget everything: services of one process share their state."""
        urlopen(Request(f"{self.environment['AWS_ENDPOINT_URL']}/moto-api/reset", method="POST")).close()

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def back(self) -> None:
        """Start the same service again, with its contents, on the same port."""
        self.server, self.thread = self._start(self.port)

    def _start(self, port: int) -> tuple[BaseWSGIServer, threading.Thread]:
        server = make_server("127.0.0.1", port, self.faults, threaded=True, request_handler=MotoRequestHandler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        return server, thread


@contextmanager
def service() -> Iterator[Service]:
    """Run a service with an empty bucket, its environment set in this process."""
    running = Service()
    before = {name: os.environ.get(name) for name in running.environment}
    os.environ.update(running.environment)
    try:
        running.empty()
        client = fsspec.filesystem("s3", skip_instance_cache=True)
        type(client).clear_instance_cache()  # clients of an earlier service ask its port
        client.mkdir(BUCKET)
        yield running
    finally:
        running.stop()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def wait_for(true, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.1)
