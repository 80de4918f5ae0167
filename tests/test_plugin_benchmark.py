"""Another benchmark of asking plays by plugin: scenario, policies and judge of one installed package, without a change here."""

import sys
from pathlib import Path

import pytest

import envs
from actors.engine.baselines import Baseline
from envs import SCENARIOS
from envs.contract import check_scenario
from envs.samples import load_samples
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.all_tables import write_tables
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.forecast.forecast import estimate_demands
from tests.orchestrator.report.runs import judge_answers, play_sweep, sweep

OFFERS = """[proactive_sweep.scenarios]
PINV = pinv:Verification
[proactive_sweep.policies]
look-around = pinv:look_around
describe = pinv:describe
literal-judge = pinv:literal_judge
"""


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The package as an installer leaves it, and its drawn data."""
    metadata = tmp_path / "site/pinv-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pinv\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(OFFERS)
    monkeypatch.syspath_prepend(Path(__file__).parent / "plugins")
    monkeypatch.syspath_prepend(tmp_path / "site")
    from pinv import draw

    draw(tmp_path / "data", 6)
    yield tmp_path / "data"
    envs._load_scenario.cache_clear()
    sys.modules.pop("pinv")


def test_it_keeps_the_contract_of_scenarios(data):
    for sample in load_samples(data, "PINV"):
        check_scenario(SCENARIOS["PINV"], sample)


def test_its_states_are_finite_and_turn_back_into_each_other(data):
    game, sample = SCENARIOS["PINV"], load_samples(data, "PINV")[0]
    frames, state = [], game.initial(sample)
    for ask in ("Turn it to the left.", "Turn it to the right.", "Turn it to the right."):
        frames.append(state.frame)
        state, _ = game.step(sample, state, ask)
    assert frames == [0, 3, 0] and state.frame == 1


def test_it_plays_and_is_reported(data, tmp_path):
    wanted = sweep(data, ["oracle", "look-around", "guess"], ["zero-shot", "reference"], scenarios=["PINV"])
    run_data = read_run(play_sweep(tmp_path / "run", wanted))
    rows = {(row["model"], row["condition"]): row for row in run_data.rows.to_dicts()}

    assert rows["oracle", "zero-shot"]["acc"] == rows["oracle", "reference"]["acc"] == 100.0
    looked = rows["look-around", "zero-shot"]
    assert (looked["acc"], looked["ps"]) == (50.0, 3.0)
    assert wanted.packages["PINV"].startswith("pinv@")
    assert any("PINV" in path.read_text() for path in write_tables(run_data))


def test_a_run_on_gpus_starts_without_an_estimate_of_it(data):
    wanted = sweep(data, ["qwen2.5-vl-7b"], ["zero-shot"], scenarios=["PINV"])
    assert estimate_demands({"qwen2.5-vl-7b": Demand(0, 1)}, wanted, "H200")["qwen2.5-vl-7b"].rate is None


def test_its_judge_reads_open_answers(data, tmp_path):
    judge = {"model": "literal-judge"}
    wanted = sweep(data, ["describe"], ["zero-shot"], scenarios=["PINV"], protocols=["oeg"], judge=judge)
    run = play_sweep(tmp_path / "run", wanted)
    judge_answers(run, wanted, wanted.judge, Baseline("literal-judge"))
    (row,) = read_run(run).rows.to_dicts()

    assert (row["judged"], row["suggestion"], row["category"], row["aggregate"]) == (6, 50.0, 0.0, 50.0)
