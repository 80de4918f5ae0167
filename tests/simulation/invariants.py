"""Invariants of every simulated run, whatever goes wrong in it.

Planned = stored at the end, each episode once; what a flush has stored survives every crash; every readable episode is whole; no
verdict is on the disk before its episode. ``observed`` checks the schedule, ``attempt_checks`` each attempt that ends by itself.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from pathlib import Path

import polars as pl

from envs.types import Ending
from orchestrator.planning.plan import Plan
from orchestrator.storage.checksums import GONE, NAME
from orchestrator.storage.episode_store import turns
from orchestrator.storage.part_files import list_parts
from orchestrator.storage.schemas import TABLES, UNREADABLE
from orchestrator.storage.status import find_faults
from orchestrator.storage.verdict_store import verdicts
from tests.simulation.simulated_disk import SimulatedDisk


class Promises:
    """The episodes that the store has reported as durable."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.suspended = False
        """True after a disk that only pretended to flush: then lost episodes need only be pending again."""

    def check(self, stored: set[str]) -> None:
        """Assert that they are among the keys that a new store has."""
        lost = self.keys - stored
        assert self.suspended or not lost, f"{len(lost)} durable episodes are lost, {min(lost)} among them"
        self.keys = stored


def check_end(folder: Path, plan: Plan) -> None:
    """Assert that the store holds every planned episode exactly once, whole, and nothing else."""
    parts = list_parts(folder)
    assert not parts.bad and not parts.lone, f"unusable files at the end: {[*parts.bad, *parts.lone]}"
    columns = ["key", "turns", "ending"]
    frames = [pl.read_parquet(folder / "episodes" / part.name, columns=columns) for part in parts.parts]
    rows = [row for frame in frames for row in frame.rows()]
    stored = [key for key, *_ in rows]
    planned = set(plan.with_stops({}).all_keys())
    doubled = [key for key, count in Counter(stored).items() if count > 1]
    assert not doubled, f"{len(doubled)} episodes are stored twice, {doubled[0]} among them"
    missing, foreign = planned - set(stored), set(stored) - planned
    assert not missing and not foreign, f"{len(missing)} planned episodes are missing, {len(foreign)} are foreign"
    played = Counter(turns(folder).select("key").collect()["key"])
    torn = [key for key, count, _ in rows if played[key] != count]
    assert not torn, f"{len(torn)} episodes do not have their turns"
    if parts.verdicts:
        check_verdicts(folder, {key for key, _, ending in rows if ending == Ending.ANSWERED})
    faults = find_faults(folder)
    assert not faults, f"the manifest names {faults}"
    check_files(folder)


def check_files(folder: Path) -> None:
    """Assert that the folder has no file that counts for nothing, and that the last sum of each file is that of its bytes.

    A crash may leave merged verdicts whose removal is recorded already: they count, and readers drop what is there twice.
    """
    paths = [path for table in (*TABLES, "verdicts") for path in (folder / table).glob("*")]
    files = list_parts(folder)
    counted = {part.name for part in (*files.parts, *files.verdicts)}
    assert not (left := [path for path in paths if path.name not in counted]), f"{left[0].name} is left at the end"
    lines = [line.split("  ") for line in (folder / NAME).read_text().splitlines()]
    sums = {name: digest for digest, name in lines if digest != GONE}
    listed = [folder / name for name in sums if "/" not in name and (folder / name).exists()]
    for path in [*paths, *listed]:
        digest = sha256(path.read_bytes()).hexdigest()
        assert sums.get(path.relative_to(folder).as_posix()) == digest, f"{path.name} has another sum than listed last"


def check_verdicts(folder: Path, answers: set[str]) -> None:
    """Assert that every answer of a judged run has its verdict, and that no verdict is on anything else."""
    read = verdicts(folder).filter(pl.col("aggregate").is_not_null()).collect()["key"].to_list()
    assert len(read) == len(set(read)) and set(read) == answers, f"{len(read)} verdicts on {len(answers)} answers"
    for part in list_parts(folder).verdicts:  # as stored, before readers drop what is there twice
        rows = pl.read_parquet(folder / "verdicts" / part.name, columns=["key", "judge"])
        assert rows.is_unique().all(), f"{part.name} has a verdict twice"


class PublishedParts:
    """The order in which parts come and go: turns before their episodes, verdicts after them, old parts after the merged one."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self._keys: dict[int, frozenset[str]] = {}
        """File of a part of episodes -> its keys."""

    def find_faults(self, path: Path) -> list[str]:
        """Return what is wrong with a part that has just got its name."""
        if path.suffix != ".parquet" or path.parent.parent != self.disk.folder:
            return []
        if path.parent.name == "episodes" and path.name not in self.disk.durable_files("turns"):
            return [f"episodes/{path.name} has its name before its turns are durable"]
        if path.parent.name != "verdicts":
            return []
        judged = set(pl.read_parquet(path, columns=["key"])["key"])
        early = judged.difference(*map(self._keys_of, self.disk.durable_files("episodes").items()))
        return [f"{len(early)} of {len(judged)} verdicts of {path.name} are stored before their episodes"] * bool(early)

    def find_losses(self, path: Path, promised: set[str]) -> list[str]:
        """Return what is lost if a part of episodes is removed now: promised episodes that no other durable part holds."""
        files = self.disk.durable_files("episodes")
        if path.parent != self.disk.folder / "episodes" or path.name not in files:
            return []
        kept = set[str]().union(*(self._keys_of(file) for file in files.items() if file[0] != path.name))
        lost = (self._keys_of((path.name, files[path.name])) & promised) - kept
        return [f"episodes/{path.name} is removed, and {len(lost)} episodes are in no other part yet"] * bool(lost)

    def _keys_of(self, file: tuple[str, tuple[int, bytes]]) -> frozenset[str]:
        name, (number, content) = file
        if not name.endswith(".parquet"):
            return frozenset()
        if number not in self._keys:
            try:
                self._keys[number] = frozenset(pl.read_parquet(content, columns=["key"])["key"])
            except UNREADABLE:  # a bit of it was flipped
                self._keys[number] = frozenset()
        return self._keys[number]
