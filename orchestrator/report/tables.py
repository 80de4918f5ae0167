"""The tables of a report, as in the paper, in Markdown, LaTeX and CSV.

An unfinished entry says how far it is and is never marked best; no error counts as a zero. The same run gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from actors.turn_judge import turn_judge_key
from envs import in_order
from orchestrator.report import escaping
from orchestrator.report.decision_tables import known, regret
from orchestrator.report.difficulty import difficulty
from orchestrator.report.efficiency import budget_averages, efficiency, lift
from orchestrator.report.endings import taxonomy
from orchestrator.report.escaping import MISSING, Entry, Grid
from orchestrator.report.estimates import Estimates, estimate
from orchestrator.report.evidence_tables import hard_samples, own, paired, ranks, readings, robust, shares, shrunken
from orchestrator.report.flip_rates import flip_rates
from orchestrator.report.grid_parts import (
    AVERAGE,
    Format,
    Row,
    acc_ps,
    average_entry,
    averaged,
    cell_grid,
    entry,
    models,
    rounded,
)
from orchestrator.report.judge_tables import averages, title
from orchestrator.report.lenient import leniency
from orchestrator.report.metrics import lacking
from orchestrator.report.model_size import capacity
from orchestrator.report.paired_averages import averages_against, averages_between
from orchestrator.report.paired_tests import between
from orchestrator.report.precision_table import precise
from orchestrator.report.published import MEASURES
from orchestrator.report.ranking import BEATS, beats
from orchestrator.report.resources import resources
from orchestrator.report.run_data import RunData, opened
from orchestrator.report.tool_tables import malformed
from orchestrator.report.unseen import unseen
from orchestrator.storage import atomic_write
from sweeps.conditions import WITH_EXAMPLES
from sweeps.spec import Protocol


def write_tables(
    run: RunData | Path, data: Path | None = None, judge: str = "", strict: bool = False, cluster: str = ""
) -> list[Path]:
    """Markdown, LaTeX and CSV of every table that the run has, and CSV of every measure beside them (``measures``).

    ``run`` is a run folder, or what was read of one. Into its ``tables``; returns the files written, sorted. ``judge`` and
    ``strict`` choose the verdicts and ``cluster`` the clusters, as ``read`` does. Raises RunFolderError when the folder is
    no run.
    """
    run_data = opened(run, data, judge, strict, cluster)
    place = run_data.folder / "tables"
    place.mkdir(exist_ok=True)
    texts: dict[str, str] = {}
    for grid in grids(run_data):
        texts |= {f"{grid.name}.md": escaping.markdown(grid), f"{grid.name}.tex": escaping.latex(grid)}
        texts[f"{grid.name}.csv"] = grid.numbers.write_csv(float_precision=6)
    texts |= {f"{name}.csv": frame.write_csv(float_precision=6) for name, frame in measures(run_data).items()}
    for name, text in texts.items():
        atomic_write.write(place / name, text.encode())
    return sorted(place / name for name in texts)


def measures(run_data: RunData) -> dict[str, pl.DataFrame]:
    """Name -> what reviewers of the paper asked for beside its tables, as frames; those without a row are left out."""
    frames = {
        "endings": taxonomy(run_data),
        "efficiency": efficiency(run_data),
        "budget": budget_averages(run_data),
        "lift": lift(run_data),
        "lenient": leniency(run_data),
        "capacity": capacity(run_data),
        "models-paired": between(run_data),
        "models-paired-averages": averages_between(run_data).join(beats(run_data), on=BEATS, how="left"),
        "paired-averages": averages_against(run_data),
        "cells-shrunken": difficulty(run_data).cells,
        "samples-difficulty": difficulty(run_data).samples,
        "resources": resources(run_data),
        "precision": precise(run_data),
    }
    return {name: frame for name, frame in frames.items() if not frame.is_empty()}


def grids(run_data: RunData, intervals: Estimates | None = None) -> list[Grid]:
    """The tables that this run has, those of no cell left out: main, conditions, reference, paired, open-ended."""
    intervals = intervals or estimate(run_data)
    made = [
        main(run_data, intervals),
        conditions(run_data, intervals),
        reference(run_data, intervals),
        unseen(run_data, intervals),
        known(run_data),
        regret(run_data),
        shares(run_data),
        ranks(run_data),
        robust(run_data),
        readings(run_data),
        paired(run_data),
        open_ended(run_data, intervals),
        paired(run_data, Protocol.OEG),
        several_turns(run_data, intervals),
        paired(run_data, Protocol.OEG_MULTI),
        tool_calls(run_data, intervals),
        malformed(run_data),
        paired(run_data, Protocol.TOOLS),
        shrunken(run_data),
        hard_samples(run_data),
        flip_rates(run_data),
        *own(run_data),
    ]
    return [grid for grid in made if grid.rows]


def main(run_data: RunData, intervals: Estimates, condition: str = "zero-shot") -> Grid:
    """Models x scenarios, acc and ps, the average at the end (paper, Table 1)."""
    cells = intervals.cells.filter(condition=condition, protocol="mcqa")
    averages = intervals.averages.filter(condition=condition, protocol="mcqa")
    grid = _by_scenario(run_data, cells, averages, acc_ps)
    title = f"{condition}: accuracy in percent / mean number of suggestions"
    return replace(grid, name="main", title=title, numbers=_numbers(cells, averages))


def conditions(run_data: RunData, intervals: Estimates) -> Grid:
    """Models x conditions, averages over scenarios; beside the in-context examples zero-shot over their scenarios."""
    averages = intervals.averages.filter(protocol="mcqa")
    few = _over(intervals.cells.filter(protocol="mcqa", condition="zero-shot"), WITH_EXAMPLES)
    present = [name for name in run_data.conditions if name in set(averages["condition"]) and name != "reference"]
    examples = [name for name in present if run_data.conditions[name].scenarios]
    whole = [name for name in present if name not in examples]
    columns = [*whole, *([f"zero-shot ({', '.join(WITH_EXAMPLES)})"] if examples else []), *examples]
    rows: list[tuple[str, list[Entry]]] = []
    for model in models(run_data, averages["model"]):
        mine = {row["condition"]: row for row in averages.filter(model=model).iter_rows(named=True)}
        entries = [average_entry(run_data, mine.get(name)) for name in whole]
        entries += [few.get(model, MISSING)] if examples else []
        rows.append((model, [*entries, *(average_entry(run_data, mine.get(name)) for name in examples)]))
    title = "conditions: accuracy in percent / mean number of suggestions, averaged over scenarios"
    return cell_grid(run_data, "conditions", title, columns, rows, averages, "mcqa")


def reference(run_data: RunData, intervals: Estimates) -> Grid:
    """Accuracy on the clear image, and under zero-shot, by scenario (paper, Table 6 and Figure 3)."""
    clear = intervals.cells.filter(condition="reference", protocol="mcqa")
    if clear.is_empty():
        return Grid("reference", "", (), (), intervals.cells.clear())
    played = {(row["model"], row["scenario"]): row for row in _zero_shot(intervals.cells).iter_rows(named=True)}
    means = {row["model"]: row for row in _zero_shot(intervals.averages).iter_rows(named=True)}

    def both(row: Row) -> str:
        other = played.get((row["model"], row["scenario"])) if "scenario" in row else means.get(row["model"])
        return f"{row['acc']:.1f} / {rounded(other, 'acc')}"

    averages = intervals.averages.filter(condition="reference", protocol="mcqa")
    grid = _by_scenario(run_data, clear, averages, both)
    numbers = _numbers(clear, averages, _zero_shot(intervals.cells), _zero_shot(intervals.averages))
    return replace(grid, name="reference", title="accuracy in percent: clear image / zero-shot", numbers=numbers)


def open_ended(run_data: RunData, intervals: Estimates) -> Grid:
    """The judged share of answers: aggregate / category / suggestion in percent (paper, Tables 8 and 9)."""
    measures = list(MEASURES["oeg"].values())
    judged = run_data.rows.filter(pl.col("protocol") == "oeg")
    judged = judged.with_columns(lacking(judged.columns).alias("lacking"))
    if judged.is_empty() or not set(measures) <= set(judged.columns):
        return Grid("open-ended", "", (), (), judged)

    def three(row: Row) -> str:
        return " / ".join(rounded(row, measure) for measure in measures)

    rows: list[tuple[str, tuple[Entry, ...]]] = []
    scenarios, means = in_order(judged["scenario"]), averages(run_data)
    for model in models(run_data, judged["model"]):
        for condition in [name for name in run_data.conditions if name in set(judged.filter(model=model)["condition"])]:
            part = {r["scenario"]: r for r in judged.filter(model=model, condition=condition).iter_rows(named=True)}
            entries = [entry(part.get(name), three, measures[0]) for name in scenarios]
            mean = means.row(by_predicate=(pl.col("model") == model) & (pl.col("condition") == condition), named=True)
            whole = (
                Entry(three(mean), None) if mean["complete"] == len(scenarios) else Entry("unfinished", unfinished=True)
            )
            rows.append((f"{model}, {condition}", (*entries, whole)))
    numbers = pl.concat([judged.drop("lacking"), means.with_columns(scenario=pl.lit(AVERAGE))], how="diagonal")
    return Grid("open-ended", title(run_data), (*scenarios, averaged(scenarios)), tuple(rows), numbers)


def several_turns(run_data: RunData, intervals: Estimates) -> Grid:
    """Open-ended answers over several turns: acc and ps by scenario, a row a model and condition (paper, Table 10)."""
    judge = run_data.sweep.turn_judge
    read_by = turn_judge_key(judge) if judge else "none"
    title = f"open-ended over several turns: accuracy in percent / mean number of suggestions; judge {read_by}"
    return _each_condition(run_data, intervals, Protocol.OEG_MULTI, "open-ended-turns", title)


def tool_calls(run_data: RunData, intervals: Estimates) -> Grid:
    """Multiple choice by function calls: acc and ps by scenario, a row a model and condition; never beside its letters."""
    title = "tool calls: accuracy in percent / mean number of suggestions"
    return _each_condition(run_data, intervals, Protocol.TOOLS, "tools", title)


def _each_condition(run_data: RunData, intervals: Estimates, protocol: Protocol, name: str, title: str) -> Grid:
    """acc and ps of a protocol by scenario, a row a model and condition."""
    cells, means = (frame.filter(protocol=protocol.value) for frame in intervals)
    parts = []
    for condition in [one for one in run_data.conditions if one in set(cells["condition"])]:
        mine, mean = cells.filter(condition=condition), means.filter(condition=condition)
        parts.append(_by_scenario(run_data, mine, mean, acc_ps, protocol, f", {condition}"))
    if not parts:
        return Grid(name, "", (), (), cells)
    rows = tuple(row for part in parts for row in part.rows)
    grid = replace(parts[0], name=name, title=title, rows=rows, numbers=_numbers(cells, means))
    return replace(grid, ranked=parts[0].ranked if len(parts) == 1 else 0)


def _by_scenario(
    run_data: RunData,
    cells: pl.DataFrame,
    averages: pl.DataFrame,
    text: Format,
    protocol: Protocol = Protocol.MCQA,
    named: str = "",
) -> Grid:
    scenarios = in_order(cells["scenario"])
    counted = cells.with_columns(lacking(cells.columns).alias("lacking"))
    means = {row["model"]: row for row in averages.iter_rows(named=True)}
    rows: list[tuple[str, list[Entry]]] = []
    for model in models(run_data, cells["model"]):
        part = {row["scenario"]: row for row in counted.filter(model=model).iter_rows(named=True)}
        entries = [entry(part.get(name), text) for name in scenarios]
        rows.append((model, [*entries, average_entry(run_data, means.get(model), text)]))
    grid = cell_grid(run_data, "", "", [*scenarios, averaged(scenarios)], rows, cells, protocol)
    return replace(grid, rows=tuple((name + named, entries) for name, entries in grid.rows))


def _over(cells: pl.DataFrame, scenarios: Sequence[str]) -> dict[str, Entry]:
    """Model -> the unweighted mean over these scenarios."""
    part = cells.filter(pl.col("scenario").is_in(scenarios))
    done = (lacking(part.columns) == 0).all()
    means = part.group_by("model").agg(
        pl.col("acc", "ps").mean(), done.alias("done"), pl.col("acc").null_count().alias("gaps")
    )
    return {
        row["model"]: Entry("unfinished", None, unfinished=True)
        if row["gaps"]
        else Entry(acc_ps(row), row["acc"], unfinished=not row["done"])
        for row in means.iter_rows(named=True)
    }


def _numbers(cells: pl.DataFrame, averages: pl.DataFrame, *more: pl.DataFrame) -> pl.DataFrame:
    """What the CSV holds: cells, then averages as scenario ``avg``, with every count and interval."""
    parts = [cells, averages, *more]
    rows = pl.concat([_labelled(part) for part in parts], how="diagonal")
    return rows.sort("model", "condition", "protocol", "scenario", maintain_order=True)


def _labelled(rows: pl.DataFrame) -> pl.DataFrame:
    if "scenario" in rows.columns:
        return rows.drop("cell")
    return rows.with_columns(pl.lit(AVERAGE).alias("scenario"))


def _zero_shot(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(condition="zero-shot", protocol="mcqa")
