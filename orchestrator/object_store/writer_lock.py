"""The writer's lock of a run in a bucket: the newest object under ``writer/`` names the writer, which renews it while it lives.

Each writer creates the object of the next number, which at most one driver can (``If-None-Match``); numbers are never used
again. Clocks of two machines are never compared: a driver that wants another's lock watches whether it is renewed.
"""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from envs.errors import RunFolderError
from envs.regular import parse_fields
from orchestrator.object_store.bucket import Bucket, BucketError
from orchestrator.storage.lock import describe_holder, describe_process, names_process, refusal

FOLDER = "writer"
TRIES = 5
"""Attempts to take a lock that keeps changing."""


class WriterLock:
    """The right to write under an address, until ``release`` or until another driver takes it over."""

    def __init__(self, bucket: Bucket, renew_every: float = 10.0, silence: float = 45.0) -> None:
        """The lock is renewed every ``renew_every`` seconds; after ``silence`` seconds without that, a holder counts as dead."""
        self.bucket, self.renew_every, self.silence = bucket, renew_every, silence
        self.process = describe_process()
        self.attempt = f"{self.process['host']}/{self.process['pid']}/{time.time_ns()}"
        self.last_attempt = ""
        """The last attempt that wrote anything; its own name after ``begin``."""
        self.number = self._renewals = 0
        self._released = threading.Event()
        self._renewing: threading.Thread | None = None

    def take(self, say: Callable[[str], None]) -> None:
        """Become the writer. Raises RunFolderError that names the holder if it is alive."""
        for _ in range(TRIES):
            number, last = read_newest(self.bucket)
            if last.get("attempt") == self.attempt:
                break  # the response to our own write was lost, and the write was repeated
            if names_process(last):
                self._wait_for_silence(last, say)
            self.number, self.last_attempt = number + 1, str(last.get("wrote", ""))
            if self.bucket.create(_name(self.number), self._content()):
                break
        self.check()
        self.bucket.delete(_name(number) for number in _numbers(self.bucket) if number < self.number)

    def begin(self) -> None:
        """Record in the bucket that this attempt is the last that wrote."""
        self.last_attempt = self.attempt
        self.bucket.write(_name(self.number), self._content())

    def check(self) -> None:
        """Raise RunFolderError if another driver has or had the lock, BucketError if that is unknown."""
        number, newest = read_newest(self.bucket)
        if number and newest.get("attempt") != self.attempt:
            raise refusal(self.bucket.url, newest)

    def start_renewing(self, lost: Callable[[str], None]) -> None:
        """Renew in the background until ``release``; ``lost`` is called once if another driver takes over."""
        self._renewing = threading.Thread(target=self._renew_always, args=(lost,), name="bucket-lock", daemon=True)
        self._renewing.start()

    def release(self) -> None:
        """Release the lock, so that the next writer need not wait; it goes on to name the last attempt that wrote."""
        self._released.set()
        if self._renewing is not None:
            self._renewing.join(self.silence)
        released = {"attempt": self.attempt, "wrote": self.last_attempt}
        with suppress(RunFolderError):  # another driver has the lock, or the bucket does not answer
            self.check()
            self.bucket.write(_name(self.number), json.dumps(released).encode())

    def _renew_always(self, lost: Callable[[str], None]) -> None:
        while not self._released.wait(self.renew_every):
            try:
                self.check()
                self._renewals += 1
                self.bucket.write(_name(self.number), self._content())
            except BucketError:
                continue  # the bucket does not answer; the next renewal checks the lock
            except RunFolderError as error:
                return lost(str(error))

    def _content(self) -> bytes:
        state = {"attempt": self.attempt, "wrote": self.last_attempt, "beat": self._renewals}
        return json.dumps({**self.process, **state}).encode()

    def _wait_for_silence(self, old: dict[str, Any], say: Callable[[str], None]) -> None:
        """Wait until a holder counts as dead or releases the lock. Raises RunFolderError if it renews."""
        say(
            f"{self.bucket.url} is locked by {describe_holder(old)}: waiting up to {self.silence:.0f} s to see whether"
            " that process is alive"
        )
        deadline = time.monotonic() + self.silence
        while time.monotonic() < deadline and (current := read_holder(self.bucket)) is not None:
            if current != old:
                raise refusal(self.bucket.url, current)
            self._released.wait(min(2.0, self.silence / 4))


def _name(number: int) -> str:
    return f"{FOLDER}/{number:08d}"


def _numbers(bucket: Bucket) -> list[int]:
    return sorted(int(name) for name in bucket.list_objects(FOLDER) if name.isdecimal())


def read_newest(bucket: Bucket) -> tuple[int, dict[str, Any]]:
    """Return number and fields of the newest lock; 0 without one, and no fields if it is unreadable."""
    number = max(_numbers(bucket), default=0)
    content = bucket.read(_name(number)) if number else None
    return number, parse_fields(content or b"") or {}


def read_holder(bucket: Bucket) -> dict[str, Any] | None:
    """Return the writer's fields from its lock; None without a lock, or if it is released."""
    _, newest = read_newest(bucket)
    return newest if names_process(newest) else None
