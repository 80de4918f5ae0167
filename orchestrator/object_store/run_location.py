"""Run folders in buckets (``s3://bucket/run``, ``gs://bucket/run``): downloaded before an attempt, uploaded during it.

An attempt is complete only when everything is in the bucket, and any machine can resume from the bucket alone;
docs/decisions/0004 says why the store itself stays on a local disk.
"""

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from actors.text.printable import say
from envs.errors import RunFolderError
from orchestrator.object_store import uploader
from orchestrator.object_store.bucket import Bucket, cache_root, is_address
from orchestrator.object_store.uploader import Uploader
from orchestrator.object_store.writer_lock import WriterLock, read_holder
from orchestrator.storage import checksums, lock, safe_write
from orchestrator.storage.disk import disk_errors, durable_path
from orchestrator.storage.part_files import list_parts

TRIES = 5
"""Attempts to list the bucket and fetch what is listed, which fail if its writer merges parts meanwhile."""


@dataclass
class RunLocation:
    """The local folder of an attempt, and the error of its upload."""

    folder: Path
    unsent: str = ""
    """Message of a failed upload; empty if the bucket has everything."""

    def exit_code(self, code: int) -> int:
        """Return the exit code of an attempt: 1 unless everything is in the bucket."""
        return code or int(bool(self.unsent))


@contextlib.contextmanager
def open_location(output: str, say: Callable[[str], None] = print) -> Iterator[RunLocation]:
    """Provide a folder for an attempt at ``output``. Raises RunFolderError if it is in use or not durable.

    If ``output`` is an address, everything is uploaded on exit; if that fails, ``unsent`` is printed on stderr.
    """
    if not is_address(output):
        yield RunLocation(durable_path(output))
        return
    bucket = Bucket(output)
    location, writer = RunLocation(cache_folder(bucket.url, "run")), WriterLock(bucket)
    with _address_errors(bucket.url, location.folder), disk_errors(location.folder):
        attempts = _add_attempt(location.folder, writer.attempt)  # before the bucket names this one
        writer.take(say)
        writer.start_renewing(_stop)
        try:
            if writer.last_attempt not in attempts:
                _put_aside(location.folder, bucket.url, say)
                _add_attempt(location.folder, writer.attempt)
            remote = _fetch_run(bucket, location.folder)
            writer.begin()
            upload = Uploader(bucket, location.folder, writer, remote)
            upload.start()
            try:
                yield location
            finally:
                location.unsent = upload.close()
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
    _make_private(folder)
    with FileLock(folder / "reader.lock", mode=0o600):
        _fetch_view(bucket, folder, started)
    return folder


def cache_folder(url: str, use: str) -> Path:
    """Return the local folder of an address for one ``use``: ``run`` for its writer, ``view`` for its readers."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", url.partition("://")[2])[-60:].strip("-")
    return cache_root() / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:8]}" / use


def _add_attempt(folder: Path, attempt: str) -> list[str]:
    """Record that an attempt of this machine may write into the bucket; return the earlier ones."""
    _make_private(folder)
    earlier = (uploader.read_or_none(folder / uploader.ATTEMPTS) or b"").decode().split("\n")
    safe_write.write(folder / uploader.ATTEMPTS, "\n".join([*earlier, attempt]).encode())
    return earlier


def _fetch_run(bucket: Bucket, folder: Path) -> Mapping[str, int]:
    """Download what the folder lacks or has damaged, and return the objects of the bucket."""
    for _ in range(TRIES):
        remote = list_run(bucket)
        damaged = {path.relative_to(folder).as_posix() for path in list_parts(folder).bad}
        local = set(uploader.shared_files(folder)) - damaged
        if _fetch(bucket, folder, remote.keys() - local - uploader.replaced_parts(remote, local)):
            break
    (folder / uploader.SENT).unlink(missing_ok=True)
    return remote


def _make_private(folder: Path) -> None:
    """Make a folder that only its owner can access, and restrict it if it exists."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def _put_aside(folder: Path, url: str, say: Callable[[str], None]) -> None:
    """Remove a folder that another machine has continued; one with parts that never went up is moved aside."""
    if (folder / uploader.SENT).exists() or not any(folder.glob("episodes/*.parquet")):
        shutil.rmtree(folder)
        return
    aside = folder.with_name(f"{folder.name}-left-{time.time_ns()}")
    folder.rename(aside)
    say(f"another machine continued {url}; files that this machine did not upload are kept in {aside}")


def _fetch_view(bucket: Bucket, folder: Path, started: bool) -> None:
    """Make a reader's copy like the bucket, but for parts that it has; list again if a merge happened in between."""
    for _ in range(TRIES):
        remote = list_run(bucket)
        if started and safe_write.MARK not in remote:
            start = f"`proactive-sweep run SWEEP --output {shlex.quote(bucket.url)}` starts one"
            raise RunFolderError(f"{bucket.url} holds no run yet; {start}")
        local = {name: (folder / name).stat().st_size for name in uploader.shared_files(folder)}
        for name in local.keys() - remote.keys():
            (folder / name).unlink()
        changed = [n for n, size in remote.items() if not uploader.parse_part(n) or local.get(n) != size]
        if _fetch(bucket, folder, changed):
            break
    holder = read_holder(bucket) or {}
    identity = {name: holder[name] for name in ("host", "pid", "started") if name in holder}
    safe_write.write(folder / lock.WRITER, json.dumps(identity).encode())


def _fetch(bucket: Bucket, folder: Path, names: Collection[str]) -> bool:
    """Download objects; return False if one was deleted after it was listed."""
    if unsafe := [name for name in names if ".." in name.split("/") or name.startswith("/")]:
        raise RunFolderError(f"{bucket.url} holds an object called {unsafe[0]}, which is no file of a run folder")
    complete = True
    for name, content in _read_objects(bucket, names):
        if content is None:
            complete = False
            continue
        for parent in reversed(Path(name).parents):
            safe_write.make_folder(folder / parent)
        safe_write.write(folder / name, content)
    return complete


def _read_objects(bucket: Bucket, names: Collection[str]) -> Iterator[tuple[str, bytes | None]]:
    """Yield names and bytes; the checksums are read last, so that they cover every other object."""
    others = [name for name in names if name != checksums.NAME]
    with ThreadPoolExecutor(16) as pool:
        yield from zip(others, pool.map(bucket.read, others), strict=True)
    if len(others) < len(names):
        yield checksums.NAME, bucket.read(checksums.NAME)


@contextlib.contextmanager
def _address_errors(url: str, folder: Path) -> Iterator[None]:
    """Replace the local folder by the typed address in error messages."""
    try:
        yield
    except RunFolderError as error:
        error.args = (str(error).replace(str(folder), url),)
        raise


def _stop(reason: str) -> None:
    say(f"{reason}: this sweep stops because another driver continues it")
    os.kill(os.getpid(), signal.SIGTERM)


def list_run(bucket: Bucket) -> dict[str, int]:
    """Return the objects of a run folder and their sizes."""
    return {name: size for name, size in bucket.list_objects().items() if uploader.is_shared(name)}
