"""Whether a model knew enough when it asked, and when it answered: its episodes beside its decision map (condition every-frame).

A map tells on which pictures of a sample the model names the right category when there is nothing to ask for. Turns of regret are
those by which an episode went on too long (late) or ended too soon (early), by what this model needs of this sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from envs.frames import Moves
from envs.types import UNSCORED, Action, Ending, Mode, Sample, Verdict
from orchestrator.report.run_data import RunData, once
from sweeps.conditions import Condition

MAP = "decision_map"
"""Column of results that is true for the cells of a map; such a cell has no accuracy."""
NAMES = ("cell", "model", "scenario", "condition")
KNOWN = ("known_first", "known_ever", "needed")
DECIDED = ("asked_knowing", "answered_unknowing", "regret", "regret_late", "regret_early")
SIZE = r"\^\d+$"
"""How the name of a picture says its size, which is not another view."""
EPISODE = {
    **dict.fromkeys(("key", *NAMES), pl.String), "sample_id": pl.Int64, "asked_knowing": pl.Boolean,
    "answered_unknowing": pl.Boolean, "regret_late": pl.Int64, "regret_early": pl.Int64,
}  # fmt: skip
SAMPLE = {**dict.fromkeys(NAMES, pl.String), "sample_id": pl.Int64, "known_first": pl.Boolean, "needed": pl.Int64}
Samples = Mapping[str, Mapping[int, Sample]]


class Decisions(NamedTuple):
    """A run's maps, and its episodes beside them."""

    samples: pl.DataFrame
    """One row a mapped sample of a model: names, sample_id, known_first, needed (moves to the nearest picture on which it is
    right and a category counts; null where there is none)."""
    episodes: pl.DataFrame
    """One row a scored episode of a mapped sample: key, names, sample_id, asked_knowing (a suggestion at a picture on which it
    is right), answered_unknowing (a category at one on which it is not, or where none counts), regret_late (such suggestions),
    regret_early (moves that were still needed; null where it answered knowing, or no picture would have helped)."""


class Stored(NamedTuple):
    """What decisions are read from."""

    episodes: pl.LazyFrame
    turns: pl.LazyFrame
    conditions: Mapping[str, Condition]
    samples: Samples
    """Scenario -> id -> sample; those that are not at hand have no decision."""


@once
def decisions(run_data: RunData) -> Decisions:
    """The decisions of a run that is read."""
    rows = pl.concat([run_data.episodes, run_data.maps]) if run_data.maps.height else run_data.episodes
    return decided(Stored(rows.lazy(), run_data.turns_of(rows), run_data.conditions, run_data.samples))


def decided(stored: Stored) -> Decisions:
    """Every episode in which the sample's own pictures were shown, beside the map of its model and sample."""
    names = [name for name, one in stored.conditions.items() if one.every_frame][:1]
    graphs = _Graphs(stored.samples)
    known = dict(_known(stored, names)) if names else {}
    mapped = [graphs.sample(place, cell, names[0], seen) for place, (cell, seen) in known.items()]
    played = [row for row in _played(stored) if (row[1], row[2], row[4]) in known] if known else []
    episodes = [graphs.episode(row, known[row[1], row[2], row[4]][1]) for row in played]
    return Decisions(_frame(mapped, SAMPLE), _frame(episodes, EPISODE))


def cells(found: Decisions) -> pl.DataFrame:
    """One row a cell: cell, decision_map (whether it is a map), mapped (samples or episodes), and of a map ``KNOWN``:

    percent of samples known at the first picture and at any, mean moves to the nearest; of other cells ``DECIDED``: percent of
    episodes, then mean turns of regret, in all, late and early.
    """
    maps = found.samples.group_by("cell").agg(
        pl.lit(True).alias(MAP), pl.len().cast(pl.Int64).alias("mapped"), pl.col("known_first").mean() * 100,
        (pl.col("needed").is_not_null().mean() * 100).alias("known_ever"), pl.col("needed").mean(),
    )  # fmt: skip
    late, early = pl.col("regret_late"), pl.col("regret_early").fill_null(0)
    played = found.episodes.group_by("cell").agg(
        pl.lit(False).alias(MAP), pl.len().cast(pl.Int64).alias("mapped"), pl.col("asked_knowing").mean() * 100,
        pl.col("answered_unknowing").mean() * 100, (late + early).mean().alias("regret"), late.mean(), early.mean(),
    )  # fmt: skip
    return pl.concat([maps, played], how="diagonal").sort("cell").select("cell", MAP, "mapped", *KNOWN, *DECIDED)


def with_decisions(rows: pl.DataFrame, stored: Stored) -> pl.DataFrame:
    """Rows of results, one a cell, with the columns of ``cells`` where the run has a map; else as they are."""
    names = [name for name, one in stored.conditions.items() if one.every_frame]
    if not set(names) & set(rows["condition"]):
        return rows
    beside = rows.join(cells(decided(stored)).drop(MAP), on="cell", how="left", maintain_order="left")
    return beside.with_columns(pl.col("condition").is_in(names).alias(MAP), pl.col("mapped").fill_null(0))


class _Graphs:
    """The pictures of each sample as a graph, made once."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.made: dict[tuple[str, int], Moves] = {}

    def sample(self, place: tuple[str, str, int], cell: str, condition: str, known: frozenset[str]) -> tuple[Any, ...]:
        """A row of ``SAMPLE``."""
        model, scenario, number = place
        moves = self._of(scenario, number)
        first = next(iter(moves.after))
        return cell, model, scenario, condition, number, moves.knows(first, known), moves.needed(first, 0, known)

    def episode(self, row: Sequence[Any], known: frozenset[str]) -> tuple[Any, ...]:
        """A row of ``EPISODE``: row is key, model, scenario, condition, sample_id, cell, images, actions."""
        key, model, scenario, condition, number, cell, images, actions = row
        moves = self._of(scenario, number)
        knows = [moves.counts(turn) and moves.knows(image, known) for turn, image in enumerate(images)]
        late = sum(knew and did == Action.SUGGESTION for knew, did in zip(knows, actions, strict=True))
        unknowing = bool(actions) and actions[-1] == Action.CATEGORY and not knows[-1]
        early = moves.needed(images[-1], len(images) - 1, known) if unknowing else None
        return key, cell, model, scenario, condition, number, late > 0, unknowing, late, early

    def _of(self, scenario: str, number: int) -> Moves:
        if (scenario, number) not in self.made:
            self.made[scenario, number] = Moves.of(self.samples[scenario][number])
        return self.made[scenario, number]


def _known(stored: Stored, names: list[str]) -> Iterator[tuple[tuple[str, str, int], tuple[str, frozenset[str]]]]:
    """(model, scenario, sample) -> cell and the asked pictures on which the right category was named."""
    whole = stored.episodes.filter(pl.col("condition").is_in(names), pl.col("ending") == Ending.MAPPED)
    right = pl.col("image").filter(pl.col("category") == Verdict.CORRECT).alias("right")
    rows = _beside(stored, whole).group_by("model", "scenario", "sample_id", "cell").agg(right)
    for model, scenario, number, cell, images in rows.collect().iter_rows():
        if number in stored.samples.get(scenario, {}):
            yield (model, scenario, number), (cell, frozenset(images))


def _played(stored: Stored) -> list[tuple[Any, ...]]:
    """Scored episodes of plain play, with the pictures shown and what was done, turn by turn."""
    plain = [
        name
        for name, one in stored.conditions.items()
        if one.mode is Mode.PLAY and not one.unseen and not one.every_frame
    ]
    whole = stored.episodes.filter(
        pl.col("condition").is_in(plain), ~pl.col("ending").is_in(UNSCORED), pl.col("protocol") == "mcqa"
    )
    names = ["key", "model", "scenario", "condition", "sample_id", "cell"]
    rows = _beside(stored, whole).sort("key", "turn").group_by(names, maintain_order=True).agg("image", "action")
    return rows.collect().rows()


def _beside(stored: Stored, episodes: pl.LazyFrame) -> pl.LazyFrame:
    """The turns of these episodes with their names; the size of a picture left out of its name."""
    names = ["key", "model", "scenario", "condition", "sample_id", "cell"]
    shown = pl.col("image").str.replace(SIZE, "")
    own = episodes.filter(pl.col("scenario").is_in(list(stored.samples))).select(names)
    return stored.turns.select("key", "turn", shown, "category", "action").join(own, on="key")


def _frame(rows: list[tuple[Any, ...]], schema: Mapping[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict(schema), orient="row").sort("cell", "sample_id")
