"""``data fetch``: the published benchmark from the Hub, pinned, unpacked and checked; a broken fetch goes on where it stopped.

Afterwards the folder holds what the chosen scenarios need, at one commit. The archives are named by number, not by scenario:
their directories are read first, so only those with wanted pictures are fetched, and the disk is known to be large enough.
"""

from __future__ import annotations

import json
import shutil
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from envs import SCENARIOS
from envs.check import Report, check
from envs.samples import BadData, read
from orchestrator.datasets.hub import Repository
from orchestrator.datasets.remote_files import FetchError, RemoteFile, RemoteFolder, sentence
from orchestrator.datasets.safe_unzip import PROGRESS_INTERVAL_S, BadArchive, Member, members, unzip
from orchestrator.storage import atomic_write

DATASET = "tdemin16/ProactiveBench"
FOLDER = "test"
"""The folder of the data set that is the benchmark."""
RECORD = "fetched.json"
SPARE = 1 << 30
"""Bytes that stay free."""

Say = Callable[[str], None]


@dataclass
class Fetched:
    """What a folder holds already: the commit it is of, and archive -> the picture folders for which it is done with."""

    commit: str = ""
    archives: dict[str, list[str]] = field(default_factory=dict)


class Meter:
    """Prints every few seconds how much has arrived."""

    def __init__(self, say: Say) -> None:
        self.say, self.arrived, self.printed = say, 0, time.monotonic()

    def __call__(self, size: int) -> None:
        self.arrived += size
        if time.monotonic() - self.printed > PROGRESS_INTERVAL_S:
            self.printed = time.monotonic()
            self.say(f"{self.arrived / 1e9:.2f} GB arrived")


@dataclass(frozen=True)
class Archive:
    """An archive that holds wanted pictures."""

    file: RemoteFile
    wanted: tuple[Member, ...]
    strip: str
    """What to cut from the front of its names."""

    @property
    def extracted(self) -> int:
        """Bytes of the wanted files."""
        return sum(member.size for member in self.wanted)


def fetch(
    folder: Path,
    scenarios: Sequence[str],
    revision: str | None = None,
    delete_archives: bool = False,
    say: Say = print,
    dataset: str = DATASET,
) -> Report:
    """Download, extract and check; ``folder/test`` is the benchmark afterwards. ``revision`` defaults to what is there.

    Raises FetchError (the Hub, the disk), BadArchive (a hostile or damaged archive), BadData (a file that cannot be read).
    """
    unknown = [name for name in scenarios if name not in SCENARIOS]
    if unknown:
        raise FetchError(f"there is no scenario {unknown[0]!r}; {', '.join(SCENARIOS)} exist")
    record = _record(folder)
    source = Repository(dataset, revision or record.commit or "main", progress=Meter(say))
    if record.commit and record.commit != source.commit:
        raise FetchError(
            f"{folder} holds commit {record.commit}, not {source.commit}: name another folder, or leave out --revision"
        )
    record.commit = source.commit
    say(f"{dataset} at commit {source.commit}")
    files = source.files(FOLDER)
    bench = folder / FOLDER
    _lines(source, files, bench, scenarios)
    wanted = picture_folders(bench, scenarios)
    archives = _pending(source, files, record, wanted, say)
    _save(folder, record)
    _check_space(folder, archives, delete_archives, say)
    for archive in archives:
        _extracted(source, archive, bench, delete_archives, say)
        before = record.archives.get(archive.file.path, [])
        record.archives[archive.file.path] = sorted({*before, *wanted})
        _save(folder, record)
    return check(bench, scenarios)


def picture_folders(bench: Path, scenarios: Sequence[str]) -> set[str]:
    """The folders at the top of the benchmark that the scenarios' pictures lie in; no picture is a bad line's.

    Raises BadData for a file that cannot be read.
    """
    found = set()
    for name in scenarios:
        samples, problems = read(bench, name)
        if unread := [problem for problem in problems if not problem.line]:
            raise BadData(f"the downloaded {unread[0]}")
        found |= {sample.image.partition("/")[0] for sample in samples}
    return found


def _lines(source: Repository, files: Sequence[RemoteFile], bench: Path, scenarios: Sequence[str]) -> None:
    """The JSONL file of each scenario."""
    there = {file.path: file for file in files}
    for name in scenarios:
        path = f"{FOLDER}/{SCENARIOS[name].stem}_preprocessed.jsonl"
        if path not in there:
            raise FetchError(f"{source.name} at {source.commit} holds no {path}")
        source.download(there[path], bench / Path(path).name)


def _pending(
    source: Repository, files: Sequence[RemoteFile], record: Fetched, wanted: set[str], say: Say
) -> list[Archive]:
    """The archives with wanted pictures that are not extracted yet."""
    pending = []
    for file in files:
        if not file.path.endswith(".zip") or wanted <= set(record.archives.get(file.path, ())):
            continue
        found = remote_archive(source, file, wanted)
        if found.wanted:
            pending.append(found)
            say(f"{file.path}: {file.size / 1e9:.2f} GB, {len(found.wanted):,} of its files are needed")
        else:
            record.archives[file.path] = sorted({*record.archives.get(file.path, ()), *wanted})
            say(f"{file.path}: nothing in it is needed")
    return pending


def remote_archive(source: RemoteFolder, file: RemoteFile, wanted: set[str]) -> Archive:
    """What an archive holds, from its directory alone, which is a thousandth of it. Raises FetchError, BadArchive."""
    with sentence(file.path, source.who), source.opened(file) as remote:
        return archive_of(remote, file, wanted)


def archive_of(content: IO[bytes], file: RemoteFile, wanted: set[str]) -> Archive:
    """What an archive holds; raises BadArchive."""
    try:
        with zipfile.ZipFile(content) as archive:
            found = members(archive, file.size, file.path)
    except (zipfile.BadZipFile, EOFError) as problem:
        raise BadArchive(f"{file.path} is no zip archive: {problem}") from None
    strip = f"{FOLDER}/" if any(member.name.startswith(f"{FOLDER}/") for member in found) else ""
    return Archive(file, tuple(m for m in found if m.name.removeprefix(strip).partition("/")[0] in wanted), strip)


def _check_space(folder: Path, archives: Sequence[Archive], delete: bool, say: Say) -> None:
    """Raises FetchError when the disk cannot hold the archives beside what comes out of them."""
    packed = [archive.file.size for archive in archives]
    need = sum(archive.extracted for archive in archives) + (max(packed, default=0) if delete else sum(packed))
    free = shutil.disk_usage(folder).free
    if not archives:
        return
    say(f"needs {need / 1e9:.2f} GB, {free / 1e9:.2f} GB are free")
    if need + SPARE > free:
        hint = "" if delete else "; --delete-archives needs less"
        raise FetchError(f"{folder} has {free / 1e9:.1f} GB free, and {(need + SPARE) / 1e9:.1f} GB are needed{hint}")


def _extracted(source: Repository, archive: Archive, bench: Path, delete: bool, say: Say) -> None:
    names = {member.name for member in archive.wanted}
    path = source.download(archive.file, bench / Path(archive.file.path).name)
    say(f"{path.name}: extracting {len(names):,} files, {archive.extracted / 1e9:.2f} GB")
    try:
        unzip(path, bench, names.__contains__, archive.strip, say)
    except OSError as problem:
        raise FetchError(f"{path.name} could not be extracted: {problem}; the same command goes on") from None
    if delete:
        path.unlink()


def _record(folder: Path) -> Fetched:
    """What an earlier fetch wrote down; nothing where it cannot be read."""
    try:
        found: Any = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        archives = {str(k): [str(name) for name in v] for k, v in found["archives"].items()}
        return Fetched(str(found["commit"]), archives)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Fetched()


def _save(folder: Path, record: Fetched) -> None:
    content = {"dataset": DATASET, "commit": record.commit, "archives": record.archives}
    atomic_write.write(folder / RECORD, (json.dumps(content, indent=2) + "\n").encode())
