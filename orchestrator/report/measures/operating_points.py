"""The figures of operating curves: exact points and bounds by cell, splits between models, and exact beside played.

All accuracies are percent. Intervals are 95% by a paired bootstrap over samples, or over the clusters that count
(``measures.clustering``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from orchestrator.operating.knowledge import KNOWN, Detection
from orchestrator.operating.policy import NEUTRAL_INDEX, Booleans
from orchestrator.operating.split import DRAWS, Interval, bootstrap, interval, resampling_weights, split_intervals
from orchestrator.report.measures.clustering import sample_clusters
from orchestrator.report.measures.operating_curves import OperatingCell, exact_uniform, operating_cells
from orchestrator.report.run_data import RunData, cached_per_run
from sweeps.conditions import Condition
from sweeps.sampling import Sampling

NAMES = ("model", "scenario", "condition")
BOUNDS = ("unbiased", "persistent", "well_timed", "right_suggestion", "recognition")
FAMILIES = ("plain", "persistent")
MOST_PAIRS = 15
"""Pairs of models that are split."""
SPLIT_SCHEMA = {
    **dict.fromkeys(("before", "after", "family", "scenario"), pl.String),
    **{f"{part}{end}": pl.Float64 for part in ("difference", "more", "better") for end in ("", "_low", "_high")},
    "scenarios": pl.Int64,
}


@cached_per_run
def operating_points(run_data: RunData) -> pl.DataFrame:
    """Return one row per cell of every-state: exact points, bounds, detection, position bias; bounds are null unless exact."""
    cells = operating_cells(run_data)
    rows = []
    for cell in cells:
        clusters, curve = _clusters(run_data, cell), cell.curve()
        own = bootstrap(lambda w, a=curve.accuracy: float(w @ a[:, NEUTRAL_INDEX]), clusters, run_data.sweep.seed)  # type: ignore[misc]
        chance = exact_uniform(run_data, cell.scenario)
        rows.append(
            {
                **dict(zip(NAMES, (cell.model, cell.scenario, cell.condition), strict=True)),
                "samples": len(cell.samples), "orders": cell.orders, "exact": cell.exact,
                **_percent("acc", own), "ps": float(curve.suggestions[:, NEUTRAL_INDEX].mean()),
                **_greedy(cell),
                "chance_acc": chance and 100 * chance[0], "chance_ps": chance and chance[1],
                **{name: 100 * cell.bounds[name] if cell.exact else None for name in BOUNDS},
                "position_sd": 100 * float(cell.order_accuracies.std(ddof=1)) if cell.orders > 1 else None,
                **_detections(cell, clusters, _labels(cell, cells, run_data), run_data.sweep.seed),
                "unreadable": 100 * cell.unreadable,
            }
        )  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col(pl.Null).cast(pl.Float64))


def _percent(name: str, value: Interval) -> dict[str, float]:
    return {f"{name}{end}": 100 * part for end, part in zip(("", "_low", "_high"), value, strict=True)}


def _greedy(cell: OperatingCell) -> dict[str, float | None]:
    right, turns = cell.greedy or (None, None)
    return {"greedy_acc": None if right is None else 100 * right, "greedy_ps": turns}


def _labels(cell: OperatingCell, cells: Sequence[OperatingCell], run_data: RunData) -> dict[str, Booleans | None]:
    """Return the labels of a cell's questions: by the model itself, and by the other models that saw the same ones."""
    size = len(cell.signals.odds)
    others = [
        other.signals.recognition
        for other in cells
        if (other.scenario, other.condition) == (cell.scenario, cell.condition)
        and other.model not in {cell.model, *run_data.baselines}
        and [s.id for s in other.samples] == [s.id for s in cell.samples]
        and len(other.signals.odds) == size
    ]
    return {"own": cell.own_labels, "others": np.mean(others, axis=0) >= KNOWN if others else None}


def _detections(
    cell: OperatingCell, clusters: Sequence[str], labels: dict[str, Booleans | None], seed: int
) -> dict[str, float | None]:
    """Return AUC and neutral b by label with their intervals; null without probabilities or labels of both kinds."""
    columns: dict[str, float | None] = {}
    weights, size = resampling_weights(clusters, DRAWS, seed), [len(set(clusters))]
    for label, known in labels.items():
        usable = cell.exact and known is not None
        point = cell.detection(known) if usable and known is not None else Detection(float("nan"), float("nan"))
        drawn = [cell.detection(known, row) for row in weights] if usable and known is not None else [point]
        for name in Detection._fields:
            value = interval(getattr(point, name), np.array([getattr(each, name) for each in drawn]), size)
            columns |= {
                f"{name}_{label}{end}": None if np.isnan(part) else part
                for end, part in zip(("", "_low", "_high"), value, strict=True)
            }
    return columns


def _clusters(run_data: RunData, cell: OperatingCell) -> list[str]:
    """Return the cluster of each sample; its own id where no clusters of the scenario count."""
    rows = sample_clusters(run_data).filter(scenario=cell.scenario)
    numbers = dict(rows.select("sample_id", "cluster").iter_rows())
    return [str(numbers.get(sample.id, sample.id)) for sample in cell.samples]


@cached_per_run
def operating_splits(run_data: RunData) -> pl.DataFrame:
    """Return the splits between two models of a condition and two conditions of a model (``SPLIT_SCHEMA``), in points.

    ``scenario`` is null for the mean over the ``scenarios`` that have a split.
    """
    series = exact_series(run_data)
    pairs = [pair for pair in combinations(series, 2) if pair[0][0] == pair[1][0] or pair[0][1] == pair[1][1]]
    rows = [
        row
        for before, after in pairs[:MOST_PAIRS]
        for family in FAMILIES
        for row in split_rows(
            run_data, (_series_name(*before), series[before]), (_series_name(*after), series[after]), family
        )
    ]
    return pl.DataFrame(rows, schema=SPLIT_SCHEMA, orient="row")


def splits_between(base: RunData, run: RunData, names: tuple[str, str]) -> pl.DataFrame:
    """Return the splits of each model and condition that both runs have, from ``base`` to ``run``; ``names`` are theirs."""
    before, after = exact_series(base), exact_series(run)
    rows = [
        row
        for key in before
        if key in after
        for family in FAMILIES
        for row in split_rows(
            base,
            (f"{_series_name(*key)} of {names[0]}", before[key]),
            (f"{_series_name(*key)} of {names[1]}", after[key]),
            family,
        )
    ]
    return pl.DataFrame(rows, schema=SPLIT_SCHEMA, orient="row")


def exact_series(run_data: RunData) -> dict[tuple[str, str], dict[str, OperatingCell]]:
    """Return (model, condition) -> scenario -> cell, of models with exact curves."""
    series: dict[tuple[str, str], dict[str, OperatingCell]] = {}
    for cell in operating_cells(run_data):
        if cell.exact and cell.model not in run_data.baselines:
            series.setdefault((cell.model, cell.condition), {})[cell.scenario] = cell
    return series


Series = tuple[str, dict[str, OperatingCell]]
"""Its name in the table, and scenario -> cell."""


def split_rows(run_data: RunData, before: Series, after: Series, family: str) -> list[tuple[Any, ...]]:
    """Return rows of ``SPLIT_SCHEMA``: one per scenario with the same samples, then the mean; clusters are of ``run_data``."""
    shared = [
        (scenario, cell, after[1][scenario])
        for scenario, cell in before[1].items()
        if scenario in after[1] and cell.samples == after[1][scenario].samples
    ]
    if not shared:
        return []
    curves = [
        (one.curve(family == "persistent"), two.curve(family == "persistent"), _clusters(run_data, one))
        for _, one, two in shared
    ]
    each, mean, count = split_intervals(curves, run_data.sweep.seed)
    names = [before[0], after[0]]
    rows = [
        (*names, family, scenario, *_points(parts), 1) for (scenario, _, _), parts in zip(shared, each, strict=True)
    ]
    return [*rows, (*names, family, None, *_points(mean), count)]


def _series_name(model: str, condition: str) -> str:
    return model if condition == "every-state" else f"{model}, {condition}"


def _points(parts: Sequence[Interval]) -> list[float | None]:
    return [None if np.isnan(value) else 100 * value for part in parts for value in part]


@cached_per_run
def exact_and_played(run_data: RunData) -> pl.DataFrame:
    """Return one row per cell that was also played: exact and played acc and ps, and z of the difference of acc if sampled.

    Exact values are greedy ones for greedy decoding, the model's own for temperature 1; other decodings are not compared.
    """
    rows = []
    for cell in operating_cells(run_data):
        source = run_data.conditions[cell.condition]
        played = [name for name, c in run_data.conditions.items() if not c.every_state and _same_questions(c, source)]
        kind = _decoding_point(run_data.sweep.sampling)
        exact = cell.greedy if kind == "greedy" else cell.published if kind == "own" else None
        ids = [sample.id for sample in cell.samples]
        episodes = run_data.scored.filter(
            pl.col("model") == cell.model, pl.col("scenario") == cell.scenario, pl.col("condition").is_in(played),
            pl.col("protocol") == "mcqa", pl.col("sample_id").is_in(ids),
        )  # fmt: skip
        if exact is None or not cell.exact or episodes.height < len(ids):
            continue
        right, turns = episodes["correct"].mean(), (episodes["turns"] - 1).mean()
        spread = np.array([values.accuracy[NEUTRAL_INDEX] for values in cell.plain[0]])
        deviation = float(np.sqrt((spread * (1 - spread)).sum())) / len(ids)
        z = (right - exact[0]) / deviation if kind == "own" and deviation else None  # type: ignore[operator]
        point = (100 * exact[0], exact[1], 100 * right, turns)  # type: ignore[operator]
        rows.append((cell.model, cell.scenario, episodes["condition"][0], kind, *point, z, 100 * cell.unreadable))
    kinds = dict.fromkeys(("exact_acc", "exact_ps", "played_acc", "played_ps", "z", "unreadable"), pl.Float64)
    return pl.DataFrame(rows, schema={**dict.fromkeys((*NAMES, "point"), pl.String), **kinds}, orient="row")


def _same_questions(played: Condition, source: Condition) -> bool:
    """Return True if a played condition asks the questions of an every-state one."""
    return {**played.identity, "every_state": True} == source.identity


def _decoding_point(sampling: Sampling) -> str:
    """Return the point that this decoding plays: ``greedy``, ``own`` (temperature 1), or empty for any other."""
    if sampling.checkpoint:
        return ""
    if sampling.temperature == 0:
        return "greedy"
    return "own" if (sampling.temperature, sampling.top_p, sampling.top_k) == (1.0, 1.0, -1) else ""


@cached_per_run
def operating_curves(run_data: RunData) -> pl.DataFrame:
    """Return the curves of the plain family: model, scenario, condition, b, acc (percent), ps; null-free, exact cells only."""
    frames = []
    for cell in operating_cells(run_data):
        if cell.exact:
            curve, size = cell.curve(), len(cell.samples)
            accuracy, turns = curve.mean(np.full(size, 1 / size))
            names = [
                pl.lit(name).alias(column)
                for column, name in zip(NAMES, (cell.model, cell.scenario, cell.condition), strict=True)
            ]
            frames.append(pl.DataFrame({"acc": 100 * accuracy, "ps": turns}).select(*names, "acc", "ps"))
    return (
        pl.concat(frames)
        if frames
        else pl.DataFrame(schema={**dict.fromkeys(NAMES, pl.String), "acc": pl.Float64, "ps": pl.Float64})
    )
