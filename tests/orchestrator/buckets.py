"""A real S3 service on this machine, for the tests that write to one; it can be taken away and brought back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

import fsspec
from moto.server import ThreadedMotoServer

BUCKET = "sweeps"


class Service:
    """A moto server with one bucket, and the environment in which a client finds it."""

    def __init__(self) -> None:
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.server.start()
        host, self.port = self.server.get_host_and_port()
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://{host}:{self.port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "a-secret-that-must-stay-here",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "1",
        }

    def empty(self) -> None:
        """Forget everything: services of one process share what they hold."""
        urlopen(Request(f"{self.environment['AWS_ENDPOINT_URL']}/moto-api/reset", method="POST")).close()

    def stop(self) -> None:
        self.server.stop()

    def back(self) -> None:
        """The same service, with what it held, on the same port."""
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=self.port, verbose=False)
        self.server.start()


@contextmanager
def service() -> Iterator[Service]:
    """A service with an empty bucket, its environment set in this process."""
    found = Service()
    before = {name: os.environ.get(name) for name in found.environment}
    os.environ.update(found.environment)
    try:
        found.empty()
        client = fsspec.filesystem("s3", skip_instance_cache=True)
        type(client).clear_instance_cache()  # clients of an earlier service ask its port
        client.mkdir(BUCKET)
        yield found
    finally:
        found.stop()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def wait_for(true, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.1)
