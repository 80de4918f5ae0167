"""Decisions to ask or to answer, compared with the model's decision map (condition every-frame), and their tables.

A map holds, for each sample, the pictures on which the model names the right category if it cannot ask. Regret is the number of
turns by which an episode went on too long (late) or ended too soon (early), given what this model needs for this sample.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from math import inf
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from envs import in_paper_order
from envs.types import Action, Ending, Mode, Verdict
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.tables.parts import Row, model_conditions
from orchestrator.report.tables.table import MISSING, Table, TableCell, columns, line
from proactive_operating.cells import scenario_clusters
from proactive_operating.frames import Moves
from proactive_operating.intervals import ENDS, interval_columns

NAMES = ("cell", "model", "scenario", "condition")
EPISODE = {
    **dict.fromkeys(("key", *NAMES), pl.String), "sample_id": pl.Int64, "asked_knowing": pl.Boolean,
    "answered_unknowing": pl.Boolean, "regret_late": pl.Int64, "regret_early": pl.Int64,
}  # fmt: skip
SAMPLE = {**dict.fromkeys(NAMES, pl.String), "sample_id": pl.Int64, "known_first": pl.Boolean, "needed": pl.Int64}
PERCENT = ("known_first", "known_ever", "asked_knowing", "answered_unknowing")
"""Measures in percent; all others are numbers of moves or turns."""
KNOWLEDGE = ("known_first", "known_ever", "needed")
REGRETS = ("asked_knowing", "answered_unknowing", "regret", "regret_late", "regret_early")


class Decisions(NamedTuple):
    """A run's decision maps, and the decisions in its episodes."""

    samples: pl.DataFrame
    """One row per model and mapped sample: names, sample_id, known_first, needed (moves to the nearest picture on which
    the model is right and a category counts; null if there is none)."""
    episodes: pl.DataFrame
    """One row per scored episode of a mapped sample: key, names, sample_id, asked_knowing (the model asked at a picture on
    which it is right), answered_unknowing (it named a category at a picture on which it is wrong or no category counts),
    regret_late (number of suggestions at pictures on which it is right), regret_early (moves still needed if answered_unknowing;
    null otherwise, or if no picture would have helped)."""


@cached_per_run
def decisions(run_data: RunData) -> Decisions:
    """Compare episodes that showed the sample's own pictures with the map of the same model and sample.

    Samples that cannot be read have no decisions.
    """
    names = [name for name, condition in run_data.conditions.items() if condition.every_frame][:1]
    maps = dict(_read_maps(run_data, names)) if names and run_data.asked.height else {}

    @cache
    def moves(scenario: str, number: int) -> Moves:
        return Moves.from_sample(run_data.samples[scenario][number])

    mapped = list[tuple[Any, ...]]()
    for (model, scenario, number), (cell, known) in maps.items():
        graph = moves(scenario, number)
        first = next(iter(graph.neighbors))
        knowledge = graph.knows(first, known), graph.moves_to_known(first, 0, known)
        mapped.append((cell, model, scenario, names[0], number, *knowledge))
    episodes = [
        _episode_row(moves(*key[1:]), row, maps[key][1])
        for row in (_read_episodes(run_data) if maps else ())
        if (key := (row[1], row[2], row[4])) in maps
    ]
    return Decisions(_to_frame(mapped, SAMPLE), _to_frame(episodes, EPISODE))


def _episode_row(moves: Moves, row: Sequence[Any], known: frozenset[str]) -> tuple[Any, ...]:
    """Return a row of ``EPISODE``; ``row`` is a row of ``_read_episodes``, ``known`` the pictures on which the model is right."""
    key, model, scenario, condition, sample_id, cell, images, actions = row
    knows = [moves.counts(turn) and moves.knows(image, known) for turn, image in enumerate(images)]
    late = sum(knew and action == Action.SUGGESTION for knew, action in zip(knows, actions, strict=True))
    unknowing = bool(actions) and actions[-1] == Action.CATEGORY and not knows[-1]
    early = moves.moves_to_known(images[-1], len(images) - 1, known) if unknowing else None
    return key, cell, model, scenario, condition, sample_id, late > 0, unknowing, late, early


def _read_maps(
    run_data: RunData, names: list[str]
) -> Iterator[tuple[tuple[str, str, int], tuple[str, frozenset[str]]]]:
    """Yield (model, scenario, sample) with the cell and the pictures on which the right category was named."""
    mapped = run_data.asked.filter(pl.col("condition").is_in(names), pl.col("ending") == Ending.MAPPED)
    right = pl.col("image").filter(pl.col("category") == Verdict.CORRECT).alias("right")
    rows = _named_turns(run_data, mapped).group_by("model", "scenario", "sample_id", "cell").agg(right)
    for model, scenario, number, cell, images in rows.collect().iter_rows():
        if number in run_data.samples.get(scenario, {}):
            yield (model, scenario, number), (cell, frozenset(images))


def _read_episodes(run_data: RunData) -> list[tuple[Any, ...]]:
    """Return key, model, scenario, condition, sample_id, cell, images and actions of the scored episodes of plain play."""
    conditions = run_data.conditions.items()
    plain = [name for name, c in conditions if c.mode is Mode.PLAY and not c.hides_picture and not c.rules]
    scored = run_data.scored.filter(pl.col("condition").is_in(plain), protocol="mcqa")
    names = ["key", "model", "scenario", "condition", "sample_id", "cell"]
    rows = _named_turns(run_data, scored).sort("key", "turn").group_by(names, maintain_order=True)
    return rows.agg("image", "action").collect().rows()


def _named_turns(run_data: RunData, episodes: pl.DataFrame) -> pl.LazyFrame:
    """Return the turns with the names of their episodes; sizes are removed from the names of pictures."""
    wanted = episodes.select("key", "model", "scenario", "condition", "sample_id", "cell")
    picture = pl.col("image").str.replace(r"\^\d+$", "")  # without its size, which does not change the view
    return (
        run_data.select_turns(episodes)
        .select("key", "turn", picture, "category", "action")
        .join(wanted.lazy(), on="key")
    )


def _to_frame(rows: list[tuple[Any, ...]], schema: Mapping[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict(schema), orient="row").sort("cell", "sample_id")


def knowledge_table(run_data: RunData) -> Table:
    """Return the share of samples that each model knows at the first picture and at any, and the moves to the nearest."""
    title = (
        "decision map: percent of samples whose category the model names at the first picture / at any reachable picture (with "
        "its interval); mean moves to the nearest such picture (over samples that have one)"
    )
    samples = decisions(run_data).samples.with_columns(known_ever=pl.col("needed").is_not_null())
    return _table(run_data, "decision-map", title, samples, KNOWLEDGE, _knowledge)


def regret_table(run_data: RunData) -> Table:
    """Return how well the questions and answers of each condition agree with the model's own map."""
    title = (
        "by the model's own decision map: percent of episodes that asked although it knew / answered although it could not know; "
        "mean turns of regret, with its interval (suggestions at known pictures, plus moves still needed)"
    )
    late, early = pl.col("regret_late"), pl.col("regret_early").fill_null(0)
    episodes = decisions(run_data).episodes.with_columns(regret=late + early, regret_early=early)
    return _table(run_data, "decisions", title, episodes, REGRETS, _regret)


def _table(
    run_data: RunData,
    name: str,
    title: str,
    frame: pl.DataFrame,
    measures: Sequence[str],
    cell: Callable[[Row], TableCell],
) -> Table:
    """Return a line per model and condition: a cell per scenario, and the mean over scenarios."""
    scenarios, lines, rows = in_paper_order(frame["scenario"].unique()), [], list[Row]()
    for model, condition, part in model_conditions(run_data, frame):
        by_scenario = {str(scenario): own for (scenario,), own in part.group_by("scenario", maintain_order=True)}
        figures = {name: _estimates(run_data, {name: own}, measures) for name, own in by_scenario.items()}
        cells = [cell(figures[name]) if name in figures else MISSING for name in scenarios]
        label = model if name == "decision-map" else f"{model}, {condition}"
        mean = cell(_estimates(run_data, by_scenario, measures)) if len(figures) == len(scenarios) else MISSING
        lines.append(line(label, [*cells, mean]))
        names = {"model": model, "condition": condition}
        rows += [
            {**names, "scenario": scenario, "mapped": by_scenario[scenario].height, **own}
            for scenario, own in figures.items()
        ]
    heads = columns("model", [*scenarios, f"mean of {len(scenarios)}"])
    schema = dict.fromkeys(("model", "condition", "scenario"), pl.String) | {"mapped": pl.Int64}
    figures_schema = {f"{measure}{end}": pl.Float64 for measure in measures for end in ENDS}
    return Table(name, title, heads, tuple(lines), pl.DataFrame(rows, schema={**schema, **figures_schema}))


def _estimates(run_data: RunData, scenarios: Mapping[str, pl.DataFrame], measures: Sequence[str]) -> dict[str, Any]:
    """Return the mean of each measure over scenarios, with ``_low`` and ``_high``; null without a value."""
    figures: dict[str, Any] = {}
    for measure in measures:
        scale = 100.0 if measure in PERCENT else 1.0
        strata = [
            (
                scale * rows[measure].cast(pl.Float64).fill_null(float("nan")).to_numpy(),
                np.array([clusters.get(number, number) for number in rows["sample_id"]]),
            )
            for scenario, rows in scenarios.items()
            for clusters in [scenario_clusters(run_data, scenario)]
        ]
        figures |= interval_columns(measure, strata, 0.0, 100.0 if measure in PERCENT else inf)
    return figures


def _knowledge(row: Row) -> TableCell:
    moves = "-" if row["needed"] is None else f"{row['needed']:.1f}"
    text = f"{row['known_first']:.0f} / {row['known_ever']:.0f}; {moves}"
    return TableCell(text, _limits(row, "known_ever", 0))


def _regret(row: Row) -> TableCell:
    text = f"{row['asked_knowing']:.0f} / {row['answered_unknowing']:.0f}; {row['regret']:.1f}"
    return TableCell(text, _limits(row, "regret", 1))


def _limits(row: Row, measure: str, digits: int) -> str:
    low, high = row[f"{measure}_low"], row[f"{measure}_high"]
    return "" if low is None else f"{low:.{digits}f}–{high:.{digits}f}"
