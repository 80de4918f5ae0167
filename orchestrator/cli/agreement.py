"""``judge --agreement``: how far judges agree, and people who label replies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.json_output import print_json
from orchestrator.cli.options import WIDTH
from orchestrator.cli.printing import print_lines, text_table
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table


def show_agreement(folder: Path, as_json: bool) -> None:
    """Print the agreement of every pair of judges, that of three or more together, and that of people who gave labels."""
    from orchestrator.report.scores import judge_agreement
    from orchestrator.storage import option_labels
    from orchestrator.storage.run_folder import stored_sweep

    stored_sweep(folder)
    rows = judge_agreement.agreement(folder)
    people = list(option_labels.agreements(option_labels.read_labels(folder).values()))
    if as_json:
        print_json([*rows.to_dicts(), *[pair._asdict() for pair in people]])
        return
    few = "fewer than two judges have read answers of this run"
    show(_agreement_table(rows) if rows.height else few, min_width=WIDTH)
    if rows["other"].n_unique() > 1:
        show(_jury_table(judge_agreement.jury(folder)), min_width=WIDTH)
    print_lines(
        f"{pair.first} and {pair.second}: {pair.equal:,} of {pair.both:,} labels equal, kappa {_figure(pair.kappa)}"
        for pair in people
    )


def _agreement_table(rows: pl.DataFrame) -> Table:
    heads = ("judge", "other", "bit", "answers", "equal %", "kappa", "95% interval", "yes %", "other's yes %")
    texts = []
    for row in rows.iter_rows(named=True):
        names = (row["judge"], row["other"], row["bit"], f"{row['answers']:,}")
        kappa = (_figure(row["kappa"]), _limits(row, "kappa"))
        texts.append((*names, _figure(row["equal"]), *kappa, *map(_figure, (row["first_yes"], row["other_yes"]))))
    return text_table(heads, texts, numbers=6)


def _jury_table(rows: pl.DataFrame) -> Table:
    heads = ("bit", "judges", "answers", "alpha", "95% interval", "majority's yes %", "split %")
    texts = [
        (
            row["bit"], str(row["judges"]), f"{row['answers']:,}", _figure(row["alpha"]), _limits(row, "alpha"),
            *map(_figure, (row["majority_yes"], row["split"])),
        )
        for row in rows.iter_rows(named=True)
    ]  # fmt: skip
    return text_table(heads, texts, numbers=6)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _limits(row: dict[str, Any], name: str) -> str:
    return "-" if row[name] is None else f"{row[f'{name}_low']:.2f} to {row[f'{name}_high']:.2f}"
