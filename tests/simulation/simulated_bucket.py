"""A simulated S3 service as fsspec shows it: requests take virtual time, and what can go wrong with them.

It has the calls that ``orchestrator.object_store`` makes and no others. Reads and lists are consistent.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

import polars as pl

from orchestrator.object_store.uploader import parse_part
from tests.simulation.virtual_threads import ThreadKilled, running
from tests.simulation.virtual_time import EPOCH_S, VirtualClock

ROOT = "simulated/run"
"""Bucket and folder of the run."""
URL = f"s3://{ROOT}"
REQUEST_S = (0.005, 0.3)
"""Least and most virtual seconds that a request takes."""
THROTTLED_REQUESTS = 12
"""Requests that are refused in a row when the service throttles."""


@dataclass(frozen=True)
class Object:
    """A stored object."""

    content: bytes
    version: int
    modified: float

    @property
    def details(self) -> dict[str, Any]:
        """Return what the service says of the object."""
        when = datetime.fromtimestamp(EPOCH_S + self.modified, UTC)
        return {"type": "file", "size": len(self.content), "ETag": f'"{self.version:032x}"', "LastModified": when}


class ServiceError(OSError):
    """An error of s3fs, with the response of the service as its cause."""

    def __init__(self, code: str) -> None:
        super().__init__(errno.EIO, code)
        self.__cause__ = _Response(code)


class _Response(Exception):
    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}}


class SimulatedBucket:
    """The service: its objects, its faults, and what must hold after every change."""

    def __init__(self, clock: VirtualClock, wait: Callable[[float], None], chance: Random) -> None:
        self.clock, self.wait, self.chance = clock, wait, chance
        self.objects: dict[str, Object] = {}
        """Name in the run folder -> object."""
        self.faults: list[str] = []
        self.is_strict = True
        """False once a disk has lied or was damaged: then parts of it may have to go."""
        self.requests = self.writes = self.away_until = 0.0
        self.throttled_from = -THROTTLED_REQUESTS
        self.unanswered: set[int] = set()
        """Numbers of writes that are carried out and not confirmed."""
        self._keys_of: dict[int, frozenset[str]] = {}
        self._next_version = 1

    # -- faults ------------------------------------------------------------------------------------------------------------
    def go_away(self, seconds: float) -> None:
        self.away_until = self.clock.now + seconds

    def throttle(self) -> None:
        self.throttled_from = int(self.requests)

    def clear(self) -> None:
        """End all faults."""
        self.unanswered = set()
        self.away_until, self.throttled_from = 0.0, -THROTTLED_REQUESTS

    # -- requests ----------------------------------------------------------------------------------------------------------
    def begin(self) -> None:
        """Let a request take its time, and refuse it if the service is away or throttles. Raises OSError."""
        self.requests += 1
        self.wait(self.chance.uniform(*REQUEST_S))
        if self.clock.now < self.away_until:
            raise ConnectionError("the service is away")
        if 0 <= self.requests - self.throttled_from < THROTTLED_REQUESTS:
            raise ServiceError("SlowDown")

    def put(self, name: str, content: bytes) -> dict[str, Any]:
        """Store an object, and confirm it, or not. Raises OSError."""
        self.writes += 1
        stored = Object(content, self._next_version, self.clock.now)
        self._next_version += 1
        self.objects[name] = stored
        if self.is_strict:
            self._check_order(name)
        if self.writes in self.unanswered:
            raise ConnectionError("the response is lost")
        return stored.details

    def remove(self, name: str) -> None:
        """Delete an object. Raises FileNotFoundError."""
        if name not in self.objects:
            raise FileNotFoundError(name)
        before = self.keys()
        del self.objects[name]
        lost = before - self.keys()
        if lost and self.is_strict:
            self.faults.append(f"{name} is deleted from the bucket, and {len(lost)} episodes are in no other part")

    # -- what must hold ------------------------------------------------------------------------------------------------------
    def keys(self) -> frozenset[str]:
        """Return the keys of all episodes in the bucket."""
        return frozenset().union(*(self._read_keys(name) for name in self.objects if name.startswith("episodes/")))

    def _check_order(self, name: str) -> None:
        if name.startswith("episodes/") and name.replace("episodes/", "turns/") not in self.objects:
            self.faults.append(f"{name} is in the bucket before its turns")
        if name.startswith("verdicts/") and (early := self._read_keys(name) - self.keys()):
            self.faults.append(f"{len(early)} verdicts of {name} are in the bucket before their episodes")

    def _read_keys(self, name: str) -> frozenset[str]:
        stored = self.objects[name]
        if parse_part(name) is None:
            return frozenset()
        if stored.version not in self._keys_of:
            frame = pl.read_parquet(io.BytesIO(stored.content), columns=["key"])
            self._keys_of[stored.version] = frozenset(frame["key"])
        return self._keys_of[stored.version]


class Client:
    """The bucket's file system, as one process sees it."""

    protocol = "s3"

    def __init__(self, bucket: SimulatedBucket, is_dead: Callable[[], bool]) -> None:
        self.bucket, self.is_dead = bucket, is_dead

    def invalidate_cache(self) -> None:
        pass

    def find(self, root: str, detail: bool) -> dict[str, dict[str, Any]]:
        self._begin()
        prefix = root.removeprefix(ROOT).strip("/")
        names = sorted(self.bucket.objects.items())
        return {f"{ROOT}/{name}": each.details for name, each in names if not prefix or name.startswith(f"{prefix}/")}

    def cat_file(self, path: str) -> bytes:
        self._begin()
        return self._object(path).content

    def pipe_file(self, path: str, content: bytes, mode: str = "overwrite") -> dict[str, Any]:
        self._begin()
        if mode == "create" and _name(path) in self.bucket.objects:
            raise FileExistsError(path)
        return self.bucket.put(_name(path), content)

    def rm_file(self, path: str) -> None:
        self._begin()
        self.bucket.remove(_name(path))

    def _begin(self) -> None:
        if not self.is_dead():
            self.bucket.begin()
        if self.is_dead():
            raise ThreadKilled if running else ConnectionError("the process has ended")

    def _object(self, path: str) -> Object:
        if (stored := self.bucket.objects.get(_name(path))) is None:
            raise FileNotFoundError(path)
        return stored


def _name(path: str) -> str:
    return path.removeprefix(f"{ROOT}/")
