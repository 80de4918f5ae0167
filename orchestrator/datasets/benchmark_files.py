"""Brings the lines and pictures of scenarios from a remote folder into a local one; a second call resumes the first.

The archives are named by number, not by scenario. Their directories are read first, so that only archives with needed
pictures are downloaded and free disk space is checked in advance.
"""

import shutil
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from envs.samples import BadData, lines_file, read_samples
from orchestrator.datasets.safe_unzip import BadArchive, is_in_place, read_entries, unzip
from orchestrator.datasets.sources import ARRIVING, FetchError, RemoteFolder, fetch_errors

SPARE = 1 << 30
"""Bytes of the disk that must stay free."""

Say = Callable[[str], None]


def bring_lines(source: RemoteFolder, scenarios: Sequence[str]) -> None:
    """Download the JSONL file of each scenario. Raises FetchError if the remote folder lacks one."""
    for target in (lines_file(source.home, name) for name in scenarios):
        if target.name not in source.files:
            raise FetchError(f"{source.address} holds no {target.name}")
        source.download(target.name, target)


def bring_scenarios(source: RemoteFolder, scenarios: Sequence[str], say: Say, hint: str = "") -> None:
    """Download the lines and pictures of scenarios and unpack them, one archive at a time; ``hint`` says what needs less disk.

    Raises FetchError (network, disk), BadArchive (damaged or hostile), BadData (a file that cannot be read).
    """
    files, home = source.files, source.home
    bring_lines(source, scenarios)
    folders = _picture_folders(home, scenarios)
    loose = [name for name in files if "/" in name and name.partition("/")[0] in folders]
    if outside := [name for name in loose if ".." in name.split("/") or "\0" in name]:
        raise FetchError(f"the listing names {outside[0][:200]!r}, which would land outside the folder")
    archives = _needed_archives(source, folders, say)
    extracted = sum(sum(wanted.values()) for wanted in archives.values()) + sum(files[name] for name in loose)
    if archives or loose:
        _require_space(home, extracted + max((files[name] for name in archives), default=0), hint, say)
    for name in loose:
        source.download(name, home / name)
    for name, wanted in archives.items():
        path = source.download(name, home / ARRIVING / name)
        say(f"{name}: extracting {len(wanted):,} files, {sum(wanted.values()) / 1e9:.2f} GB")
        _unpack(path, home, wanted)
    shutil.rmtree(home / ARRIVING, ignore_errors=True)
    if missing := sorted(top for top in folders if not (home / top).is_dir()):
        raise FetchError(f"{source.address} holds no pictures of {', '.join(missing)}")


def _picture_folders(home: Path, scenarios: Sequence[str]) -> set[str]:
    """Return the top folders of the scenarios' pictures, ignoring bad lines. Raises BadData for an unreadable file."""
    folders = set()
    for name in scenarios:
        samples, problems = read_samples(home, name)
        if unread := [problem for problem in problems if not problem.line]:
            raise BadData(f"the downloaded {unread[0]}")
        folders |= {sample.image.partition("/")[0] for sample in samples}
    return folders


def _require_space(folder: Path, need: int, hint: str, say: Say) -> None:
    """Print needed and free bytes; raise FetchError with this hint if the folder's disk is too small."""
    free = shutil.disk_usage(folder).free
    say(f"needs {need / 1e9:.2f} GB, {free / 1e9:.2f} GB are free")
    if need + SPARE > free:
        raise FetchError(f"{folder} has {free / 1e9:.1f} GB free, and {(need + SPARE) / 1e9:.1f} GB are needed{hint}")


def _needed_archives(source: RemoteFolder, folders: Collection[str], say: Say) -> dict[str, dict[str, int]]:
    """Return the archives with needed pictures that are not in place -> names and sizes of these."""
    archives, files = {}, source.files
    for name in (name for name in files if name.endswith(".zip") and "/" not in name):
        where, path = f"{source.address}/{name}", f"{source.root}/{name}"
        with fetch_errors(where), source.fs.open(path, "rb", block_size=1 << 20) as remote:
            entries = read_entries(remote, files[name], name)
        wanted = {
            entry.filename: entry.file_size
            for entry in entries
            if entry.filename.partition("/")[0] in folders and not is_in_place(source.home, entry)
        }
        if wanted:
            say(f"{name}: {files[name] / 1e9:.2f} GB, {len(wanted):,} of its files are needed")
            archives[name] = wanted
    return archives


def _unpack(path: Path, home: Path, wanted: Collection[str]) -> None:
    """Unpack what is needed of an archive, and remove it."""
    try:
        unzip(path, home, wanted.__contains__)
    except BadArchive as problem:
        shutil.rmtree(home / ARRIVING, ignore_errors=True)
        path.unlink(missing_ok=True)
        raise BadArchive(f"{problem}; it was removed, and the same command fetches it again") from None
    except OSError as problem:
        raise FetchError(f"{path.name} could not be extracted: {problem}; rerun the same command to resume") from None
    path.unlink()
