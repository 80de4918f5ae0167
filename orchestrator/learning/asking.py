"""How much of a training's effect comes from asking more, and how much from asking better.

This needs the option probabilities (``every-state``) of both the base model and the trained one.
"""

from collections.abc import Sequence

import polars as pl

from orchestrator.report.measures.operating_splits import SPLIT_SCHEMA, exact_series, split_rows
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.operating import interval_text
from orchestrator.report.tables.table import MISSING, Table, TableCell, columns, line
from orchestrator.report.wording import format_signed

ASKING = {"model": pl.String, "stage": pl.String, "group": pl.String, **SPLIT_SCHEMA}
PARTS = ("difference", "more", "better")


def asking_rows(run: RunData, trained: Sequence[tuple[str, str, str, Sequence[str]]]) -> pl.DataFrame:
    """Return the split of each training's effect (``ASKING``), averaged over its trained and over its unseen scenarios.

    ``trained`` lists base model, trained model, its stage and the scenarios of its training.
    """
    series, rows = exact_series(run), []
    for base, name, stage, scenarios in trained:
        for (model, condition), before in series.items():
            after = series.get((name, condition), {})
            if model != base or not after:
                continue
            groups = {
                "trained": {key: cell for key, cell in before.items() if key in scenarios},
                "unseen": {key: cell for key, cell in before.items() if key not in scenarios},
            }
            for label, cells in groups.items():
                splits = pl.DataFrame(split_rows(run, (base, cells), (name, after)), schema=SPLIT_SCHEMA, orient="row")
                means = splits.filter(pl.col("scenario").is_null())
                rows += [(base, stage, label, *mean) for mean in means.iter_rows()]
    return pl.DataFrame(rows, schema=ASKING, orient="row")


def asking_table(model: str, rows: pl.DataFrame) -> Table:
    """Return a table with a line per stage, group of scenarios and family: the difference and its parts, with intervals."""
    lines = []
    for row in rows.filter(model=model).iter_rows(named=True):
        family = ", never giving up" if row["family"] == "persistent" else ""
        cells = [
            MISSING if row[part] is None else TableCell(format_signed(row[part]), row[part], interval_text(row, part))
            for part in PARTS
        ]
        label = f"{row['stage']}, {row['group']}{family}"
        lines.append(line(label, [TableCell(str(row["scenarios"]), row["scenarios"]), *cells]))
    title = (
        f"{model}: exact acc after minus before, and its parts at equal numbers of suggestions; points, 95% intervals"
    )
    heads = columns("change", ["scenarios", "acc", "asking more", "asking better"])
    return Table("learning-asking", title, heads, tuple(lines), rows)
