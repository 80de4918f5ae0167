"""Run folders in buckets (``s3://bucket/run``, ``gs://bucket/run``): fetched before an attempt, uploaded while it runs.

An attempt is complete only when all is in the bucket, and the bucket alone is enough to resume from, on any machine;
docs/decisions/0004 says why the store itself stays on a local disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from orchestrator.object_store.bucket import CACHE, Bucket, Stored, is_address
from orchestrator.object_store.uploader import LISTING, SENT, Uploader, files, part_numbers, replaced, shared
from orchestrator.object_store.writer_lock import ATTEMPT, WriterLock, holder
from orchestrator.storage import atomic_write, checksums, job_paths, lock
from orchestrator.storage.episode_store import damaged, move_aside
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.verdict_store import damaged_verdicts

INCOMPLETE = 1
AT_ONCE = 16
"""Objects that are fetched at the same time."""
STALE_PAUSES_S = (0.0, 1.0, 2.0)
"""Seconds before a listing that named what is not there is asked for again."""


class RunLocation:
    """Where an attempt writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unsent = ""
        """What is not in the bucket, as a sentence; empty when all is."""

    def code(self, code: int) -> int:
        """The exit code of an attempt: complete is only what is in the bucket."""
        return code or (INCOMPLETE if self.unsent else 0)


@contextlib.contextmanager
def place(output: str, say: Callable[[str], None] = print) -> Iterator[RunLocation]:
    """A folder for an attempt at ``output``; raises RunFolderError when it is of another, or would not last.

    On the way out everything is uploaded to an address, and ``unsent`` printed on stderr if it could not be.
    """
    if not is_address(output):
        yield RunLocation(job_paths.lasting(output))
        return
    bucket = Bucket(output)
    writer = WriterLock(bucket)
    writer.take(say)
    writer.keep(_stop)
    try:
        found = RunLocation(folder_of(bucket.url, "run"))
        uploader = Uploader(bucket, found.folder, writer, _fetched(bucket, found.folder, writer.attempt, say))
        uploader.fetch_commands()  # what was asked while nobody played may say that there is something to play
        uploader.start()
        try:
            with _addressed(bucket.url, found.folder):
                yield found
        finally:
            _finish(uploader, found, bucket.url)
    finally:
        writer.release()


def viewed(text: str, started: bool = True) -> Path:
    """A run folder to read: a path as it is; of an address a copy that is brought up to date first.

    Raises RunFolderError when the address cannot be read, or holds no run although it should be ``started``.
    """
    if not is_address(text):
        return Path(text)
    bucket = Bucket(text)
    folder = folder_of(bucket.url, "view")
    _refreshed(bucket, folder)
    if started and not files(folder):
        raise RunFolderError(f"{text} holds no run yet; `proactive-sweep run SWEEP --output {text}` starts one")
    return folder


def folder_of(url: str, use: str) -> Path:
    """The local side of an address, one for its writer and one for its readers."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", url.partition("://")[2])[-60:].strip("-")
    root = os.environ.get(CACHE) or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "proactive-sweep"
    return Path(root) / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:8]}" / use


def _fetched(bucket: Bucket, folder: Path, attempt: str, say: Callable[[str], None]) -> Mapping[str, Stored]:
    """Make the folder hold what the bucket does, and give what the bucket holds.

    What the last attempt did not upload is kept when that attempt was made here; else it is put aside.
    """
    last = bucket.read(ATTEMPT)
    if last is None or last != _read(folder / ATTEMPT):
        _put_aside(folder, bucket.url, say)
    atomic_write.make_private(folder)
    here = set(files(folder))
    for pause in STALE_PAUSES_S:
        there = listed(bucket)
        here -= _damaged_aside(folder, there, say)
        if _fetch(bucket, folder, {name: there[name] for name in there.keys() - here - replaced(there, here)}):
            break
        time.sleep(pause)
    (folder / SENT).unlink(missing_ok=True)
    atomic_write.write(folder / ATTEMPT, attempt.encode())
    bucket.write(ATTEMPT, attempt.encode())
    return there


def _damaged_aside(folder: Path, there: Collection[str], say: Callable[[str], None]) -> set[str]:
    """Move parts aside that are damaged here and that the bucket has too: they are fetched again rather than played again."""
    found = {path.relative_to(folder).as_posix(): path for path in (*damaged(folder), *damaged_verdicts(folder))}
    moved = sorted(found.keys() & set(there))
    for name in moved:
        say(f"{folder / name} is damaged; it is moved to damaged/ and fetched from the bucket again")
        move_aside(folder, found[name])
    return set(moved)


def _put_aside(folder: Path, url: str, say: Callable[[str], None]) -> None:
    if not folder.is_dir():
        return
    if (folder / SENT).exists() or not any(folder.glob("episodes/*.parquet")):
        shutil.rmtree(folder)
        return
    aside = folder.with_name(f"{folder.name}-left-{time.time_ns()}")
    folder.rename(aside)
    say(f"another machine has gone on in {url}; what this one did not upload before is kept in {aside}")


def _refreshed(bucket: Bucket, folder: Path) -> None:
    """Make a reader's copy the same as the bucket; a merge in between is met by listing again."""
    atomic_write.make_private(folder)
    with _alone(folder):
        for pause in STALE_PAUSES_S:
            there = listed(bucket)
            marks = {f"{name} {stored.size} {stored.mark}": name for name, stored in there.items()}
            here = set(files(folder))
            for name in here - there.keys():
                (folder / name).unlink()
            kept = {marks[line] for line in (_read(folder / LISTING) or b"").decode().split("\n") if line in marks}
            whole = _fetch(bucket, folder, {name: there[name] for name in there.keys() - (kept & here)})
            atomic_write.write(folder / LISTING, "\n".join(marks).encode())
            if whole:
                break
            time.sleep(pause)
        who = holder(bucket) or {}
        shown = {name: who[name] for name in ("host", "pid", "started") if name in who}
        atomic_write.write(folder / lock.WRITER, json.dumps(shown).encode())


def listed(bucket: Bucket) -> dict[str, Stored]:
    """The objects of a run folder; parts that a stale listing leaves out are asked for by their numbers."""
    there = {name: stored for name, stored in bucket.listed().items() if shared(name)}
    for table in ("episodes", "turns", "verdicts"):  # a part of episodes that is there was written after its turns
        spans = [span for name in there if name.startswith(f"{table}/") and (span := part_numbers(name))]
        last = max((span[1] for span in spans), default=0)
        covered = {number for first, end in spans for number in range(first, end + 1)}
        gaps = sorted(set(range(1, last)) - covered) if table != "verdicts" else []  # a merge of verdicts leaves gaps
        for number in itertools.chain(gaps, itertools.count(last + 1)):
            found = bucket.stat(name := f"{table}/part-{number:08d}.parquet")
            if found is not None:
                there[name] = found
            elif number > last:
                break
    return there


def _fetch(bucket: Bucket, folder: Path, wanted: Mapping[str, Stored]) -> bool:
    """False when an object has gone since it was listed."""
    odd = [name for name in wanted if ".." in name.split("/") or name.startswith("/")]
    if odd:
        raise RunFolderError(f"{bucket.url} holds an object called {odd[0]}, which is no file of a run folder")
    whole = True
    for name, content in _contents(bucket, wanted):
        if content is None:
            whole = False
            continue
        path = folder / name
        atomic_write.make_folders(path.parent)
        atomic_write.write(path, content)
        if (modified := wanted[name].modified) is not None:
            os.utime(path, (modified, modified))
    return whole


def _contents(bucket: Bucket, names: Collection[str]) -> Iterator[tuple[str, bytes | None]]:
    """Objects and their bytes; the sums come last, when they have a line for each of the others."""
    others = [name for name in names if name != checksums.NAME]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from zip(others, pool.map(bucket.read, others), strict=True)
    if len(others) < len(names):
        yield checksums.NAME, bucket.read(checksums.NAME)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two readers on one machine bring their copy up to date one after the other."""
    with open(atomic_write.opened(folder / "reader.lock", os.O_WRONLY), "wb") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _finish(uploader: Uploader, found: RunLocation, url: str) -> None:
    problem = uploader.close()
    if problem is None:
        atomic_write.write(found.folder / SENT, b"")
        return
    found.unsent = f"{problem}; not everything is there, and the same command uploads the rest from this machine"
    print(found.unsent, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _addressed(url: str, folder: Path) -> Iterator[None]:
    """Name the address that the user typed in a mistake about its local folder."""
    try:
        yield
    except RunFolderError as mistake:
        raise RunFolderError(str(mistake).replace(str(folder), url)) from None


def _stop(reason: str) -> None:
    print(f"{reason}: this sweep stops, for another goes on with it", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
