"""One ranking per condition of the multiple-choice models of one or more run folders.

Models are ranked as in one run's report (``orchestrator.report.measures.ranking``), on the samples that all of them answered.
Folders whose samples differ are refused.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from envs import in_paper_order
from envs.errors import RunFolderError
from envs.plural import pluralize
from orchestrator.report.comparisons.run_comparison import configuration_differences, distinct_names, first_pictures
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.ranking import ranking
from orchestrator.report.read_run import NO_DATA
from orchestrator.report.run_data import RunData, rank_of
from orchestrator.report.scores.metrics import is_headline
from orchestrator.report.tables.model_input import joint_input_notes
from orchestrator.report.tables.parts import measure_cell, number_cell, scenario_cells
from orchestrator.report.tables.table import MISSING, Column, Table, TableCell, drop_empty_columns
from sweeps.protocol import HEADLINE
from sweeps.spec import Protocol

KINDS = {"builtin": "baseline", "human": "person"}
"""Backend -> kind of an entrant that is not a model."""
RANKED = ("rank", "rank_low", "rank_high", "average")
MEASURED = ("acc", "acc_low", "acc_high", "ps", "ps_low", "ps_high", "asks", "asks_low", "asks_high")
COLUMNS = {
    "avg %": "accuracy averaged over scenarios with equal weights, with its 95% interval",
    "rank": "by average accuracy, on the samples that all ranked rows answered; only complete rows are ranked",
    "ranks": "ranks that are not excluded: all true ranks lie in their bounds in 95% of runs",
    "shared %": "the average over the samples that all ranked rows answered, by which they are ranked",
    "asks %": "episodes whose first reply is a suggestion, averaged over scenarios, with its 95% interval",
    "ps": "suggestions per episode, averaged over scenarios, with its 95% interval",
    "played": "finished (of planned) episodes",
}


@dataclass(frozen=True)
class Entrant:
    """A model, a person or a baseline of one run."""

    name: str
    """Name on the leaderboard."""
    model: str
    """Name in its run."""
    run: str
    kind: str


@dataclass(frozen=True)
class Leaderboard:
    """Ranked entrants of one or more runs."""

    entrants: Mapping[str, Entrant]
    rows: pl.DataFrame
    """One row per condition and entrant, best first: name, condition, ``RANKED`` (null if not ranked; ``average`` is over the
    samples that all ranked entrants answered), ``MEASURED`` (percent, suggestions) over all episodes, scenarios, complete,
    planned, finished, errors."""
    cells: pl.DataFrame
    """One row per condition, entrant and scenario: model, condition, scenario, ``MEASURED``, planned, finished, errors."""
    folders: Mapping[str, Path]
    """Run -> its folder."""
    notes: tuple[str, ...]
    input_notes: tuple[str, ...] = ()
    """Sentences below every table on runs whose model input is not certified."""


def build_leaderboard(runs: Sequence[RunData]) -> Leaderboard:
    """Rank the models of these runs; raises RunFolderError if their pictures differ or none has multiple choice."""
    mcqa = pl.col("protocol") == "mcqa"
    runs = [replace(run, planned=run.planned.filter(mcqa), episodes=run.episodes.filter(mcqa)) for run in runs]
    folders = [run.folder for run in runs]
    names = distinct_names(folders)
    if not any(run.planned.height for run in runs):
        raise RunFolderError(f"{', '.join(names)}: open-ended answers are not ranked; `report` shows their tables")
    _check_same_samples(dict(zip(names, runs, strict=True)))
    entrants = _name_entrants(runs, names)
    joined = _join_runs(runs, names, entrants)
    rows, listed = _leaderboard_rows(joined), {entrant.name: entrant for entrant in entrants.values()}
    notes = [*_describe_runs(runs, names), *_describe_unranked(rows, listed)]
    inputs = joint_input_notes(dict(zip(names, runs, strict=True)))
    places = dict(zip(names, folders, strict=True))
    return Leaderboard(listed, rows, estimate(joined).cells, places, tuple(notes), tuple(inputs))


def leaderboard_tables(leaderboard: Leaderboard, pages: Mapping[str, str]) -> Iterator[Table]:
    """Yield a table per condition, baselines last; names link to the report ``pages`` of their runs."""
    heads = [Column("model", number=False), *map(Column, COLUMNS, COLUMNS.values()), Column("run", number=False)]
    for (condition,), rows in leaderboard.rows.group_by(["condition"], maintain_order=True):
        cells = leaderboard.cells.filter(condition=condition)
        scenarios, kinds = in_paper_order(cells["scenario"]), []
        lines: list[tuple[int, tuple[TableCell, ...]]] = []
        for row in rows.iter_rows(named=True):
            entrant = leaderboard.entrants[row["name"]]
            kinds.append(entrant.kind)
            ranks = f"{row['rank_low']}–{row['rank_high']}"
            played = f"{row['finished']:,}" + (f"/{row['planned']:,}" if row["finished"] < row["planned"] else "")
            own = cells.filter(model=row["name"]).drop_nulls("acc")
            line = (
                TableCell(
                    row["name"], row["name"], "a person" if entrant.kind == "person" else "", link=pages[entrant.run]
                ),
                measure_cell(row, "acc"),
                number_cell(row["rank"], "d"),
                MISSING if row["rank"] is None else TableCell(ranks, row["rank_low"]),
                number_cell(row["average"] if row["average"] != row["acc"] else None),
                measure_cell(row, "asks"),
                measure_cell(row, "ps"),
                TableCell(played, row["finished"]),
                TableCell(entrant.run if len(pages) > 1 else MISSING.text, entrant.run),
                *scenario_cells(own, scenarios, lambda cell: measure_cell(cell, "acc")),
            )
            lines.append((entrant.kind == "baseline", line))
        lines.sort(key=lambda line: line[0])
        name = "".join(char if char.isalnum() else "-" for char in str(condition))
        score = f", score ({HEADLINE})" if is_headline(cells) else ""
        columns = (*heads, *(Column(f"{scenario} %", f"accuracy on {scenario}") for scenario in scenarios))
        table = Table(
            name, f"{condition}{score}", columns, tuple(line for _, line in lines), None, len(kinds) - kinds.count("baseline"),
            leaderboard.input_notes, fold_baselines=True, is_open=True,
        )  # fmt: skip
        yield drop_empty_columns(table)


def _check_same_samples(runs: Mapping[str, RunData]) -> None:
    """Raise RunFolderError if two runs have different pictures under one id."""
    same = ["scenario", "condition", "sample_id"]
    pictures = [first_pictures(run).select(*same, "image", pl.lit(name).alias("run")) for name, run in runs.items()]
    rows = pl.concat(pictures).unique([*same, "image"], keep="first", maintain_order=True)
    for scenario, names in rows.group_by(same, maintain_order=True).agg("run").select("scenario", "run").iter_rows():
        if len(names) > 1:
            raise RunFolderError(
                f"{names[0]} and {names[1]} have different pictures of {scenario} under the same id, so their data differ"
                " and they cannot be ranked together"
            )


def _name_entrants(runs: Sequence[RunData], names: Sequence[str]) -> dict[tuple[str, str], Entrant]:
    """Return the entrant of each (run, model).

    A name that occurs in several runs gets its run in brackets; a baseline is taken only from the first run that has it.
    """
    kinds: dict[tuple[str, str], str] = {}
    for run, name in zip(runs, names, strict=True):
        listed, planned = {model for _, model in kinds}, set(run.planned["model"])
        for model in run.sweep.models:
            kind = KINDS.get(model.backend, "model")
            if model.name in planned and not (kind == "baseline" and model.name in listed):
                kinds[name, model.name] = kind
    counts = Counter(model for _, model in kinds)
    return {
        (run_name, model): Entrant(model if counts[model] == 1 else f"{model} ({run_name})", model, run_name, kind)
        for (run_name, model), kind in kinds.items()
    }


def _join_runs(runs: Sequence[RunData], names: Sequence[str], entrants: Mapping[tuple[str, str], Entrant]) -> RunData:
    planned, episodes, models, samples = [], [], [], dict[str, Mapping[int, object]]()
    for run, name in zip(runs, names, strict=True):
        entrant_names = {model: entrant.name for (run_name, model), entrant in entrants.items() if run_name == name}
        planned.append(_rename_models(run.planned, entrant_names))
        episodes.append(_rename_models(run.episodes, entrant_names))
        specs = [spec for spec in run.sweep.models if spec.name in entrant_names]
        models += [spec.model_copy(update={"name": entrant_names[spec.name]}) for spec in specs]
        samples = {**run.samples, **samples}
    conditions = {spec.name: spec for run in runs for spec in run.sweep.conditions}
    sweep = runs[0].sweep.model_copy(update={"models": tuple(models), "conditions": tuple(conditions.values())})
    joined = {"planned": pl.concat(planned), "episodes": pl.concat(episodes), "samples": samples}
    return replace(runs[0], sweep=sweep, **joined)  # type: ignore[arg-type]


def _rename_models(rows: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    rows = rows.filter(pl.col("model").is_in(list(names)))
    model = pl.col("model").replace_strict(names, return_dtype=pl.String) if names else pl.col("model")
    rest = pl.col("cell").str.splitn("/", 2).struct[1]
    return rows.with_columns(model.alias("model"), pl.concat_str(model, rest, separator="/").alias("cell"))


def _leaderboard_rows(run: RunData) -> pl.DataFrame:
    averages = estimate(run).averages.rename({"model": "name"})
    counts = run.rows.group_by("model", "condition").agg(pl.col("planned", "finished", "errors").sum())
    ranks = [
        ranking(run, condition).select(pl.col("model").alias("name"), *RANKED, pl.lit(condition).alias("condition"))
        for condition in averages["condition"].unique()
    ]
    rows = averages.select("name", "condition", *MEASURED, "scenarios", "complete")
    rows = rows.join(counts.rename({"model": "name"}), on=["name", "condition"])
    rows = rows.join(pl.concat(ranks), on=["name", "condition"], how="left")
    condition = rank_of("condition", [spec.name for spec in run.sweep.conditions])
    return rows.sort(condition, "rank", "acc", "name", descending=[False, False, True, False], nulls_last=True)


def _describe_runs(runs: Sequence[RunData], names: Sequence[str]) -> Iterator[str]:
    """Yield the differences of configuration, the protocols that are not ranked, and the notes of each run, as sentences."""
    for run, name in zip(runs[1:], names[1:], strict=True):
        changes = configuration_differences(runs[0], run, names[0], name)
        yield from (line for line in changes if not line.startswith(("models: ", "name: ")))
    for run, name in zip(runs, names, strict=True):
        if others := [protocol.label for protocol in run.sweep.protocols if protocol is not Protocol.MCQA]:
            yield f"{name} has {' and '.join(sorted(others))} too, which are not ranked here"
        yield from (f"{name}: {line}" for line in run.notes if not line.startswith(NO_DATA))


def _describe_unranked(rows: pl.DataFrame, entrants: Mapping[str, Entrant]) -> Iterator[str]:
    """Yield one sentence per condition with the number of unranked rows and the reason."""
    baselines = [name for name, entrant in entrants.items() if entrant.kind == "baseline"]
    unranked = rows.filter(pl.col("rank").is_null() & ~pl.col("name").is_in(baselines))
    for (condition,), part in unranked.group_by(["condition"], maintain_order=True):
        n = pluralize(part.height, "row")
        yield f"{condition}: {n} without a rank, which needs two models that have completed all scenarios"
