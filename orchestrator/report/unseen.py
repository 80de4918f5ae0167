"""What is answered rightly without seeing: the probes blank, swapped and text-only beside zero-shot, as a table and a sentence.

Accuracy alone cannot tell a picture that was understood from a question that gives its answer away.
"""

from __future__ import annotations

import polars as pl

from envs import in_order
from orchestrator.report.escaping import MISSING, Entry, Grid
from orchestrator.report.estimates import Estimates
from orchestrator.report.grid_parts import Row, averaged, models, rounded
from orchestrator.report.metrics import lacking
from orchestrator.report.run_data import RunData
from orchestrator.report.wording import counted

SEEN = "zero-shot"


def unseen(run_data: RunData, intervals: Estimates) -> Grid:
    """Accuracy at the end / at the first turn, a row for each model under each probe, and zero-shot above them."""
    names = [SEEN, *run_data.unseen]
    cells = _of(intervals.cells, names)
    if cells.is_empty():
        return Grid("unseen", "", (), (), cells)
    cells = cells.with_columns(lacking(cells.columns).alias("lacking"))
    means, scenarios = _of(intervals.averages, names), in_order(cells["scenario"])
    rows = []
    for model in models(run_data, cells["model"]):
        for name in names:
            part = {row["scenario"]: row for row in cells.filter(model=model, condition=name).iter_rows(named=True)}
            if part:
                mean = means.filter(model=model, condition=name).row(0, named=True)
                whole = Entry(_both(mean), mean["acc"], unfinished=mean["complete"] < len(part))
                rows.append((f"{model}, {name}", (*[_entry(part.get(scenario)) for scenario in scenarios], whole)))
    title = (
        "right in the end / at the first turn, percent, where the sample's own picture is not shown, and in zero-shot"
    )
    ranked = sum(label.rpartition(", ")[0] not in run_data.baselines for label, _ in rows)
    numbers = pl.concat([cells.drop("cell", "lacking"), means.with_columns(scenario=pl.lit("avg"))], how="diagonal")
    return Grid(
        "unseen", title, (*scenarios, averaged(scenarios)), tuple(rows), numbers, ranked, _notes(run_data, intervals)
    )


def sentence(run_data: RunData, intervals: Estimates) -> tuple[str, str]:
    """A figure and what it says of the models (of baselines where nothing else was played): the probe that most is right under.

    Both empty where no model played a probe and zero-shot.
    """
    means = _compared(run_data, intervals.averages, ["model"])
    if means.is_empty():
        return "", ""
    probes = means.group_by("condition").agg(pl.col("acc", "seen").mean(), pl.len()).sort(-pl.col("acc"), "condition")
    top = probes.row(0, named=True)
    others = ", ".join(f"{name} {acc:.1f}%" for name, acc in probes.select("condition", "acc").tail(-1).iter_rows())
    cells = _compared(run_data, intervals.cells, ["model", "scenario"]).filter(condition=top["condition"])
    most = cells.sort(-pl.col("acc"), "model", "scenario").row(0, named=True)
    return (
        f"{top['acc']:.1f}%",
        f"of episodes end right under {top['condition']}, without the sample's picture{f' ({others})' if others else ''}, and "
        f"{top['seen']:.1f}% with it; means over scenarios of {counted(top['len'], 'model')}. Most: {most['model']} in "
        f"{most['scenario']}, {most['acc']:.1f}% ({most['seen']:.1f}% with it).",
    )


def _compared(run_data: RunData, rows: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Each probe's ``acc`` with zero-shot's as ``seen``, of models, or of baselines where nothing else played."""
    known = _of(rows, [SEEN, *run_data.unseen]).filter(pl.col("acc").is_not_null())
    real = known.filter(~pl.col("model").is_in(list(run_data.baselines)))
    known = known if real.is_empty() else real
    seen = known.filter(condition=SEEN).select(*names, pl.col("acc").alias("seen"))
    return known.filter(pl.col("condition") != SEEN).join(seen, on=names)


def _of(rows: pl.DataFrame, conditions: list[str]) -> pl.DataFrame:
    """The rows of these conditions of multiple choice; none where no probe is among them."""
    found = rows.filter(pl.col("condition").is_in(conditions), protocol="mcqa")
    return found if set(found["condition"]) - {SEEN} else found.clear()


def _notes(run_data: RunData, intervals: Estimates) -> tuple[str, ...]:
    figure, told = sentence(run_data, intervals)
    guess = "a guess among four categories is right in 25%; in ROD nothing counts at the first turn"
    return (*([f"{figure} {told}"] if told else []), guess)


def _entry(row: Row | None) -> Entry:
    if row is None:
        return MISSING
    told = f" ({row['planned'] - row['lacking']}/{row['planned']})" if row["lacking"] else ""
    return Entry(_both(row) + told, row["acc"], unfinished=bool(row["lacking"]))


def _both(row: Row) -> str:
    return f"{rounded(row, 'acc')} / {rounded(row, 'acc_first')}"
