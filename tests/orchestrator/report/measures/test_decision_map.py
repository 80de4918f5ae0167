"""Planted policies get the decisions that they have by construction, and a map is never mixed with accuracy."""

from __future__ import annotations

import json
from dataclasses import replace

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from actors.engine.backend import Backend, Reply, Request
from envs import SCENARIOS
from envs.frames import Moves, decision_states
from envs.types import Sample
from orchestrator.planning.build_plan import build_plan, planned_rows
from orchestrator.report.measures.decision_map import DecisionInputs, add_decisions, compute_decisions, decisions
from orchestrator.report.read_run import read_run
from orchestrator.report.scores.metrics import score, write_results
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.report.tables.results import result_tables
from orchestrator.storage.episode_store import episodes, turns
from tests.envs.games import SAMPLES
from tests.orchestrator.report.runs import played, sweep

KNOWS_FROM = 2
"""Moves from the first picture at which the planted models know."""
OFF = {"exact": 0, "too-long": 1, "too-early": -1}
MODEL = {"source": "x", "backend": "transformers", "gpus": 0}
POLICIES = ["oracle", "always-ask", "guess"]
CONDITIONS = ["zero-shot", "every-frame"]


class Planted(Backend):
    """Knows from two moves on; asks until then, or a turn longer, or a turn less, and then names a category."""

    def __init__(self, off: int) -> None:
        self.off = off

    async def reply(self, request: Request) -> Reply:
        now = request.situation
        known = now.state.turn >= KNOWS_FROM
        if now.view.options and now.state.turn < KNOWS_FROM + self.off:
            return Reply(SCENARIOS[now.sample.scenario].askable(now.sample, now.state)[0])
        return Reply(now.sample.answer if known else next(c for c in now.view.categories if c != now.sample.answer))

    async def close(self) -> None:
        return None


def straight(sample: Sample) -> bool:
    """Whether asking for the first thing three times leads three moves away, and the episode goes on."""
    game, state, depths = SCENARIOS[sample.scenario], None, {}
    for one in decision_states(sample):
        depths.setdefault(game.image(sample, one).key, one.turn)
    state = game.initial(sample)
    for turn in range(4):
        if depths.get(game.image(sample, state).key) != turn or not game.askable(sample, state):
            return False
        state, _ = game.step(sample, state, game.askable(sample, state)[0])
        if state.ending is not None:
            return False
    return True


@pytest.fixture(scope="module")
def whole(demo_data):
    return build_plan(sweep(demo_data, ["oracle"], ["zero-shot"])).samples


@pytest.fixture(scope="module")
def planted(demo_data, whole, tmp_path_factory):
    ids = {name: [s.id for s in found if straight(s)] for name, found in whole.items()}
    ids = {name: numbers for name, numbers in ids.items() if numbers}
    assert len(ids) >= 4, "most scenarios have samples that go on for three moves"
    models = [{"name": name, **MODEL} for name in OFF]
    wanted = sweep(demo_data, models, CONDITIONS, scenarios=list(ids), selection={"ids": ids})
    backends = {name: Planted(off) for name, off in OFF.items()}
    return played(tmp_path_factory.mktemp("planted") / "run", wanted, backends=backends)


@pytest.fixture(scope="module")
def policies(demo_data, tmp_path_factory):
    return played(tmp_path_factory.mktemp("policies") / "run", sweep(demo_data, POLICIES, CONDITIONS))


def test_a_turn_too_long_and_a_turn_too_early_are_a_turn_of_regret(planted):
    found = decisions(read_run(planted))

    assert set(found.samples["needed"]) == {KNOWS_FROM} and not found.samples["known_first"].any()
    facts = {
        name: set(found.episodes.filter(model=name).select(pl.exclude("key", "cell", "model", "scenario", "sample_id")).rows())
        for name in OFF
    }  # fmt: skip
    assert facts == {
        "exact": {("zero-shot", False, False, 0, None)},
        "too-long": {("zero-shot", True, False, 1, None)},
        "too-early": {("zero-shot", False, True, 0, 1)},
    }
    (grid,) = [one for one in report_tables(read_run(planted)) if one.name == "decisions"]
    shown = {name.text: {cell.text for cell in cells} for name, *cells in grid.rows}
    assert shown == {
        "exact, zero-shot": {"0 / 0; 0.0"},
        "too-long, zero-shot": {"100 / 0; 1.0"},
        "too-early, zero-shot": {"0 / 100; 1.0"},
    }
    (grid,) = [one for one in report_tables(read_run(planted)) if one.name == "decision-map"]
    assert {cell.text for _, *cells in grid.rows for cell in cells} == {"0 / 100; 2.0"}


def test_the_oracle_regrets_nothing(policies):
    found = decisions(read_run(policies))
    mine = found.episodes.filter(model="oracle")

    assert mine.height == 70 and found.samples.filter(model="oracle")["needed"].null_count() == 0
    assert not mine["asked_knowing"].any() and not mine["answered_unknowing"].any()
    assert set(mine["regret_late"]) == {0} and set(mine["regret_early"]) == {None}


def test_who_always_asks_regrets_every_question_about_what_it_would_name(policies, whole):
    """Without options it names the first category: it knows a sample everywhere, or nowhere."""
    run_data = read_run(policies)
    asked = run_data.episodes.filter(model="always-ask", condition="zero-shot").select("key", "suggestions")
    mine = decisions(run_data).episodes.filter(model="always-ask").join(asked, on="key")
    first = {(name, s.id): s.answer == s.categories[0] for name, found in whole.items() for s in found}

    assert any(first.values())
    for row in mine.iter_rows(named=True):
        knew = first[row["scenario"], row["sample_id"]]
        expected = row["suggestions"] - (row["scenario"] == "ROD") if knew else 0
        assert row["regret_late"] == expected, "nothing counts at ROD's first turn, so asking there is right"
        assert not (knew and row["answered_unknowing"]) and row["regret_early"] is None


def test_a_guess_knows_only_what_it_guessed_right(policies):
    run_data = read_run(policies)
    right = run_data.episodes.filter(model="guess", condition="zero-shot").select("key", "correct")
    found = decisions(run_data)
    mine = found.episodes.filter(model="guess").join(right, on="key")
    map_of = found.samples.filter(model="guess").select("scenario", "sample_id", "known_first", "needed")
    mine = mine.join(map_of, on=["scenario", "sample_id"])

    assert not mine["asked_knowing"].any()
    assert (mine["answered_unknowing"] == ~mine["correct"]).all()
    played_on = mine.filter(pl.col("scenario") != "ROD")
    assert (played_on["known_first"] == played_on["correct"]).all()
    early = mine.filter("answered_unknowing")
    assert early["regret_early"].equals(early["needed"], null_equal=True), "its answer came at the first picture"
    assert (mine.filter(scenario="ROD")["regret_early"].drop_nulls() >= 1).all(), "one must ask there"


def test_a_map_is_no_part_of_any_other_figure(policies, demo_data, tmp_path):
    alone = read_run(played(tmp_path / "run", sweep(demo_data, POLICIES, ["zero-shot"])))
    both = read_run(policies)

    assert_frame_equal(alone.rows, both.rows)
    assert_frame_equal(alone.episodes.drop("seconds"), both.episodes.drop("seconds"))
    assert (
        both.decision_maps.height == 210
        and set(both.decision_maps["ending"]) == {"mapped"}
        and both.decision_maps["correct"].null_count() == 210
    )
    names = {grid.name for grid in report_tables(both)} - {grid.name for grid in report_tables(alone)}
    assert names == {"decision-map", "decisions"}
    for before, after in zip(
        report_tables(alone), [g for g in report_tables(both) if g.name not in names], strict=True
    ):
        assert before.rows == after.rows


def test_results_hold_the_decisions_beside_the_measures(policies, demo_data, tmp_path):
    wanted = sweep(demo_data, POLICIES, CONDITIONS)
    plan, kept = build_plan(wanted), episodes(policies)
    stored = DecisionInputs(kept, turns(policies), {one.name: one for one in wanted.conditions}, plan.samples_by_id)
    rows = add_decisions(score(kept, planned_rows(plan)), stored)
    write_results(tmp_path, rows)
    cells = {row["cell"]: row for row in json.loads((tmp_path / "results.json").read_text())}

    oracle, mapped = cells["oracle/QD/zero-shot"], cells["oracle/QD/every-frame"]
    assert (oracle["decision_map"], oracle["mapped"], oracle["regret"], oracle["acc"]) == (False, 10, 0.0, 100.0)
    assert mapped["decision_map"] and mapped["known_ever"] == 100.0 and mapped["acc"] is None and mapped["scored"] == 0
    assert (mapped["finished"], mapped["errors"]) == (10, 0)
    titles = [str(table.title) for table in result_tables(rows)]
    assert len(titles) == 1 and titles[0].startswith("zero-shot")


def test_half_a_map_and_samples_that_are_gone_decide_nothing(policies, tmp_path):
    run_data = read_run(policies)
    missing = replace(run_data, samples={name: found for name, found in run_data.samples.items() if name != "QD"})
    assert "QD" not in set(decisions(missing).episodes["scenario"])
    maps = run_data.decision_maps.filter(~(pl.col("model") == "guess") | (pl.col("sample_id") % 2 == 0))
    some = decisions(replace(run_data, decision_maps=maps))
    assert (some.episodes.filter(model="guess")["sample_id"] % 2 == 0).all()
    assert compute_decisions(
        DecisionInputs(run_data.episodes.lazy(), run_data.turns, run_data.conditions, {})
    ).episodes.is_empty()


def test_a_long_video_is_asked_about_at_every_nth_frame(whole):
    long = replace(SAMPLES["VSOD"], frames=100, first_frame=30)
    asked = [state.frame for state in decision_states(long)]

    assert len(asked) == 25 and asked[0] == 30 and {(frame - 30) % 4 for frame in asked} == {0}
    moves = Moves.from_sample(long)
    game = SCENARIOS["VSOD"]
    picture = {state.frame: game.image(long, state).key for state in decision_states(long)}
    between = game.image(long, game.initial(long)._replace(frame=33)).key
    assert moves.asked[between] == picture[34]
    assert moves.moves_to_known(picture[30], 0, {picture[38]}) == 7, "36 lies as near to 34 as to 38, 37 nearer to 38"
    assert moves.moves_to_known(picture[30], 0, {picture[26], picture[38]}) == 2, (
        "28 lies as near to 26 as to 30: the lower counts"
    )
    assert max(len(decision_states(sample)) for sample in whole["VSOD"]) <= 32
    for name, found in whole.items():
        if name != "VSOD":
            moves = [Moves.from_sample(sample) for sample in found]
            assert all(set(one.asked) == set(one.asked.values()) == set(one.neighbors) for one in moves)
