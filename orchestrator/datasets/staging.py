"""Stages remote data on this machine's disk, in a cache that any number of processes may share.

A scenario counts as staged only when all its pictures are in place: its mark is written last, under the lock.
"""

import fcntl
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from envs import SCENARIOS
from envs.samples import lines_file
from orchestrator.datasets.download import (
    Archive,
    Meter,
    Say,
    download_lines,
    picture_folders,
    read_archive,
    read_remote_archive,
    require_space,
)
from orchestrator.datasets.remote_files import FetchError, RemoteFile, RemoteFolder
from orchestrator.datasets.safe_unzip import BadArchive, Member, unzip
from orchestrator.datasets.sources import Address, open_source, parse_address, pin
from orchestrator.object_store.bucket import CACHE, cache_root
from sweeps.spec import Sweep

ARRIVING = ".arriving"
"""Subfolder in which archives are unpacked before their files are moved into place."""
LOCK = ".lock"


def pin_data(sweep: Sweep) -> Sweep:
    """Return the sweep with its data pinned to their current commit; a folder is unchanged. Raises FetchError."""
    address = parse_address(sweep.data)
    return sweep if address is None else sweep.model_copy(update={"data": str(pin(address))})


def data_folder(sweep: Sweep) -> Path:
    """Return the local folder of the data, which may be absent, without network access."""
    address = parse_address(sweep.data)
    return Path(sweep.data) if address is None else _cache_home(address, sweep.staging.cache)


def has_lines(sweep: Sweep, pictures: bool = False) -> bool:
    """Return True if ``fetch_lines`` needs no network; with ``pictures``, only if ``stage`` needs none on this machine, too."""
    address = parse_address(sweep.data)
    if address is None:
        return True
    home = _cache_home(address, sweep.staging.cache)
    lines = address.fixed and all(lines_file(home, name).is_file() for name in _needed_lines(sweep))
    return lines and (not pictures or all(_completion_mark(home, name).exists() for name in sweep.scenarios))


def fetch_lines(sweep: Sweep) -> Path:
    """Return a local folder with the JSONL files of the sweep's scenarios, downloading missing ones.

    Random-proactive needs the lines of all scenarios. The folder has pictures only if they were staged on this machine.
    Raises FetchError.
    """
    address = parse_address(sweep.data)
    if address is None:
        return Path(sweep.data)
    address = pin(address)
    home = _cache_home(address, sweep.staging.cache)
    needed = _needed_lines(sweep)
    if not all(lines_file(home, name).is_file() for name in needed):
        with _disk_errors(home), _stage_lock(home, lambda line: None):
            remote = open_source(address, lambda size: None)
            files = remote.files(address.folder or None)
            by_name = {_relative_path(file, address): file for file in files}
            wanted = [name for name in needed if name in sweep.scenarios or lines_file(home, name).name in by_name]
            download_lines(remote, by_name, home, wanted, f"{address} holds no ")
    return home


def _needed_lines(sweep: Sweep) -> Sequence[str]:
    """Return the scenarios whose lines a sweep needs."""
    return list(SCENARIOS) if sweep.draws_suggestions else sweep.scenarios


def stage(data: str, scenarios: Sequence[str], cache: str, say: Say) -> Path:
    """Download the data of the scenarios and return the benchmark folder.

    A second call resumes a broken one. Raises FetchError (network, disk), BadArchive (damaged or hostile), BadData
    (a file that cannot be read).
    """
    address = parse_address(data)
    assert address is not None, "a folder needs no staging"
    address = pin(address)
    home = _cache_home(address, cache)
    with _disk_errors(home), _stage_lock(home, say):
        pending = [name for name in scenarios if not _completion_mark(home, name).exists()]
        if not pending:
            say(f"{address} is staged already")
            return home
        say(f"staging {', '.join(pending)} of {address}")
        _fetch(address, home, pending, say)
        shutil.rmtree(home / ARRIVING, ignore_errors=True)
        for name in pending:
            _completion_mark(home, name).touch()
        say(f"staged {', '.join(pending)}")
    return home


def _fetch(address: Address, home: Path, scenarios: Sequence[str], say: Say) -> None:
    remote = open_source(address, Meter(say))
    files = remote.files(address.folder or None)
    by_name = {_relative_path(file, address): file for file in files}
    download_lines(remote, by_name, home, scenarios, f"{address} holds no ")
    wanted = picture_folders(home, scenarios)
    loose = [file for path, file in by_name.items() if "/" in path and path.partition("/")[0] in wanted]
    archives = list(_needed(remote, files, wanted, home))
    _check_space(home, archives, loose, say)
    for file in loose:
        remote.download(file, home / _check_name(_relative_path(file, address)))
    for archive in archives:
        _unpack(remote, archive, home, say)
    if missing := sorted(top for top in wanted if not (home / top).is_dir()):
        raise FetchError(f"{address} holds no pictures of {', '.join(missing)}")


def _needed(remote: RemoteFolder, files: Sequence[RemoteFile], wanted: set[str], home: Path) -> Iterator[Archive]:
    """Yield the archives with needed pictures; if the server sends no ranges, archives are downloaded to be inspected."""
    for file in files:
        if not file.path.endswith(".zip"):
            continue
        try:
            archive = read_remote_archive(remote, file, wanted)
        except FetchError:
            _check_space(home, [Archive(file, (), "")], [], lambda line: None)
            path = remote.download(file, _arrival_path(home, file))
            try:
                with path.open("rb") as content:
                    archive = read_archive(content, file, wanted)
            except BadArchive:
                path.unlink()
                raise
        pending = tuple(member for member in archive.wanted if not _is_unpacked(home, archive.strip, member))
        if pending:
            yield replace(archive, wanted=pending)
        else:
            _arrival_path(home, file).unlink(missing_ok=True)


def _is_unpacked(home: Path, strip: str, member: Member) -> bool:
    """Return True if an earlier call unpacked this file."""
    path = home / member.name.removeprefix(strip)
    return path.is_file() and path.stat().st_size == member.size


def _check_space(home: Path, archives: Sequence[Archive], loose: Sequence[RemoteFile], say: Say) -> None:
    """Raise FetchError if the disk cannot hold all pictures and the largest archive."""
    packed = max((archive.file.size for archive in archives), default=0)
    need = sum(archive.extracted_size for archive in archives) + packed + sum(file.size for file in loose)
    require_space(home, need, f"; name a larger disk in [staging] cache, or in {CACHE} on that node", say)


def _unpack(remote: RemoteFolder, archive: Archive, home: Path, say: Say) -> None:
    """Download an archive, unpack it, move its files into place when all are good, and delete it."""
    names = {member.name for member in archive.wanted}
    path = remote.download(archive.file, _arrival_path(home, archive.file))
    unpacked = path.with_suffix(".files")
    say(f"{path.name}: extracting {len(names):,} files, {archive.extracted_size / 1e9:.2f} GB")
    try:
        unzip(path, unpacked, names.__contains__, archive.strip, say)
    except BadArchive as problem:
        shutil.rmtree(unpacked, ignore_errors=True)
        path.unlink(missing_ok=True)
        raise BadArchive(f"{problem}; it was removed, and the same command fetches it again") from None
    for member in archive.wanted:
        name = member.name.removeprefix(archive.strip)
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (unpacked / name).replace(home / name)
    path.unlink()
    shutil.rmtree(unpacked, ignore_errors=True)


@contextmanager
def _stage_lock(home: Path, say: Say) -> Iterator[None]:
    """Hold the staging lock, waiting for other processes."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{home}: another process stages here; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _disk_errors(home: Path) -> Iterator[None]:
    """Turn disk errors into FetchError."""
    try:
        yield
    except OSError as problem:
        raise FetchError(
            f"{home} cannot be written: {problem.strerror or problem}; rerun the same command to resume"
        ) from None


def _cache_home(address: Address, cache: str) -> Path:
    return (cache_root(cache) / "data" / blake2b(str(address).encode(), digest_size=8).hexdigest()).absolute()


def _completion_mark(home: Path, scenario: str) -> Path:
    return home / f"{scenario}.complete"


def _arrival_path(home: Path, file: RemoteFile) -> Path:
    return home / ARRIVING / Path(file.path).name


def _relative_path(file: RemoteFile, address: Address) -> str:
    return file.path.removeprefix(f"{address.folder}/") if address.folder else file.path


def _check_name(name: str) -> str:
    """Return a listed name. Raises FetchError if it leads out of the folder."""
    if name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise FetchError(f"the listing names {name[:200]!r}, which would land outside the folder")
    return name
