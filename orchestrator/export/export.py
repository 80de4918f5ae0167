"""Export of a run folder to another format: into a new folder, completely or not at all."""

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from envs.errors import RunFolderError
from orchestrator.export import analyst_turns, every_eval_ever, inspect_log, trajectories
from orchestrator.report.read_run import read_run
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.csv import csv_text
from orchestrator.storage.disk import disk_errors


def write_csv(run_data: RunData, folder: Path, evaluator: str = "") -> None:
    """Write ``results.csv`` (one row per cell), ``episodes.csv``, ``turns.csv`` and, for judged runs, ``verdicts.csv``."""
    tables = {"results": run_data.rows, "episodes": run_data.episodes, "turns": run_data.turns.collect()}
    if run_data.verdicts.height:
        tables["verdicts"] = run_data.verdicts
    for name, table in tables.items():
        (folder / f"{name}.csv").write_text(csv_text(table, digits=None), encoding="utf-8")


FORMATS: dict[str, Callable[[RunData, Path, str], None]] = {
    "csv": write_csv,
    "every-eval-ever": every_eval_ever.write,
    "inspect": inspect_log.write,
    "trajectories": trajectories.write,
    "turns": analyst_turns.write,
}
"""Format -> function that writes a run into an empty folder; its last argument is the evaluator's name."""


def export(folder: Path, to: str, into: Path, data: Path | None = None, by: str = "") -> list[str]:
    """Write a run folder in another format and return the names of the files.

    Args:
        data: The benchmark's folder; without it, the export has no questions.
        by: Name of the evaluator, for formats that state it.
    """
    if to not in FORMATS:
        raise RunFolderError(f"unknown format {to!r}; type --to {', '.join(FORMATS)}")
    if into.exists():
        raise RunFolderError(f"{into} already exists; name a new folder with --output")
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
