"""The faults of a run folder: files that are damaged, missing or foreign according to ``sums.sha256``.

Every part, and every file that a figure or the next run depends on, has a line there.
"""

import logging
from pathlib import Path

from orchestrator.storage import checksums, lock, safe_write
from orchestrator.storage.part_files import list_parts

log = logging.getLogger(__name__)

DAMAGED = (
    "is damaged, was edited or is not of this run; rerun the same `run` command to rewrite it or to replay its episodes"
)
MISSING = "is missing; rerun the same `run` command to rewrite it or to replay its episodes"
NO_SUMS = (
    "is missing or empty, so that damage to other files cannot be detected; delete the folder unless you removed it"
)


def find_faults(folder: Path) -> dict[str, str]:
    """Return file or table -> what is wrong with it, of a run folder and its gold check; while a driver writes, only damage."""
    faults = _find_faults(folder, lock.holder(folder) is None)
    for place in {path.parent.parent for path in folder.glob("*/verdicts/*")}:
        faults |= {f"{place.name}/{name}": problem for name, problem in _find_faults(place, False).items()}
    return dict(sorted(faults.items()))


def _find_faults(folder: Path, at_rest: bool) -> dict[str, str]:
    bad = [path.relative_to(folder).as_posix() for path in list_parts(folder).bad]
    faults = dict.fromkeys([*checksums.damaged_files(folder), *bad], DAMAGED)
    for name in checksums.missing_files(folder) if at_rest else ():
        table, is_part, _ = name.partition("/")
        faults.setdefault(f"{table}/" if is_part and not (folder / table).is_dir() else name, MISSING)
    if not checksums.read_sums(folder) and any(folder.glob("*/part-*.parquet")):
        faults[checksums.NAME] = NO_SUMS
    return faults


def put_aside_unmended(folder: Path) -> None:
    """Give up the damaged and missing files that an attempt did not rewrite; damaged ones move to ``damaged/``.

    Call it at the end of an attempt; the caller must hold the folder's lock.
    """
    missing = [name for name in checksums.missing_files(folder) if "/" not in name]
    names = [*checksums.damaged_files(folder), *missing]
    checksums.record_removals(folder, [folder / name for name in names])
    for name in names:
        log.warning("%s was damaged or missing, and this run cannot rewrite it", name)
        if (folder / name).exists():
            safe_write.move_aside(folder, folder / name)
