"""Writes what a run folder holds in a format that others read, into a new folder, whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from orchestrator.export import csv_files, every_eval_ever, inspect_log, trajectories
from orchestrator.report.read_run import read_run
from orchestrator.report.run_data import RunData
from orchestrator.storage.disk import disk_errors
from orchestrator.storage.run_folder import RunFolderError

FORMATS: dict[str, Callable[[RunData, Path, str], None]] = {
    "csv": csv_files.write,
    "every-eval-ever": every_eval_ever.write,
    "inspect": inspect_log.write,
    "trajectories": trajectories.write,
}
"""Name -> writes a run into an empty folder; the text is who evaluated."""


def export(folder: Path, to: str, into: Path, data: Path | None = None, by: str = "") -> list[str]:
    """Write a run folder in a format, and give the files' names; raises RunFolderError.

    ``data`` is where the benchmark lies now: with it go the questions. ``by`` names who evaluated.
    """
    if to not in FORMATS:
        raise RunFolderError(f"there is no format {to!r}; type --to {', '.join(FORMATS)}")
    if into.exists():
        raise RunFolderError(f"{into} is there already; name a new folder with --into")
    run_data = read_run(folder, data)
    with disk_errors(into):
        into.absolute().parent.mkdir(parents=True, exist_ok=True)
        draft = Path(mkdtemp(prefix=f".{into.name}-", dir=into.absolute().parent))
        try:
            FORMATS[to](run_data, draft, by)
            draft.chmod(0o755)
            draft.rename(into)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return sorted(path.relative_to(into).as_posix() for path in into.rglob("*") if path.is_file())
