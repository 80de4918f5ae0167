"""Uploads a run folder into its bucket while the run writes it; files that are not in the bucket yet are pending.

Parts are uploaded once, turns before episodes; other files are replaced. In a bucket, writing an object has the role that a
rename has on disk: it commits (docs/decisions/0002 and 0004).
"""

import threading
import time
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from functools import cache
from pathlib import Path

from actors.text.printable import say
from envs.errors import RunFolderError
from orchestrator.object_store import writer_lock
from orchestrator.object_store.bucket import Bucket, BucketError
from orchestrator.object_store.writer_lock import WriterLock
from orchestrator.storage import checksums, control_log, safe_write
from orchestrator.storage.lock import NAME, WRITER
from orchestrator.storage.part_files import Part
from orchestrator.storage.part_writer import WRITE_ORDER

ATTEMPTS = "attempt"
"""Local file with the attempts of this machine, one a line."""
SENT = "sent"
"""Local file that marks a completely uploaded folder."""
LOCAL_ONLY = frozenset({
    NAME, WRITER, writer_lock.FOLDER, ATTEMPTS, SENT, "listing", "reader.lock", "damaged", "mlartifacts", "mlruns",
    control_log.INBOX,
})  # fmt: skip
"""Files that stay on this machine."""
ROUND_INTERVAL_S = 5.0
"""Seconds between two looks at the folder."""
UPLOAD_TIMEOUT_S = 600.0
"""Seconds for which the end of an attempt waits for a failing bucket."""
REMEDY = "the bucket is incomplete; the same command uploads the rest from this machine"


def is_shared(name: str) -> bool:
    """Return True if a file of a run folder is uploaded."""
    top = name.partition("/")[0]
    return top not in LOCAL_ONLY and not top.startswith("mlflow.db") and not name.endswith(safe_write.TEMPORARY)


def _upload_order(name: str) -> tuple[int, str]:
    """Return a sort key: parts in the order of ``WRITE_ORDER``, then other files, each by name."""
    return WRITE_ORDER.index(name.partition("/")[0]) if parse_part(name) else len(WRITE_ORDER), name


def replaced_parts(names: Iterable[str], existing: Set[str]) -> set[str]:
    """Return the parts whose rows a merged part among ``existing`` holds; it needs its turns and its episodes."""
    merges = {part for name in existing if (part := parse_part(name)) and part.first < part.last}
    complete = [part for part in merges if {f"turns/{part.name}", f"episodes/{part.name}"} <= existing]
    parts = {name: part for name in names if (part := parse_part(name)) and not name.startswith("verdicts/")}
    return {name for name, part in parts.items() if any(map(part.is_inside, complete))}


@cache
def parse_part(name: str) -> Part | None:
    """Return the part of a file such as ``turns/part-00000001.parquet``; None for other files."""
    table, _, file = name.partition("/")
    return Part.parse(file) if table in WRITE_ORDER else None


def shared_files(folder: Path) -> list[str]:
    """Return the shared files of a run folder, listed in the reverse order of writing: verdicts, episodes, all others.

    A listed part of verdicts thus never lacks its episodes, nor a listed part of episodes its turns.
    """
    tops = {path.name for path in folder.glob("*") if is_shared(path.name)}
    first = [name for name in ("verdicts", "episodes") if name in tops]
    places = [folder / top for top in (*first, *sorted(tops - {*first}))]
    paths = [path for place in places for path in (place, *sorted(place.rglob("*"))) if path.is_file()]
    return [name for path in paths if is_shared(name := path.relative_to(folder).as_posix())]


class Uploader:
    """A thread that uploads a run folder into its bucket."""

    def __init__(self, bucket: Bucket, folder: Path, lock: WriterLock, remote: Mapping[str, int]) -> None:
        """``remote`` are the objects of the bucket and their sizes; a part whose local size differs is uploaded again."""
        self.bucket, self.folder, self.lock = bucket, folder, lock
        states = {name: _file_state(folder / name) if parse_part(name) else None for name in remote}
        self._uploaded = {name: s if s and s[1] == remote[name] else None for name, s in states.items()}
        """Object -> time and size of its file when it was uploaded; None if that is not known."""
        self._closing = threading.Event()
        self._unsent = f"the upload ended with the fault shown above; {REMEDY}"
        """Why the bucket does not have everything; empty if it does."""
        self._thread = threading.Thread(target=self._work, name="bucket-upload", daemon=True)
        self.start = self._thread.start

    def close(self) -> str:
        """Upload the rest; return the failure, which is printed on stderr, or an empty string if the bucket has everything."""
        self._closing.set()
        self._thread.join()
        if self._unsent:
            say(self._unsent)
        else:
            with suppress(OSError):  # a folder without this mark is later moved aside, not deleted
                safe_write.write(self.folder / SENT, b"")
        return self._unsent

    def upload_round(self) -> bool:
        """Upload new and changed files, and delete what is gone; return True if something was written.

        Raises RunFolderError if the lock is lost, BucketError if the bucket fails.
        """
        local = shared_files(self.folder)
        new, removed = [name for name in local if self._is_changed(name)], self._removed(local)
        if not (new or removed):
            return False
        self.lock.check()
        for name in sorted(new, key=_upload_order):
            if name != checksums.NAME and not self._upload(name):
                return True  # it was merged after the listing; the next round uploads the merged part, and then deletes
        if self._is_changed(checksums.NAME):
            self._upload(checksums.NAME)
        self.bucket.delete(removed)  # after the checksums, which record the removal, and after merged parts
        for name in removed:
            del self._uploaded[name]
        return True

    def _upload(self, name: str) -> bool:
        """Upload a file, after the checksums that include it; return False if it is gone.

        The lock is checked again before any new part but turns.
        """
        state, content = _file_state(self.folder / name), read_or_none(self.folder / name)
        if content is None:
            return False
        if name != checksums.NAME and self._is_changed(checksums.NAME):
            self._upload(checksums.NAME)  # if this machine is lost now, a file without its checksum does not count
        if not parse_part(name) or name in self._uploaded:
            self.bucket.write(name, content)
        else:
            if not name.startswith("turns/"):
                self.lock.check()
            if not self.bucket.create(name, content) and self.bucket.read(name) != content:
                raise RunFolderError(f"{self.bucket.url}/{name} was written by another process, so this one stops")
        self._uploaded[name] = state
        return True

    def _is_changed(self, name: str) -> bool:
        """Return True if a file is not uploaded as it is now, also a part from which an episode was removed."""
        state = _file_state(self.folder / name)
        return state is not None and self._uploaded.get(name) != state

    def _removed(self, local: Iterable[str]) -> list[str]:
        """Return objects whose files this package has removed, merged or moved aside, episodes first."""
        absent = self._uploaded.keys() - set(local)
        sums = checksums.read_sums(self.folder) if absent else {}
        return sorted(name for name in absent if checksums.GONE in sums.get(name, ()))

    def _work(self) -> None:
        closing, is_failing, waits_since = False, False, 0.0
        while True:
            if not closing and (closing := self._closing.wait(ROUND_INTERVAL_S)):
                waits_since = time.monotonic()
            try:
                if not self.upload_round() and closing:
                    self._unsent = ""
                    return
                waits_since, is_failing = time.monotonic(), False
            except (BucketError, OSError) as problem:
                if not is_failing:
                    say(f"{problem}; the sweep continues, and the upload is retried")
                self._unsent, is_failing = f"{problem}; {REMEDY}", True
                if closing and (isinstance(problem, OSError) or time.monotonic() - waits_since >= UPLOAD_TIMEOUT_S):
                    return  # waiting does not repair a local disk
                if closing:
                    time.sleep(ROUND_INTERVAL_S)
            except RunFolderError as error:
                self._unsent = f"{error}; what is not in the bucket stays in {self.folder}"
                return


def read_or_none(path: Path) -> bytes | None:
    """Return a file's bytes; None if it is not there."""
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return None


def _file_state(path: Path) -> tuple[int, int] | None:
    with suppress(FileNotFoundError):
        status = path.stat()
        return status.st_mtime_ns, status.st_size
    return None
