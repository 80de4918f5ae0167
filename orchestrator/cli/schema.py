"""``schema``: the columns of the stored tables."""

from __future__ import annotations

from dataclasses import asdict

from orchestrator.cli.json_output import AsJson, print_json


def schema(as_json: AsJson = False) -> None:
    """Describe every column of the tables in a run folder: type, nulls, values and meaning."""
    from orchestrator.cli.printing import text_table
    from orchestrator.monitoring.console import show
    from orchestrator.storage.column_docs import ROWS, column_docs

    docs = {table: column_docs(row) for table, row in ROWS.items()}
    if as_json:
        print_json({table: [asdict(column) for column in columns] for table, columns in docs.items()})
        return
    for table, columns in docs.items():
        rows = (
            (
                column.column,
                column.type + (", null" if column.nullable else ""),
                _explain(column.meaning, column.values),
            )
            for column in columns
        )
        show(text_table(("column", "type", "meaning"), rows, title=f"{table}/part-*.parquet"))


def _explain(meaning: str, values: tuple[str, ...]) -> str:
    return meaning if not values else f"{meaning} One of: {', '.join(values)}."
