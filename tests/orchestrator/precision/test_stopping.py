"""What stops when: by prefixes of the drawn order alone, at equal places for equal answers, however they arrive."""

import random

import pytest

from envs.types import Ending
from orchestrator.planning.plan import drawn_order
from orchestrator.precision import stopping
from orchestrator.precision.stopping import LOOK, StoppingRule
from orchestrator.storage import run_folder
from sweeps.load import SweepError, build
from tests.bench import planted
from tests.orchestrator.planning.test_plan import samples

BOTH = ["zero-shot", "hint"]


def plan_of(sizes, models=("uniform", "guess"), **rule):
    from orchestrator.planning.plan import make_plan
    from sweeps.protocol import Protocol

    drawn = samples(sizes)
    table = {
        "name": "test",
        "data": "none",
        "models": list(models),
        "scenarios": list(sizes),
        "conditions": BOTH,
    }
    return make_plan(build({**table, "precision": rule}, "a test"), {Protocol.MCQA: drawn}, drawn)


def right(plan, ordinal, share=0.2):
    """A planted answer: the same for the same cell and sample."""
    index, sample = plan.task(ordinal)
    return random.Random(f"{plan.cells[index].key}/{sample.id}").random() < share


def told(plan, ordinals, ending=Ending.CORRECT):
    rule = StoppingRule(plan)
    for ordinal in ordinals:
        rule.add_answer(ordinal, ending, right(plan, ordinal))
    return rule


SIZES = {"ROD": 30, "QD": 300, "COCO": 200}


@pytest.mark.parametrize("rule", [{"half_width": 6}, {"half_width": 9, "per": "cell"}, {"difference": 10}])
def test_equal_answers_stop_at_equal_places_in_any_order_and_whatever_else_is_stored(rule):
    plan = plan_of(SIZES, **rule)
    whole = told(plan, range(plan.total)).stops()
    shuffled = StoppingRule(plan)
    order = random.Random(1).sample(range(plan.total), plan.total)
    seen = []
    for number, ordinal in enumerate(order):
        shuffled.add_answer(ordinal, Ending.CORRECT, right(plan, ordinal))
        if number % 97 == 0:
            seen.append(shuffled.stops())
    seen.append(shuffled.stops())

    assert whole and seen[-1] == whole
    assert all(stops.items() <= whole.items() for stops in seen)
    assert all(n % LOOK == 0 and n < len(plan.cell_samples(plan.cells[index])) for index, n in whole.items())

    prefix = plan.with_stops(whole)
    keys = set(prefix.all_keys())
    kept = [o for o in range(plan.total) if plan.key(*plan.task(o)) in keys]
    assert len(kept) == prefix.total_with_stops < plan.total
    assert told(plan, kept).stops() == whole, "the answers that count decide alone"
    assert prefix.pending(set(prefix.all_keys())) == {}


SHARES = {"uniform": 0.1, "guess": 0.5, "oracle": 0.5}


def taken(rule, ordinal):
    """The rule takes an answer of a model that is right as often as ``SHARES`` says; two of them answer alike."""
    index, sample = rule.plan.task(ordinal)
    cell = rule.plan.cells[index]
    drawn = random.Random(f"{cell.scenario}/{cell.condition.name}/{sample.id}").random()
    rule.add_answer(ordinal, Ending.CORRECT, drawn < SHARES[cell.model.name])


def ranked(plan, ordinals=None):
    rule = StoppingRule(plan)
    for ordinal in range(plan.total) if ordinals is None else ordinals:
        taken(rule, ordinal)
    return rule


def by_model(plan, stops):
    return {model: {n for i, n in stops.items() if plan.cells[i].model.name == model} for model in SHARES}


def test_a_model_whose_place_is_certain_stops_before_it_is_precise_and_one_beside_another_does_not():
    with_ranking, without = (plan_of(SIZES, SHARES, half_width=5, ranking=one) for one in (True, False))
    found, plain = by_model(with_ranking, ranked(with_ranking).stops()), by_model(without, ranked(without).stops())

    assert max(found["uniform"]) < min(plain["uniform"], default=10**6)
    assert {name: found[name] for name in ("guess", "oracle")} == {name: plain[name] for name in ("guess", "oracle")}


def test_places_are_certain_at_equal_looks_in_any_order_of_arrival_and_by_what_counts_alone():
    plan = plan_of(SIZES, SHARES, half_width=5, ranking=True)
    whole = ranked(plan).stops()
    shuffled = random.Random(1).sample(range(plan.total), plan.total)
    slow = sorted(shuffled, key=lambda ordinal: plan.cells[plan.task(ordinal)[0]].model.name == "oracle")
    for order in (shuffled, slow):
        rule = StoppingRule(plan)
        for number, ordinal in enumerate(order):
            taken(rule, ordinal)
            if number % 97 == 0:
                rule.stops()
        assert rule.stops() == whole
    kept = set(plan.with_stops(whole).all_keys())
    assert ranked(plan, [o for o in range(plan.total) if plan.key(*plan.task(o)) in kept]).stops() == whole


def test_while_one_model_has_not_begun_no_place_is_certain_and_precise_averages_still_stop():
    plan, plain = (plan_of(SIZES, SHARES, half_width=6, ranking=one) for one in (True, False))
    some = [o for o in range(plan.total) if plan.cells[plan.task(o)[0]].model.name != "oracle"]

    assert ranked(plan, some).stops() == ranked(plain, some).stops() != {}


def test_planted_ranks_are_wrong_in_at_most_a_twentieth_of_the_sweeps(monkeypatch):
    """Published models, and models whose accuracies hardly differ; of tests/bench/planted.py, with fewer looks."""
    monkeypatch.setattr(stopping, "LOOK", 200)
    far = [planted.ranked(seed, 3) for seed in range(12)]
    close = [planted.ranked(seed, 3, close=True) for seed in range(12)]

    assert sum(one.wrong for one in far + close) <= 1
    assert sum(one.certain for one in far) > 3 and all(one.counted <= one.without for one in far + close)
    assert sum(one.counted for one in far) < 0.95 * sum(one.without for one in far)


def test_one_missing_episode_holds_its_unit_back_and_no_other():
    plan = plan_of(SIZES, half_width=6)
    whole = told(plan, range(plan.total)).stops()
    late = next(o for o in range(plan.total) if plan.cells[plan.task(o)[0]].scenario == "QD" and _rank(plan, o) == 0)
    held = told(plan, [o for o in range(plan.total) if o != late]).stops()

    mine = plan.cells[plan.task(late)[0]]
    same = {n for n, cell in enumerate(plan.cells) if (cell.model, cell.condition) == (mine.model, mine.condition)}
    assert held == {index: n for index, n in whole.items() if index not in same}


def _rank(plan, ordinal):
    index, _ = plan.task(ordinal)
    return plan.ranks[plan.cells[index].scenario][ordinal - plan.offsets[index]]


def test_every_model_and_condition_plays_the_same_samples_first_and_scenarios_take_turns():
    plan = plan_of({"ROD": 2, "QD": 4, "COCO": 3}, half_width=5)
    (queue,) = plan.pending(()).values()
    tasks = [(plan.cells[index], sample.id) for index, sample in map(plan.task, queue)]
    played = {}
    for cell, sample in tasks:
        played.setdefault((cell.model.name, cell.condition.name), []).append((cell.scenario, sample))

    assert len(queue) == plan.total == 36
    first, *others = played.values()
    assert all(other == first for other in others)
    assert [scenario for scenario, _ in first] == ["ROD", "QD", "COCO"] * 2 + ["QD", "COCO", "QD"]
    assert [cell.condition.name for cell, _ in tasks[:4]] == [*BOTH, *BOTH]


def test_the_drawn_order_of_fewer_samples_is_the_same_without_the_others():
    ids = list(range(50))
    whole = dict(zip(ids, drawn_order(3, "QD", ids), strict=True))
    part = [one for one in ids if one % 3]
    ranks = dict(zip(part, drawn_order(3, "QD", part), strict=True))

    assert sorted(whole.values()) == ids
    assert sorted(part, key=ranks.__getitem__) == sorted(part, key=whole.__getitem__)
    assert drawn_order(4, "QD", ids) != drawn_order(3, "QD", ids) != drawn_order(3, "COCO", ids)


def test_episodes_without_an_answer_widen_the_interval_and_may_keep_a_cell_from_stopping():
    plan = plan_of(SIZES, half_width=6)
    clean, some = told(plan, range(plan.total)), told(plan, range(plan.total))
    for ordinal in range(0, plan.total, 40):
        some.add_answer(ordinal, Ending.FAILED, False)
    all_lost = told(plan, range(plan.total), Ending.REFUSED)

    later = some.stops()
    assert all(later.get(index, 10**6) >= n for index, n in clean.stops().items()) and later != clean.stops()
    assert all_lost.stops() == {}


def test_a_rule_is_no_part_of_a_key_and_none_plays_in_the_order_of_the_file():
    with_rule, without = plan_of(SIZES, half_width=6), plan_of(SIZES, difference=3)
    plain = build(
        {"name": "test", "data": "none", "models": ["uniform", "guess"], "scenarios": list(SIZES), "conditions": BOTH},
        "a test",
    )

    assert list(with_rule.all_keys()) == list(without.all_keys())
    ruled = plain.model_copy(update={"precision": with_rule.precision})
    assert run_folder.settings(plain) == run_folder.settings(ruled)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "give half_width or difference, in points"),
        ({"half_width": 0.01}, "greater than or equal to 0.1"),
        ({"half_width": "one"}, "precision.half_width"),
        ({"half_width": True}, "precision.half_width"),
        ({"half_wide": 1.0}, "did you mean 'precision.half_width'?"),
        ({"difference": 1, "per": "cell"}, 'per = "cell" is of half_width'),
        ({"half_width": 1, "per": "model"}, "precision.per"),
        ({"ranking": True}, "give half_width or difference, in points"),
        ({"difference": 1, "ranking": True}, "give half_width, and leave per out"),
        ({"half_width": 1, "per": "cell", "ranking": True}, "give half_width, and leave per out"),
        ({"half_width": 1, "ranking": "yes"}, "precision.ranking"),
    ],
)
def test_a_bad_rule_is_one_sentence(table, said):
    with pytest.raises(SweepError) as told:
        build({"data": "d", "models": ["guess"], "precision": table}, "s.toml")

    assert said in str(told.value) and "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"precision": {"difference": 1}}, "name zero-shot and another in conditions"),
        ({"precision": {"half_width": 1}, "protocol": "oeg"}, "multiple choice, which is not played here"),
        ({"precision": {"half_width": 1}, "replicates": 2}, "leave one of the two out"),
        ({"precision": {"half_width": 1, "ranking": True}}, "ranking compares models; name two or more"),
    ],
)
def test_a_rule_that_does_not_fit_the_sweep_is_one_sentence(more, said):
    with pytest.raises(SweepError, match=said):
        build({"data": "d", "models": ["guess"], **more}, "s.toml")


def test_planted_sweeps_stop_early_cover_the_truth_and_are_not_biased():
    """A few of the thousand of tests/bench/planted.py, with wider intervals so that they take seconds."""
    found = planted.summary([one for seed in range(12) for one in planted.one(seed, {"half_width": 3.0})])

    assert found["intervals"] == 24 and found["coverage %"] >= 95
    assert abs(found["bias"]) < 1 and found["half-width"] <= 3 and found["stored %"] < 20


@pytest.mark.long
@pytest.mark.parametrize("rule", planted.RULES)
def test_sweeps_of_the_published_size_stop_at_two_fifths(rule):
    found = planted.summary([one for seed in range(44) for one in planted.one(seed, rule)])

    assert found["coverage %"] >= 95 and abs(found["bias"]) <= 0.2 and found["stored %"] <= 40
