"""The writer's lock of a run in a bucket: the object ``lock`` names the writer and is renewed while that writer lives.

Every change of it is conditional on the version that was read, so of any number of drivers one has it. Clocks of two
machines are never compared: who wants the lock of another machine watches whether it is still renewed.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.object_store.bucket import Bucket, BucketError
from orchestrator.object_store.conditional import Unsupported
from orchestrator.storage.lock import RunFolderError

LOCK = "lock"
ATTEMPT = "attempt"
"""Object and local file that name the last writer: where both agree, nobody wrote in between."""
RENEWAL_INTERVAL_S = 10.0
"""Seconds between two renewals."""
SILENCE_TIMEOUT_S = 45.0
"""Seconds without a renewal after which a holder on another machine counts as dead."""
SETTLE_S = 1.0
"""Seconds after which a lock in a bucket without conditional writes is read back: of two that took it at once, one sees the
other's name."""
TRIES = 5
"""How often a lock that comes and goes while it is taken is looked at again."""


class WriterLock:
    """The right to write under an address; given up by ``release``, lost when another takes it over."""

    def __init__(
        self,
        bucket: Bucket,
        renew_every: float = RENEWAL_INTERVAL_S,
        silence: float = SILENCE_TIMEOUT_S,
        settle: float = SETTLE_S,
    ) -> None:
        """``renew_every``, ``silence`` and ``settle`` are seconds."""
        self.bucket, self.renew_every, self.silence, self.settle = bucket, renew_every, silence, settle
        self.attempt = f"{socket.gethostname()}/{os.getpid()}/{time.time_ns()}"
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self.conditional = False
        """Whether the service looks at conditions; known from ``take`` on."""
        self._before: bytes | None = None
        """The last attempt in the bucket when this one took the lock."""
        self._renewals = 0
        self._released = threading.Event()
        self._renewing: threading.Thread | None = None

    def take(self, say: Callable[[str], None]) -> None:
        """Become the writer; raises RunFolderError, naming the holder, when one lives."""
        self.conditional = self.bucket.has_conditions()
        if not self.conditional:
            say(
                f"{self.bucket.url}: this service has no conditional writes, so two drivers that start in the same second "
                "may both write for a moment; start one at a time"
            )
        for _ in range(TRIES):
            if self.bucket.create(LOCK, self._content()) or self._taken_over(say):
                break
        if not self.conditional:
            self._released.wait(self.settle)
        self._before = self.bucket.read(ATTEMPT)
        self.check()

    def check(self) -> None:
        """Raises RunFolderError when another has the lock or had it meanwhile, BucketError when nobody can tell."""
        now = holder(self.bucket)
        if now is None and self.bucket.read(ATTEMPT) in (self._before, self.attempt.encode()):
            if self.bucket.create(LOCK, self._content()):
                return  # somebody removed it by hand
            now = holder(self.bucket)
        if now is None or now.get("attempt") != self.attempt:
            raise RunFolderError(_refusal(self.bucket, now))

    def keep(self, lost: Callable[[str], None]) -> None:
        """Renew in the background until ``release``; ``lost`` is called once when another has taken over."""
        self._renewing = threading.Thread(target=self._renew_always, args=(lost,), name="bucket-lock", daemon=True)
        self._renewing.start()

    def release(self) -> None:
        """Let the next writer in at once; without it the next one watches for a while."""
        self._released.set()
        if self._renewing is not None:
            self._renewing.join(self.silence)  # a renewal under way would change the version that is deleted
        try:
            version = self.bucket.version(LOCK)
            self.check()
            if self.conditional:
                self.bucket.delete_version(LOCK, version)
            else:
                self.bucket.delete([LOCK])
        except (RunFolderError, Unsupported):
            return  # another has it, or the bucket does not answer: either way there is nothing of ours to remove

    def _taken_over(self, say: Callable[[str], None]) -> bool:
        """Put this writer in the place of a dead one; False when the lock is gone or was changed by this very process.

        Raises RunFolderError, naming the holder, when one lives or another was faster.
        """
        version, old = self._seen()
        if old is None and self.bucket.stat(LOCK) is None:
            return False
        if old is not None and old.get("attempt") == self.attempt:
            return True  # the answer to our own write was lost, and it was sent again
        if old is not None and not self._wait_for_silence(old, say):
            return False
        if self.conditional and not self.bucket.replace(LOCK, self._content(), version):
            return self._is_mine()
        if not self.conditional:
            self.bucket.write(LOCK, self._content())
        if old is not None:
            say(f"{self.bucket.url}: the lock of {named(old)} is taken over, for that process is gone")
        return True

    def _is_mine(self) -> bool:
        """After a change was refused: False when the lock is gone; raises RunFolderError when it is another's."""
        now = holder(self.bucket)
        if now is not None and now.get("attempt") != self.attempt:
            raise RunFolderError(_refusal(self.bucket, now))
        return now is not None

    def _seen(self) -> tuple[str, dict[str, Any] | None]:
        """The lock's version and what it says, both of the same moment."""
        while True:
            version, now = self.bucket.version(LOCK), holder(self.bucket)
            if self.bucket.version(LOCK) == version:
                return version, now

    def _renew_always(self, lost: Callable[[str], None]) -> None:
        while not self._released.wait(self.renew_every):
            try:
                self._renew()
            except BucketError:
                continue  # the bucket does not answer; whether the lock is still ours is seen when it does
            except RunFolderError as taken:
                return lost(str(taken))

    def _renew(self) -> None:
        version = self.bucket.version(LOCK)
        self.check()
        self._renewals += 1
        if not self.conditional:
            self.bucket.write(LOCK, self._content())
        elif version and not self.bucket.replace(LOCK, self._content(), version):
            self.check()

    def _content(self) -> bytes:
        who = {"host": socket.gethostname(), "pid": os.getpid(), "started": self.started}
        return json.dumps({**who, "attempt": self.attempt, "place": _place(), "beat": self._renewals}).encode()

    def _wait_for_silence(self, old: dict[str, Any], say: Callable[[str], None]) -> bool:
        """True once a holder counts as dead, False when its lock is gone; raises RunFolderError when it renews."""
        if old.get("place") == _place() and not _alive(old["pid"]):
            return True
        say(
            f"{self.bucket.url} is locked by {named(old)}: watching for up to {self.silence:.0f} s whether it still lives"
        )
        end = time.monotonic() + self.silence
        while time.monotonic() < end:
            self._released.wait(min(2.0, self.silence / 4))
            now = holder(self.bucket)
            if now is None:
                return False
            if now != old:
                raise RunFolderError(_refusal(self.bucket, now))
        return True


def holder(bucket: Bucket) -> dict[str, Any] | None:
    """Host, pid and start time of the writer, as its lock says; None without a readable lock."""
    try:
        found = json.loads(bucket.read(LOCK) or b"null")
    except ValueError:
        return None
    return found if isinstance(found, dict) and {"host", "pid", "started"} <= found.keys() else None


def named(who: dict[str, Any]) -> str:
    """A holder in a sentence."""
    return f"process {who['pid']} on {who['host']} (since {who['started']})"


def _refusal(bucket: Bucket, now: dict[str, Any] | None) -> str:
    name = named(now) if now else "a process that has just gone"
    return f"{bucket.url} is in use by {name}; wait for it, stop it, or pass another --output"


def _alive(pid: Any) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError, TypeError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _place() -> str:
    """Where a pid means a process: this boot of this machine, this namespace of pids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()
