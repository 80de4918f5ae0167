"""The figures of operating curves by cell and as means over scenarios: exact points, bounds on accuracy, detection, prices.

Exact values are also compared with the played episodes of the same cells.

Accuracies are percent. Intervals are 95%, the core's t over samples, or over the clusters that count.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

import numpy as np
import polars as pl

from orchestrator.report.measures.exact_chance import BlindPlay, blind_play
from orchestrator.report.run_data import RunData, cached_per_run
from proactive_operating.cells import OperatingCell, cell_clusters, operating_cells
from proactive_operating.intervals import ENDS, interval_columns
from proactive_operating.policy import Booleans, Floats
from proactive_operating.summary import ENDINGS, detection_measures, exact_measures, own_measures, value_measures

NAMES = ("model", "scenario", "condition")
KNOWN = 0.5
"""Smallest mean chance of the right category at which a question can be known."""
PERCENT = ("acc", *ENDINGS, "greedy_acc", "unbiased", "well_timed", "stops_paying", "position_sd")
MEASURES = (*PERCENT, "ps", "greedy_ps", "auc", "neutral")
RARE = (*ENDINGS, "greedy_acc", "greedy_ps")
"""Measures without intervals: a few samples make up nearly all of the value, so that an interval would be too narrow."""
RANGES = {**dict.fromkeys(PERCENT, (0.0, 100.0)), "auc": (0.0, 1.0), "ps": (0.0, inf)}
"""Smallest and greatest value of a measure; any other measure is unbounded."""
PLAIN = ("chance_acc", "chance_ps", "unreadable")
"""Figures without intervals: two that depend on the rules alone, and the share of unreadable replies."""
PRICES = tuple(float(price) for price in range(51))
"""Prices of a question, in points of accuracy."""
PLAYED = (*NAMES, "protocol", "sample_id", "correct", "turns")
"""Columns of played episodes that are compared with exact values."""
Measured = tuple[OperatingCell, Mapping[str, Floats]]
"""A cell and its measures by sample."""


@cached_per_run
def operating_points(run_data: RunData) -> pl.DataFrame:
    """Return one row per cell of every-state, and one with the means over scenarios per model and condition.

    Columns: names (``scenario`` is null for means), scenarios, samples, clusters (of means, the fewest of any scenario), orders,
    thoughts (0 unless probabilities are averages over sampled thoughts), exact, each of ``MEASURES``, with ``_low`` and
    ``_high`` unless ``RARE``, and ``PLAIN``. A measure that is unknown is null; cells whose engine gave no probabilities have
    only the model's own point and its endings.
    """
    rows = [
        {**_names(scenario, members), **_facts(run_data, members), **_estimates(run_data, members)}
        for scenario, members in _groups(run_data, partial(_measures, run_data))
    ]
    numbers = [*(f"{name}{end}" for name in MEASURES for end in ENDS if not (end and name in RARE)), *PLAIN]
    counts = dict.fromkeys(("scenarios", "samples", "clusters", "orders", "thoughts"), pl.Int64)
    schema = {**dict.fromkeys(NAMES, pl.String), **counts, "exact": pl.Boolean, **dict.fromkeys(numbers, pl.Float64)}
    return pl.DataFrame(rows, schema=schema)


@cached_per_run
def operating_values(run_data: RunData) -> pl.DataFrame:
    """Return what play is worth at each of ``PRICES``: names, price, own and best with intervals (``value_measures``)."""
    rows = [
        {**_names(scenario, members), "price": price, **_estimates(run_data, members)}
        for price in PRICES
        for scenario, members in _groups(run_data, partial(_values, price=price))
        if all(cell.scored for cell, _ in members)
    ]
    numbers = ("price", *(f"{name}{end}" for name in ("own", "best") for end in ENDS))
    return pl.DataFrame(rows, schema={**dict.fromkeys(NAMES, pl.String), **dict.fromkeys(numbers, pl.Float64)})


def _groups(
    run_data: RunData, measures: Callable[[OperatingCell], Mapping[str, Floats]]
) -> Iterator[tuple[str | None, list[Measured]]]:
    """Yield each scenario of each model and condition with its cell, then None with all of them."""
    groups: dict[tuple[str, str], list[Measured]] = {}
    for cell in operating_cells(run_data):
        groups.setdefault((cell.model, cell.condition), []).append((cell, measures(cell)))
    for members in groups.values():
        yield from ((cell.scenario, [(cell, values)]) for cell, values in members)
        yield None, members


def _measures(run_data: RunData, cell: OperatingCell) -> dict[str, Floats]:
    own = own_measures(cell.summary)
    if not cell.scored:
        return own
    return own | exact_measures(cell.summary) | detection_measures(cell.summary, shared_labels(run_data, cell))


def _values(cell: OperatingCell, price: float) -> dict[str, Floats]:
    return value_measures(cell.summary, price)


def shared_labels(run_data: RunData, cell: OperatingCell) -> Booleans:
    """Return whether each question of a cell can be known, a label that all models with the same questions share.

    It can if these models, shown their own pictures, name the right category with a mean chance of ``KNOWN``.
    """
    alike = [
        other.summary.recognition
        for other in operating_cells(run_data)
        if (other.scenario, other.samples) == (cell.scenario, cell.samples)
        and other.scored
        and other.model not in run_data.baselines
        and not run_data.conditions[other.condition].hides_picture
        and len(other.summary.odds) == len(cell.summary.odds)
    ]
    labels: Booleans = np.mean(alike or [cell.summary.recognition], axis=0) >= KNOWN
    return labels


def _names(scenario: str | None, members: Sequence[Measured]) -> dict[str, Any]:
    return dict(zip(NAMES, (members[0][0].model, scenario, members[0][0].condition), strict=True))


def _facts(run_data: RunData, members: Sequence[Measured]) -> dict[str, Any]:
    cells = [cell for cell, _ in members]
    chances = [exact_uniform(run_data, cell.scenario) for cell in cells]
    return {
        "scenarios": len(cells), "samples": sum(len(cell.samples) for cell in cells),
        "clusters": min(len(np.unique(cell_clusters(run_data, cell))) for cell in cells),
        "orders": cells[0].orders, "thoughts": max(cell.thoughts for cell in cells), "exact": all(cell.exact for cell in cells),
        "chance_acc": 100 * float(np.mean([chance.right for chance in chances])),
        "chance_ps": float(np.mean([chance.suggestions for chance in chances])),
        "unreadable": 100 * float(np.mean([cell.unreadable for cell in cells])),
    }  # fmt: skip


def _estimates(run_data: RunData, members: Sequence[Measured]) -> dict[str, float | None]:
    """Return the mean of each measure over the cells that have it, with its interval; null without a value."""
    figures: dict[str, float | None] = {}
    for name in dict.fromkeys(name for _, values in members for name in values):
        strata = [(values[name], cell_clusters(run_data, cell)) for cell, values in members if name in values]
        columns = interval_columns(name, strata, *RANGES.get(name, (-inf, inf)))
        figures |= {name: columns[name]} if name in RARE else columns
    return figures


@cached_per_run
def exact_uniform(run_data: RunData, scenario: str) -> BlindPlay:
    """Return exact accuracy (0 to 1) and suggestions of uniform play in a scenario."""
    plays = [blind_play(sample) for sample in run_data.samples[scenario].values()]
    return BlindPlay(*np.mean(plays, axis=0).tolist())


@cached_per_run
def exact_and_played(run_data: RunData) -> pl.DataFrame:
    """Return one row per cell that was also played greedily: exact and played acc and ps, and the unreadable share."""
    rows = []
    is_greedy = run_data.sweep.sampling.temperature == 0 and not run_data.sweep.sampling.checkpoint
    for cell in operating_cells(run_data) if is_greedy else ():
        played, greedy = _played_episodes(run_data, cell), cell.summary.greedy
        if cell.exact and greedy is not None and played.height == len(cell.samples):
            right, suggestions = greedy.mean(axis=0).tolist()
            means = played.select(pl.col("correct").mean() * 100, pl.col("turns").mean() - 1).row(0)
            names = (cell.model, cell.scenario, played["condition"][0])
            rows.append((*names, 100 * right, suggestions, *means, 100 * cell.unreadable))
    kinds = ("exact_acc", "exact_ps", "played_acc", "played_ps", "unreadable")
    schema = {**dict.fromkeys(NAMES, pl.String), **dict.fromkeys(kinds, pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _played_episodes(run_data: RunData, cell: OperatingCell) -> pl.DataFrame:
    """Return the scored episodes that asked the cell's questions about its samples in the published order."""
    source = run_data.conditions[cell.condition]
    conditions = [(name, c.identity) for name, c in run_data.conditions.items() if not c.every_state]
    played = [name for name, identity in conditions if {**identity, "every_state": True} == source.identity]
    return run_data.scored.select(PLAYED).filter(
        pl.col("condition").is_in(played), pl.col("sample_id").is_in([sample.id for sample in cell.samples]),
        model=cell.model, scenario=cell.scenario, protocol="mcqa",
    )  # fmt: skip
