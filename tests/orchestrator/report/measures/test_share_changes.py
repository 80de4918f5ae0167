"""Changes of answer shares: planted ones are found, and the paper's are shown for runs of its samples."""

from __future__ import annotations

import dataclasses

import pytest

from actors.engine.backend import ScriptedBackend
from orchestrator.report.measures.share_changes import share_changes
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.evidence import share_changes_table
from tests.orchestrator.report.runs import play_sweep, sweep, write_published_run

NAMES = {"share_suggestion", "share_abstention", "share_category"}


def asks_once_hinted(request) -> str:
    """Decline; with a hint, ask at the first turn and then decline."""
    now = request.situation
    asks = "Hint:" in request.messages[-1].text and now.state.turn == 0
    abstention = next(option for option in now.sample.options if "cannot" in option or "do not" in option)
    return next(option for option in now.view.options if option != abstention) if asks else abstention


def test_model_asking_once_with_hint_has_planted_shares(demo_data, tmp_path):
    wanted = sweep(
        demo_data, ["uniform", "guess"], ["zero-shot", "hint"], scenarios=["ROD", "QD"], selection={"limit": 6}
    )
    run = read_run(play_sweep(tmp_path / "run", wanted, backends={"uniform": ScriptedBackend(asks_once_hinted)}))
    changes = {
        row["share"]: row for row in share_changes(run).filter(model="uniform", condition="hint").iter_rows(named=True)
    }
    still = share_changes(run).filter(model="guess")

    assert set(changes) == NAMES and {row["scenarios"] for row in changes.values()} == {2}
    assert [changes["share_suggestion"][name] for name in ("before", "after", "points", "percent")] == [0, 50, 50, None]
    assert [changes["share_abstention"][name] for name in ("before", "after", "points", "percent")] == [
        100,
        50,
        -50,
        -50,
    ]
    assert set(still["points"]) == {0.0} and changes["share_category"]["points"] == 0
    assert share_changes(run)["published"].null_count() == share_changes(run).height, "the demo is other data"
    assert "uniform, hint" in [row[0].text for row in share_changes_table(run).rows]


def test_episode_order_changes_no_bit(run_data):
    def shuffled_rows(seed: int):
        episodes = run_data.episodes.sample(fraction=1, shuffle=True, seed=seed)
        return share_changes(dataclasses.replace(run_data, episodes=episodes)).rows()

    assert all(shuffled_rows(seed) == share_changes(run_data).rows() for seed in range(3))


def test_published_change_is_shown_only_for_paper_samples(tmp_path):
    names, conditions = ["llava-ov-0.5b"], ("zero-shot", "random-proactive")
    full_changes = share_changes(read_run(write_published_run(tmp_path / "whole", names, conditions)))
    part = share_changes(read_run(write_published_run(tmp_path / "part", names, conditions, most=20)))
    suggestions = full_changes.filter(share="share_suggestion")

    assert suggestions["published"].to_list() == [-18.0] and full_changes["published"].count() == 1
    assert suggestions["difference"].item() == pytest.approx(suggestions["percent"].item() + 18)
    assert part["published"].count() == 0
