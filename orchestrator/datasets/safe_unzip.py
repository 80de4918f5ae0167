"""Extracts zip archives of untrusted origin.

An archive is checked completely before a byte is written: nothing lands outside the folder, and no bomb is unpacked.
"""

import errno
import os
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from unicodedata import normalize

from envs.samples import BadData

MAX_FILES = 5_000_000
"""Largest number of files per archive; the published set has some hundred thousand in all."""
MAX_BYTES = 1 << 39
"""Largest extracted size per archive: 512 GiB, three times the published set."""
MAX_GROWTH = 100
"""Largest ratio of extracted to packed size, for an archive or a large file; pictures have about 1, text about 10."""
SMALL = 1 << 20
"""Bytes up to which a file may grow by any factor, as a blank picture does."""
MAX_NAME, MAX_PART = 1024, 200
"""Bytes of a name, and of each part of it: file systems take 255, and a file has a longer name while it arrives."""
PREFIX = "test/"
"""A top folder that an archive may have and its files lose."""
DAMAGE = (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, RuntimeError, ValueError, zlib.error)


class BadArchive(BadData):
    """An archive that is not extracted; the message names it and the reason."""


def read_entries(content: IO[bytes], size: int, name: str) -> list[zipfile.ZipInfo]:
    """Return the files of an archive of ``size`` bytes, named without ``PREFIX``. Raises BadArchive if hostile or damaged."""
    with _archive_errors(name), zipfile.ZipFile(content) as archive:
        entries = [entry for entry in archive.infolist() if not entry.filename.endswith("/")]
    if len(entries) > MAX_FILES:
        raise BadArchive(f"{name} holds {len(entries):,} files, more than {MAX_FILES:,}")
    for entry in entries:
        entry.filename = entry.filename.removeprefix(PREFIX)
        if reason := _refusal(entry):
            raise BadArchive(f"{name}: {entry.filename[:200]!r} {reason}")
    if len({normalize("NFC", entry.filename).casefold() for entry in entries}) < len(entries):
        raise BadArchive(f"{name} holds two files whose names differ by case or form alone")
    total, packed = sum(entry.file_size for entry in entries), sum(entry.compress_size for entry in entries)
    if packed > size:
        raise BadArchive(f"{name} claims {packed:,} packed bytes but has {size:,}: files of it overlap")
    if total > MAX_BYTES or total > MAX_GROWTH * max(size, SMALL):
        raise BadArchive(f"{name} would grow from {size:,} to {total:,} bytes: that is a bomb, not a benchmark")
    return entries


def is_in_place(home: Path, entry: zipfile.ZipInfo) -> bool:
    """Return True if the file was extracted before."""
    path = home / entry.filename
    return path.is_file() and not path.is_symlink() and path.stat().st_size == entry.file_size


def unzip(path: Path, home: Path, wanted: Callable[[str], bool]) -> None:
    """Extract the files whose names are ``wanted``; one that is in place is kept, so a second call resumes the first.

    Raises BadArchive for a hostile or damaged archive (before anything is written, if its directory shows it), OSError
    for a full disk.
    """
    root = Path(os.path.realpath(home))
    with path.open("rb") as content, _archive_errors(path.name):
        entries = read_entries(content, path.stat().st_size, path.name)
        with zipfile.ZipFile(content) as archive:
            for entry in (entry for entry in entries if wanted(entry.filename)):
                target = root / entry.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                if not Path(os.path.realpath(target.parent)).is_relative_to(root):
                    raise BadArchive(f"{path.name}: {entry.filename[:200]!r} goes through a link out of {root.name}")
                if not is_in_place(root, entry):
                    _extract(archive, entry, target)


@contextmanager
def _archive_errors(name: str) -> Iterator[None]:
    """Turn the errors of a damaged archive into BadArchive."""
    try:
        yield
    except BadArchive:
        raise
    except OSError as problem:
        if problem.errno != errno.EINVAL:  # EINVAL: the directory points before the start of the file
            raise
        raise BadArchive(f"{name} is damaged: its directory points nowhere") from None
    except DAMAGE as problem:
        raise BadArchive(f"{name} is damaged: {problem}") from None


def _refusal(entry: zipfile.ZipInfo) -> str:
    """Return why a file is refused, or an empty string."""
    name, kind = entry.filename, stat.S_IFMT(entry.external_attr >> 16)
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or ":" in parts[0] or ".." in parts or "\0" in name:
        return "would land outside the folder"
    sizes = [len(part.encode("utf-8", "surrogatepass")) for part in parts]
    if "" in parts or "." in parts or sum(sizes) > MAX_NAME or max(sizes) > MAX_PART:
        return "is no file name"
    if kind not in (0, stat.S_IFREG):
        return "is a link or a device, not a file"
    if entry.flag_bits & 1:
        return "is encrypted"
    if entry.file_size > SMALL and entry.file_size > MAX_GROWTH * entry.compress_size:
        return f"would grow from {entry.compress_size:,} to {entry.file_size:,} bytes"
    return ""


def _extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path) -> None:
    partial = path.with_name(f".{path.name}.part")
    partial.unlink(missing_ok=True)
    try:
        with archive.open(entry) as packed, partial.open("xb") as out:
            shutil.copyfileobj(packed, out)  # zipfile reads no more than the checked size, and compares the sum
        if partial.stat().st_size != entry.file_size:
            raise zipfile.BadZipFile(f"{entry.filename[:200]!r} should have {entry.file_size:,} bytes")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
