"""Comparison of two or more runs on the same model, condition and samples, and differences of their configurations.

Differences are a run minus the first one, over pairs of episodes. Stars are corrected in two families (Holm): the averages of
accuracy, and everything else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from actors.text.printable import list_first
from envs.errors import RunFolderError
from envs.plural import pluralize
from orchestrator.inspection.certificate import compare_certificates, read_certificates
from orchestrator.report.measures.clustering import clustering, describe_clusters, outcomes
from orchestrator.report.measures.paired import CELL, compare, correct_together, tally_pairs
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.evidence import change_table
from orchestrator.report.tables.model_input import joint_input_notes
from orchestrator.report.tables.table import Table
from orchestrator.storage import run_folder
from sweeps.sections import MARGIN

NAMES = ["run", "model", "condition", "protocol"]
SAMPLE = [*CELL, "sample_id"]
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
    """One row per run x model x scenario x condition x protocol (``measures.paired.compare``), with corrected p: ``acc`` is the
    run's, ``acc_other`` the first run's."""
    averages: pl.DataFrame
    """One row per run x model x condition x protocol, with corrected p."""
    notes: tuple[str, ...]
    """Sentences on differences of configuration and on unpaired cells."""
    input_notes: tuple[str, ...] = ()
    """Sentences below every table on runs whose model input is not certified."""


def compare_runs(runs: Sequence[RunData]) -> RunComparison:
    """Compare every further run with the first, paired by sample; raises NothingInCommon if there is no pair.

    Runs of one model each are compared whatever the two models are. An episode without a partner, with an error, or with another
    picture under the same id is in no pair.
    """
    names = distinct_names([run.folder for run in runs])
    base, notes, pairs = runs[0], [], []
    for run, name in zip(runs[1:], names[1:], strict=True):
        paired, unpaired = _pair_episodes(run, base, name, names[0])
        pairs.append(paired.with_columns(pl.lit(name).alias("run")))
        inputs = (read_certificates(base.folder), read_certificates(run.folder))
        notes += [*configuration_differences(base, run, names[0], name), *unpaired]
        notes += compare_certificates(*inputs, names[0], name)
        if clustering(run)["counts"].any():
            notes.append(f"intervals of {name}: {describe_clusters(run)}")
    paired_episodes = pl.concat(pairs)
    if paired_episodes.is_empty():
        raise NothingInCommon(
            f"{', '.join(names)} have no model and condition on the same samples in common, so there is nothing to compare"
        )
    evidence = base.sweep.evidence
    margin, group = evidence.margin if evidence else MARGIN, ["run", *CELL]
    cells, averages = compare(tally_pairs(paired_episodes.lazy(), group), group, margin)
    averages = averages.with_columns(pl.lit("primary").alias("endpoint"))
    baselines = frozenset().union(*(run.baselines for run in runs))
    tested = set(averages["model"]) - baselines or set(averages["model"])
    cells, averages = correct_together([cells, averages], tested)
    uncertified = joint_input_notes(dict(zip(names, runs, strict=True)))
    return RunComparison(names, cells, averages.drop("endpoint"), tuple(notes), tuple(uncertified))


def comparison_tables(comparison: RunComparison) -> Iterator[Table]:
    """Yield a table per further run and protocol: the average difference with its interval, and each scenario's."""
    groups = comparison.averages.group_by(["run", "protocol"], maintain_order=True)
    for number, ((run, protocol), averages) in enumerate(groups):
        table = change_table(averages, comparison.cells.filter(run=run, protocol=protocol))
        title = f"{run} less {comparison.names[0]} ({protocol}), same samples"
        yield replace(table, name=f"difference-{number}", title=title, notes=comparison.input_notes, is_open=True)


def _pair_episodes(run: RunData, base: RunData, name: str, first: str) -> tuple[pl.DataFrame, list[str]]:
    """Return pairs of episodes on the same picture, and notes on episodes and cells without a pair."""
    own, theirs = _with_pictures(run), _with_pictures(base)
    models = [[model.name for model in each.sweep.models] for each in (run, base)]
    if models[0] != models[1] and {1} == {len(names) for names in models}:
        pair = pl.lit(f"{models[0][0]} less {models[1][0]}").alias("model")
        own, theirs = own.with_columns(pair), theirs.with_columns(pair)
    both = own.join(theirs.drop("cluster"), on=SAMPLE, suffix="_other")
    same = both.filter((pl.col("image") == pl.col("image_other")).fill_null(True))
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
    return outcomes(run).join(first_pictures(run), on=SAMPLE, how="left")


def first_pictures(run: RunData) -> pl.DataFrame:
    """Return the first picture that each episode shows: ``SAMPLE`` and image."""
    first_turns = run.turns.filter(pl.col("turn") == 0).select("key", "image")
    return run.episodes.lazy().select("key", *SAMPLE).join(first_turns, on="key").drop("key").collect()


def configuration_differences(base: RunData, run: RunData, first: str, name: str) -> list[str]:
    """Return the differences between two sweeps in the settings that identify a run, one sentence each."""
    before, after = run_folder.settings(base.sweep), run_folder.settings(run.sweep)
    changed = run_folder.differences(before, after, between=f" in {first}, ")
    lines = [f"{line.replace(' was ', ': ', 1)} in {name}" for line in changed]
    return lines or [f"{first} and {name} are of the same configuration"]


def distinct_names(folders: Sequence[Path]) -> tuple[str, ...]:
    """Return the names of the runs: the last parts of their folders' paths, as many as make them distinct."""
    paths = [folder.resolve().parts for folder in folders]
    counts = range(1, max(map(len, paths)) + 1)
    return next(
        names for n in counts if len(set(names := tuple("/".join(parts[-n:]) for parts in paths))) == len(names)
    )
