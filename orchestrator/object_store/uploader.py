"""Uploads a run folder into its bucket while the run writes it; files that are not in the bucket yet are pending.

Parts are uploaded once, turns before episodes; other files are replaced. In a bucket, writing an object has the role that a
rename has on disk: it commits (docs/decisions/0002 and 0004).
"""

import sys
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path

from envs.errors import RunFolderError
from orchestrator.object_store.bucket import PROBE, Bucket, BucketError, StoredObject
from orchestrator.object_store.writer_lock import ATTEMPT, WriterLock
from orchestrator.storage import checksums, control_log, safe_write
from orchestrator.storage.lock import NAME, WRITER
from orchestrator.storage.part_files import Part

SENT = "sent"
"""Local file that marks a completely uploaded folder."""
LISTING = "listing"
"""Local file with the objects that a reader has downloaded."""
LOCAL_ONLY = frozenset(
    {PROBE, NAME, WRITER, ATTEMPT, SENT, LISTING, "reader.lock", "damaged", "mlartifacts", "mlruns", control_log.INBOX}
)
"""Files that stay on this machine."""
UPLOAD_ORDER = ("options", "turns", "episodes", "verdicts")
"""Tables in the order in which their parts are uploaded: the episodes commit."""
ROUND_INTERVAL_S, SMALL_FILES_INTERVAL_S = 1.0, 5.0
"""Seconds between two searches for new parts, for changes of other files, and for commands (``proactive-sweep ctl``)."""
UPLOAD_TIMEOUT_S = 600.0
"""Seconds for which the end of an attempt waits for a failing bucket."""
RETRY_PAUSE_S, LONGEST_PAUSE_S = 2.0, 30.0
"""Seconds between a failure and the next try; doubled after each further failure, up to the longest."""


def is_shared(name: str) -> bool:
    """Return True if a file of a run folder is uploaded."""
    top = name.partition("/")[0]
    return top not in LOCAL_ONLY and not top.startswith("mlflow.db") and not name.endswith(safe_write.TEMPORARY)


def _upload_order(name: str) -> tuple[int, str]:
    return UPLOAD_ORDER.index(name.partition("/")[0]), name


def replaced_parts(names: Iterable[str], existing: Collection[str]) -> set[str]:
    """Return the parts whose rows a merged part among ``existing`` holds; it needs its turns and its episodes."""
    merges = {part for name in existing if (part := parse_part(name)) and part.first < part.last}
    complete = [part for part in merges if {f"turns/{part.name}", f"episodes/{part.name}"} <= set(existing)]
    parts = {name: part for name in names if (part := parse_part(name)) and not name.startswith("verdicts/")}
    return {name for name, part in parts.items() if any(map(part.is_inside, complete))}


@cache
def parse_part(name: str) -> Part | None:
    """Return the part of a file such as ``turns/part-00000001.parquet``; None for other files."""
    table, _, file = name.partition("/")
    return Part.parse(file) if table in UPLOAD_ORDER else None


def shared_files(folder: Path) -> list[str]:
    """Return the shared files of a run folder, listed in the reverse order of writing: verdicts, episodes, all others.

    A listed part of verdicts thus never lacks its episodes, nor a listed part of episodes its turns.
    """
    last = [name for table in ("verdicts", "episodes") for name in _list_shared(folder, table)]
    others = sorted({path.name for path in folder.glob("*") if is_shared(path.name)} - {"verdicts", "episodes"})
    return last + [name for top in others for name in _list_shared(folder, top)]


def _list_shared(folder: Path, top: str) -> list[str]:
    paths = [folder / top, *sorted((folder / top).rglob("*"))]
    return [name for path in paths if path.is_file() and is_shared(name := path.relative_to(folder).as_posix())]


class Uploader:
    """A thread that uploads a run folder into its bucket."""

    def __init__(self, bucket: Bucket, folder: Path, lock: WriterLock, remote: Mapping[str, StoredObject]) -> None:
        """``remote`` are the objects of the bucket; a part whose local size differs is uploaded again."""
        self.bucket, self.folder, self.lock, self.patience = bucket, folder, lock, UPLOAD_TIMEOUT_S
        states = {name: _file_state(folder / name) if parse_part(name) else None for name in remote}
        self._uploaded = {name: s if s and s[1] == remote[name].size else None for name, s in states.items()}
        """Object -> time and size of its file when it was uploaded; None if that is not known."""
        self._compared_at = 0.0
        self._closing = threading.Event()
        self._fault = RunFolderError(f"the upload to {bucket.url} ended with the fault shown above")
        self._unsent: RunFolderError | None = self._fault
        """Why the bucket does not have everything."""
        self._thread = threading.Thread(target=self._work, name="bucket-upload", daemon=True)

    def start(self) -> None:
        """Begin to upload; returns at once."""
        self._thread.start()

    def close(self) -> RunFolderError | None:
        """Upload the rest; return the failure, or None if the bucket has everything."""
        self._closing.set()
        self._thread.join()
        return self._unsent

    def upload_round(self, everything: bool) -> bool:
        """Upload pending parts, and changed files if ``everything`` or their interval has passed.

        Return True if something was written. Raises RunFolderError if the lock is lost, BucketError if the bucket fails.
        """
        local = shared_files(self.folder)
        new = sorted((name for name in local if parse_part(name) and name not in self._uploaded), key=_upload_order)
        removed = self._removed(local)
        compare = everything or bool(new) or time.monotonic() - self._compared_at >= SMALL_FILES_INTERVAL_S
        changed = self._changed(local) if compare else []
        if compare:
            self._compared_at = time.monotonic()
        if not (new or changed or removed):
            return False
        self.lock.check()
        for name in filter(parse_part, changed):
            self._replace(name)
        if new and self._changed([checksums.NAME]):
            self._replace(checksums.NAME)  # if this machine is lost now, a part without a checksum does not count
        if not all(self._upload(name) for name in new):
            return True  # it was merged after the listing; the next round uploads the merged part, and then deletes
        for name in changed:
            if not parse_part(name):
                self._replace(name)
        self.bucket.delete(removed)  # after the checksums, which record the removal, and after merged parts
        for name in removed:
            del self._uploaded[name]
        return True

    def forget_lost_parts(self) -> set[str]:
        """Return uploaded parts that the bucket has lost; they become pending again."""
        uploaded = set(filter(parse_part, shared_files(self.folder))) & self._uploaded.keys()
        unlisted = sorted(uploaded - self.bucket.list_objects().keys())
        absent = {name for name in unlisted if self.bucket.stat(name) is None}
        for name in absent:
            del self._uploaded[name]
        return absent

    def _upload(self, name: str) -> bool:
        """Upload a part, checking the lock again before any part but turns; return False if its file is gone."""
        state, content = _file_state(self.folder / name), read_or_none(self.folder / name)
        if content is None:
            return False
        if not name.startswith("turns/"):
            self.lock.check()
        if not self.bucket.create(name, content) and (stored := self.bucket.read(name)) != content:
            if stored is None:
                raise BucketError(f"{self.bucket.url}/{name} was refused by the service as taken, and is not there")
            raise RunFolderError(f"{self.bucket.url}/{name} was written by another process, so this one stops")
        self._uploaded[name] = state
        return True

    def _replace(self, name: str) -> None:
        """Replace an object after uploading the checksums that include it, so that no reader sees it with old checksums only."""
        state, content = _file_state(self.folder / name), read_or_none(self.folder / name)
        if content is None:
            return
        if name != checksums.NAME and self._changed([checksums.NAME]):
            self._replace(checksums.NAME)
        self.bucket.write(name, content)
        self._uploaded[name] = state

    def _changed(self, local: Iterable[str]) -> list[str]:
        """Return changed files, and parts from which an episode was removed."""
        candidates = (name for name in local if not parse_part(name) or name in self._uploaded)
        return [name for name in candidates if self._uploaded.get(name) != _file_state(self.folder / name)]

    def _removed(self, local: Iterable[str]) -> list[str]:
        """Return objects whose files this package has removed, merged or moved aside, episodes first."""
        absent = {name for name in self._uploaded.keys() - set(local) if is_shared(name)}
        sums = checksums.read_sums(self.folder) if absent else {}
        return sorted(name for name in absent if checksums.GONE in sums.get(name, ()))

    def _work(self) -> None:
        last_success, pause = time.monotonic(), ROUND_INTERVAL_S
        while True:
            self._closing.wait(pause)
            closing = self._closing.is_set()
            try:
                if not self.upload_round(everything=closing) and closing and not self.forget_lost_parts():
                    self._unsent = None
                    return
                last_success, pause, self._unsent = time.monotonic(), ROUND_INTERVAL_S, self._fault
            except (BucketError, OSError) as problem:
                pause = self._report_failure(problem, pause)
                if closing and (isinstance(problem, OSError) or time.monotonic() - last_success >= self.patience):
                    return  # waiting does not repair a local disk
                if closing:
                    time.sleep(min(pause, self.patience / 4))
            except RunFolderError as error:
                self._unsent = error
                return

    def _report_failure(self, problem: BucketError | OSError, pause: float) -> float:
        """Say the first failure in a row, and return the seconds before the next try: twice those of the last one."""
        is_first = self._unsent is self._fault
        if isinstance(problem, OSError):
            problem = BucketError(f"{self.folder} cannot be read or written ({problem.strerror})")
        if is_first:
            print(f"{problem}; the sweep continues, and the upload is retried", file=sys.stderr, flush=True)
        self._unsent = problem
        return RETRY_PAUSE_S if is_first else min(2 * pause, LONGEST_PAUSE_S)


def read_or_none(path: Path) -> bytes | None:
    """Return a file's bytes; None if it is not there."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _file_state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size
