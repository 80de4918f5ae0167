"""Comparison of two or more runs on the same model, condition and samples, and differences of their configurations.

Differences are a run minus the first one, over pairs of episodes; p is corrected over all comparisons that both runs plan.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import polars as pl

from actors.text.printable import list_first
from envs import in_paper_order
from envs.errors import RunFolderError
from envs.plural import pluralize
from orchestrator.inspection.certificate import compare_certificates, read_certificates
from orchestrator.report.measures.clustering import clustering, describe_clusters
from orchestrator.report.measures.estimates import suggestion_limits
from orchestrator.report.measures.families import evidence_settings
from orchestrator.report.measures.outcomes import outcomes
from orchestrator.report.measures.paired_averages import compare_averages
from orchestrator.report.measures.paired_tests import SuggestionLimits, compare_pairs, tally_pairs
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.model_input import joint_input_notes
from orchestrator.report.tables.parts import Row, by_column, change_cell, format_limits
from orchestrator.report.tables.table import MISSING, Column, Line, Table, TableCell
from orchestrator.report.wording import format_p, format_signed
from orchestrator.storage import run_folder

NAMES = ["run", "model", "condition", "protocol"]
CELL = ["model", "scenario", "condition", "protocol"]
SAMPLE = [*CELL, "sample_id"]
MOST = 20
"""Largest number of differences of configuration that are listed."""
COLUMNS = (
    Column("Model", number=False),
    Column("Condition", number=False, filter=True),
    Column("Pairs", "samples that both runs answered"),
    Column("Avg", "difference of accuracy averaged over scenarios, in points, with its 95% interval"),
    Column("p", "after Holm's correction over all rows of models; in brackets that of baselines, not corrected"),
    Column("ps", "difference in suggestions per episode, with its 95% interval"),
    Column("loops", "difference in episodes that end at the turn limit, in points, with its 95% interval"),
)
ABOUT_SCENARIO = "difference of accuracy on {}, in points; * p below 0.05 after Holm's correction, = within the margin"
LEGEND = (
    "* p below 0.05 after Holm's correction over all rows of models; (p) of baselines is not corrected; = the difference is "
    "within the margin of [evidence], by default 2 points"
)


class NothingInCommon(RunFolderError):
    """No model and condition of the runs have a sample in common."""


@dataclass(frozen=True)
class RunComparison:
    """Differences of runs from the first one."""

    names: tuple[str, ...]
    cells: pl.DataFrame
    """One row per run x model x scenario x condition x protocol; the columns are those of
    ``paired_tests.compare_conditions``: ``acc`` is the run's, ``acc_other`` the first run's."""
    averages: pl.DataFrame
    """One row per run x model x condition x protocol; the columns are those of ``paired_averages.compare_condition_averages``."""
    notes: tuple[str, ...]
    """Sentences on differences of configuration and on unpaired cells."""
    input_notes: tuple[str, ...] = ()
    """Sentences below every table on runs whose model input is not certified."""


def compare_runs(runs: Sequence[RunData]) -> RunComparison:
    """Compare every further run with the first, paired by sample; raises NothingInCommon if there is no pair.

    An episode without a partner, with an error, or with another picture under the same id is in no pair.
    """
    names = distinct_names([run.folder for run in runs])
    base, notes = runs[0], []
    pairs, family = [], []
    for run, name in zip(runs[1:], names[1:], strict=True):
        paired, unpaired = _pair_episodes(run, base, name, names[0])
        pairs.append(paired.with_columns(pl.lit(name).alias("run")))
        family.append(_declared_comparisons(run, base).with_columns(pl.lit(name).alias("run")))
        notes += [*configuration_differences(base, run, names[0], name), *unpaired]
        inputs = (read_certificates(base.folder), read_certificates(run.folder))
        notes += compare_certificates(*inputs, names[0], name)
        if clustering(run)["counts"].any():
            notes.append(f"intervals of {name}: {describe_clusters(run)}")
    paired_episodes, declared = pl.concat(pairs), pl.concat(family)
    if paired_episodes.is_empty():
        raise NothingInCommon(
            f"{', '.join(names)} have no model and condition on the same samples in common, so there is nothing to compare"
        )
    limits, tallies = _joint_limits(runs), tally_pairs(paired_episodes.lazy(), ["run", *CELL])
    margin, _ = evidence_settings(base)
    cells = compare_pairs(tallies, ["run", *CELL], declared, limits, margin)
    averages = compare_averages(limits, tallies, declared.select(NAMES).unique(), NAMES, margin)
    uncertified = joint_input_notes(dict(zip(names, runs, strict=True)))
    return RunComparison(names, cells, averages, tuple(notes), tuple(uncertified))


def comparison_tables(comparison: RunComparison) -> Iterator[Table]:
    """Yield a table per further run and protocol: the average difference with interval and p, and each scenario's."""
    groups = comparison.averages.group_by(["run", "protocol"], maintain_order=True)
    for number, ((run, protocol), averages) in enumerate(groups):
        cells = comparison.cells.filter(run=run, protocol=protocol)
        scenarios = in_paper_order(cells["scenario"])
        heads = (*COLUMNS, *(Column(name, ABOUT_SCENARIO.format(name)) for name in scenarios))
        title = f"{run} less {comparison.names[0]} ({protocol}), points of acc on the same samples"
        lines = tuple(_difference_line(row, cells, scenarios) for row in averages.iter_rows(named=True))
        notes = comparison.input_notes
        yield Table(f"difference-{number}", title, heads, lines, notes=notes, search=len(lines) > 1)


def _difference_line(row: Row, cells: pl.DataFrame, scenarios: Sequence[str]) -> Line:
    changes = by_column(cells.filter(model=row["model"], condition=row["condition"]))
    return (
        TableCell(row["model"], row["model"]),
        TableCell(row["condition"], row["condition"]),
        TableCell(f"{row['n']:,}", row["n"]),
        TableCell(format_signed(row["difference"]), row["difference"], format_limits(row, "difference")),
        _p_value_cell(row),
        _asking_cell(row, "ps", digits=2),
        _asking_cell(row, "loops"),
        *(change_cell(changes.get(name)) for name in scenarios),
    )


def _asking_cell(row: Row, measure: str, digits: int = 1) -> TableCell:
    """Return the difference of ps or loops with its interval; missing for open-ended answers."""
    value, low, high = (row[f"{measure}_{part}"] for part in ("difference", "low", "high"))
    if value is None:
        return MISSING
    return TableCell(
        format_signed(value, digits), value, f"{format_signed(low, digits)} to {format_signed(high, digits)}"
    )


def _p_value_cell(row: Row) -> TableCell:
    """Return the corrected p of a row; in brackets that of a baseline, which is not corrected."""
    value = row["p"] if row["p_holm"] is None else row["p_holm"]
    text = format_p(value)
    return TableCell(f"({text})" if row["p_holm"] is None else text, value)


def _pair_episodes(run: RunData, base: RunData, name: str, first: str) -> tuple[pl.DataFrame, list[str]]:
    """Return pairs of episodes on the same picture, and notes on episodes and cells without a pair."""
    own, theirs = _with_pictures(run), _with_pictures(base)
    both = own.join(theirs.drop("cluster"), on=SAMPLE, suffix="_other")
    differs = (pl.col("image") != pl.col("image_other")).fill_null(False)
    same = both.filter(~differs)
    notes = []
    if mismatched := both.height - same.height:
        notes.append(
            f"{pluralize(mismatched, 'sample')} of {name} and {first} have different pictures under one id and are not paired"
        )
    cells = [set(rows.select(CELL).unique().rows()) for rows in (own, theirs)]
    for only, run_name in ((cells[0] - cells[1], name), (cells[1] - cells[0], first)):
        if only:
            cell_names = ["/".join(cell[:3]) for cell in sorted(only)]
            notes.append(f"{pluralize(len(only), 'cell')} only in {run_name}: {list_first(cell_names)}")
    return same.drop("image", "image_other"), notes


def _with_pictures(run: RunData) -> pl.DataFrame:
    """Return ``outcomes`` with the first picture of each episode, null if there is none."""
    first_turns = run.turns.filter(pl.col("turn") == 0).select("key", "image")
    pictures = run.episodes.lazy().select("key", *SAMPLE).join(first_turns, on="key").drop("key").collect()
    return outcomes(run).join(pictures, on=SAMPLE, how="left")


def _declared_comparisons(run: RunData, base: RunData) -> pl.DataFrame:
    """Return the comparisons that both runs plan: of models, or of baselines if there are no models."""
    both = run.planned.select(CELL).join(base.planned.select(CELL), on=CELL, how="semi")
    models = both.filter(~pl.col("model").is_in(list(run.baselines | base.baselines)))
    return both if models.is_empty() else models


def _joint_limits(runs: Sequence[RunData]) -> SuggestionLimits:
    limits: dict[tuple[str, str], int] = {}
    for cell, limit in chain.from_iterable(suggestion_limits(run).items() for run in runs):
        limits[cell] = max(limit, limits.get(cell, 0))
    return limits


def configuration_differences(base: RunData, run: RunData, first: str, name: str) -> list[str]:
    """Return the differences between two sweeps in the settings that identify a run, one sentence each."""
    before, after = run_folder.settings(base.sweep), run_folder.settings(run.sweep)
    changed = run_folder.differences(before, after, between=f" in {first}, ")
    lines = [f"{line.replace(' was ', ': ', 1)} in {name}" for line in changed]
    rest = [f"{pluralize(len(lines) - MOST, 'more difference')} of configuration"] if len(lines) > MOST else []
    return [*lines[:MOST], *rest] or [f"{first} and {name} are of the same configuration"]


def distinct_names(folders: Sequence[Path]) -> tuple[str, ...]:
    """Return the names of the runs: the last parts of their folders' paths, as many as make them distinct."""
    for parts in range(1, max(len(folder.resolve().parts) for folder in folders) + 1):
        names = tuple("/".join(folder.resolve().parts[-parts:]) for folder in folders)
        if len(set(names)) == len(names):
            return names
    return tuple(str(folder.resolve()) for folder in folders)
