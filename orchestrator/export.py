"""Export of a run folder to another format: into a new folder, completely or not at all.

``csv`` and ``turns`` are of the core; installed packages offer others by entry points (``envs.installed``).
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from actors.playing.rows import EpisodeRow, TurnRow
from envs.errors import RunFolderError
from envs.installed import install_line, load_function, offers
from orchestrator.report.read_run import read_run
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.formats import csv_text
from orchestrator.storage.disk import disk_errors
from orchestrator.storage.schemas import METADATA, column_docs

EPISODE_COLUMNS = ("model", "scenario", "condition", "protocol", "sample_id", "seed", "ending", "correct")
"""The columns of its episode that a turn repeats."""
SAMPLE_COLUMNS = {
    "question": "The question of the sample, as in the benchmark.",
    "options": "The suggestions and the abstention of the sample, as in the benchmark.",
    "categories": "The categories of the sample, as in the benchmark.",
    "answer": "The right category.",
}
BRIDGES = f"is written by the extra bridges, which is not installed; type {install_line('bridges')}"
ELSEWHERE = {
    **dict.fromkeys(("inspect", "eval-results"), BRIDGES),
    "every-eval-ever": "was last written by release 0.2.0",
    "trajectories": "was last written by release 0.2.0; type --to turns",
}
"""Format that the core does not write -> where it is."""


def write_csv(run_data: RunData, folder: Path) -> None:
    """Write ``results.csv`` (one row per cell), ``episodes.csv``, ``turns.csv`` and, for judged runs, ``verdicts.csv``."""
    tables = {"results": run_data.rows, "episodes": run_data.episodes, "turns": run_data.turns.collect()}
    if run_data.verdicts.height:
        tables["verdicts"] = run_data.verdicts
    for name, table in tables.items():
        (folder / f"{name}.csv").write_text(csv_text(table, digits=None), encoding="utf-8")


def write_turns(run_data: RunData, folder: Path) -> None:
    """Write ``turns.parquet``, a row per turn, for SQL and data frames that need no join.

    The columns of samples are null without the benchmark's folder.
    """
    descriptions = describe_columns()
    episodes = run_data.episodes.lazy().select("key", *EPISODE_COLUMNS)
    rows = run_data.turns.join(episodes, on="key", maintain_order="left").join(
        _question_rows(run_data).lazy(), on=["scenario", "sample_id"], how="left", maintain_order="left"
    )
    metadata = {METADATA: json.dumps(descriptions)}
    rows.select(*descriptions).sink_parquet(folder / "turns.parquet", compression="zstd", metadata=metadata)


def describe_columns() -> dict[str, str]:
    """Return column -> what it means, in the order of ``turns.parquet``."""
    episode = {column.column: column.meaning for column in column_docs(EpisodeRow)}
    turn = {column.column: column.meaning for column in column_docs(TurnRow)}
    return {**{name: episode[name] for name in EPISODE_COLUMNS}, **turn, **SAMPLE_COLUMNS}


def _question_rows(run_data: RunData) -> pl.DataFrame:
    """Return question, options, categories and answer of every sample; no rows without the benchmark's folder."""
    rows = [
        (scenario, number, sample.prompt, list(sample.options), list(sample.categories), sample.answer)
        for scenario, samples in run_data.samples.items()
        for number, sample in samples.items()
    ]
    schema: dict[str, pl.DataType] = {"scenario": pl.String(), "sample_id": pl.Int64(), "question": pl.String()}
    schema |= {"options": pl.List(pl.String), "categories": pl.List(pl.String), "answer": pl.String()}
    return pl.DataFrame(rows, schema=schema, orient="row")


FORMATS: Mapping[str, Callable[[RunData, Path], None]] = {"csv": write_csv, "turns": write_turns}
"""Format -> function that writes a run into an empty folder."""


def export(folder: Path, to: str, into: Path, data: Path | None = None) -> list[str]:
    """Write a run folder in another format and return the names of the files.

    ``data`` is the benchmark's folder; without it, the export has no questions. Raises RunFolderError.
    """
    write = _find_format(to)
    if into.exists():
        raise RunFolderError(f"{into} already exists; name a new folder with --output")
    run_data = read_run(folder, data)
    with disk_errors(into):
        into.absolute().parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{into.name}-", dir=into.absolute().parent) as draft:
            write(run_data, Path(draft))
            Path(draft).chmod(0o755)
            Path(draft).rename(into)
    return sorted(path.relative_to(into).as_posix() for path in into.rglob("*") if path.is_file())


def _find_format(name: str) -> Callable[[RunData, Path], None]:
    """Return the function that writes a format, of the core or of a package; raises RunFolderError."""
    offered = offers("export", FORMATS)
    if name in offered:
        return load_function("export", name)  # type: ignore[no-any-return]
    if name in ELSEWHERE:
        raise RunFolderError(f"--to {name} {ELSEWHERE[name]}")
    if name not in FORMATS:
        raise RunFolderError(f"unknown format {name!r}; type --to {' or '.join((*FORMATS, *offered))}")
    return FORMATS[name]
