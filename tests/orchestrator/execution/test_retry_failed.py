"""Failed episodes that are played again: pending once, stored once, and a crash in between loses nothing."""

from contextlib import suppress

import polars as pl
import pytest

from envs.types import Ending
from orchestrator.execution.prepare import parse_endings, requeue_episodes
from orchestrator.execution.result_sink import build_failed_batch
from orchestrator.planning.build_plan import build_plan
from orchestrator.storage import safe_write
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from sweeps.load import SweepError, build, load
from tests.orchestrator.blocks import block, episode


@pytest.fixture
def plan(demo_data):
    return build_plan(build({"data": str(demo_data), "models": ["uniform"], "scenarios": ["ROD", "QD"]}, "x.toml"))


def store_rows(store, plan, ordinals, ending):
    """Rows of the plan with this ending; played ones have two turns each."""
    rows = build_failed_batch(plan, ordinals, "its worker died twice")
    for key, cell in zip(rows.episodes["key"], rows.episodes["cell"], strict=True):
        if ending is Ending.FAILED:
            continue
        store.append(block([episode(0, cell=cell) | {"key": key, "ending": str(ending)}], reply=str(ending)))
    if ending is Ending.FAILED:
        store.append(rows)
    store.flush()


def count_pending(store, plan):
    return sum(map(len, plan.pending(set(store.finished_episodes()["key"])).values()))


def test_failed_episodes_are_pending_again(tmp_path, plan):
    store = EpisodeStore(tmp_path)
    store_rows(store, plan, range(5), Ending.CORRECT)
    store_rows(store, plan, (5, 7, 12), Ending.FAILED)
    before = count_pending(store, plan)

    assert requeue_episodes(store, plan) == 3
    assert count_pending(store, plan) == before + 3
    assert not episodes(tmp_path).filter(ending="failed").collect().height

    store_rows(store, plan, (5, 7, 12), Ending.WRONG)
    store.compact()
    store.close()
    rows = episodes(tmp_path).collect()
    assert rows.height == rows["key"].n_unique() == 8
    assert turns(tmp_path).collect().height == rows["turns"].sum()


def test_only_the_named_endings_are_pending_again(tmp_path, plan):
    store = EpisodeStore(tmp_path)
    for number, ending in enumerate((Ending.OVERFLOW, Ending.TRUNCATED, Ending.UNPROCESSABLE, Ending.LIMIT)):
        store_rows(store, plan, [number], ending)
    before = count_pending(store, plan)

    assert requeue_episodes(store, plan, parse_endings("overflow,truncated,unprocessable")) == 3
    assert count_pending(store, plan) == before + 3
    assert episodes(tmp_path).collect()["ending"].to_list() == ["limit"]
    store.close()


@pytest.mark.parametrize("text", ["correct", "overflow,limit", "Failed", "overflow unprocessable"])
def test_an_answer_cannot_be_retried(text):
    choices = "unprocessable,refused,failed,overflow,truncated,thoughts_cut"
    with pytest.raises(SweepError, match=f"type one or more of {choices}"):
        parse_endings(text)


@pytest.mark.parametrize("writes", range(6))
def test_a_crash_while_taking_back_leaves_each_episode_failed_or_pending(tmp_path, plan, monkeypatch, writes):
    store = EpisodeStore(tmp_path)
    for ordinals in ((0, 1), (2, 3), (4, 5)):
        store_rows(store, plan, ordinals, Ending.FAILED)
    store_rows(store, plan, range(6, 12), Ending.CORRECT)
    writes_left = [writes]
    real = safe_write.publish

    def publish_or_die(path):
        writes_left[0] -= 1
        if writes_left[0] < 0:
            raise KeyboardInterrupt
        real(path)

    monkeypatch.setattr(safe_write, "publish", publish_or_die)
    with suppress(KeyboardInterrupt):
        requeue_episodes(store, plan)
    monkeypatch.undo()
    store.close()
    assert (writes_left[0] < 0) == (writes < 3), "three parts are written"

    again = EpisodeStore(tmp_path)
    requeued = 6 - episodes(tmp_path).filter(ending="failed").collect().height
    assert count_pending(again, plan) == plan.total - 12 + requeued
    assert requeue_episodes(again, plan) == 6 - requeued
    assert count_pending(again, plan) == plan.total - 6
    assert episodes(tmp_path).filter(pl.col("ending") == "correct").collect().height == 6
    again.close()


@pytest.mark.slow
def test_run_plays_failed_episodes_again_only_when_asked(cli, demo_data, tmp_path):
    path, out = tmp_path / "x.toml", tmp_path / "run"
    path.write_text(f'# A test.\ndata = "{demo_data}"\nmodels = ["oracle"]\ntracking = {{ uri = "none" }}\n')
    plan = build_plan(load(path))
    store = EpisodeStore(out)
    store_rows(store, plan, (0, 1, 2), Ending.FAILED)
    store.close()

    first = cli.call("run", path, "--output", out)
    again = cli.call("run", path, "--output", out, "--retry", "failed")

    assert first.returncode == 1 and "3 episodes failed; rerun with --retry failed" in first.stdout
    assert again.returncode == 0 and "3 failed episodes are pending again" in again.stdout
    rows = episodes(out).collect()
    assert rows.height == rows["key"].n_unique() == plan.total and set(rows["ending"]) == {"correct"}
