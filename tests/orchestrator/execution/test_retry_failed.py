"""Failed episodes that are played again: pending once, stored once, and a crash in between loses nothing."""

import json

import polars as pl
import pytest

from envs.types import Ending
from orchestrator.execution.result_sink import build_failed_batch
from orchestrator.execution.retry_failed import parse_endings, requeue_episodes
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


def test_failed_episodes_are_pending_again_and_their_reasons_kept(tmp_path, plan):
    store = EpisodeStore(tmp_path)
    store_rows(store, plan, range(5), Ending.CORRECT)
    store_rows(store, plan, (5, 7, 12), Ending.FAILED)
    before = count_pending(store, plan)

    assert len(requeue_episodes(store, plan, tmp_path)) == 3
    assert count_pending(store, plan) == before + 3
    assert not episodes(tmp_path).filter(ending="failed").collect().height
    lines = [json.loads(line) for line in (tmp_path / "retried.jsonl").read_text().splitlines()]
    assert {line["error"] for line in lines} == {"its worker died twice"} and len(lines) == 3

    store_rows(store, plan, (5, 7, 12), Ending.WRONG)
    store.compact()
    store.close()
    rows = episodes(tmp_path).collect()
    assert rows.height == rows["key"].n_unique() == 8
    assert turns(tmp_path).collect().height == rows["turns"].sum()


def test_an_episode_given_up_is_stored_as_failed_without_turns(plan):
    batch = build_failed_batch(plan, [3, 8], "its worker died twice")
    keys = [plan.key(*plan.task(ordinal)) for ordinal in (3, 8)]
    rows = {"key": keys, "ending": ["failed"] * 2, "error": ["its worker died twice"] * 2, "seconds": [0.0] * 2}
    assert batch.ordinals == [3, 8] and {name: batch.episodes[name] for name in rows} == rows
    assert batch.turns["key"] == []


def test_only_the_named_endings_are_pending_again(tmp_path, plan):
    store = EpisodeStore(tmp_path)
    for ordinals, ending in (
        ((0,), Ending.OVERFLOW),
        ((1,), Ending.TRUNCATED),
        ((2,), Ending.UNPROCESSABLE),
        ((3,), Ending.LIMIT),
    ):
        store_rows(store, plan, ordinals, ending)
    before = count_pending(store, plan)

    assert len(requeue_episodes(store, plan, tmp_path, parse_endings("overflow,truncated,unprocessable"))) == 3
    assert count_pending(store, plan) == before + 3
    assert episodes(tmp_path).collect()["ending"].to_list() == ["limit"]
    store.close()


def test_endings_are_listed_in_any_order_and_spacing():
    every = "unprocessable,refused,failed,overflow,truncated"
    assert parse_endings(" overflow , ,failed") == (Ending.OVERFLOW, Ending.FAILED) and parse_endings("") == ()
    assert parse_endings(every) == tuple(map(Ending, every.split(",")))
    with pytest.raises(SweepError) as problem:
        parse_endings("failed, limit")
    assert str(problem.value) == (f"--retry 'limit': not an ending that can be retried; type one or more of {every}")


def test_failed_episodes_of_some_cells_are_pending_again(tmp_path, plan):
    store = EpisodeStore(tmp_path)
    store_rows(store, plan, range(plan.total), Ending.FAILED)
    cells = [cell.key for cell in plan.cells]

    assert requeue_episodes(store, plan, tmp_path, cells={cells[1]}) == [*range(10, 20)]
    assert requeue_episodes(store, plan, tmp_path, cells=()) == []
    assert requeue_episodes(store, plan, tmp_path, cells={cells[0]}) == [*range(10)]
    lines = [json.loads(line) for line in (tmp_path / "retried.jsonl").read_text().splitlines()]
    assert [list(line) for line in lines] == [["key", "cell", "ending", "error"]] * len(lines)
    assert {line["cell"] for line in lines} == set(cells[:2]) and {line["ending"] for line in lines} == {"failed"}
    store.close()


@pytest.mark.parametrize("text", ["correct", "overflow,limit", "Failed", "overflow unprocessable"])
def test_an_answer_cannot_be_retried(text):
    with pytest.raises(SweepError, match="type one or more of unprocessable,refused,failed,overflow,truncated"):
        parse_endings(text)


def test_nothing_failed_takes_nothing_and_writes_nothing(tmp_path, plan):
    store = EpisodeStore(tmp_path)
    store_rows(store, plan, range(5), Ending.CORRECT)

    assert len(requeue_episodes(store, plan, tmp_path)) == 0
    assert not (tmp_path / "retried.jsonl").exists()
    store.close()


def test_failures_of_another_plan_stay(tmp_path, plan):
    store = EpisodeStore(tmp_path)
    store.append(block([episode(3, cell="else/ROD/hint", ending=Ending.FAILED, turns=0)]))
    store.flush()

    assert len(requeue_episodes(store, plan, tmp_path)) == 0
    assert episodes(tmp_path).collect().height == 1
    store.close()


def test_turns_of_a_row_that_was_taken_back_never_count(tmp_path, plan):
    """An answer that nobody could judge may have failed after it was written."""
    store = EpisodeStore(tmp_path)
    store_rows(store, plan, (0, 1), Ending.CORRECT)
    key = plan.key(0, plan.task(0)[1])
    store.discard({key})

    assert key not in set(turns(tmp_path).collect()["key"])
    store_rows(store, plan, (0,), Ending.WRONG)
    assert set(turns(tmp_path).filter(key=key).collect()["reply"]) == {str(Ending.WRONG)}
    store.compact()
    store.close()
    assert turns(tmp_path).filter(key=key).collect().height == 2


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
    crashed = False
    try:
        requeue_episodes(store, plan, tmp_path)
    except KeyboardInterrupt:
        crashed = True
    monkeypatch.undo()
    store.close()
    assert crashed == (writes < 4)

    again = EpisodeStore(tmp_path)
    requeued = 6 - episodes(tmp_path).filter(ending="failed").collect().height
    assert count_pending(again, plan) == plan.total - 12 + requeued
    assert len(requeue_episodes(again, plan, tmp_path)) == 6 - requeued
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

    first = cli.run("run", path, "--output", out)
    again = cli.run("run", path, "--output", out, "--retry", "failed")

    assert first.returncode == 1 and "3 episodes failed; rerun with --retry-failed" in first.stdout
    assert again.returncode == 0 and "3 failed episodes are pending again" in again.stdout
    rows = episodes(out).collect()
    assert rows.height == rows["key"].n_unique() == plan.total and set(rows["ending"]) == {"correct"}
    assert "died twice" in (out / "logs/attempt-0002/retried.jsonl").read_text()
