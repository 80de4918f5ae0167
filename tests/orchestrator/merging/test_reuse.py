"""Episodes of another folder are reused if keys and pictures are equal; all others are played again."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path
from threading import Event

import polars as pl
import pytest

from actors.engine.baselines import Baseline
from envs.errors import RunFolderError
from orchestrator.merging import reuse
from orchestrator.merging.merge import merge
from orchestrator.planning import pictures
from orchestrator.planning.build_plan import build_plan, planned_cells
from orchestrator.storage import reused, run_folder
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.storage.loaded_weights import LoadedWeights
from orchestrator.storage.verdict_store import verdicts
from sweeps.load import load
from tests.actors.scripted_backend import ScriptedBackend
from tests.orchestrator.report.runs import judge_answers, play_sweep, replace_part, sweep

ENGINE = {"name": "vlm", "source": "org/vlm", "revision": "a" * 40, "backend": "transformers"}


def build_sweep(data_folder, conditions=("zero-shot",), models=("vlm",), **options):
    options = {"scenarios": ["ROD", "QD"], "model": [ENGINE], **options}
    return sweep(data_folder, list(models), list(conditions), **options)


class Counting(ScriptedBackend):
    """A policy backend that counts its calls."""

    def __init__(self) -> None:
        self.calls, self.policy = 0, Baseline("uniform")

    async def reply(self, request):
        self.calls += 1
        return await self.policy.reply(request)


def play_attempt(folder, spec, others=(), only=None):
    """Play an attempt without Ray that reuses ``others``; record its pictures and return the number of engine calls."""
    plan, engine = build_plan(spec), Counting()
    with run_folder.claim(folder, spec, left_out=plan.left_out):
        run_folder.write_plan(folder, planned_cells(plan), plan.all_keys())
        with closing(EpisodeStore(folder)) as store:
            list(reuse.take_over(spec, plan, store, [(str(source), source) for source in others]) if others else ())
            reused.drop_unstored(folder)
    play_sweep(folder, spec, only, {"vlm": engine} if any(model.name == "vlm" for model in spec.models) else {})
    pictures.record_pictures(folder, Path(spec.data), pictures.all_paths(plan), Event())
    return engine.calls


@pytest.fixture
def old(demo_data, tmp_path):
    folder = tmp_path / "old"
    assert play_attempt(folder, build_sweep(demo_data, ["zero-shot", "hint"])) > 40
    return folder


def content(folder):
    return episodes(folder).collect().sort("key"), turns(folder).collect().sort("key", "turn")


def test_shared_keys_are_never_played(demo_data, old, tmp_path):
    both, target = build_sweep(demo_data, ["hint", "reference"]), tmp_path / "new"
    alone = play_attempt(tmp_path / "alone", build_sweep(demo_data, ["reference"]))
    assert play_attempt(target, both, [old]) == alone, "of hint nothing was asked"

    reused_keys, taken = reused.read_reused(target)["key"].sort(), {"vlm/ROD/hint": 10, "vlm/QD/hint": 10}
    assert reused_keys.to_list() == sorted(k for k in content(old)[0]["key"] if "/hint/" in k)
    assert reused.reused_per_cell(target) == taken and str(old) in reused.sentences(target)[0]
    for here, there in zip(content(target), content(old), strict=True):
        keep = pl.col("key").is_in(reused_keys.implode())
        assert here.filter(keep).equals(there.filter(keep)), "whole, seconds included"
    assert play_attempt(target, both, [old]) == 0 and content(target)[0].height == 40
    assert reused.read_reused(target)["key"].sort().equals(reused_keys)
    merge([target, tmp_path / "alone"], tmp_path / "merged")
    assert reused.reused_per_cell(tmp_path / "merged") == taken
    with pytest.raises(RunFolderError, match="holds no run"):
        play_attempt(tmp_path / "typo", both, [old, tmp_path])
    assert not content(tmp_path / "typo")[0].height


@pytest.mark.parametrize(
    ("change", "shared"),
    [
        ({}, 40),
        ({"model": [{**ENGINE, "revision": "b" * 40}]}, 0),
        ({"model": [{**ENGINE, "processor": {"max_pixels": 1000}}]}, 0),
        ({"sampling": {"max_tokens": 7}}, 0),
        ({"seed": 1}, 0),
        ({"model": [{**ENGINE, "backend": "vllm"}]}, 0),
        ({"model": [{**ENGINE, "gpus": 2, "in_flight": 3}]}, 40),
        ({"selection": {"limit": 4}}, 16),
    ],
)
def test_only_equal_keys_are_shared(demo_data, old, tmp_path, change, shared):
    spec = build_sweep(demo_data, ["zero-shot", "hint"], **change)
    reusable = reuse.find_reusable(spec, build_plan(spec), "old", old, tmp_path / "new")
    assert reusable.own.height == shared
    line = next(reusable.lines)
    assert ("this sweep says" in line) == (not shared and "'vllm'" not in str(change)), line


def change_pixel(path):
    """Change one byte but keep size and times, so that only the content differs."""
    before = path.stat()
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_episodes_of_other_weights_are_not_taken(demo_data, old, tmp_path):
    asked, new = build_sweep(demo_data, ["hint"]), tmp_path / "new"
    new.mkdir()
    (model,) = (model for model in asked.models if model.name == "vlm")
    LoadedWeights(old).add(model, "1" * 40)
    same = reuse.find_reusable(asked, build_plan(asked), "old", old, new)
    LoadedWeights(new).add(model, "2" * 40)
    other = reuse.find_reusable(asked, build_plan(asked), "old", old, new)

    assert same.own.height == 20 and not same.left
    assert other.own.height == 0 and other.left == {"weights": 20}
    assert "played with other weights" in list(other.lines)[1]


def test_changed_pictures_are_replayed_and_moved_data_are_not(demo_data, tmp_path):
    data_folder, old = shutil.copytree(demo_data, tmp_path / "data"), tmp_path / "old"
    play_attempt(old, build_sweep(data_folder, ["zero-shot", "icl-1"]))
    rows = turns(old).filter(pl.col("key").str.contains("/ROD/zero-shot/")).collect()
    change_pixel(data_folder / rows["image"][0])
    moved = shutil.copytree(data_folder, tmp_path / "moved")
    for folder in (data_folder, moved):
        spec = build_sweep(folder, ["zero-shot", "icl-1"])
        reusable = reuse.find_reusable(spec, build_plan(spec), "old", old, tmp_path / "new")
        played_again = set(content(old)[0]["key"]) - set(reusable.own["key"])
        assert rows["key"][0] in played_again and reusable.left["pictures"] == len(played_again) < 40
        assert any("/icl-1/" in key for key in played_again), "an example shows it too"

    baseline = build_sweep(data_folder, models=["uniform"])
    play_attempt(tmp_path / "policy", baseline)
    reusable = reuse.find_reusable(baseline, build_plan(baseline), "policy", tmp_path / "policy", tmp_path / "new")
    assert reusable.own.height == 20, "a policy sees no pictures"


def test_failed_and_torn_episodes_are_played(demo_data, old, tmp_path):
    keys = content(old)[0]["key"].to_list()
    failed = pl.when(pl.col("key") == keys[0]).then(pl.lit("failed")).otherwise("ending").alias("ending")
    for part in (old / "episodes").glob("*.parquet"):
        replace_part(pl.read_parquet(part).with_columns(failed), part)
    spec = build_sweep(demo_data, ["zero-shot", "hint"])
    reusable = reuse.find_reusable(spec, build_plan(spec), "old", old, tmp_path / "new")
    assert sorted(reusable.own["key"]) == sorted(keys[1:])
    assert list(reusable.lines) == ["39 episodes of old can be reused", "1 of old failed there: not taken"]
    part = next((old / "turns").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-9])
    reusable = reuse.find_reusable(spec, build_plan(spec), "old", old, tmp_path / "new")
    assert reusable.own.height == 0, "a damaged part counts for nothing"


def test_a_kill_at_any_moment_loses_and_doubles_nothing(demo_data, old, tmp_path, monkeypatch):
    spec = build_sweep(demo_data, ["zero-shot", "hint"])
    monkeypatch.setattr("orchestrator.merging.answers.CHUNK", 7)
    original, dying = EpisodeStore.append, iter(range(1, 100))

    class Killed(BaseException):
        pass

    def append(store, batch):
        original(store, batch)
        store.flush()
        if next(dying) in (2, 4):
            store._clear_buffer()
            raise Killed

    monkeypatch.setattr(EpisodeStore, "append", append)
    target = tmp_path / "new"
    for stored in (14, 28):
        with pytest.raises(Killed):
            play_attempt(target, spec, [old])
        assert episodes(target).collect().height == stored
        assert reused.read_reused(target).height == stored, "a row of what was not stored counts for nothing"
    assert play_attempt(target, spec) > 0, "without --reuse the rest is played"
    assert reused.read_reused(target).height == 28 and episodes(target).collect()["key"].is_unique().all()
    assert content(target)[0].height == 40


def test_reused_answers_keep_their_verdicts(demo_data, tmp_path):
    options = {"protocol": ["oeg"], "judge": {"model": "rule-judge"}}
    spec = build_sweep(demo_data, models=["ask-properly", "guess-aloud"], **options)
    old, target = tmp_path / "old", tmp_path / "new"
    judge_answers(play_sweep(old, spec), spec, spec.judge, Baseline("rule-judge"))
    part = next((old / "verdicts").glob("*.parquet"))
    rows = pl.read_parquet(part)
    lost = rows["key"][3]
    unread = pl.when(pl.col("key") == lost).then(None).otherwise("aggregate").alias("aggregate")
    replace_part(rows.with_columns(unread), part)
    play_attempt(target, spec, [old])

    stored = verdicts(target).collect()
    assert stored.height == 39 and lost not in stored["key"] and episodes(target).collect().height == 40
    provenance = reused.read_reused(target)
    assert provenance.filter(pl.col("judge").is_not_null()).height == 39 and provenance.height == 79
    assert len(reused.sentences(target)) == 1 and reused.sentences(target)[0].startswith("40 reused episodes played in")


@pytest.mark.slow
def test_a_run_takes_over_what_another_folder_has(cli, demo_data, tmp_path):
    file, first, second = (tmp_path / name for name in ("sweep.toml", "first", "second"))
    file.write_text(f'data = "{demo_data}"\nmodels = ["uniform"]\nscenarios = ["ROD", "QD"]\ntracking.uri = "none"\n')
    play_sweep(first, load(file, ['conditions=["zero-shot"]']))
    conditions = 'conditions=["zero-shot", "hint"]'
    done = cli.call("run", file, "--set", conditions, "--output", second, "--reuse", first)

    assert done.returncode == 0 and episodes(second).collect().height == 40, done.stderr
    assert f"20 episodes of {first} can be reused" in done.stdout.replace("\n", " ")
    assert reused.reused_per_cell(second) == {"uniform/QD/zero-shot": 10, "uniform/ROD/zero-shot": 10}
