"""Splits the difference in accuracy between two models, or two conditions of one, by swapping one part of the policy at a time.

At each question a model gives up (or is unreadable), asks, or names a category. Its parts are

- willingness: its mean log-odds of asking, over the questions of a scenario at which something can be asked;
- timing: how far the log-odds of each question are from this mean, and which suggestion it picks;
- recognition: the category that it names, if it names one;
- abstention: how often it gives up or is unreadable.

Every mixture of the parts of two models is a policy with an exact accuracy on the game's graph. A part's share of the
difference is its Shapley value: what it changes, averaged over all orders in which the parts may be swapped. The shares add up
to the difference, and a part in which both models are alike has none.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import factorial
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from orchestrator.report.run_data import RunData, cached_per_run
from proactive_operating.cells import OperatingCell, cell_clusters, operating_cells
from proactive_operating.intervals import ENDS, Stratum, interval_columns
from proactive_operating.policy import Booleans, Floats, Policy, QuestionPolicy, only
from proactive_operating.state_graph import StateGraph
from proactive_operating.values import family_values

PARTS = ("willingness", "timing", "recognition", "abstention")
MIXTURES = tuple(product((0, 1), repeat=len(PARTS)))
"""For each mixture, whether a part is of the first model (0) or of the second."""
LARGEST_ODDS = 30.0
"""Log-odds of a model that always or never asks."""
MOST_PAIRS = 6
"""Largest number of pairs that a report splits, beside those with later pictures blackened."""
COLUMNS = ("difference", *PARTS)
SPLIT_SCHEMA = {
    **dict.fromkeys(("before", "after", "scenario"), pl.String),
    "picture": pl.Boolean,
    "scenarios": pl.Int64,
    **{f"{part}{end}": pl.Float64 for part in COLUMNS for end in ENDS},
}
Key = tuple[str, str]
"""Model and condition."""


@cached_per_run
def operating_splits(run_data: RunData) -> pl.DataFrame:
    """Return the splits between two models of a condition and two conditions of a model (``SPLIT_SCHEMA``), in points.

    ``picture`` is true for what asked-for pictures are worth: before, later pictures are blank, and nothing else changes.
    ``scenario`` is null for the mean over ``scenarios``. Only the first ``MOST_PAIRS`` other pairs are computed.
    """
    series: dict[Key, dict[str, OperatingCell]] = {}
    for cell in operating_cells(run_data):
        if cell.scored and cell.model not in run_data.baselines:
            series.setdefault((cell.model, cell.condition), {})[cell.scenario] = cell
    pictures = [(a, b) for a in series for b in series if a[0] == b[0] and _blanks_later(run_data, a[1], b[1])]
    pairs = [(a, b) for a, b in combinations(series, 2) if a[0] == b[0] or a[1] == b[1]]
    others = [(a, b) for a, b in pairs if not {(a, b), (b, a)} & set(pictures)]
    rows = [
        {"before": _name(*before), "after": _name(*after), "picture": (before, after) in pictures, **row}
        for before, after in (*pictures, *others[:MOST_PAIRS])
        for row in _rows(run_data, series[before], series[after])
    ]
    return pl.DataFrame(rows, schema=SPLIT_SCHEMA)


def _blanks_later(run_data: RunData, before: str, after: str) -> bool:
    """Return True if a condition is another one with later pictures blank."""
    identity = run_data.conditions[after].identity
    return run_data.conditions[before].identity == {**identity, "picture_later": "blank"} != identity


def _rows(
    run_data: RunData, before: dict[str, OperatingCell], after: dict[str, OperatingCell]
) -> Iterator[dict[str, Any]]:
    """Yield a row per scenario with the same questions about the same samples, then their mean."""
    strata: dict[str, list[Stratum]] = {}
    for scenario, first in before.items():
        second = after.get(scenario)
        if second and first.samples == second.samples and _sizes(first) == _sizes(second):
            clusters = cell_clusters(run_data, first)
            values = 100 * split(first.graphs, first.policies, second.policies)
            strata[scenario] = [(part, clusters) for part in values]
    yield from ({"scenario": name, "scenarios": 1, **_intervals([parts])} for name, parts in strata.items())
    if strata:
        yield {"scenario": None, "scenarios": len(strata), **_intervals(list(strata.values()))}


def _intervals(strata: list[list[Stratum]]) -> dict[str, float | None]:
    figures: dict[str, float | None] = {}
    for part, values in zip(COLUMNS, zip(*strata, strict=True), strict=True):
        figures |= interval_columns(part, values, -100.0, 100.0)
    return figures


def _sizes(cell: OperatingCell) -> list[list[int]]:
    return [[len(question.probabilities) for question in policy] for policy in cell.policies]


def _name(model: str, condition: str) -> str:
    return model if condition == "every-state" else f"{model}, {condition}"


class _Question(NamedTuple):
    """The parts of one question of one model."""

    odds: float
    """Log-odds of asking, if it does not give up; NaN where nothing can be asked."""
    asked: Floats
    """(options,) Probabilities if it asks."""
    named: Floats
    """(options,) Probabilities if it names a category."""
    given_up: Floats
    """(options,) Probabilities of abstentions."""
    stays: float
    """Probability that it asks or names a category."""


def split(graphs: Sequence[StateGraph], before: Sequence[Policy], after: Sequence[Policy]) -> Floats:
    """Return each sample's difference in accuracy, after minus before, and the share of each part: (1 + parts, samples)."""
    sides = [[[_take_apart(question) for question in policy] for policy in policies] for policies in (before, after)]
    means = [_mean_odds(side) for side in sides]
    accuracies = np.array([
        family_values(graph, policy, [
            _mix(pair, means, question.suggests) for pair, question in zip(zip(*parts, strict=True), policy, strict=True)
        ]).accuracy
        for graph, policy, *parts in zip(graphs, before, *sides, strict=True)
    ]).T  # fmt: skip
    shares = np.array([_shapley(accuracies, part) for part in range(len(PARTS))])
    return np.vstack([accuracies[-1] - accuracies[0], shares])


def _take_apart(question: QuestionPolicy) -> _Question:
    chances, offers = question.probabilities, bool(question.suggests.any())
    asking, naming = float(chances[question.suggests].sum()), float(chances[question.names].sum())
    with np.errstate(divide="ignore"):
        odds = float(np.clip(np.log(asking) - np.log(naming), -LARGEST_ODDS, LARGEST_ODDS)) if asking + naming else 0.0
    given_up = np.where(question.suggests | question.names, 0.0, chances)
    asked, named = only(question, question.suggests), only(question, question.names)
    return _Question(odds if offers else float("nan"), asked, named, given_up, asking + naming)


def _mean_odds(side: Sequence[Sequence[_Question]]) -> float:
    odds = [question.odds for policy in side for question in policy if not np.isnan(question.odds)]
    return float(np.mean(odds)) if odds else 0.0


def _mix(pair: Sequence[_Question], means: Sequence[float], suggests: Booleans) -> Floats:
    """Return the probabilities of a question's options under each mixture, (options, mixtures)."""
    columns = []
    for willingness, timing, recognition, abstention in MIXTURES:
        odds = means[willingness] + pair[timing].odds - means[timing]
        share = 1 / (1 + np.exp(-odds)) if suggests.any() else 0.0
        answers = share * pair[timing].asked + (1 - share) * pair[recognition].named
        columns.append(pair[abstention].given_up + pair[abstention].stays * answers)
    return np.array(columns).T


def _shapley(accuracies: Floats, part: int) -> Floats:
    """Return the Shapley value of a part for each sample; ``accuracies`` (mixtures, samples)."""
    count, total = len(PARTS), np.zeros(accuracies.shape[1])
    for number, mixture in enumerate(MIXTURES):
        if not mixture[part]:
            size = sum(mixture)
            weight = factorial(size) * factorial(count - size - 1) / factorial(count)
            swapped = MIXTURES.index(tuple(int(n == part or value) for n, value in enumerate(mixture)))
            total += weight * (accuracies[swapped] - accuracies[number])
    return total
