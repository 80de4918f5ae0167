"""Extracts zip archives of untrusted origin.

An archive is checked completely before a byte is written: nothing lands outside the folder, and no bomb is unpacked.
"""

import errno
import os
import shutil
import stat
import time
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from envs.samples import BadData

MAX_FILES = 5_000_000
"""Largest number of files per archive; the published set has some hundred thousand in all."""
MAX_BYTES = 1 << 39
"""Largest extracted size per archive: 512 GiB, three times the published set."""
MAX_GROWTH = 100
"""Largest ratio of extracted to packed size, for an archive or a large file; pictures have about 1, text about 10."""
SMALL = 1 << 20
"""Bytes up to which a file may grow by any factor, as a blank picture does."""
MAX_NAME = 1024
PROGRESS_INTERVAL_S = 5.0
"""Seconds between two lines about progress."""


class BadArchive(BadData):
    """An archive that is not extracted; the message names it and the reason."""


@dataclass(frozen=True, slots=True)
class Member:
    """A checked file of an archive."""

    name: str
    size: int


def check_members(archive: zipfile.ZipFile, size: int, name: str) -> list[Member]:
    """Return the files of an archive of ``size`` bytes. Raises BadArchive for a hostile or damaged archive."""
    entries = [entry for entry in archive.infolist() if not entry.filename.endswith("/")]
    if len(entries) > MAX_FILES:
        raise BadArchive(f"{name} holds {len(entries):,} files, more than {MAX_FILES:,}")
    for entry in entries:
        if reason := _refusal(entry):
            raise BadArchive(f"{name}: {entry.filename[:200]!r} {reason}")
    total, packed = sum(entry.file_size for entry in entries), sum(entry.compress_size for entry in entries)
    if packed > size:
        raise BadArchive(f"{name} claims {packed:,} packed bytes but has {size:,}: files of it overlap")
    if total > MAX_BYTES or total > MAX_GROWTH * max(size, SMALL):
        raise BadArchive(f"{name} would grow from {size:,} to {total:,} bytes: that is a bomb, not a benchmark")
    _check_names([entry.filename for entry in entries], name)
    return [Member(entry.filename, entry.file_size) for entry in entries]


def unzip(path: Path, target: Path, wanted: Callable[[str], bool], say: Callable[[str], None] = print) -> int:
    """Extract the files whose names are ``wanted``; return their size in bytes.

    An existing file of the right size is kept, so a second call resumes the first.
    Raises BadArchive for a hostile or damaged archive (before anything is written, if its directory shows it), OSError
    for a full disk.
    """
    root = Path(os.path.realpath(target))
    try:
        with zipfile.ZipFile(path) as archive:
            chosen = [
                member for member in check_members(archive, path.stat().st_size, path.name) if wanted(member.name)
            ]
            printed = time.monotonic()
            for number, member in enumerate(chosen):
                _extract(archive, member, _target_path(root, member.name, path.name), path.name)
                if time.monotonic() - printed > PROGRESS_INTERVAL_S:
                    printed = time.monotonic()
                    say(f"{path.name}: {number + 1:,} of {len(chosen):,} files extracted")
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, RuntimeError) as problem:
        raise BadArchive(f"{path.name} is damaged: {problem}") from None
    except BadArchive:
        raise
    except OSError as problem:
        if problem.errno != errno.EINVAL:  # EINVAL: the directory points before the start of the file
            raise
        raise BadArchive(f"{path.name} is damaged: its directory points nowhere") from None
    except (ValueError, zlib.error) as problem:
        raise BadArchive(f"{path.name} is damaged: {problem}") from None
    return sum(member.size for member in chosen)


def _refusal(entry: zipfile.ZipInfo) -> str:
    """Return why a member is refused, or an empty string."""
    name, kind = entry.filename, stat.S_IFMT(entry.external_attr >> 16)
    parts = PurePosixPath(name).parts
    if name.startswith("/") or "\\" in name or ":" in name.split("/")[0] or ".." in parts or "\0" in name:
        return "would land outside the folder"
    if not parts or len(name) > MAX_NAME or "" in name.split("/") or "." in name.split("/"):
        return "is no file name"
    if kind not in (0, stat.S_IFREG):
        return "is a link or a device, not a file"
    if entry.flag_bits & 1:
        return "is encrypted"
    if entry.file_size > SMALL and entry.file_size > MAX_GROWTH * entry.compress_size:
        return f"would grow from {entry.compress_size:,} to {entry.file_size:,} bytes"
    return ""


def _check_names(names: Sequence[str], archive: str) -> None:
    """Raise BadArchive for a duplicate name, or a name that is both a file and a folder."""
    files = set(names)
    if len(files) < len(names):
        raise BadArchive(f"{archive} holds a file twice")
    parents = {PurePosixPath(name).parent for name in names}
    folders = {str(folder) for parent in parents for folder in (parent, *parent.parents)}
    if conflicts := files & folders:
        raise BadArchive(f"{archive}: {min(conflicts)[:200]!r} is a file and a folder")


def _target_path(root: Path, name: str, archive: str) -> Path:
    """Return a member's target path. Raises BadArchive if an existing link leads out of the folder."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not Path(os.path.realpath(path.parent)).is_relative_to(root):
        raise BadArchive(f"{archive}: {name[:200]!r} would go through a link out of {root.name}")
    return path


def _extract(archive: zipfile.ZipFile, member: Member, path: Path, name: str) -> None:
    if path.is_file() and not path.is_symlink() and path.stat().st_size == member.size:
        return
    partial = path.with_name(f".{path.name}.part")
    partial.unlink(missing_ok=True)
    with archive.open(member.name) as packed, partial.open("xb") as out:
        shutil.copyfileobj(packed, out)  # zipfile reads no more than the size that was checked
        written = out.tell()
    if written != member.size:
        partial.unlink()
        raise BadArchive(f"{name} is damaged: {member.name[:200]!r} should have {member.size:,} bytes, not {written:,}")
    partial.replace(path)
