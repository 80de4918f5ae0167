"""Ranks and looks on intervals that are written out: which rank is certain, when, and what an interval is asked for."""

import numpy as np
import pytest

from orchestrator.precision.stopping import RIGHT, UNKNOWN, Ranking, StoppingRule, load_rule
from tests.orchestrator.precision.test_stopping import small_plan


class WrittenRule:
    """A stopping rule whose units have the intervals of a table: unit -> rounds -> interval."""

    def __init__(self, tables, known=None, ends=None) -> None:
        self.tables, self.known, self.ends, self.units = tables, known or {}, ends or {}, [f"unit {n}" for n in tables]
        self.asked: list[tuple[str, int, float]] = []

    def end_round(self, number):
        return self.ends.get(number, 30)

    def known_rounds(self, number):
        return self.known.get(number, float("inf"))

    def bounds(self, unit, rounds, alpha):
        self.asked.append((unit, rounds, alpha))
        return self.tables[int(unit.split()[1])][rounds]


APART = {10: (0.0, 50.0), 20: (0.0, 30.0), 30: (0.0, 20.0)}
ABOVE = {10: (40.0, 90.0), 20: (31.0, 60.0), 30: (45.0, 50.0)}
TOUCHING = {10: (40.0, 100.0), 20: (60.0, 90.0), 30: (50.0, 80.0)}


def test_a_rank_is_certain_when_its_interval_touches_no_other():
    rule = WrittenRule({0: APART, 1: ABOVE, 2: TOUCHING})
    ranking = Ranking(rule, [0, 1, 2], 0.01)
    assert ranking.update() == {0: 20} and ranking.rounds == 30, "60 and 60 touch, as do 50 and 50 at the end"
    assert ranking.span(0) == (0.0, 30.0) and ranking.span(2) == (50.0, 80.0)
    assert rule.asked == [
        *[(f"unit {n}", rounds, 0.01) for rounds in (10, 20) for n in range(3)], ("unit 1", 30, 0.01), ("unit 2", 30, 0.01),
    ]  # fmt: skip
    assert ranking.update() == {0: 20} and len(rule.asked) == 8, "nothing is asked twice"


def test_a_look_waits_for_all_models_that_still_play():
    rule = WrittenRule({0: APART, 1: ABOVE}, known={0: 10, 1: 19})
    ranking = Ranking(rule, [0, 1], 0.01)
    assert ranking.update() == {} and ranking.rounds == 10
    rule.known = {0: 20, 1: 19}
    assert ranking.update() == {} and ranking.rounds == 10
    rule.known = {0: 20, 1: 20}
    assert ranking.update() == {0: 20, 1: 20} and ranking.rounds == 20


def test_a_model_that_stopped_keeps_its_last_interval_and_delays_nobody():
    rule = WrittenRule({0: APART, 1: ABOVE}, known={0: 10}, ends={0: 10, 1: 30})
    ranking = Ranking(rule, [0, 1], 0.01)
    assert ranking.update() == {} and ranking.rounds == 30, "0 to 50 overlaps all intervals of the other"
    assert [asked[:2] for asked in rule.asked] == [("unit 0", 10), ("unit 1", 10), ("unit 1", 20), ("unit 1", 30)]

    lower = WrittenRule({0: {10: (0.0, 40.0)}, 1: {**ABOVE, 20: (40.0, 60.0)}}, ends={0: 10, 1: 30})
    assert Ranking(lower, [0, 1], 0.01).update() == {1: 30}, "from 40 on does not do, from 45 on does"
    higher = WrittenRule({0: {10: (55.0, 90.0)}, 1: ABOVE}, ends={0: 10, 1: 30})
    assert Ranking(higher, [0, 1], 0.01).update() == {1: 30}


def test_a_rank_that_is_certain_ends_its_model():
    rule = WrittenRule({0: {10: (0.0, 1.0)}, 1: {10: (2.0, 9.0)}, 2: {10: (8.0, 9.0), 20: (10.0, 11.0)}}, ends={1: 10})
    ranking = Ranking(rule, [0, 1, 2], 0.01)
    assert ranking.update() == {0: 10, 2: 20} and (ranking.span(0), ranking.span(2)) == ((0.0, 1.0), (10.0, 11.0))


@pytest.mark.parametrize(("width", "stops"), [(20.0, True), (1.0, False)])
def test_a_cell_stops_with_the_last_of_its_units(width, stops, monkeypatch):
    """A cell of an average and of a difference plays until both are narrow; one of its units alone does not stop it."""
    plan = small_plan({"QD": 60}, models=("uniform",), half_width=20, difference=width)
    rule = StoppingRule(plan)
    for answers in rule.answers.values():
        answers[:] = np.arange(60) % 2
    monkeypatch.setattr(
        rule, "bounds", lambda unit, rounds: (0.0, 40.0 if rounds >= (40 if unit.others else 20) else 41.0)
    )
    assert rule.stops() == (dict.fromkeys(rule.answers, 40) if stops else {})
    assert rule._looked == ([20, 20, 40] if stops else [20, 20, 60])


def test_ranks_share_the_five_percent_of_a_sweep():
    plan = small_plan({"QD": 30}, models=("uniform", "guess", "oracle"), half_width=5, ranking=True)
    rule = StoppingRule(plan)
    assert len(rule.units) == 6 and [ranking.alpha for ranking in rule.ranking] == [0.05 / 6] * 2
    assert [len(ranking.group) for ranking in rule.ranking] == [3, 3] and rule.ranking[0].rounds == 0


def test_stored_answers_are_read_whatever_the_stops_before(tmp_path, demo_data):
    from orchestrator.planning.build_plan import build_plan, stored_episodes
    from tests.orchestrator.report import runs

    spec = runs.sweep(demo_data, ["oracle"], ["zero-shot"], scenarios=["QD"], precision={"half_width": 10})
    folder, plan = runs.play_sweep(tmp_path, spec, only=7), build_plan(spec)
    played = set(stored_episodes(plan, folder).collect()["key"])
    rule = load_rule(plan.with_stops({0: 5}), folder)
    (answers,) = rule.answers.values()
    assert len(played) == 7 and sorted(answers.tolist()) == [UNKNOWN] * 3 + [RIGHT] * 7
    assert load_rule(build_plan(runs.sweep(demo_data, ["oracle"], ["zero-shot"])), folder).answers == {}
