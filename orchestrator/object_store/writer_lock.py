"""The writer's lock of a run in a bucket: the object ``lock`` names the writer and is renewed while that writer lives.

Every change is conditional on the version that was read, so exactly one driver holds it. Clocks of two machines are
never compared: a driver that wants another machine's lock watches whether it is renewed.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from envs.errors import RunFolderError
from orchestrator.object_store.bucket import Bucket, BucketError, Unsupported
from orchestrator.storage.lock import describe_holder, parse_holder

LOCK = "lock"
ATTEMPT = "attempt"
"""Object and local file that name the last writer; if they agree, this machine was the last to write."""
TRIES = 5
"""Attempts to take a lock that keeps changing."""


class WriterLock:
    """The right to write under an address, until ``release`` or until another driver takes it over."""

    def __init__(self, bucket: Bucket, renew_every: float = 10.0, silence: float = 45.0, settle: float = 1.0) -> None:
        """
        Args:
            renew_every: seconds between two renewals.
            silence: seconds without a renewal after which a holder on another machine counts as dead.
            settle: seconds until a lock without conditional writes is read back: another driver may have taken it, too.
        """
        self.bucket, self.renew_every, self.silence, self.settle = bucket, renew_every, silence, settle
        self.attempt = f"{socket.gethostname()}/{os.getpid()}/{time.time_ns()}"
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self.conditional = False
        """True if the service checks conditions; set by ``take``."""
        self._before: bytes | None = None
        """Content of ``ATTEMPT`` in the bucket when this writer took the lock."""
        self._renewals = 0
        self._released = threading.Event()
        self._renewing: threading.Thread | None = None

    def take(self, say: Callable[[str], None]) -> None:
        """Become the writer. Raises RunFolderError that names the holder if it is alive."""
        self.conditional = self.bucket.supports_conditions()
        if not self.conditional:
            say(
                f"{self.bucket.url}: this service has no conditional writes, so two drivers that start in the same second "
                "may both write for a moment; start one at a time"
            )
        for _ in range(TRIES):
            if self.bucket.create(LOCK, self._content()) or self._take_over(say):
                break
        if not self.conditional:
            self._released.wait(self.settle)
        self._before = self.bucket.read(ATTEMPT)
        self.check()

    def check(self) -> None:
        """Raise RunFolderError if another driver has or had the lock, BucketError if that is unknown."""
        current = read_holder(self.bucket)
        if current is None and self.bucket.read(ATTEMPT) in (self._before, self.attempt.encode()):
            if self.bucket.create(LOCK, self._content()):
                return  # somebody had removed the lock by hand
            current = read_holder(self.bucket)
        if current is None or current.get("attempt") != self.attempt:
            raise RunFolderError(_refusal(self.bucket, current))

    def start_renewing(self, lost: Callable[[str], None]) -> None:
        """Renew in the background until ``release``; ``lost`` is called once if another driver takes over."""
        self._renewing = threading.Thread(target=self._renew_always, args=(lost,), name="bucket-lock", daemon=True)
        self._renewing.start()

    def release(self) -> None:
        """Release the lock, so that the next writer need not wait for silence."""
        self._released.set()
        if self._renewing is not None:
            self._renewing.join(self.silence)  # a renewal under way would change the version that is deleted
        try:
            version = self.bucket.version(LOCK)
            self.check()
            self._change(None, version)
        except (RunFolderError, Unsupported):
            return  # another driver has the lock, or the bucket does not answer

    def _take_over(self, say: Callable[[str], None]) -> bool:
        """Replace a dead writer; return False if the lock is gone.

        Raises RunFolderError that names the holder if it is alive or another driver was faster.
        """
        version, old = self._read_lock()
        if old is None and self.bucket.stat(LOCK) is None:
            return False
        if old is not None and old.get("attempt") == self.attempt:
            return True  # the response to our own write was lost, and the write was repeated
        if old is not None and not self._wait_for_silence(old, say):
            return False
        if not self._change(self._content(), version):
            current = read_holder(self.bucket)
            if current is not None and current.get("attempt") != self.attempt:
                raise RunFolderError(_refusal(self.bucket, current))
            return current is not None
        if old is not None:
            say(f"{self.bucket.url}: the lock of {describe_holder(old)} is taken over because that process is gone")
        return True

    def _change(self, content: bytes | None, version: str) -> bool:
        """Replace the lock, or delete it (None), if it has this version; without conditional writes, always."""
        if self.conditional:
            return self.bucket.replace(LOCK, content, version)
        self.bucket.delete([LOCK]) if content is None else self.bucket.write(LOCK, content)
        return True

    def _read_lock(self) -> tuple[str, dict[str, Any] | None]:
        """Return the lock's version and the fields of that version."""
        while True:
            version, current = self.bucket.version(LOCK), read_holder(self.bucket)
            if self.bucket.version(LOCK) == version:
                return version, current

    def _renew_always(self, lost: Callable[[str], None]) -> None:
        while not self._released.wait(self.renew_every):
            try:
                self._renew()
            except BucketError:
                continue  # the bucket does not answer; the next renewal checks the lock
            except RunFolderError as error:
                return lost(str(error))

    def _renew(self) -> None:
        version = self.bucket.version(LOCK)
        self.check()
        self._renewals += 1
        if version and not self._change(self._content(), version):
            self.check()

    def _content(self) -> bytes:
        process = {"host": socket.gethostname(), "pid": os.getpid(), "started": self.started}
        return json.dumps(
            {**process, "attempt": self.attempt, "place": _process_scope(), "beat": self._renewals}
        ).encode()

    def _wait_for_silence(self, old: dict[str, Any], say: Callable[[str], None]) -> bool:
        """Return True once a holder counts as dead, False if its lock is gone. Raises RunFolderError if it renews."""
        if old.get("place") == _process_scope() and not _alive(old["pid"]):
            return True
        say(
            f"{self.bucket.url} is locked by {describe_holder(old)}: waiting up to {self.silence:.0f} s to see whether"
            " that process is alive"
        )
        deadline = time.monotonic() + self.silence
        while time.monotonic() < deadline:
            self._released.wait(min(2.0, self.silence / 4))
            current = read_holder(self.bucket)
            if current is None:
                return False
            if current != old:
                raise RunFolderError(_refusal(self.bucket, current))
        return True


def read_holder(bucket: Bucket) -> dict[str, Any] | None:
    """Return the writer's fields from its lock; None without a readable lock."""
    return parse_holder(bucket.read(LOCK) or b"") or None


def _refusal(bucket: Bucket, current: dict[str, Any] | None) -> str:
    holder = describe_holder(current) if current else "a process that has just ended"
    return f"{bucket.url} is in use by {holder}; wait for it, stop it, or pass another --output"


def _alive(pid: Any) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError, TypeError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _process_scope() -> str:
    """Return an identifier of the scope of pids: this boot of this machine and this pid namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()
