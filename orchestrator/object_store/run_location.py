"""Run folders in buckets (``s3://bucket/run``, ``gs://bucket/run``): downloaded before an attempt, uploaded during it.

An attempt is complete only when everything is in the bucket, and any machine can resume from the bucket alone;
docs/decisions/0004 says why the store itself stays on a local disk.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from envs.errors import RunFolderError
from orchestrator.object_store.bucket import Bucket, StoredObject, cache_root, is_address
from orchestrator.object_store.uploader import (
    LISTING,
    SENT,
    Uploader,
    is_shared,
    parse_part,
    read_or_none,
    replaced_parts,
    shared_files,
)
from orchestrator.object_store.writer_lock import ATTEMPT, WriterLock, read_holder
from orchestrator.storage import checksums, job_paths, lock, safe_write
from orchestrator.storage.disk import disk_errors
from orchestrator.storage.part_files import list_parts

INCOMPLETE = 1
"""Exit code of an attempt that is not completely uploaded."""
STALE_PAUSES_S = (0.0, 1.0, 2.0)
"""Seconds before a stale listing is requested again."""


@dataclass
class RunLocation:
    """The local folder of an attempt, and the error of its upload."""

    folder: Path
    unsent: str = ""
    """Message of a failed upload; empty if the bucket has everything."""

    def exit_code(self, code: int) -> int:
        """Return the exit code of an attempt, which is complete only if everything is in the bucket."""
        return code or (INCOMPLETE if self.unsent else 0)


@contextlib.contextmanager
def open_location(output: str, say: Callable[[str], None] = print) -> Iterator[RunLocation]:
    """Provide a folder for an attempt at ``output``. Raises RunFolderError if it is in use or not durable.

    If ``output`` is an address, everything is uploaded on exit; if that fails, ``unsent`` is printed on stderr.
    """
    if not is_address(output):
        yield RunLocation(job_paths.durable_path(output))
        return
    bucket = Bucket(output)
    writer = WriterLock(bucket)
    writer.take(say)
    writer.start_renewing(_stop)
    try:
        location = RunLocation(cache_folder(bucket.url, "run"))
        with disk_errors(location.folder):
            remote = _fetch_run(bucket, location.folder, writer.attempt, say)
            uploader = Uploader(bucket, location.folder, writer, remote)
        uploader.start()
        try:
            with _address_errors(bucket.url, location.folder):
                yield location
        finally:
            _finish(uploader, location)
    finally:
        writer.release()


def readable_folder(text: str, started: bool = True) -> Path:
    """Return a folder to read: a path unchanged, or an updated local copy of an address.

    Raises RunFolderError if the address cannot be read, or if ``started`` is True and it holds no run yet.
    """
    if not is_address(text):
        return Path(text)
    bucket = Bucket(text)
    folder = cache_folder(bucket.url, "view")
    _refresh_view(bucket, folder)
    if started and not shared_files(folder):
        raise RunFolderError(
            f"{text} holds no run yet; `proactive-sweep run SWEEP --output {shlex.quote(text)}` starts one"
        )
    return folder


def cache_folder(url: str, use: str) -> Path:
    """Return the local folder of an address for one ``use``: ``run`` for its writer, ``view`` for its readers."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", url.partition("://")[2])[-60:].strip("-")
    return cache_root() / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:8]}" / use


def _fetch_run(bucket: Bucket, folder: Path, attempt: str, say: Callable[[str], None]) -> Mapping[str, StoredObject]:
    """Download what the folder lacks, and return the objects of the bucket.

    Files that the last attempt did not upload are kept if it ran on this machine; else they are moved aside.
    """
    last = bucket.read(ATTEMPT)
    if last is None or last not in (read_or_none(folder / ATTEMPT) or b"").split(b"\n"):
        _put_aside(folder, bucket.url, say)
    _make_private(folder)
    for pause in STALE_PAUSES_S:
        remote = list_run(bucket)
        _move_damaged(folder, remote, say)
        local = set(shared_files(folder))
        missing = remote.keys() - local - replaced_parts(remote, local)
        if _fetch(bucket, folder, {name: remote[name] for name in sorted(missing)}):
            break
        time.sleep(pause)
    (folder / SENT).unlink(missing_ok=True)
    safe_write.write(folder / ATTEMPT, b"\n".join([attempt.encode(), last or b""]))  # the next line may fail
    bucket.write(ATTEMPT, attempt.encode())
    return remote


def _make_private(folder: Path) -> None:
    """Make a folder that only its owner can access, and restrict it if it exists."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def _move_damaged(folder: Path, remote: Collection[str], say: Callable[[str], None]) -> None:
    """Move aside the damaged parts that the bucket also holds: downloading them again saves replaying their episodes."""
    for path in list_parts(folder).bad:
        if path.relative_to(folder).as_posix() in remote:
            say(f"{path} is damaged; it is moved to damaged/ and fetched from the bucket again")
            safe_write.move_aside(folder, path)


def _put_aside(folder: Path, url: str, say: Callable[[str], None]) -> None:
    if not folder.is_dir():
        return
    if (folder / SENT).exists() or not any(folder.glob("episodes/*.parquet")):
        shutil.rmtree(folder)
        return
    aside = folder.with_name(f"{folder.name}-left-{time.time_ns()}")
    folder.rename(aside)
    say(f"another machine continued {url}; files that this machine did not upload are kept in {aside}")


def _refresh_view(bucket: Bucket, folder: Path) -> None:
    """Update a reader's copy from the bucket, listing again if a merge happened in between."""
    _make_private(folder)
    with _reader_lock(folder):
        for pause in STALE_PAUSES_S:
            remote = list_run(bucket)
            marks = {f"{name} {stored.size} {stored.version}": name for name, stored in remote.items()}
            local = set(shared_files(folder))
            for name in sorted(local - remote.keys()):
                (folder / name).unlink()
            up_to_date = {
                marks[line] for line in (read_or_none(folder / LISTING) or b"").decode().split("\n") if line in marks
            }
            complete = _fetch(bucket, folder, {name: remote[name] for name in remote if name not in up_to_date & local})
            safe_write.write(folder / LISTING, "\n".join(marks).encode())
            if complete:
                break
            time.sleep(pause)
        holder = read_holder(bucket) or {}
        identity = {name: holder[name] for name in ("host", "pid", "started") if name in holder}
        safe_write.write(folder / lock.WRITER, json.dumps(identity).encode())


def _fetch(bucket: Bucket, folder: Path, objects: Mapping[str, StoredObject]) -> bool:
    """Download objects; return False if one was deleted after it was listed."""
    unsafe = [name for name in objects if ".." in name.split("/") or name.startswith("/")]
    if unsafe:
        raise RunFolderError(f"{bucket.url} holds an object called {unsafe[0]}, which is no file of a run folder")
    complete = True
    for name, content in _read_objects(bucket, objects):
        if content is None:
            complete = False
            continue
        path = folder / name
        for parent in reversed(Path(name).parents):
            safe_write.make_folder(folder / parent)
        safe_write.write(path, content)
        if (modified := objects[name].modified) is not None:
            os.utime(path, (modified, modified))
    return complete


def _read_objects(bucket: Bucket, names: Collection[str]) -> Iterator[tuple[str, bytes | None]]:
    """Yield names and bytes; the checksums are read last, so that they cover every other object."""
    others = [name for name in names if name != checksums.NAME]
    with ThreadPoolExecutor(16) as pool:
        yield from zip(others, pool.map(bucket.read, others), strict=True)
    if len(others) < len(names):
        yield checksums.NAME, bucket.read(checksums.NAME)


@contextlib.contextmanager
def _reader_lock(folder: Path) -> Iterator[None]:
    """Let only one reader of this machine update the copy at a time."""
    with open(safe_write.open_file(folder / "reader.lock", os.O_WRONLY), "wb") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _finish(uploader: Uploader, location: RunLocation) -> None:
    problem = uploader.close()
    if problem is None:
        with contextlib.suppress(OSError):  # a folder without this mark is later moved aside, not deleted
            safe_write.write(location.folder / SENT, b"")
        return
    location.unsent = f"{problem}; the bucket is incomplete; the same command uploads the rest from this machine"
    print(location.unsent, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _address_errors(url: str, folder: Path) -> Iterator[None]:
    """Replace the local folder by the typed address in error messages."""
    try:
        yield
    except RunFolderError as error:
        raise RunFolderError(str(error).replace(str(folder), url)) from None


def _stop(reason: str) -> None:
    print(f"{reason}: this sweep stops because another driver continues it", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


def list_run(bucket: Bucket) -> dict[str, StoredObject]:
    """Return the objects of a run folder; those missing from a stale listing are requested by the names in the checksums.

    The checksum of an object is uploaded before the object, and requests by name are never stale.
    """
    remote = {name: stored for name, stored in bucket.list_objects().items() if is_shared(name)}
    sums = checksums.parse_sums(bucket.read(checksums.NAME) or b"")
    recorded = [name for name, digests in sums.items() if digests[-1] != checksums.GONE]
    for name in sorted(recorded, key=_merged_first):
        if name not in remote | dict.fromkeys(replaced_parts([name], remote)):
            stored = bucket.stat(name)
            remote |= {name: stored} if stored else {}
    return remote


def _merged_first(name: str) -> tuple[bool, str]:
    part = parse_part(name)
    return part is None or part.first == part.last, name
