"""Stages data by address on this machine's disk: a cache that any number of processes may share.

A scenario counts as staged only once all its pictures lie under their names: its mark is written last, under the lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from envs import SCENARIOS
from orchestrator.datasets.download import SPARE, Archive, Meter, archive_of, picture_folders, remote_archive
from orchestrator.datasets.remote_files import FetchError, RemoteFile, RemoteFolder
from orchestrator.datasets.safe_unzip import BadArchive, Member, unzip
from orchestrator.datasets.sources import Address, address, pinned, source
from orchestrator.object_store.bucket import CACHE
from sweeps.spec import Sweep

Say = Callable[[str], None]
ARRIVING = ".arriving"
"""Where archives lie and are unpacked until all that is needed of them can be moved to its place."""
LOCK = ".lock"


def fixed(sweep: Sweep) -> Sweep:
    """The sweep with its data pinned to the commit that they have now; a folder stays as it is. Raises FetchError."""
    place = address(sweep.data)
    return sweep if place is None else sweep.model_copy(update={"data": str(pinned(place))})


def nearby(sweep: Sweep) -> Path:
    """Where the data are on this machine if they are, without asking anybody."""
    place = address(sweep.data)
    return Path(sweep.data) if place is None else _home(place, sweep.staging.cache)


def local(sweep: Sweep) -> Path:
    """A folder of this machine with the JSONL files of the sweep's scenarios, fetched if they are not there yet; of all
    scenarios that the address has, where random-proactive draws from them.

    Pictures lie beside them only where this machine was a node that needed them. Raises FetchError.
    """
    place = address(sweep.data)
    if place is None:
        return Path(sweep.data)
    place = pinned(place)
    home = _home(place, sweep.staging.cache)
    needed = list(SCENARIOS) if sweep.draws_suggestions else sweep.scenarios
    if not all((home / _lines(name)).is_file() for name in needed):
        with _disk(home), _locked(home, lambda line: None):
            remote = source(place, lambda size: None)
            files = remote.files(place.folder or None)
            there = {_inside(file, place) for file in files}
            wanted = [name for name in needed if name in sweep.scenarios or _lines(name) in there]
            _fetched_lines(remote, files, place, home, wanted)
    return home


def stage(data: str, scenarios: Sequence[str], cache: str, say: Say) -> Path:
    """Fetch what the scenarios need to this machine; returns the benchmark folder.

    A broken call goes on where it stopped. Raises FetchError (network, disk), BadArchive (damaged or hostile), BadData
    (a file that cannot be read).
    """
    place = address(data)
    assert place is not None, "a folder needs no staging"
    place = pinned(place)
    home = _home(place, cache)
    with _disk(home), _locked(home, say):
        pending = [name for name in scenarios if not _mark(home, name).exists()]
        if not pending:
            say(f"{place} is staged already")
            return home
        say(f"staging {', '.join(pending)} of {place}")
        _fetch(place, home, pending, say)
        shutil.rmtree(home / ARRIVING, ignore_errors=True)
        for name in pending:
            _mark(home, name).touch()
        say(f"staged {', '.join(pending)}")
    return home


def _fetch(place: Address, home: Path, scenarios: Sequence[str], say: Say) -> None:
    remote = source(place, Meter(say))
    files = remote.files(place.folder or None)
    _fetched_lines(remote, files, place, home, scenarios)
    wanted = picture_folders(home, scenarios)
    loose = [file for file in files if _inside(file, place).partition("/")[0] in wanted and "/" in _inside(file, place)]
    archives = list(_needed(remote, files, wanted, home))
    _check_space(home, archives, loose, say)
    for file in loose:
        remote.download(file, home / _safe(_inside(file, place)))
    for archive in archives:
        _unpack(remote, archive, home, say)
    if missing := sorted(top for top in wanted if not (home / top).is_dir()):
        raise FetchError(f"{place} holds no pictures of {', '.join(missing)}")


def _fetched_lines(
    remote: RemoteFolder, files: Sequence[RemoteFile], place: Address, home: Path, scenarios: Sequence[str]
) -> None:
    there = {_inside(file, place): file for file in files}
    for name in scenarios:
        if _lines(name) not in there:
            raise FetchError(f"{place} holds no {_lines(name)}")
        remote.download(there[_lines(name)], home / _lines(name))


def _needed(remote: RemoteFolder, files: Sequence[RemoteFile], wanted: set[str], home: Path) -> Iterator[Archive]:
    """The archives with wanted pictures; one whose server sends no parts of files is fetched to be looked into."""
    for file in files:
        if not file.path.endswith(".zip"):
            continue
        try:
            found = remote_archive(remote, file, wanted)
        except FetchError:
            _check_space(home, [Archive(file, (), "")], [], lambda line: None)
            path = remote.download(file, _arriving(home, file))
            try:
                with path.open("rb") as content:
                    found = archive_of(content, file, wanted)
            except BadArchive:
                path.unlink()
                raise
        pending = tuple(member for member in found.wanted if not _there(home, found.strip, member))
        if pending:
            yield replace(found, wanted=pending)
        else:
            _arriving(home, file).unlink(missing_ok=True)


def _there(home: Path, strip: str, member: Member) -> bool:
    """Whether an earlier call has put a file in its place."""
    place = home / member.name.removeprefix(strip)
    return place.is_file() and place.stat().st_size == member.size


def _check_space(home: Path, archives: Sequence[Archive], loose: Sequence[RemoteFile], say: Say) -> None:
    """Raises FetchError where the disk cannot hold what comes beside its largest archive."""
    packed = max((archive.file.size for archive in archives), default=0)
    need = sum(archive.extracted for archive in archives) + packed + sum(file.size for file in loose)
    free = shutil.disk_usage(home).free
    say(f"needs {need / 1e9:.2f} GB, {free / 1e9:.2f} GB are free")
    if need + SPARE > free:
        raise FetchError(
            f"{home} has {free / 1e9:.1f} GB free, and {(need + SPARE) / 1e9:.1f} GB are needed; name a larger disk in "
            f"[staging] cache, or in {CACHE} on that node"
        )


def _unpack(remote: RemoteFolder, archive: Archive, home: Path, say: Say) -> None:
    """Fetch an archive, unpack it aside, and move its files to their places once all are good; it goes afterwards."""
    names = {member.name for member in archive.wanted}
    path = remote.download(archive.file, _arriving(home, archive.file))
    aside = path.with_suffix(".files")
    say(f"{path.name}: extracting {len(names):,} files, {archive.extracted / 1e9:.2f} GB")
    try:
        unzip(path, aside, names.__contains__, archive.strip, say)
    except BadArchive as problem:
        shutil.rmtree(aside, ignore_errors=True)
        path.unlink(missing_ok=True)
        raise BadArchive(f"{problem}; it was removed, and the same command fetches it again") from None
    for member in archive.wanted:
        name = member.name.removeprefix(archive.strip)
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (aside / name).replace(home / name)
    path.unlink()
    shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _locked(home: Path, say: Say) -> Iterator[None]:
    """Be the only one who stages here; waits for whoever is at it (a dead one's lock is gone with it)."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{home}: another process stages here; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _disk(home: Path) -> Iterator[None]:
    """Turn what a disk says into one sentence."""
    try:
        yield
    except OSError as problem:
        raise FetchError(f"{home} cannot be written: {problem.strerror or problem}; the same command goes on") from None


def _home(place: Address, cache: str) -> Path:
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "proactive-sweep"
    root = Path(cache or os.environ.get(CACHE) or user).expanduser()
    return (root / "data" / blake2b(str(place).encode(), digest_size=8).hexdigest()).absolute()


def _mark(home: Path, scenario: str) -> Path:
    return home / f"{scenario}.complete"


def _lines(scenario: str) -> str:
    return f"{SCENARIOS[scenario].stem}_preprocessed.jsonl"


def _arriving(home: Path, file: RemoteFile) -> Path:
    return home / ARRIVING / Path(file.path).name


def _inside(file: RemoteFile, place: Address) -> str:
    return file.path.removeprefix(f"{place.folder}/") if place.folder else file.path


def _safe(name: str) -> str:
    """A name from a listing; raises FetchError for one that would lead out of the folder."""
    if name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise FetchError(f"the listing names {name[:200]!r}, which would land outside the folder")
    return name
