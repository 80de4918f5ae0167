"""Extracts zip archives of unknown origin.

An archive is checked whole before a byte of it is written: nothing lands outside the folder, and no bomb is unpacked.
"""

from __future__ import annotations

import errno
import os
import stat
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from envs.samples import BadData

MOST_FILES = 5_000_000
"""Files of one archive; the published set has some hundred thousand in all."""
MOST_BYTES = 1 << 39
"""Bytes that one archive may grow to: 512 GiB, three times the published set."""
MOST_GROWTH = 100
"""How many times its size an archive or a large file may grow; pictures grow hardly at all, text about tenfold."""
SMALL = 1 << 20
"""Files below a megabyte may grow as they like: an empty picture does."""
LONGEST_NAME = 1024
CHUNK = 1 << 20
PROGRESS_INTERVAL_S = 5.0
"""Seconds between two lines about progress."""


class BadArchive(BadData):
    """Why an archive is not extracted; the message names it."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive that has been checked."""

    name: str
    size: int


def members(archive: zipfile.ZipFile, size: int, name: str) -> list[Member]:
    """The files of an archive of ``size`` bytes; raises BadArchive for one that no benchmark would hold."""
    infos = [info for info in archive.infolist() if not info.is_dir()]
    if len(infos) > MOST_FILES:
        raise BadArchive(f"{name} holds {len(infos):,} files, more than {MOST_FILES:,}")
    for info in infos:
        if reason := _refusal(info):
            raise BadArchive(f"{name}: {info.filename[:200]!r} {reason}")
    total, packed = sum(info.file_size for info in infos), sum(info.compress_size for info in infos)
    if packed > size:
        raise BadArchive(f"{name} claims {packed:,} packed bytes but has {size:,}: files of it overlap")
    if total > MOST_BYTES or total > MOST_GROWTH * max(size, SMALL):
        raise BadArchive(f"{name} would grow from {size:,} to {total:,} bytes: that is a bomb, not a benchmark")
    _check_names([info.filename for info in infos], name)
    return [Member(info.filename, info.file_size) for info in infos]


def unzip(
    path: Path, target: Path, wanted: Callable[[str], bool], strip: str = "", say: Callable[[str], None] = print
) -> int:
    """Extract the files whose names are wanted, less the prefix ``strip``; returns how many bytes they have.

    A file that is there with the right size is left alone, so a second call goes on where the first stopped.
    Raises BadArchive for a hostile or damaged archive (before anything is written, where its directory shows it), OSError
    for a full disk.
    """
    root = Path(os.path.realpath(target))
    try:
        with zipfile.ZipFile(path) as archive:
            chosen = [member for member in members(archive, path.stat().st_size, path.name) if wanted(member.name)]
            printed = time.monotonic()
            for number, member in enumerate(chosen):
                _extract(archive, member, _place(root, member.name.removeprefix(strip), path.name), path.name)
                if time.monotonic() - printed > PROGRESS_INTERVAL_S:
                    printed = time.monotonic()
                    say(f"{path.name}: {number + 1:,} of {len(chosen):,} files extracted")
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, RuntimeError) as problem:
        raise BadArchive(f"{path.name} is damaged: {problem}") from None
    except BadArchive:
        raise
    except OSError as problem:
        if problem.errno != errno.EINVAL:  # a directory that points before the file's start
            raise
        raise BadArchive(f"{path.name} is damaged: its directory points nowhere") from None
    except (ValueError, zlib.error) as problem:
        raise BadArchive(f"{path.name} is damaged: {problem}") from None
    return sum(member.size for member in chosen)


def _refusal(info: zipfile.ZipInfo) -> str:
    """Why a member is refused, or an empty string."""
    name, kind = info.filename, stat.S_IFMT(info.external_attr >> 16)
    parts = PurePosixPath(name).parts
    if name.startswith("/") or "\\" in name or ":" in name.split("/")[0] or ".." in parts or "\0" in name:
        return "would land outside the folder"
    if not parts or len(name) > LONGEST_NAME or "" in name.split("/") or "." in name.split("/"):
        return "is no file name"
    if kind not in (0, stat.S_IFREG):
        return "is a link or a device, not a file"
    if info.flag_bits & 1:
        return "is encrypted"
    if info.file_size > SMALL and info.file_size > MOST_GROWTH * info.compress_size:
        return f"would grow from {info.compress_size:,} to {info.file_size:,} bytes"
    return ""


def _check_names(names: Sequence[str], archive: str) -> None:
    """No name twice, and no file where another needs a folder; raises BadArchive."""
    files = set(names)
    if len(files) < len(names):
        raise BadArchive(f"{archive} holds a file twice")
    for name in _folders(names):
        if name in files:
            raise BadArchive(f"{archive}: {name[:200]!r} is a file and a folder")


def _folders(names: Iterable[str]) -> set[str]:
    near = {name.rpartition("/")[0] for name in names}
    return {str(folder) for name in near for folder in (PurePosixPath(name), *PurePosixPath(name).parents)} - {"."}


def _place(root: Path, name: str, archive: str) -> Path:
    """Where a member goes; raises BadArchive when a link that was there before leads out of the folder."""
    place = root / name
    place.parent.mkdir(parents=True, exist_ok=True)
    if not Path(os.path.realpath(place.parent)).is_relative_to(root):
        raise BadArchive(f"{archive}: {name[:200]!r} would go through a link out of {root.name}")
    return place


def _extract(archive: zipfile.ZipFile, member: Member, place: Path, name: str) -> None:
    if place.is_file() and not place.is_symlink() and place.stat().st_size == member.size:
        return
    partial = place.with_name(f".{place.name}.part")
    partial.unlink(missing_ok=True)
    written = 0
    with archive.open(member.name) as packed, partial.open("xb") as out:
        while chunk := packed.read(CHUNK):
            written += len(chunk)
            if written > member.size:
                break
            out.write(chunk)
    if written != member.size:
        partial.unlink()
        raise BadArchive(f"{name} is damaged: {member.name[:200]!r} should have {member.size:,} bytes, not {written:,}")
    partial.replace(place)
