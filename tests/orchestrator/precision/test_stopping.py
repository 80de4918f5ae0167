"""Stops are prefixes of the drawn order; equal answers stop at equal points, whatever their order of arrival."""

import random

import pytest

from envs.types import Ending
from orchestrator.precision.stopping import LOOK, StoppingRule
from orchestrator.storage import run_folder
from sweeps.load import SweepError, build
from tests.bench import planted_stopping as planted
from tests.orchestrator.planning.test_plan import samples

BOTH = ["zero-shot", "hint"]


def small_plan(sizes, models=("uniform", "guess"), **rule):
    from orchestrator.planning.plan import make_plan
    from sweeps.protocol import Protocol

    played = samples(sizes)
    table = {"name": "test", "data": "none", "models": list(models), "scenarios": list(sizes), "conditions": BOTH}
    return make_plan(build({**table, "precision": rule}, "a test"), {Protocol.MCQA: played}, played)


def planted_answer(plan, ordinal, share=0.2):
    """Return a planted answer, fixed per cell and sample."""
    index, sample = plan.task(ordinal)
    return random.Random(f"{plan.cells[index].key}/{sample.id}").random() < share


def feed_answers(plan, ordinals, ending=Ending.CORRECT):
    rule = StoppingRule(plan)
    for ordinal in ordinals:
        rule.add_answer(ordinal, ending, planted_answer(plan, ordinal))
    return rule


SIZES = {"ROD": 30, "QD": 300, "COCO": 200}


@pytest.mark.parametrize("rule", [{"half_width": 6}, {"half_width": 9, "per": "cell"}, {"difference": 10}])
def test_stops_do_not_depend_on_arrival_order(rule):
    plan = small_plan(SIZES, **rule)
    all_stops = feed_answers(plan, range(plan.total)).stops()
    shuffled = StoppingRule(plan)
    order = random.Random(1).sample(range(plan.total), plan.total)
    partial_stops = []
    for number, ordinal in enumerate(order):
        shuffled.add_answer(ordinal, Ending.CORRECT, planted_answer(plan, ordinal) or None)
        if number % 97 == 0:
            partial_stops.append(shuffled.stops())
    partial_stops.append(shuffled.stops())

    assert all_stops and partial_stops[-1] == all_stops
    assert all(stops.items() <= all_stops.items() for stops in partial_stops)
    assert all(n % LOOK == 0 and n < len(plan.cell_samples(plan.cells[index])) for index, n in all_stops.items())

    prefix = plan.with_stops(all_stops)
    keys = set(prefix.all_keys())
    counted = [o for o in range(plan.total) if plan.key(*plan.task(o)) in keys]
    assert len(counted) == prefix.total_with_stops < plan.total
    assert feed_answers(plan, counted).stops() == all_stops, "the answers that count decide alone"
    assert prefix.pending(set(prefix.all_keys())) == {}


@pytest.mark.parametrize("rule", [{"half_width": 6}, {"half_width": 6, "per": "cell"}, {"difference": 10}])
def test_the_interval_is_the_score_itself_once_everything_is_played(rule):
    plan = small_plan(SIZES, **rule)
    played = feed_answers(plan, range(plan.total))
    for unit in played.units:
        score, baseline = (
            sum(played.answers[cell].mean() for cell in cells) / max(1, len(cells))
            for cells in (unit.cells, unit.others)
        )
        exact = pytest.approx(100 * (score - baseline), abs=1e-6)
        assert played.bounds(unit, max(SIZES.values())) == (exact, exact)


def test_missing_episode_delays_only_its_own_unit():
    plan = small_plan(SIZES, half_width=6)
    expected = feed_answers(plan, range(plan.total)).stops()
    late_index, late_cell = next((n, cell) for n, cell in enumerate(plan.cells) if cell.scenario == "QD")
    late = plan.offsets[late_index] + plan.ranks["QD"].index(0)
    actual = feed_answers(plan, [o for o in range(plan.total) if o != late]).stops()

    same = {
        n for n, cell in enumerate(plan.cells) if (cell.model, cell.condition) == (late_cell.model, late_cell.condition)
    }
    assert actual == {index: n for index, n in expected.items() if index not in same}


def test_all_models_play_same_samples_first_and_scenarios_rotate():
    plan = small_plan({"ROD": 2, "QD": 4, "COCO": 3}, half_width=5)
    (queue,) = plan.pending(()).values()
    tasks = [(plan.cells[index], sample.id) for index, sample in map(plan.task, queue)]
    played = {}
    for cell, sample in tasks:
        played.setdefault((cell.model.name, cell.condition.name), []).append((cell.scenario, sample))

    assert len(queue) == plan.total == 36
    first, *others = played.values()
    assert all(order == first for order in others)
    assert [scenario for scenario, _ in first] == ["ROD", "QD", "COCO"] * 2 + ["QD", "COCO", "QD"]
    assert [cell.condition.name for cell, _ in tasks[:4]] == [*BOTH, *BOTH]


def test_unanswered_episodes_widen_interval():
    plan = small_plan(SIZES, half_width=6)
    clean, some = feed_answers(plan, range(plan.total)), feed_answers(plan, range(plan.total))
    for ordinal in range(0, plan.total, 40):
        some.add_answer(ordinal, Ending.FAILED, False)
    all_lost = feed_answers(plan, range(plan.total), Ending.REFUSED)

    later = some.stops()
    assert all(later.get(index, 10**6) >= n for index, n in clean.stops().items()) and later != clean.stops()
    assert all_lost.stops() == {}


def test_rule_changes_no_key_and_no_settings():
    with_rule, without = small_plan(SIZES, half_width=6), small_plan(SIZES, difference=3)
    table = {"name": "test", "data": "none", "models": ["uniform", "guess"], "scenarios": list(SIZES)}
    plain = build({**table, "conditions": BOTH}, "a test")

    assert list(with_rule.all_keys()) == list(without.all_keys())
    ruled = plain.model_copy(update={"precision": with_rule.precision})
    assert run_folder.settings(plain) == run_folder.settings(ruled)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "give half_width or difference, in points"),
        ({"half_width": 0.01}, "greater than or equal to 0.1"),
        ({"half_width": "one"}, "precision.half_width"),
        ({"half_width": True}, "precision.half_width"),
        ({"half_wide": 1.0}, "unknown key 'precision.half_wide'"),
        ({"difference": 1, "per": "cell"}, 'per = "cell" refers to half_width'),
        ({"half_width": 1, "per": "model"}, "precision.per"),
    ],
)
def test_bad_rule_is_refused_in_one_line(table, message):
    with pytest.raises(SweepError) as error:
        build({"data": "d", "models": ["guess"], "precision": table}, "s.toml")

    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": {"difference": 1}}, "name zero-shot and another in conditions"),
        ({"precision": {"half_width": 1}, "protocol": "oeg"}, "multiple choice, which is not played here"),
        ({"precision": {"half_width": 1}, "replicates": 2}, "leave one of the two out"),
    ],
)
def test_rule_unfit_for_sweep_is_refused(options, message):
    with pytest.raises(SweepError, match=message):
        build({"data": "d", "models": ["guess"], **options}, "s.toml")


def test_planted_sweeps_stop_early_cover_the_truth_and_are_not_biased():
    """Play a few of the sweeps of tests/bench/planted_stopping.py, with wider intervals so that they take seconds."""
    outcomes = [outcome for seed in range(12) for outcome in planted.play_planted(seed, {"half_width": 3.0})]
    summary = planted.summary(outcomes)

    assert summary["intervals"] == 24 and summary["coverage %"] >= 95
    assert abs(summary["bias"]) < 1 and summary["half-width"] <= 3 and summary["counted %"] < 20
