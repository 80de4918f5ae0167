"""Comparison of two or more runs on the same model, condition and samples, and differences of their configurations.

Differences are a run minus the first one, over pairs of episodes. Stars are corrected in two families (Holm): the averages of
accuracy, and everything else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from actors.text.printable import list_first
from envs import in_paper_order
from envs.errors import RunFolderError
from envs.plural import pluralize
from orchestrator.inspection.certificate import compare_certificates, read_certificates
from orchestrator.report.measures.clustering import clustering, describe_clusters
from orchestrator.report.measures.families import correct_together
from orchestrator.report.measures.outcomes import outcomes
from orchestrator.report.measures.paired_tests import compare_averages, compare_pairs, is_significant, tally_pairs
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.model_input import joint_input_notes
from orchestrator.report.tables.parts import Row, by_column, change_cell, signed_cell
from orchestrator.report.tables.table import MISSING, Column, Line, Table, TableCell
from orchestrator.report.wording import format_p
from orchestrator.storage import run_folder
from sweeps.sections import MARGIN

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
    Column("p", "of Avg, after Holm's correction over all averages of models"),
    Column("ps", "difference in suggestions per episode, with its 95% interval"),
    Column("loops", "difference in episodes that end at the turn limit, in points, with its 95% interval"),
)
ABOUT_SCENARIO = "difference of accuracy on {}, in points; * p below 0.05 after Holm's correction, = within the margin"
LEGEND = (
    "* p below 0.05 after Holm's correction: averages of accuracy as one family, scenarios and suggestions as another; = the "
    "difference is within the margin of [evidence], by default 2 points"
)


class NothingInCommon(RunFolderError):
    """No model and condition of the runs have a sample in common."""


@dataclass(frozen=True)
class RunComparison:
    """Differences of runs from the first one."""

    names: tuple[str, ...]
    cells: pl.DataFrame
    """One row per run x model x scenario x condition x protocol; columns of ``compare_pairs``, with corrected p: ``acc`` is the
    run's, ``acc_other`` the first run's."""
    averages: pl.DataFrame
    """One row per run x model x condition x protocol; columns of ``compare_averages``, with corrected p."""
    notes: tuple[str, ...]
    """Sentences on differences of configuration and on unpaired cells."""
    input_notes: tuple[str, ...] = ()
    """Sentences below every table on runs whose model input is not certified."""


def compare_runs(runs: Sequence[RunData]) -> RunComparison:
    """Compare every further run with the first, paired by sample; raises NothingInCommon if there is no pair.

    Runs of one model each are compared whatever the two models are.

    An episode without a partner, with an error, or with another picture under the same id is in no pair.
    """
    names = distinct_names([run.folder for run in runs])
    base, notes = runs[0], []
    pairs = []
    for run, name in zip(runs[1:], names[1:], strict=True):
        paired, unpaired = _pair_episodes(run, base, name, names[0])
        pairs.append(paired.with_columns(pl.lit(name).alias("run")))
        notes += [*configuration_differences(base, run, names[0], name), *unpaired]
        inputs = (read_certificates(base.folder), read_certificates(run.folder))
        notes += compare_certificates(*inputs, names[0], name)
        if clustering(run)["counts"].any():
            notes.append(f"intervals of {name}: {describe_clusters(run)}")
    paired_episodes = pl.concat(pairs)
    if paired_episodes.is_empty():
        raise NothingInCommon(
            f"{', '.join(names)} have no model and condition on the same samples in common, so there is nothing to compare"
        )
    cells, averages = _test_differences(runs, paired_episodes)
    uncertified = joint_input_notes(dict(zip(names, runs, strict=True)))
    return RunComparison(names, cells, averages, tuple(notes), tuple(uncertified))


def _test_differences(runs: Sequence[RunData], pairs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the differences of cells and of averages, with p corrected over models, or over baselines if there are no models."""
    tallies, evidence = tally_pairs(pairs.lazy(), ["run", *CELL]), runs[0].sweep.evidence
    margin = evidence.margin if evidence else MARGIN
    cells = compare_pairs(tallies, ["run", *CELL], margin)
    averages = compare_averages(tallies, NAMES, margin).with_columns(pl.lit("primary").alias("endpoint"))
    baselines = frozenset().union(*(run.baselines for run in runs))
    tested = set(averages["model"]) - baselines or set(averages["model"])
    cells, averages = correct_together([cells, averages], tested)
    return cells, averages.drop("endpoint")


def comparison_tables(comparison: RunComparison) -> Iterator[Table]:
    """Yield a table per further run and protocol: the average difference with interval and p, and each scenario's."""
    groups = comparison.averages.group_by(["run", "protocol"], maintain_order=True)
    for number, ((run, protocol), averages) in enumerate(groups):
        cells = comparison.cells.filter(run=run, protocol=protocol)
        scenarios = in_paper_order(cells["scenario"])
        heads = (*COLUMNS, *(Column(name, ABOUT_SCENARIO.format(name)) for name in scenarios))
        title = f"{run} less {comparison.names[0]} ({protocol}), same samples"
        lines = tuple(_difference_line(row, cells, scenarios) for row in averages.iter_rows(named=True))
        notes = comparison.input_notes
        yield Table(f"difference-{number}", title, heads, lines, notes=notes, search=len(lines) > 1)


def _difference_line(row: Row, cells: pl.DataFrame, scenarios: Sequence[str]) -> Line:
    changes = by_column(cells.filter(model=row["model"], condition=row["condition"]))
    return (
        TableCell(row["model"], row["model"]),
        TableCell(row["condition"], row["condition"]),
        TableCell(f"{row['n']:,}", row["n"]),
        signed_cell(row, "difference"),
        MISSING if row["p_holm"] is None else TableCell(format_p(row["p_holm"]), row["p_holm"]),
        signed_cell(row, "ps_difference", 2, "*" if is_significant(row["ps_p_holm"]) else ""),
        signed_cell(row, "loops_difference"),
        *(change_cell(changes.get(name)) for name in scenarios),
    )


def _pair_episodes(run: RunData, base: RunData, name: str, first: str) -> tuple[pl.DataFrame, list[str]]:
    """Return pairs of episodes on the same picture, and notes on episodes and cells without a pair."""
    own, theirs = _with_pictures(run), _with_pictures(base)
    if pair := _model_pair(run, base):
        own, theirs = (frame.with_columns(pl.lit(pair).alias("model")) for frame in (own, theirs))
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


def _model_pair(run: RunData, base: RunData) -> str:
    """Return a name for the models of two runs that have one each, so that these are compared; empty for other runs."""
    models = [[model.name for model in each.sweep.models] for each in (run, base)]
    is_pair = all(len(names) == 1 for names in models) and models[0] != models[1]
    return f"{models[0][0]} less {models[1][0]}" if is_pair else ""


def _with_pictures(run: RunData) -> pl.DataFrame:
    """Return ``outcomes`` with the first picture of each episode, null if there is none."""
    first_turns = run.turns.filter(pl.col("turn") == 0).select("key", "image")
    pictures = run.episodes.lazy().select("key", *SAMPLE).join(first_turns, on="key").drop("key").collect()
    return outcomes(run).join(pictures, on=SAMPLE, how="left")


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
