"""The figures of operating curves: exact points, bounds on accuracy and detection, by cell and as means over scenarios.

Accuracies are percent. Intervals are 95% by a jackknife over samples, or over the clusters that count (``measures.clustering``).
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from orchestrator.report.measures.clustering import sample_clusters
from orchestrator.report.run_data import RunData, cached_per_run
from proactive_operating.cells import OperatingCell, exact_uniform, operating_cells
from proactive_operating.jackknife import Interval, LeftOut, jackknife_interval, leave_out_weights
from proactive_operating.knowledge import KNOWN
from proactive_operating.measures import BOUNDS, ENDINGS, POSITION, detection_measures, exact_measures, own_measures
from proactive_operating.policy import BIASES, Booleans, Floats

NAMES = ("model", "scenario", "condition")
DETECTIONS = ("auc_own", "neutral_own", "auc_others", "neutral_others")
RATES = ("acc", *ENDINGS, "greedy_acc", *BOUNDS, "worth", *POSITION)
"""Measures in percent."""
MEASURES = (*RATES, "ps", "greedy_ps", *DETECTIONS)
RARE = ("limited", "greedy_acc", "greedy_ps")
"""Measures without intervals: a few samples make up nearly all of the value, so that an interval would be too narrow."""
RANGES = {
    **dict.fromkeys((*RATES, "position_sd"), (0.0, 100.0)), **dict.fromkeys(("auc_own", "auc_others"), (0.0, 1.0)),
    "ps": (0.0, inf), "position_effect": (-100.0, 100.0),
}  # fmt: skip
"""Smallest and greatest value of a measure; any other measure is unbounded."""
ENDS = ("", "_low", "_high")
"""Ends of the columns of a measure and its interval."""
PLAIN = ("chance_acc", "chance_ps", "oracle_ps", "unreadable")
"""Figures without intervals: three that depend on the rules alone, and the share of unreadable replies."""


class CellMeasures(NamedTuple):
    """The measures of a cell by name, and their values with each cluster left out in turn; NaN without a value."""

    values: Mapping[str, float]
    left_out: Mapping[str, LeftOut]
    clusters: int


@cached_per_run
def operating_points(run_data: RunData) -> pl.DataFrame:
    """Return one row per cell of every-state, and one with the means over scenarios per model and condition.

    Columns: names (``scenario`` is null for means), scenarios, samples, clusters (of means, the fewest of any scenario), orders,
    thoughts (0 unless probabilities are averages over sampled thoughts), exact, each of ``MEASURES``, with ``_low`` and
    ``_high`` unless ``RARE``, and ``PLAIN``. A measure that is unknown is null; cells whose engine gave no probabilities have
    only the model's own point and its endings.
    """
    groups: dict[tuple[str, str], list[tuple[OperatingCell, CellMeasures]]] = {}
    cells = operating_cells(run_data)
    for cell in cells:
        groups.setdefault((cell.model, cell.condition), []).append((cell, _cell_measures(run_data, cell, cells)))
    rows = [
        row
        for members in groups.values()
        for row in (*(_row(run_data, [member]) for member in members), _row(run_data, members, mean=True))
    ]
    numbers = [*(f"{name}{end}" for name in MEASURES for end in ENDS if not (end and name in RARE)), *PLAIN]
    schema = {
        **dict.fromkeys(NAMES, pl.String),
        **dict.fromkeys(("scenarios", "samples", "clusters", "orders", "thoughts"), pl.Int64),
    }
    return pl.DataFrame(rows, schema={**schema, "exact": pl.Boolean, **dict.fromkeys(numbers, pl.Float64)})


def _cell_measures(run_data: RunData, cell: OperatingCell, cells: Sequence[OperatingCell]) -> CellMeasures:
    weights, sizes = leave_out_weights(cell_clusters(run_data, cell))
    labels = _labels(cell, cells, run_data) if cell.scored else {}
    estimates, jackknife_values = (
        {name: values * (100 if name in RATES else 1) for name, values in _measures(cell, labels, rows).items()}
        for rows in (np.full((1, len(cell.samples)), 1 / len(cell.samples)), weights)
    )
    left_out = {name: LeftOut(values, sizes) for name, values in jackknife_values.items()}
    return CellMeasures({name: float(values[0]) for name, values in estimates.items()}, left_out, len(sizes))


def _measures(cell: OperatingCell, labels: Mapping[str, Booleans], weights: Floats) -> dict[str, Floats]:
    own = own_measures(cell.summary, weights)
    if not cell.scored:
        return own
    return own | exact_measures(cell.summary, weights) | detection_measures(cell.summary, labels, weights)


def _labels(cell: OperatingCell, cells: Sequence[OperatingCell], run_data: RunData) -> dict[str, Booleans]:
    """Return the labels of a cell's questions: by the model itself, and by the other models that were asked the same."""
    others = [
        other.summary.signals.recognition
        for other in cells
        if (other.scenario, other.condition) == (cell.scenario, cell.condition)
        and other.model not in {cell.model, *run_data.baselines}
        and [s.id for s in other.samples] == [s.id for s in cell.samples]
        and len(other.summary.signals.odds) == len(cell.summary.signals.odds)
    ]
    return {"own": cell.own_labels} | ({"others": np.mean(others, axis=0) >= KNOWN} if others else {})


def _row(
    run_data: RunData, members: Sequence[tuple[OperatingCell, CellMeasures]], mean: bool = False
) -> dict[str, Any]:
    """Return the row of one cell, or of the mean over several; a measure is averaged over the cells that have it."""
    cells = [cell for cell, _ in members]
    chances = [exact_uniform(run_data, cell.scenario) for cell in cells]
    plain = {
        "chance_acc": [100 * chance[0] for chance in chances if chance],
        "chance_ps": [chance[1] for chance in chances if chance],
        "oracle_ps": [float(cell.summary.oracle.mean()) for cell in cells],
        "unreadable": [100 * cell.unreadable for cell in cells],
    }
    measures: dict[str, float] = {}
    for name in MEASURES:
        parts = [own for _, own in members if not np.isnan(own.values.get(name, np.nan))]
        if parts:
            ends = ("",) if name in RARE else ENDS
            measures |= {f"{name}{end}": part for end, part in zip(ends, _mean_interval(name, parts), strict=False)}
    return {
        **dict(zip(NAMES, (cells[0].model, None if mean else cells[0].scenario, cells[0].condition), strict=True)),
        "scenarios": len(cells), "samples": sum(len(cell.samples) for cell in cells),
        "clusters": min(own.clusters for _, own in members),
        "orders": cells[0].orders, "thoughts": max(cell.thoughts for cell in cells), "exact": all(cell.exact for cell in cells),
        **{name: None if np.isnan(value) else value for name, value in measures.items()},
        **{name: float(np.mean(values)) if values else None for name, values in plain.items()},
    }  # fmt: skip


def _mean_interval(name: str, parts: Sequence[CellMeasures]) -> Interval:
    value = float(np.mean([part.values[name] for part in parts]))
    return jackknife_interval(value, [part.left_out[name] for part in parts], *RANGES.get(name, (-inf, inf)))


def cell_clusters(run_data: RunData, cell: OperatingCell) -> list[str]:
    """Return the cluster of each sample of a cell."""
    return scenario_clusters(run_data, cell.scenario, [sample.id for sample in cell.samples])


def scenario_clusters(run_data: RunData, scenario: str, numbers: Sequence[int]) -> list[str]:
    """Return the cluster of each sample; its own id where no clusters of the scenario count."""
    rows = sample_clusters(run_data).filter(scenario=scenario)
    clusters = dict(rows.select("sample_id", "cluster").iter_rows())
    return [str(clusters.get(number, number)) for number in numbers]


@cached_per_run
def operating_curves(run_data: RunData) -> pl.DataFrame:
    """Return the curves of the plain family: model, scenario, condition, b, acc (percent), ps; scored cells only."""
    rows = [
        (cell.model, cell.scenario, cell.condition, *point)
        for cell in operating_cells(run_data)
        if cell.scored
        for point in zip(BIASES.tolist(), *_mean_curve(cell), strict=True)
    ]
    numbers = dict.fromkeys(("b", "acc", "ps"), pl.Float64)
    return pl.DataFrame(rows, schema={**dict.fromkeys(NAMES, pl.String), **numbers}, orient="row")


def _mean_curve(cell: OperatingCell) -> tuple[list[float], list[float]]:
    size = len(cell.samples)
    accuracy, turns = cell.summary.plain.mean(np.full(size, 1 / size))
    return (100 * accuracy).tolist(), turns.tolist()
