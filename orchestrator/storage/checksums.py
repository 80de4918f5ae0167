"""SHA-256 sums of the stored parts, noted when they are written.

A part whose bytes have another sum is damaged, however well it reads. ``sums.sha256`` in the run folder has a line a
file, as ``sha256sum`` writes and checks them (``cd RUN && sha256sum -c --ignore-missing sums.sha256``). A part
without a line, of an earlier version or a copied folder, is checked by its form alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import file_digest
from pathlib import Path

from orchestrator.storage.atomic_write import temporary

NAME = "sums.sha256"
LINE = re.compile(r"([0-9a-f]{64})  (\w+/part-[0-9-]+\.parquet)")

Sums = Mapping[str, set[str]]
"""``episodes/part-00000001.parquet`` -> what its bytes may be; two while a part is being replaced."""


def note(folder: Path, parts: Iterable[Path]) -> None:
    """Note the sums of parts that are about to get their names; on the disk before they have them. Raises OSError."""
    lines = "".join(f"{_sum(temporary(path))}  {path.parent.name}/{path.name}\n" for path in parts)
    with (folder / NAME).open("a", encoding="ascii") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())


def read(folder: Path) -> Sums:
    """The sums that were noted; torn and foreign lines are skipped."""
    found: dict[str, set[str]] = {}
    try:
        text = (folder / NAME).read_text(encoding="ascii", errors="replace")
    except OSError:
        return found
    for match in map(LINE.fullmatch, text.splitlines()):
        if match:
            found.setdefault(match[2], set()).add(match[1])
    return found


def agrees(path: Path, sums: Sums) -> bool:
    """Whether a part's bytes are those that were written, as far as that is known."""
    known = sums.get(f"{path.parent.name}/{path.name}")
    return known is None or _sum_of(path, (status := path.stat()).st_mtime_ns, status.st_size, status.st_ino) in known


@lru_cache(maxsize=4096)
def _sum_of(path: Path, *_state: int) -> str:
    """The sum of a file in this state: a process that reads a folder again and again hashes each part once."""
    return _sum(path)


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
