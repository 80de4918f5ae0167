"""Comparison of two or more runs on the same model, condition and samples, and differences of their configurations.

Differences are a run minus the first one, over pairs of episodes. Stars are corrected in two families (Holm): the averages of
accuracy, and everything else.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl
from scipy.special import ndtri  # type: ignore[import-untyped]

from actors.text.printable import list_first
from envs.errors import RunFolderError
from envs.plural import pluralize
from orchestrator.inspection.certificate import compare_certificates, read_certificates
from orchestrator.report.measures.clustering import clustering, describe_clusters, outcomes
from orchestrator.report.measures.paired import CELL, compare, correct_together, equality_margin, tally_pairs
from orchestrator.report.run_data import RunData
from orchestrator.report.statistics.clustered import ALPHA
from orchestrator.report.statistics.proportion import Z
from orchestrator.report.tables.evidence import change_table, input_notes
from orchestrator.report.tables.parts import TEXTS
from orchestrator.report.tables.table import Table
from orchestrator.storage import run_folder

POWER = 0.8
LEGEND: str = TEXTS["difference"]["legend"]


@dataclass(frozen=True)
class RunComparison:
    """Differences of runs from the first one."""

    names: tuple[str, ...]
    cells: pl.DataFrame
    """One row per run x model x scenario x condition x protocol (``measures.paired.compare``), with corrected p: ``acc`` is the
    run's, ``acc_other`` the first run's."""
    averages: pl.DataFrame
    """One row per run x model x condition x protocol, with corrected p, and ``least``: the smallest true difference of accuracy
    (points) that gets a star in 80% of cases."""
    notes: tuple[str, ...]
    """Sentences on differences of configuration and on unpaired cells."""
    input_notes: tuple[str, ...] = ()
    """Sentences below every table on runs whose model input is not certified."""


def compare_runs(runs: Sequence[RunData]) -> RunComparison:
    """Compare every further run with the first, paired by sample.

    If two runs share no model and one of them has a single model, that model is compared with every model of the other run.
    Raises RunFolderError for fewer than two runs, a run named twice, runs without a pair, and as ``refuse_other_pictures``.
    """
    named = dict(zip(run_folder.name_runs([run.folder for run in runs]), runs, strict=True))
    refuse_other_pictures(named)
    (first, base), *others = named.items()
    if not others:
        raise RunFolderError(f"{first} is only one run; name another run to compare it with")
    notes, pairs = describe_differences(named), []
    for name, run in others:
        paired, unpaired = _pair_episodes(run, base, name, first)
        pairs.append(paired.with_columns(pl.lit(name).alias("run")))
        notes += unpaired
        notes += compare_certificates(read_certificates(base.folder), read_certificates(run.folder), first, name)
        if clustering(run)["counts"].any():
            notes.append(f"intervals of {name}: {describe_clusters(run)}")
    paired_episodes = pl.concat(pairs)
    if paired_episodes.is_empty():
        raise RunFolderError(
            f"{', '.join(named)} have no model and condition on the same samples in common, so there is nothing to compare"
        )
    group = ["run", *CELL]
    cells, averages = compare(tally_pairs(paired_episodes.lazy(), group), group, equality_margin(base.sweep))
    averages = averages.with_columns(pl.lit("primary").alias("endpoint"))
    baselines = frozenset().union(*(run.baselines for run in runs))
    tested = set(averages["model"]) - baselines or set(averages["model"])
    cells, averages = correct_together([cells, averages], tested)
    averages = averages.drop("endpoint").with_columns(least=_least_difference(averages))
    inputs = (f"{name}: {note}" for name, run in named.items() for note in input_notes(run.sweep, run.folder))
    return RunComparison(tuple(named), cells, averages, tuple(notes), tuple(inputs))


def _least_difference(averages: pl.DataFrame) -> pl.Expr:
    """Return the smallest true difference (points) that is significant with probability ``POWER``.

    By a normal test with the standard error of the interval, at alpha divided by the number of averages (Holm's first step).
    """
    reach = -float(ndtri(ALPHA / max(averages["p_holm"].count(), 1) / 2) + ndtri(1 - POWER))
    return reach * (pl.col("difference_high") - pl.col("difference_low")) / (2 * Z)


def comparison_tables(comparison: RunComparison) -> Iterator[Table]:
    """Yield a table per further run and protocol: the average difference with its interval, and each scenario's."""
    groups = comparison.averages.group_by(["run", "protocol"], maintain_order=True)
    for number, ((run, protocol), averages) in enumerate(groups):
        table = change_table(averages, comparison.cells.filter(run=run, protocol=protocol))
        title = f"{run} less {comparison.names[0]} ({protocol}), same samples"
        notes = comparison.input_notes
        if found := sorted(averages["least"].drop_nulls()):
            least = " to ".join(dict.fromkeys(f"{end:.1f}" for end in (found[0], found[-1])))
            notes = (f"A true difference of {least} points of accuracy gets a star in {POWER:.0%} of cases.", *notes)
        yield replace(table, name=f"difference-{number}", title=title, notes=notes)


def _pair_episodes(run: RunData, base: RunData, name: str, first: str) -> tuple[pl.DataFrame, list[str]]:
    """Return pairs of episodes on the same sample, and notes on cells without a pair."""
    own, theirs, cell = outcomes(run), outcomes(base), CELL
    if not {model.name for model in run.sweep.models} & {model.name for model in base.sweep.models}:
        own, theirs = run.models_or_baselines(own), base.models_or_baselines(theirs)
        if 1 in (own["model"].n_unique(), theirs["model"].n_unique()):
            cell = [column for column in CELL if column != "model"]
    notes = []
    for rows, others, run_name in ((own, theirs, name), (theirs, own, first)):
        if only := sorted(set(rows.select(cell).rows()) - set(others.select(cell).rows())):
            cell_names = ["/".join(names).removesuffix("/mcqa") for names in only]
            notes.append(f"{pluralize(len(only), 'cell')} only in {run_name}: {list_first(cell_names)}")
    pairs = own.join(theirs.drop("cluster"), on=[*cell, "sample_id"], suffix="_other")
    if "model_other" in pairs.columns:
        both = pl.concat_str("model", "model_other", separator=" less ")
        pairs = pairs.with_columns(model=both).drop("model_other")
    return pairs, notes


def refuse_other_pictures(runs: Mapping[str, RunData]) -> None:
    """Raise RunFolderError if the own first pictures of a sample differ; what conditions show in their place may differ."""
    same = ["scenario", "condition", "sample_id"]
    pictures = []
    for name, run in runs.items():
        first_turns = run.turns.filter(pl.col("turn") == 0).select("key", "image")
        with_own = run.episodes.lazy().filter(~pl.col("condition").is_in(run.unseen_conditions))
        first_pictures = with_own.join(first_turns, on="key").select(*same, "image", pl.lit(name).alias("run"))
        pictures.append(first_pictures.collect())
    rows = pl.concat(pictures).unique([*same, "image"], keep="first", maintain_order=True)
    for scenario, names in rows.group_by(same, maintain_order=True).agg("run").select("scenario", "run").iter_rows():
        if len(names) > 1:
            raise RunFolderError(
                f"{names[0]} and {names[1]} have different pictures of {scenario} under the same id, so their data differ"
                " and they cannot be compared"
            )


def describe_differences(runs: Mapping[str, RunData]) -> list[str]:
    """Return the settings in which each further run differs from the first, one sentence each."""
    (first, base), *others = runs.items()
    lines = list[str]()
    for name, run in others:
        before, after = run_folder.settings(base.sweep), run_folder.settings(run.sweep)
        changed = run_folder.differences(before, after, f" in {first}, ", ": ")
        lines += [f"{line} in {name}" for line in changed] or [f"{first} and {name} are of the same configuration"]
    return lines
