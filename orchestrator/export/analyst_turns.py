"""Export to one Parquet table with a row per turn, for SQL and data frames that need no join."""

import json
from pathlib import Path

from actors.playing.rows import EpisodeRow, TurnRow
from orchestrator.export.trajectories import question_rows
from orchestrator.report.run_data import RunData
from orchestrator.storage.schemas import METADATA, column_docs

EPISODE_COLUMNS = ("model", "scenario", "condition", "protocol", "sample_id", "seed", "ending", "correct")
"""The columns of its episode that a turn repeats."""
SAMPLE_COLUMNS = {
    "question": "The question of the sample, as in the benchmark.",
    "options": "The suggestions and the abstention of the sample, as in the benchmark.",
    "categories": "The categories of the sample, as in the benchmark.",
    "answer": "The right category.",
}
FILE = "turns.parquet"


def describe_columns() -> dict[str, str]:
    """Return column -> what it means, in the order of the table."""
    episode = {column.column: column.meaning for column in column_docs(EpisodeRow)}
    turn = {column.column: column.meaning for column in column_docs(TurnRow)}
    return {**{name: episode[name] for name in EPISODE_COLUMNS}, **turn, **SAMPLE_COLUMNS}


def write(run_data: RunData, folder: Path, evaluator: str = "") -> None:
    """Write ``turns.parquet``; the columns of samples are null without the benchmark's folder."""
    descriptions = describe_columns()
    episodes = run_data.episodes.lazy().select("key", *EPISODE_COLUMNS)
    rows = run_data.turns.join(episodes, on="key", maintain_order="left").join(
        question_rows(run_data).lazy(), on=["scenario", "sample_id"], how="left", maintain_order="left"
    )
    metadata = {METADATA: json.dumps(descriptions)}
    rows.select(*descriptions).sink_parquet(folder / FILE, compression="zstd", metadata=metadata)
