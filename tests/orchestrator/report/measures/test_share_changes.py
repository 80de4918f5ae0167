"""Changes of the shares of answers: known by construction, and beside the paper's where the run is of its samples."""

from __future__ import annotations

import dataclasses

import pytest

from actors.engine.backend import ScriptedBackend
from orchestrator.report.measures.share_changes import share_changes
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.evidence import share_changes_table
from tests.orchestrator.report.runs import known, played, sweep

NAMES = {"share_suggestion", "share_abstention", "share_category"}


def asks_once_hinted(request) -> str:
    """Declines; with a hint it asks at the first turn and then declines."""
    now = request.situation
    asks = "Hint:" in request.messages[-1].text and now.state.turn == 0
    abstention = next(option for option in now.sample.options if "cannot" in option or "do not" in option)
    return next(option for option in now.view.options if option != abstention) if asks else abstention


def test_a_model_that_asks_once_with_a_hint_has_the_shares_it_was_built_for(demo_data, tmp_path):
    wanted = sweep(
        demo_data, ["uniform", "guess"], ["zero-shot", "hint"], scenarios=["ROD", "QD"], selection={"limit": 6}
    )
    run = read_run(played(tmp_path / "run", wanted, backends={"uniform": ScriptedBackend(asks_once_hinted)}))
    found = {
        row["share"]: row for row in share_changes(run).filter(model="uniform", condition="hint").iter_rows(named=True)
    }
    still = share_changes(run).filter(model="guess")

    assert set(found) == NAMES and {row["scenarios"] for row in found.values()} == {2}
    assert [found["share_suggestion"][name] for name in ("before", "after", "points", "percent")] == [0, 50, 50, None]
    assert [found["share_abstention"][name] for name in ("before", "after", "points", "percent")] == [100, 50, -50, -50]
    assert set(still["points"]) == {0.0} and found["share_category"]["points"] == 0
    assert share_changes(run)["published"].null_count() == share_changes(run).height, "the demo is other data"
    assert "uniform, hint" in [row[0].text for row in share_changes_table(run).rows]


def test_the_order_of_episodes_changes_no_bit(run_data):
    def shuffled(seed: int):
        episodes = run_data.episodes.sample(fraction=1, shuffle=True, seed=seed)
        return share_changes(dataclasses.replace(run_data, episodes=episodes)).rows()

    assert all(shuffled(seed) == share_changes(run_data).rows() for seed in range(3))


def test_the_papers_change_stands_beside_a_run_of_its_samples_and_no_other(tmp_path):
    names, conditions = ["llava-ov-0.5b"], ("zero-shot", "random-proactive")
    whole = share_changes(read_run(known(tmp_path / "whole", names, conditions)))
    part = share_changes(read_run(known(tmp_path / "part", names, conditions, most=20)))
    asked = whole.filter(share="share_suggestion")

    assert asked["published"].to_list() == [-18.0] and whole["published"].count() == 1
    assert asked["difference"].item() == pytest.approx(asked["percent"].item() + 18)
    assert part["published"].count() == 0
