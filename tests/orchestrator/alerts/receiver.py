"""A service on loopback that takes alerts, with the statuses that a test wants."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.loopback import serving


class Receiver:
    """The requests that arrived: ``alerts`` those that were taken, ``paths`` of all."""

    def __init__(self, statuses: list[int]) -> None:
        self.statuses, self.alerts, self.paths = statuses, list[dict[str, Any]](), list[str]()
        self.address = ""

    def events(self) -> list[tuple[str, str]]:
        """Return event and subject of the alerts that were taken."""
        return [(alert["event"], alert.get("subject", "")) for alert in self.alerts]


@contextmanager
def receiving(*statuses: int) -> Iterator[Receiver]:
    """Answer the first requests with ``statuses`` and all later ones with 200."""
    receiver = Receiver([*statuses])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.paths.append(self.path)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiver.statuses.pop(0) if receiver.statuses else 200
            if self.headers["Content-Type"] != "application/json":
                status = 415
            if status < 300:
                receiver.alerts.append(json.loads(body))
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    with serving(Handler) as address:
        receiver.address = f"{address}/hook/s3cret"
        yield receiver
