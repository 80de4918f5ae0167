"""A run folder from Python: frames that agree with the store, mistakes in sentences."""

from __future__ import annotations

import subprocess
import sys

import polars as pl
import pytest

import orchestrator
import proactive_sweep
from envs import SCENARIOS
from envs.errors import UserError
from orchestrator import RunFolderError, SweepError, load_sweep, open_run, plan
from orchestrator.api import _run_outside_loop
from orchestrator.report.read_run import read_run
from orchestrator.storage.episode_store import episodes
from tests.orchestrator.report import runs


@pytest.fixture(scope="module")
def folder(demo_data, tmp_path_factory):
    sweep = runs.sweep(demo_data, ["uniform", "oracle"], ["zero-shot", "random-proactive"], selection={"limit": 3})
    return runs.play_sweep(tmp_path_factory.mktemp("api") / "run", sweep)


def test_public_names_resolve():
    for name in orchestrator.__all__:
        assert getattr(orchestrator, name) is getattr(orchestrator.api, name)
    with pytest.raises(AttributeError, match="no attribute 'plann'"):
        _ = orchestrator.plann


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, orchestrator; print(sorted({'polars', 'ray', 'mlflow', 'pydantic'} & sys.modules.keys()))"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_small_door_opens_in_a_moment_and_plays_a_game(demo_data, folder):
    code = "import sys, proactive_sweep; print(sorted({'polars', 'ray', 'mlflow', 'pydantic', 'envs'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    samples = proactive_sweep.load_data(demo_data)
    assert list(samples) == list(SCENARIOS) and list(proactive_sweep.load_data(demo_data, "QuickDraw, ROD")) == [
        "QD",
        "ROD",
    ]
    sample, rules = samples["QD"][0], proactive_sweep.game("QD")
    state = rules.initial(sample)
    while state.ending is None:
        state, _ = rules.step(sample, state, (rules.askable(sample, state) or [sample.answer])[0])
    assert state.turn > 1 and proactive_sweep.open_run(folder).episodes.equals(open_run(folder).episodes)
    with pytest.raises(AttributeError, match="no attribute 'plan'"):
        _ = proactive_sweep.plan


def test_frames_are_the_store_and_the_report(folder):
    run = open_run(folder)

    assert run.episodes.equals(episodes(folder).collect().sort("key"))
    assert run.turns["key"].n_unique() == run.episodes.filter(pl.col("turns") > 0).height
    assert run.turns.height == run.episodes["turns"].sum()
    assert run.verdicts.height == 0 and "judge" in run.verdicts.columns
    assert run.results.equals(read_run(folder).rows)
    assert repr(run) == f"<Run {folder}: 28 cells, 84 of 84 episodes>"


def test_mistakes_are_sentences(folder, tmp_path):
    with pytest.raises(RunFolderError, match="holds no run"):
        open_run(tmp_path)
    with pytest.raises(SweepError, match="there is no model 'oracel'"):
        load_sweep({"data": "x", "models": ["oracel"]})
    with pytest.raises(SweepError, match="selection cannot change a sweep that is loaded"):
        proactive_sweep.run(open_run(folder).sweep, selection={"limit": 1})
    sweep = open_run(folder).sweep.model_copy(update={"output": str(tmp_path / "run")})
    for options, reason in (({"retry": "failed, bogus"}, "'bogus'"), ({"reuse": "nowhere"}, "^nowhere holds no run")):
        with pytest.raises((UserError, ValueError), match=reason):
            orchestrator.run(sweep, **options)
    for names, reason in (((), "holds no scenario"), ("QDD", "did you mean 'QD'")):
        with pytest.raises(UserError, match=reason):
            proactive_sweep.load_data(tmp_path, names)


def test_moved_data_folder_is_named(folder, demo_data, tmp_path):
    moved = tmp_path / "data"
    moved.symlink_to(demo_data)

    assert open_run(folder, data=moved).results.equals(open_run(folder).results)


def test_a_sweep_comes_from_a_name_a_file_or_a_table(demo_data, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(f'data = "{demo_data}"\nmodels = ["oracle"]\nscenarios = ["QD"]\n')
    table = {"data": str(demo_data), "models": ["oracle"], "scenarios": ["QD"]}

    assert load_sweep(file) == load_sweep(str(file)) == load_sweep(table, name="mine")
    assert load_sweep("baselines", data=tmp_path, selection={"limit": 2}).data == str(tmp_path)
    assert load_sweep(table).output == "outputs/notebook"


def test_plan_counts_what_is_done(folder, demo_data):
    sweep = open_run(folder).sweep.model_copy(update={"output": str(folder)})
    table = plan(sweep)

    assert table["planned"].sum() == table["done"].sum() == 84
    assert plan(sweep.model_copy(update={"output": str(folder / "none")}))["done"].sum() == 0


def test_work_run_outside_loop_a_running_loop_returns_and_raises():
    import asyncio

    def fails():
        raise SweepError("no")

    async def cell():
        with pytest.raises(SweepError, match="no"):
            _run_outside_loop(fails)
        return _run_outside_loop(lambda: asyncio.run(asyncio.sleep(0, 5)))

    assert _run_outside_loop(lambda: 4) == 4 and asyncio.run(cell()) == 5


def test_a_sweep_can_be_planned_before_its_bucket_holds_a_run(demo_data, url):
    table = {"data": str(demo_data), "models": ["oracle"], "scenarios": ["QD"], "output": f"{url}/run"}

    cells = plan(load_sweep(table))
    assert cells["planned"].to_list() == [10] * cells.height and cells["done"].sum() == 0
    assert cells.columns == ["cell", "model", "scenario", "condition", "protocol", "planned", "done"]
