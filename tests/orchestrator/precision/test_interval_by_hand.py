"""The interval, computed a second time with plain loops from the formulas of the papers, and units written out."""

from math import log, log1p

import numpy as np
import pytest

from orchestrator.precision import confidence_sequence
from orchestrator.precision.confidence_sequence import interval
from orchestrator.precision.stop_forecast import forecast_stops
from orchestrator.precision.stopping import LOOK, Unit, bounds, ranking_groups, units
from sweeps.load import build
from sweeps.sections import Precision


def bets_by_hand(values, sizes, target):
    """One bet a round: target / variance, at most what loses 90% of the capital."""
    strata = range(len(sizes))
    bets = []
    for k in range(len(values)):
        variances, left = [], []
        for s in strata:
            seen = [values[j][s] for j in range(min(k, sizes[s]))]
            mean = sum(seen) / len(seen) if seen else 0.0
            spread = sum((x - mean) ** 2 for x in seen)
            variances.append((4 * 0.25 + spread) / (4 + len(seen)))
            left.append(max(0.0, 1 - k / sizes[s]))
        conditional = sum(share**2 * v for share, v in zip(left, variances, strict=True)) / len(sizes) ** 2
        widest = sum(left) / len(sizes)
        bets.append(min(target / conditional, 0.9 / widest) if widest else 0.0)
    return bets


def interval_by_hand(values, sizes, target, alpha):
    """Reject every mean on a fine grid at which one of the two capital processes reaches 2 / alpha."""
    bets = bets_by_hand(values, sizes, target)
    rounds = []
    for k in range(len(values)):
        parts = []
        for s, size in enumerate(sizes):
            before = sum(values[j][s] for j in range(min(k, size)))
            now = values[k][s] if k < size else 0.0
            parts.append(max(0.0, 1 - k / size) * now + before / size)
        rounds.append(sum(parts) / len(parts))
    low = sum(sum(values[j][s] for j in range(min(len(values), n))) / n for s, n in enumerate(sizes)) / len(sizes)
    high = low + sum(max(0.0, 1 - len(values) / n) for n in sizes) / len(sizes)

    def rejected(mean, sign):
        capital, largest = 0.0, float("-inf")
        for bet, value in zip(bets, rounds, strict=True):
            capital += log1p(sign * bet * (value - mean))
            largest = max(largest, capital)
        return largest >= log(2 / alpha)

    grid = np.linspace(low, high, 4001)
    kept = [mean for mean in grid if not rejected(mean, 1) and not rejected(mean, -1)]
    return min(kept), max(kept), (high - low) / 4000


@pytest.mark.parametrize("target", [0.02, 0.2])
@pytest.mark.parametrize("alpha", [0.05, 0.15])
@pytest.mark.parametrize(("rounds", "sizes"), [(15, (60,)), (40, (25, 50)), (70, (80, 70, 90)), (1, (9, 4))])
def test_the_interval_is_that_of_the_formulas(rounds, sizes, target, alpha):
    rng = np.random.default_rng(rounds)
    values = rng.choice([0.0, 0.5, 1.0], (rounds, len(sizes)), p=[0.5, 0.3, 0.2])
    low, high = interval(values, np.array(sizes), target, alpha)
    expected_low, expected_high, step = interval_by_hand(values.tolist(), sizes, target, alpha)
    assert low == pytest.approx(expected_low, abs=1.01 * step) and high == pytest.approx(expected_high, abs=1.01 * step)


def test_the_constants_are_those_of_the_decision():
    assert (confidence_sequence.ALPHA, confidence_sequence.LARGEST_BET, confidence_sequence.HALVINGS) == (0.05, 0.9, 40)
    assert (confidence_sequence.PRIOR_SAMPLES, confidence_sequence.PRIOR_VARIANCE, LOOK) == (4.0, 0.25, 10)
    values = np.array([[1.0], [0.0], [1.0]])
    assert interval(values, np.array([50]), 0.1) == interval(values, np.array([50]), 0.1, 0.05)


def test_an_interval_that_rejects_every_mean_is_given_in_order():
    """Values of a set that is not what its order says: ninety wrong, then right ones only."""
    values = np.array([[0.0]] * 190 + [[1.0]] * 200)
    low, high = interval(values, np.array([400]), 0.2, 0.9)
    assert 200 / 400 <= low < high <= 210 / 400


def cells_of(models, conditions, scenarios, protocol=("mcqa",)):
    table = {"name": "s", "data": "d", "models": models, "conditions": conditions, "scenarios": scenarios}
    return list(build({**table, "protocol": list(protocol)}, "a test").cells())


def names(cells, unit):
    def text(numbers):
        return [f"{cells[n].model.name} {cells[n].condition.name} {cells[n].scenario}" for n in numbers]

    return text(unit.cells), text(unit.others), unit.half_width


def test_units_are_averages_cells_and_differences_from_zero_shot():
    cells = cells_of(["guess"], ["hint", "zero-shot", "history"], ["ROD", "QD", "COCO"])
    sizes = [0 if (cell.condition.name, cell.scenario) == ("zero-shot", "QD") else 9 for cell in cells]
    average = units(Precision(half_width=2.0), cells, sizes)
    single = units(Precision(half_width=2.0, per="cell"), cells, sizes)
    difference = units(Precision(difference=4.0), cells, sizes)

    def cell(condition, *scenarios):
        return [f"guess {condition} {scenario}" for scenario in scenarios]

    every = {unit[0][0].split()[1]: unit for unit in (names(cells, unit) for unit in average)}
    assert every == {
        "hint": (cell("hint", "ROD", "QD", "COCO"), [], 2.0),
        "zero-shot": (cell("zero-shot", "ROD", "COCO"), [], 2.0),
        "history": (cell("history", "ROD", "QD", "COCO"), [], 2.0),
    }
    assert [names(cells, unit) for unit in single] == [([name], [], 2.0) for unit in every.values() for name in unit[0]]
    assert [names(cells, unit) for unit in difference] == [
        (cell(name, "ROD", "COCO"), cell("zero-shot", "ROD", "COCO"), 4.0) for name in every if name != "zero-shot"
    ]
    assert units(Precision(half_width=2.0, difference=4.0), cells, sizes) == average + difference
    assert units(None, cells, sizes) == [] and average[0].all_cells == average[0].cells
    assert difference[0].all_cells == difference[0].cells + difference[0].others


def test_open_ended_cells_and_conditions_without_a_shared_scenario_have_no_unit():
    cells = cells_of(["guess"], ["hint", "zero-shot"], ["ROD", "QD"], ("mcqa", "oeg"))
    own = [cell.protocol.value == "mcqa" for cell in cells]
    numbers = {n for unit in units(Precision(half_width=2.0), cells, [9] * len(cells)) for n in unit.cells}
    assert numbers == {n for n, is_own in enumerate(own) if is_own}
    sizes = [9 if (cell.condition.name == "hint") == (cell.scenario == "QD") else 0 for cell in cells]
    assert units(Precision(difference=2.0), cells, sizes) == []


def test_models_are_ranked_within_a_condition_over_the_same_scenarios():
    cells = cells_of(["guess", "uniform", "oracle"], ["hint", "zero-shot"], ["ROD", "QD"])
    sizes = [0 if (c.model.name, c.condition.name, c.scenario) == ("oracle", "hint", "QD") else 9 for c in cells]
    rule = Precision(half_width=2.0, difference=3.0, ranking=True)
    every = units(rule, cells, sizes)
    groups = [
        {(cells[every[n].cells[0]].model.name, cells[every[n].cells[0]].condition.name) for n in group}
        for group in ranking_groups(rule, every, cells)
    ]
    assert sorted(map(sorted, groups)) == [
        [("guess", "hint"), ("uniform", "hint")],
        [("guess", "zero-shot"), ("oracle", "zero-shot"), ("uniform", "zero-shot")],
    ]
    assert ranking_groups(None, every, cells) == ranking_groups(Precision(half_width=2.0), every, cells) == []


def test_a_missing_value_is_wrong_below_and_right_above():
    values = [np.array([1.0, np.nan, 0.0, 1.0] * 5), np.array([0.0, 1.0] * 3)]
    low, high = bounds(values, [40, 6], 20, 0.1, 0.3)
    filled = [[np.column_stack([np.nan_to_num(values[0], nan=fill), [*values[1], *[0.0] * 14]]) for fill in (0.0, 1.0)]]
    below, above = (interval(table, np.array([40, 6]), 0.1, 0.3) for table in filled[0])
    assert (low, high) == (below[0], above[1]) and bounds(values, [40, 6], 1, 0.1, 0.3) == interval(
        np.array([[1.0, 0.0]]), np.array([40, 6]), 0.1, 0.3
    )


@pytest.mark.parametrize(("share", "width"), [(0.3, 12.0), (0.5, 25.0), (1.0, 20.0)])
def test_a_forecast_difference_is_that_of_two_simulated_cells(share, width):
    """Both cells answer in an order of their own, drawn one after the other; halves of a difference have half its width."""
    size = 300
    rng = np.random.default_rng(0)
    ours, others = (rng.permutation((np.arange(size) < round(share * size)).astype(float)) for _ in range(2))
    expected = size
    for rounds in range(LOOK, size, LOOK):
        low, high = bounds([(ours - others + 1) / 2], [size], rounds, width / 200)
        if 200 * (high - low) <= 2 * width:
            expected = rounds
            break
    cells = cells_of(["guess"], ["hint", "zero-shot"], ["QD"])
    assert forecast_stops(Precision(difference=width), cells, [size, size], share) == [expected] * 2


def test_equal_units_are_simulated_once_and_the_share_is_rounded(monkeypatch):
    from orchestrator.precision import stop_forecast

    simulated = []
    real = stop_forecast._rounds_of_unit

    def rounds_of_unit(unit, sizes, share):
        simulated.append((unit.cells, unit.half_width))
        return real(unit, sizes, share)

    monkeypatch.setattr(stop_forecast, "_rounds_of_unit", rounds_of_unit)
    cells = cells_of(["guess", "uniform"], ["zero-shot"], ["QD", "ROD"])
    stops = forecast_stops(Precision(half_width=20.0, per="cell"), cells, [60, 60, 80, 60], 0.5)
    assert len(simulated) == 2 and stops[0] == stops[1] == stops[3]
    rng = np.random.default_rng(0)
    assert [stop_forecast._simulate_answers(rng, 7, share).sum() for share in (0.0, 0.2, 0.22, 0.5, 1.0)] == [
        0,
        1,
        2,
        4,
        7,
    ]


def test_a_unit_may_stop_at_its_last_look_and_not_before_its_first(monkeypatch):
    from orchestrator.precision import stop_forecast

    for sizes, first_narrow, expected in (
        ((40, 30), 1, 10),
        ((40, 30), 3, 30),
        ((40, 30), 4, 40),
        ((41, 5), 4, 40),
        ((41, 5), 9, 50),
    ):
        monkeypatch.setattr(
            stop_forecast, "bounds", lambda values, sizes, rounds, width, n=first_narrow: (0.0, 0.2 if rounds >= 10 * n else 0.21)
        )  # fmt: skip
        assert stop_forecast._rounds_of_unit(Unit((0, 1), (), 10.0), sizes, 0.5) == expected


def test_after_the_last_sample_the_interval_is_the_mean_however_many_rounds_follow():
    values = np.random.default_rng(4).random((60, 2))
    mean = (values[:25, 0].mean() + values[:20, 1].mean()) / 2
    for rounds in (25, 26, 60):
        assert interval(values[:rounds], np.array([25, 20]), 0.1) == (pytest.approx(mean), pytest.approx(mean))
