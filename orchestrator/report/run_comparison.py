"""Two or more run folders side by side: the same model and condition on the same samples, and what their configurations say.

Differences are a run less the first one, of pairs of episodes; p is corrected over all comparisons of models that both plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from envs import in_order
from orchestrator.report.estimates import suggestion_limits
from orchestrator.report.outcomes import outcomes
from orchestrator.report.paired_averages import averaged_pairs
from orchestrator.report.paired_tests import Limits, compared_pairs, kinds, significant
from orchestrator.report.run_data import RunData, several
from orchestrator.report.wording import counted, signed
from orchestrator.storage import run_folder
from orchestrator.storage.run_folder import RunFolderError

NAMES = ["run", "model", "condition", "protocol"]
CELL = ["model", "scenario", "condition", "protocol"]
SAMPLE = [*CELL, "sample_id"]
MOST = 20
"""Differences of configuration that are told."""
LEGEND = "* p below 0.05 after Holm's correction over all rows of models; (p) of baselines is not corrected"


class NothingInCommon(RunFolderError):
    """No model and condition of two runs was played on the same samples."""


@dataclass(frozen=True)
class Comparison:
    """Runs beside the first one."""

    names: tuple[str, ...]
    cells: pl.DataFrame
    """One row run x model x scenario x condition x protocol; columns of ``paired_tests.against``: ``acc`` is the run's,
    ``acc_other`` the first run's."""
    averages: pl.DataFrame
    """One row run x model x condition x protocol; columns of ``paired_averages.averages_against``."""
    notes: tuple[str, ...]
    """What differs in configuration, and what is in no pair; one sentence each."""


def compare_runs(
    given: Sequence[RunData | Path],
    data: Path | None = None,
    judge: str = "",
    strict: bool = False,
    cluster: str = "",
) -> Comparison:
    """Every further run less the first, paired by sample; the other arguments are ``run_data.read``'s.

    An episode without its partner, or that ended in an error, is in no pair; nor is one of another picture, so that folders
    of different data are never paired by number alone. Raises RunFolderError, NothingInCommon where no pair is left.
    """
    runs = several(given, data, judge, strict, cluster)
    names = distinct([run.folder for run in runs])
    base, notes = runs[0], []
    pairs, family = [], []
    for run, name in zip(runs[1:], names[1:], strict=True):
        found, told = _pairs(run, base, name, names[0])
        pairs.append(found.with_columns(pl.lit(name).alias("run")))
        family.append(_family(run, base).with_columns(pl.lit(name).alias("run")))
        notes += [*configuration(base, run, names[0], name), *told]
    every, declared = pl.concat(pairs), pl.concat(family)
    if every.is_empty():
        raise NothingInCommon(
            f"{', '.join(names)} have no model and condition on the same samples in common, so there is nothing to compare"
        )
    limits, every = _limits(runs), kinds(every.lazy(), ["run", *CELL])
    cells = compared_pairs(every, ["run", *CELL], declared, limits)
    averages = averaged_pairs(limits, every, declared.select(NAMES).unique(), NAMES)
    return Comparison(names, cells, averages, tuple(notes))


def tables(found: Comparison) -> Iterator[Table]:
    """Printable: for each run and protocol the average's difference with interval and p, and each scenario's difference."""
    for (run, protocol), part in found.averages.group_by(["run", "protocol"], maintain_order=True):
        known = found.cells.filter(run=run, protocol=protocol)
        scenarios = in_order(known["scenario"])
        title = f"{escape(str(run))} less {escape(found.names[0])} ({protocol}), points of acc on the same samples"
        table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("model, condition", no_wrap=True)
        for name in ("pairs", "avg", "95%", "p (Holm)", "ps", *scenarios):
            table.add_column(name, justify="right", no_wrap=True)
        for row in part.iter_rows(named=True):
            cells = {
                one["scenario"]: one
                for one in known.filter(model=row["model"], condition=row["condition"]).iter_rows(named=True)
            }
            asked = "-" if row["ps_difference"] is None else signed(row["ps_difference"])
            table.add_row(
                escape(f"{row['model']}, {row['condition']}"), f"{row['n']:,}", signed(row["difference"]),
                f"{signed(row['difference_low'])} to {signed(row['difference_high'])}", p_value(row), asked,
                *(_difference(cells.get(name)) for name in scenarios),
            )  # fmt: skip
        yield table


def p_value(row: Mapping[str, Any]) -> str:
    """The corrected p of a row as text; in brackets the one of a baseline, which is not corrected."""
    value = row["p_holm"] if row["p_holm"] is not None else row["p"]
    text = "<0.001" if value is not None and value < 0.001 else f"{value:.3f}"
    return text if row["p_holm"] is not None else f"({text})"


def _difference(row: dict[str, float | None] | None) -> str:
    if row is None or row["difference"] is None:
        return "-"
    return signed(row["difference"]) + ("*" if significant(row["p_holm"]) else "")


def _pairs(run: RunData, base: RunData, name: str, first: str) -> tuple[pl.DataFrame, list[str]]:
    """Episodes of the run beside the first run's, on the same picture; and what is in no pair."""
    mine, theirs = _pictured(run), _pictured(base)
    both = mine.join(theirs.drop("cluster"), on=SAMPLE, suffix="_other")
    differs = (pl.col("image") != pl.col("image_other")).fill_null(False)
    same = both.filter(~differs)
    notes = []
    if other := both.height - same.height:
        notes.append(
            f"{counted(other, 'sample')} of {name} and {first} have other pictures under the same id: not paired"
        )
    cells = [set(rows.select(CELL).unique().rows()) for rows in (mine, theirs)]
    for only, said in ((cells[0] - cells[1], name), (cells[1] - cells[0], first)):
        if only:
            notes.append(f"{counted(len(only), 'cell')} of {said} alone, {_some(only)}")
    return same.drop("image", "image_other"), notes


def _pictured(run: RunData) -> pl.DataFrame:
    """``outcomes`` with the first picture of each episode, null where none could be asked about."""
    shown = run.turns.filter(pl.col("turn") == 0).select("key", "image")
    pictures = run.episodes.lazy().select("key", *SAMPLE).join(shown, on="key").drop("key").collect()
    return outcomes(run).join(pictures, on=SAMPLE, how="left")


def _some(cells: set[tuple[str, ...]]) -> str:
    shown = ["/".join(cell[:3]) for cell in sorted(cells)[:3]]
    return ", ".join(shown) + (", ..." if len(cells) > len(shown) else "")


def _family(run: RunData, base: RunData) -> pl.DataFrame:
    """The comparisons that both plan: of models, or of baselines where both plan nothing else."""
    both = run.planned.select(CELL).join(base.planned.select(CELL), on=CELL, how="semi")
    models = both.filter(~pl.col("model").is_in(list(run.baselines | base.baselines)))
    return both if models.is_empty() else models


def _limits(runs: Sequence[RunData]) -> Limits:
    most: dict[tuple[str, str], int] = {}
    for run in runs:
        for cell, limit in suggestion_limits(run).items():
            most[cell] = max(limit, most.get(cell, 0))
    return most


def configuration(base: RunData, run: RunData, first: str, name: str) -> list[str]:
    """What differs between two resolved sweeps, without what does not identify a run."""
    before, after = run_folder.settings(base.sweep), run_folder.settings(run.sweep)
    changed = [line.replace(", this sweep says ", f" in {first}, ") for line in run_folder.differences(before, after)]
    told = [f"{line.replace(' was ', ': ', 1)} in {name}" for line in changed]
    more = [f"{counted(len(told) - MOST, 'more difference')} of configuration"] if len(told) > MOST else []
    return [*told[:MOST], *more] or [f"{first} and {name} are of the same configuration"]


def distinct(folders: Sequence[Path]) -> tuple[str, ...]:
    """Names of the runs: their folders', with as much of the path as tells them apart."""
    for parts in range(1, max(len(folder.resolve().parts) for folder in folders) + 1):
        names = tuple("/".join(folder.resolve().parts[-parts:]) for folder in folders)
        if len(set(names)) == len(names):
            return names
    return tuple(str(folder.resolve()) for folder in folders)
