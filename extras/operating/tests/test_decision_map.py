"""Planted policies get their known decisions, and a decision map never changes accuracy."""

from __future__ import annotations

import json
from dataclasses import replace

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from actors.engine.backend import Backend, Reply, Request
from envs import SCENARIOS
from envs.types import Sample
from orchestrator.planning.build_plan import build_plan, planned_cells
from orchestrator.report.read_run import read_run
from orchestrator.report.scores.metrics import score, write_results
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.report.tables.paper_tables import result_tables
from orchestrator.report.tables.table import MISSING
from orchestrator.storage.episode_store import episodes
from proactive_operating.decisions import decisions, knowledge_table
from proactive_operating.frames import decision_states
from proactive_operating.results import add_columns
from tests.orchestrator.report.runs import play_sweep, sweep

KNOWS_FROM = 2
"""Number of moves from the first picture after which the planted models know the answer."""
OFF = {"exact": 0, "too-long": 1, "too-early": -1}
MODEL = {"source": "x", "backend": "transformers", "gpus": 0}
POLICIES = ["oracle", "always-ask", "guess"]
CONDITIONS = ["zero-shot", "every-frame"]


class PlantedModel(Backend):
    """A model that knows after two moves; it asks until then, or ``off`` turns more, and then names a category."""

    def __init__(self, off: int) -> None:
        self.off = off

    async def reply(self, request: Request) -> Reply:
        now = request.situation
        knows = now.state.turn >= KNOWS_FROM
        if now.view.options and now.state.turn < KNOWS_FROM + self.off:
            return Reply(SCENARIOS[now.sample.scenario].askable(now.sample, now.state)[0])
        return Reply(now.sample.answer if knows else next(c for c in now.view.categories if c != now.sample.answer))

    async def close(self) -> None:
        return None


def straight(sample: Sample) -> bool:
    """Return True if asking for the first option three times leads three moves away without an ending."""
    game, state, depths = SCENARIOS[sample.scenario], None, {}
    for decision_state in decision_states(sample):
        depths.setdefault(game.image(sample, decision_state).key, decision_state.turn)
    state = game.initial(sample)
    for turn in range(4):
        if depths.get(game.image(sample, state).key) != turn or not game.askable(sample, state):
            return False
        state, _ = game.step(sample, state, game.askable(sample, state)[0])
        if state.ending is not None:
            return False
    return True


@pytest.fixture(scope="module")
def all_samples(demo_data):
    return build_plan(sweep(demo_data, ["oracle"], ["zero-shot"])).samples


@pytest.fixture(scope="module")
def planted_run(demo_data, all_samples, tmp_path_factory):
    ids = {name: [s.id for s in samples if straight(s)] for name, samples in all_samples.items()}
    ids = {name: numbers for name, numbers in ids.items() if numbers}
    assert len(ids) >= 4, "most scenarios have samples that go on for three moves"
    models = [{"name": name, **MODEL} for name in OFF]
    wanted = sweep(demo_data, models, CONDITIONS, scenarios=list(ids), selection={"ids": ids})
    backends = {name: PlantedModel(off) for name, off in OFF.items()}
    return play_sweep(tmp_path_factory.mktemp("planted") / "run", wanted, backends=backends)


@pytest.fixture(scope="module")
def policy_run(demo_data, tmp_path_factory):
    return play_sweep(tmp_path_factory.mktemp("policies") / "run", sweep(demo_data, POLICIES, CONDITIONS))


def test_late_and_early_decisions_cost_one_turn_of_regret(planted_run):
    outcome = decisions(read_run(planted_run))

    assert set(outcome.samples["needed"]) == {KNOWS_FROM} and not outcome.samples["known_first"].any()
    facts = {
        name: set(outcome.episodes.filter(model=name).select(pl.exclude("key", "cell", "model", "scenario", "sample_id")).rows())
        for name in OFF
    }  # fmt: skip
    assert facts == {
        "exact": {("zero-shot", False, False, 0, None)},
        "too-long": {("zero-shot", True, False, 1, None)},
        "too-early": {("zero-shot", False, True, 0, 1)},
    }
    (grid,) = [table for table in report_tables(read_run(planted_run)) if table.name == "decisions"]
    texts = {name.text: {cell.text for cell in cells} for name, *cells in grid.rows}
    assert texts == {
        "exact, zero-shot": {"0 / 0; 0.0"},
        "too-long, zero-shot": {"100 / 0; 1.0"},
        "too-early, zero-shot": {"0 / 100; 1.0"},
    }
    (grid,) = [table for table in report_tables(read_run(planted_run)) if table.name == "decision-map"]
    assert {cell.text for _, *cells in grid.rows for cell in cells} == {"0 / 100; 2.0"}


def test_decision_map_changes_no_other_figure(policy_run, demo_data, tmp_path):
    alone = read_run(play_sweep(tmp_path / "run", sweep(demo_data, POLICIES, ["zero-shot"])))
    both = read_run(policy_run)

    assert_frame_equal(alone.rows, both.rows)
    assert_frame_equal(alone.episodes.drop("seconds"), both.episodes.drop("seconds"))
    assert (
        both.asked.height == 210
        and set(both.asked["ending"]) == {"mapped"}
        and both.asked["correct"].null_count() == 210
    )
    names = {grid.name for grid in report_tables(both)} - {grid.name for grid in report_tables(alone)}
    assert names == {"decision-map", "decisions"}
    for before, after in zip(
        report_tables(alone), [g for g in report_tables(both) if g.name not in names], strict=True
    ):
        assert before.rows == after.rows


def test_results_hold_decisions_and_measures(policy_run, demo_data, tmp_path):
    wanted = sweep(demo_data, POLICIES, CONDITIONS)
    plan, episode_rows = build_plan(wanted), episodes(policy_run)
    rows = add_columns(
        score(episode_rows, pl.DataFrame(planned_cells(plan))), policy_run, wanted, episode_rows, plan.samples_by_id
    )
    write_results(tmp_path, rows)
    cells = {row["cell"]: row for row in json.loads((tmp_path / "results.json").read_text())}

    oracle, mapped = cells["oracle/QD/zero-shot"], cells["oracle/QD/every-frame"]
    assert (oracle["decision_map"], oracle["mapped"], oracle["regret"], oracle["acc"]) == (False, 10, 0.0, 100.0)
    assert mapped["decision_map"] and mapped["known_ever"] == 100.0 and mapped["acc"] is None and mapped["scored"] == 0
    assert (mapped["finished"], mapped["errors"]) == (10, 0)
    titles = [str(table.title) for table in result_tables(rows)]
    assert len(titles) == 1 and titles[0].startswith("zero-shot")


def test_incomplete_maps_and_missing_samples_decide_nothing(policy_run, tmp_path):
    run_data = read_run(policy_run)
    missing = replace(run_data, samples={name: samples for name, samples in run_data.samples.items() if name != "QD"})
    assert "QD" not in set(decisions(missing).episodes["scenario"])
    even = (pl.col("sample_id") % 2 == 0) & (pl.col("scenario") != "QD")
    maps = run_data.asked.filter((pl.col("model") != "guess") | even)
    some = decisions(part := replace(run_data, asked=maps))
    means = {model.text: mean for model, *_, mean in knowledge_table(part).rows}
    assert means["guess"] == MISSING != means["oracle"], "no mean over some of the scenarios"
    assert (some.episodes.filter(model="guess")["sample_id"] % 2 == 0).all()
    assert decisions(replace(run_data, samples={})).episodes.is_empty()
