"""Uploads a run folder into its bucket while the folder is written; what is in the folder and not in the bucket is pending.

Parts are uploaded once, turns before episodes, everything else is replaced whole. The protocol is the store's own
(docs/decisions/0002) with one object written in place of one rename; docs/decisions/0004 says why.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path

from orchestrator.object_store.bucket import PROBE, Bucket, BucketError, Stored
from orchestrator.object_store.writer_lock import ATTEMPT, WriterLock
from orchestrator.storage import atomic_write, checksums, control_log
from orchestrator.storage.lock import NAME, WRITER, RunFolderError

SENT = "sent"
"""Local file: all of this folder is in the bucket."""
LISTING = "listing"
"""Local file of a reader: what it has of the bucket."""
LOCAL_ONLY = frozenset(
    {PROBE, NAME, WRITER, ATTEMPT, SENT, LISTING, "reader.lock", "damaged", "mlartifacts", "mlruns", control_log.INBOX}
)
"""What belongs to this machine alone."""
ROUND_INTERVAL_S = 1.0
"""Seconds between two searches for new parts."""
TABLES = ("turns/", "episodes/")
SMALL_FILES_INTERVAL_S = 5.0
"""Seconds between two comparisons of the files that are replaced whole."""
UPLOAD_TIMEOUT_S = 600.0
"""Seconds for which the end of an attempt waits for a bucket that takes nothing."""
COMMANDS_INTERVAL_S = 2.0
"""Seconds between two searches for commands (``proactive-sweep ctl``), each one request."""
RETRY_PAUSE_S = 2.0
"""Seconds after a failure before the next try; twice as long after each further one."""
LONGEST_PAUSE_S = 30.0


def shared(name: str) -> bool:
    """Whether a file of a run folder belongs to the bucket too."""
    top = name.partition("/")[0]
    return top not in LOCAL_ONLY and not top.startswith("mlflow.db") and not name.endswith(atomic_write.TEMPORARY)


def pending(local: Iterable[str], remote: Iterable[str]) -> tuple[list[str], list[str]]:
    """Parts to write, in order, and parts to delete once those are there, in order.

    Turns go before episodes, whose part is the commit. A part is deleted only when what was merged of it counts instead;
    episodes first, so that no reader meets an episode without turns.
    """
    here, there = set(filter(part_numbers, local)), set(filter(part_numbers, remote))
    gone = replaced(here | there, here)
    return sorted(here - there - gone, key=_turns_first), sorted(there & gone)


def replaced(names: Iterable[str], holders: Collection[str]) -> set[str]:
    """Those of the parts that count for nothing beside ``holders``, the parts of one place.

    ``part-FIRST-LAST`` holds the rows of its numbers, from the moment when both its halves are there. Verdicts are merged
    under the next number, and the lower ones are then gone.
    """
    spans = {name.partition("/")[2]: numbers for name in holders if (numbers := part_numbers(name)) and _merge(numbers)}
    whole = [span for part, span in spans.items() if all(f"{table}{part}" in holders for table in TABLES)]
    verdicts = {name for name in holders if name.startswith("verdicts/")}
    newest = max(verdicts, default="")
    return {
        name
        for name in names
        if (name < newest and name not in verdicts and name.startswith("verdicts/"))
        or (name.startswith(TABLES) and any(_inside(part_numbers(name), span) for span in whole))
    }


def _turns_first(name: str) -> tuple[bool, str]:
    return (not name.startswith("turns/"), name)


@cache
def part_numbers(name: str) -> tuple[int, int] | None:
    """First and last number of a part, equal unless it is a merge; None for another file."""
    match = re.fullmatch(r"\w+/part-([0-9]{8,18})(?:-([0-9]{8,18}))?\.parquet", name)
    return (int(match[1]), int(match[2] or match[1])) if match else None


def _merge(numbers: tuple[int, int]) -> bool:
    return numbers[0] < numbers[1]


def _inside(numbers: tuple[int, int] | None, span: tuple[int, int]) -> bool:
    return numbers is not None and numbers != span and span[0] <= numbers[0] and numbers[1] <= span[1]


def files(folder: Path) -> list[str]:
    """The shared files of a run folder; episodes are looked up first, since the store writes them last."""
    episodes = _under(folder, folder / "episodes")
    return episodes + [name for name in _under(folder, folder) if not name.startswith("episodes/")]


def _under(folder: Path, place: Path) -> list[str]:
    found: list[str] = []
    for here, folders, names in os.walk(place):
        prefix = Path(here).relative_to(folder).as_posix().removeprefix(".")
        found += [name for name in (f"{prefix}/{name}".removeprefix("/") for name in sorted(names)) if shared(name)]
        folders[:] = sorted(name for name in folders if shared(f"{prefix}/{name}/".removeprefix("/")))
    return found


class Uploader:
    """Uploads a run folder into its bucket from a thread of its own."""

    def __init__(self, bucket: Bucket, folder: Path, lock: WriterLock, there: Mapping[str, Stored]) -> None:
        """``there`` is what the bucket holds; a part of another size is written anew."""
        self.bucket, self.folder, self.lock, self.patience = bucket, folder, lock, UPLOAD_TIMEOUT_S
        self.there = set(there)
        self._sent = {
            name: _state(folder / name) for name in filter(part_numbers, there) if _same(folder / name, there[name])
        }
        """File -> time and size of what the bucket has."""
        self._looked = self._listened = 0.0
        self._closing = threading.Event()
        self._failed: RunFolderError | None = None
        """Why the last round did not come to its end."""
        self._failures = 0
        """Rounds that failed since the last good one."""
        self._complete = False
        self._thread = threading.Thread(target=self._work, name="bucket-upload", daemon=True)

    def start(self) -> None:
        """Begin to upload; returns at once."""
        self._thread.start()

    def close(self) -> RunFolderError | None:
        """Upload what is left, and say what stopped it; None when the bucket has everything."""
        self._closing.set()
        self._thread.join()
        if self._complete:
            return None
        return self._failed or RunFolderError(f"the upload to {self.bucket.url} ended with the fault shown above")

    def round(self, everything: bool) -> bool:
        """Upload what is pending now; the files that are replaced whole only now and then, unless ``everything``.

        True when it wrote something. Raises RunFolderError when the lock is lost, BucketError when the bucket fails.
        """
        local = files(self.folder)
        new, merged = pending(local, self.there)
        look = everything or bool(new) or time.monotonic() - self._looked >= SMALL_FILES_INTERVAL_S
        changed = self._changed(local) if look else []
        if look:
            self._looked = time.monotonic()
        if not (new or merged or changed):
            return False
        self.lock.check()
        for name in filter(part_numbers, changed):
            self._replace(name)
        for name in new:
            self._upload(name)
        gone = [name for name in merged if name in replaced(merged, self.there & set(local))]
        self.bucket.delete(gone)
        self.there -= set(gone)
        for name in changed:
            if not part_numbers(name):
                self._replace(name)
        return True

    def lost(self) -> set[str]:
        """Parts that were uploaded and that the bucket does not have, asked by name where its listing has none; pending again."""
        mine = set(filter(part_numbers, files(self.folder))) & self.there
        absent = {name for name in mine - self.bucket.listed().keys() if self.bucket.stat(name) is None}
        self.there -= absent
        return absent

    def fetch_commands(self) -> None:
        """Bring what somebody asks of the sweep to this folder, where the driver looks; one that is too large comes empty."""
        self._listened = time.monotonic()
        found = self.bucket.listed(control_log.INBOX)
        for name in sorted(name for name in found if control_log.NAME.fullmatch(name)):
            place = f"{control_log.INBOX}/{name}"
            content = self.bucket.read(place) if found[name].size <= control_log.LARGEST else b""
            if content is not None:
                atomic_write.make_folder(self.folder / control_log.INBOX)
                atomic_write.write(self.folder / place, content)
                self.bucket.delete([place])

    def _upload(self, name: str) -> None:
        """Write a part that the bucket has not; the lock is looked at again before the one that commits episodes."""
        state = _state(self.folder / name)
        try:
            content = (self.folder / name).read_bytes()
        except FileNotFoundError:
            return  # merged since it was listed; the merge is in the next round
        if not name.startswith("turns/"):
            self.lock.check()
        if not self.bucket.create(name, content) and (found := self.bucket.read(name)) != content:
            if found is None:
                raise BucketError(f"{self.bucket.url}/{name} was refused by the service as taken, and is not there")
            raise RunFolderError(f"{self.bucket.url}/{name} was written by another process, so this one stops")
        self.there.add(name)
        self._sent[name] = state

    def _changed(self, local: Iterable[str]) -> list[str]:
        """Files that are replaced whole, and parts that an episode was taken out of."""
        known = (name for name in local if not part_numbers(name) or name in self.there)
        return [name for name in known if self._sent.get(name) != _state(self.folder / name)]

    def _replace(self, name: str) -> None:
        """Replace an object whole; the sums that hold its own go first, so that nobody reads it beside older sums only."""
        state = _state(self.folder / name)
        try:
            content = (self.folder / name).read_bytes()
        except FileNotFoundError:
            return
        if name != checksums.NAME and self._changed([checksums.NAME]):
            self._replace(checksums.NAME)
        self.bucket.write(name, content)
        self._sent[name] = state

    def _work(self) -> None:
        since = time.monotonic()
        while True:
            self._closing.wait(self._pause() if self._failed else ROUND_INTERVAL_S)
            closing = self._closing.is_set()
            try:
                if not closing and time.monotonic() - self._listened >= COMMANDS_INTERVAL_S:
                    self.fetch_commands()
                done = not self.round(everything=closing) and closing and not self.lost()
                since, self._failed, self._failures = time.monotonic(), None, 0
                if done:
                    self._complete = True
                    return
            except BucketError as problem:
                self._failure(problem)
                if closing and time.monotonic() - since >= self.patience:
                    return
                if closing:
                    time.sleep(min(self._pause(), self.patience / 4))
            except RunFolderError as taken:
                self._failed = taken
                return

    def _pause(self) -> float:
        """Seconds before the next try: twice as long after each failure, to a bound."""
        pause: float = RETRY_PAUSE_S * 2 ** max(0, self._failures - 1)
        return min(pause, LONGEST_PAUSE_S)

    def _failure(self, problem: BucketError) -> None:
        if not self._failures:
            print(f"{problem}; the sweep goes on, and the upload is tried again", file=sys.stderr, flush=True)
        self._failed, self._failures = problem, min(self._failures + 1, 10)


def _state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size


def _same(path: Path, stored: Stored) -> bool:
    state = _state(path)
    return state is not None and state[1] == stored.size
