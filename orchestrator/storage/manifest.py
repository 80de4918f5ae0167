"""The manifest of a run folder (``sums.sha256``): which files are damaged, missing or not listed.

Every part, and every file that a figure or the next run depends on, has a line. A folder of an earlier version has no
``checksums.COMPLETE`` line, and its missing parts cannot be told from merged ones.
"""

import logging
from pathlib import Path
from typing import NamedTuple

from orchestrator.storage import checksums, lock, safe_write
from orchestrator.storage.part_files import damaged_parts, missing_files, part_names
from orchestrator.storage.verdict_store import damaged_verdicts

log = logging.getLogger(__name__)

DAMAGED = "is damaged or was edited; rerun the same `run` command to rewrite it or to replay its episodes"
MISSING = "is missing; rerun the same `run` command to rewrite it or to replay its episodes"
UNLISTED = (
    "is not listed in sums.sha256, which names every file of this run; delete it if you do not know where it comes from"
)
NO_SUMS = "is missing or empty, so damage to other files cannot be detected; delete the folder unless it came without this file"


class Fault(NamedTuple):
    """A file or table of a run folder that is not as its run left it."""

    name: str
    problem: str
    """``DAMAGED``, ``MISSING``, ``UNLISTED`` or ``NO_SUMS``."""

    def __str__(self) -> str:
        return f"{self.name} {self.problem}"


def find_faults(folder: Path) -> list[Fault]:
    """Return the faults of a run folder, sorted by name. While a driver writes, only damaged files are reported."""
    damaged = checksums.damaged_files(folder)
    damaged += [path.relative_to(folder).as_posix() for path in (*damaged_parts(folder), *damaged_verdicts(folder))]
    faults = {name: Fault(name, DAMAGED) for name in damaged}
    if lock.holder(folder) is None:
        for name in missing_files(folder):
            faults.setdefault(name, Fault(name, MISSING))
        faults |= {name: Fault(name, UNLISTED) for name in _unlisted(folder)}
        if not checksums.read_sums(folder) and part_names(folder):
            faults[checksums.NAME] = Fault(checksums.NAME, NO_SUMS)
    return [faults[name] for name in sorted(faults)]


def put_aside_unmended(folder: Path) -> list[str]:
    """Give up the damaged and missing files that an attempt did not rewrite, and return their names.

    Damaged ones move to ``damaged/``; none of them is reported as missing from then on. Call it at the end of an attempt,
    which has rewritten what it needs; the caller must hold the folder's lock.
    """
    damaged = [name for name in checksums.damaged_files(folder) if not name.endswith("/")]
    missing = [name for name in missing_files(folder) if "/" not in name]
    names = sorted({*damaged, *missing})
    checksums.record_removals(folder, [folder / name for name in names])
    for name in names:
        log.warning("%s was damaged or missing, and this run cannot rewrite it", name)
        if (folder / name).exists():
            safe_write.move_aside(folder, folder / name)
    return names


def _unlisted(folder: Path) -> list[str]:
    sums = checksums.read_sums(folder)
    return [name for name in part_names(folder) if name not in sums] if sums else []
