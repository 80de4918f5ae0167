"""A run in a bucket has one writer: the object ``lock`` says who, a beat says that it lives, a silent one is replaced.

Clocks of two machines are never compared: who wants the lock of another machine watches whether it still beats.
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
from orchestrator.storage.lock import RunFolderError

LOCK = "lock"
HEARTBEAT_INTERVAL_S = 10.0
"""Seconds between two beats."""
SILENCE_TIMEOUT_S = 45.0
"""Seconds without a beat after which a holder on another machine counts as dead."""
SETTLE_S = 1.0
"""Seconds after which a lock that was taken over is read back: of two that took it at once, one sees the other's name."""


class WriterLock:
    """The right to write under an address; given up by ``release``, lost when another takes it over."""

    def __init__(
        self,
        bucket: Bucket,
        beat: float = HEARTBEAT_INTERVAL_S,
        watch: float = SILENCE_TIMEOUT_S,
        settle: float = SETTLE_S,
    ) -> None:
        self.bucket, self.beat, self.watch, self.settle = bucket, beat, watch, settle
        self.attempt = f"{socket.gethostname()}/{os.getpid()}/{time.time_ns()}"
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self._beats = 0
        self._released = threading.Event()

    def take(self, say: Callable[[str], None]) -> None:
        """Become the writer; raises RunFolderError, naming the holder, when one lives."""
        if not self.bucket.create(LOCK, self._mine()):
            old = holder(self.bucket)
            if old is not None:
                self._wait_for_silence(old, say)
                say(f"{self.bucket.url}: the lock of {named(old)} is taken over, for that process is gone")
            self.bucket.write(LOCK, self._mine())
            self._released.wait(self.settle)
        self.check()

    def check(self) -> None:
        """Raises RunFolderError when another has the lock, BucketError when nobody can tell."""
        now = holder(self.bucket)
        if now is None and self.bucket.create(LOCK, self._mine()):
            return  # somebody removed it by hand
        if now is None or now.get("attempt") != self.attempt:
            raise RunFolderError(_refusal(self.bucket, now))

    def keep(self, lost: Callable[[str], None]) -> None:
        """Beat in the background until ``release``; ``lost`` hears once when another has taken over."""
        threading.Thread(target=self._beat_on, args=(lost,), name="bucket-lock", daemon=True).start()

    def release(self) -> None:
        """Let the next writer in at once; without it the next one watches for a while."""
        self._released.set()
        try:
            self.check()
            self.bucket.delete([LOCK])
        except RunFolderError:
            return  # another has it, or the bucket is away: either way there is nothing of ours to remove

    def _beat_on(self, lost: Callable[[str], None]) -> None:
        while not self._released.wait(self.beat):
            try:
                self.check()
                self._beats += 1
                self.bucket.write(LOCK, self._mine())
            except BucketError:
                continue  # the bucket is away; whether the lock is still ours is seen when it is back
            except RunFolderError as taken:
                return lost(str(taken))

    def _mine(self) -> bytes:
        who = {"host": socket.gethostname(), "pid": os.getpid(), "started": self.started}
        return json.dumps({**who, "attempt": self.attempt, "place": _place(), "beat": self._beats}).encode()

    def _wait_for_silence(self, old: dict[str, Any], say: Callable[[str], None]) -> None:
        if old.get("place") == _place() and not _alive(old["pid"]):
            return
        say(
            f"{self.bucket.url} is locked by {named(old)}: watching for up to {self.watch:.0f} s whether it still lives"
        )
        end = time.monotonic() + self.watch
        while time.monotonic() < end:
            self._released.wait(min(2.0, self.watch / 4))
            now = holder(self.bucket)
            if now is None:
                return
            if now != old:
                raise RunFolderError(_refusal(self.bucket, now))


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
