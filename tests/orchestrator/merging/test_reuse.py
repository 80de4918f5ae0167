"""What another folder has is never played again, and what may have been played otherwise always is: keys and pictures decide."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from threading import Event

import polars as pl
import pytest
from typer.testing import CliRunner

from actors.engine.backend import ScriptedBackend
from actors.engine.baselines import Baseline
from orchestrator.audit.audit import audit
from orchestrator.cli.main import app
from orchestrator.cli.options import reusable_folders
from orchestrator.merging import reuse
from orchestrator.object_store import run_location as remote
from orchestrator.planning import pictures
from orchestrator.planning.build_plan import build_plan, planned_rows
from orchestrator.storage import reused, run_folder
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.verdict_store import verdicts
from tests.actors.service import said, service
from tests.oracle import oracle_path, oracle_python
from tests.orchestrator.report.runs import heard, played, replaced, sweep

ENGINE = {"name": "vlm", "source": "org/vlm", "revision": "a" * 40, "backend": "transformers"}


def wanted(data, conditions=("zero-shot",), models=("vlm",), **more):
    more = {"scenarios": ["ROD", "QD"], "model": [ENGINE], **more}
    return sweep(data, list(models), list(conditions), **more)


class Counting(ScriptedBackend):
    """Answers as a policy does, and counts how often it was asked."""

    def __init__(self) -> None:
        self.calls, self.policy = 0, Baseline("uniform")

    async def reply(self, request):
        self.calls += 1
        return await self.policy.reply(request)


def run(folder, asked, others=(), only=None):
    """An attempt without Ray, up to its end: take over, play with a counting engine, note the pictures. The calls."""
    plan, engine = build_plan(asked), Counting()
    with run_folder.claim(folder, asked, left_out=plan.left_out):
        run_folder.write_plan(folder, planned_rows(plan), plan.all_keys())
        store = EpisodeStore(folder)
        try:
            found = reuse.find_reusable(asked, plan, folder, [(str(other), other) for other in others])
            reuse.store_reused_episodes(store, found)
            reuse.store_reused_verdicts(asked, folder, found)
            reused.drop_unstored(folder)
        finally:
            store.close()
    played(folder, asked, only, {"vlm": engine} if any(model.name == "vlm" for model in asked.models) else {})
    pictures.record_pictures(folder, Path(asked.data), pictures.ShownPictures(plan).all_paths(), Event())
    return engine.calls


@pytest.fixture
def old(demo_data, tmp_path):
    folder = tmp_path / "old"
    assert run(folder, wanted(demo_data, ["zero-shot", "hint"])) > 40
    return folder


def content(folder):
    return episodes(folder).collect().sort("key"), turns(folder).collect().sort("key", "turn")


def test_shared_keys_are_never_played(demo_data, old, tmp_path):
    both, mine = wanted(demo_data, ["hint", "reference"]), tmp_path / "new"
    alone = run(tmp_path / "alone", wanted(demo_data, ["reference"]))
    assert run(mine, both, [old]) == alone, "of hint nothing was asked"

    theirs, taken = reused.read_reused(mine)["key"].sort(), {"vlm/ROD/hint": 10, "vlm/QD/hint": 10}
    assert theirs.to_list() == sorted(k for k in content(old)[0]["key"] if "/hint/" in k) and len(theirs) == 20
    assert reused.reused_per_cell(mine) == taken and str(old) in reused.sentences(mine)[0]
    for here, there in zip(content(mine), content(old), strict=True):
        keep = pl.col("key").is_in(theirs.implode())
        assert here.filter(keep).equals(there.filter(keep)), "whole, seconds included"
    assert run(mine, both, [old]) == 0 and content(mine)[0].height == 40
    assert reused.read_reused(mine)["key"].sort().equals(theirs)


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
def test_keys_decide(demo_data, old, tmp_path, change, shared):
    asked = wanted(demo_data, ["zero-shot", "hint"], **change)
    (found,) = reuse.find_reusable(asked, build_plan(asked), tmp_path / "new", [("old", old)])
    assert found.source.own.height == shared
    told = next(found.lines)
    assert ("this sweep says" in told) == (not shared and "'vllm'" not in str(change)), told


def test_another_version_of_the_prompts_shares_nothing(demo_data, old, tmp_path, monkeypatch):
    monkeypatch.setattr("orchestrator.planning.plan.version", lambda protocol, condition: "other")
    asked = wanted(demo_data, ["zero-shot", "hint"])
    (found,) = reuse.find_reusable(asked, build_plan(asked), tmp_path / "new", [("old", old)])
    assert found.source.own.height == 0


def changed_pixel(path):
    """The same size and times, another byte: only the content tells."""
    before = path.stat()
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_changed_picture_is_played_again_and_moved_data_are_not(demo_data, tmp_path):
    data, asked = shutil.copytree(demo_data, tmp_path / "data"), {}
    old = tmp_path / "old"
    run(old, wanted(data, ["zero-shot", "icl-1"]))
    shown = turns(old).filter(pl.col("key").str.contains("/ROD/zero-shot/")).collect()
    changed_pixel(data / shown["image"][0])
    moved = shutil.copytree(data, tmp_path / "moved")
    for place in (data, moved):
        asked = wanted(place, ["zero-shot", "icl-1"])
        (found,) = reuse.find_reusable(asked, build_plan(asked), tmp_path / "new", [("old", old)])
        played_again = set(content(old)[0]["key"]) - set(found.source.own["key"])
        assert shown["key"][0] in played_again and found.left["pictures"] == len(played_again) < 40
        assert any("/icl-1/" in key for key in played_again), "an example shows it too"

    baseline = wanted(data, models=["uniform"])
    run(tmp_path / "policy", baseline)
    (found,) = reuse.find_reusable(baseline, build_plan(baseline), tmp_path / "new", [("policy", tmp_path / "policy")])
    assert found.source.own.height == 20, "a policy sees no pictures"


def test_a_picture_that_changed_while_a_run_went_on_is_known_by_nobody(demo_data, tmp_path):
    data, old = shutil.copytree(demo_data, tmp_path / "data"), tmp_path / "old"
    asked = wanted(data)
    run(old, asked, only=5)
    image = turns(old).collect()["image"][0]
    changed_pixel(data / image)
    run(old, asked)
    assert pictures.read_pictures(old)[image].sum == pictures.UNKNOWN
    (found,) = reuse.find_reusable(asked, build_plan(asked), tmp_path / "new", [("old", old)])
    assert 0 < found.left["pictures"] < found.source.own.height + found.left["pictures"] == 20


def test_a_folder_without_sums_of_pictures_gives_nothing(demo_data, old, tmp_path):
    (old / pictures.FILE).unlink()
    asked = wanted(demo_data)
    (found,) = reuse.find_reusable(asked, build_plan(asked), tmp_path / "new", [("old", old)])
    assert found.source.own.height == 0 and found.left == {"pictures": 20}


def edited(folder, table, expression):
    for part in (folder / table).glob("*.parquet"):
        replaced(pl.read_parquet(part).with_columns(expression), part)


def test_failed_foreign_and_torn_episodes_are_played(demo_data, old, tmp_path):
    keys = content(old)[0]["key"].to_list()
    at = pl.col("key")
    edited(old, "episodes", [
        pl.when(at == keys[0]).then(pl.lit("failed")).otherwise("ending").alias("ending"),
        pl.when(at == keys[1]).then(7).otherwise("seed").alias("seed"),
        pl.when(at == keys[2]).then(pl.lit("else/ROD/hint")).otherwise("cell").alias("cell"),
        pl.when(at == keys[3]).then(9).otherwise("turns").cast(pl.Int32).alias("turns"),
    ])  # fmt: skip
    asked = wanted(demo_data, ["zero-shot", "hint"])
    (found,) = reuse.find_reusable(asked, build_plan(asked), tmp_path / "new", [("old", old)])
    assert sorted(found.source.own["key"]) == sorted(keys[4:])
    assert found.left == {"failed": 1, "damaged": 3}
    part = next((old / "turns").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-9])
    (found,) = reuse.find_reusable(asked, build_plan(asked), tmp_path / "new", [("old", old)])
    assert found.source.own.height == 0, "a damaged part counts for nothing"


def test_a_kill_at_any_moment_loses_and_doubles_nothing(demo_data, old, tmp_path, monkeypatch):
    asked = wanted(demo_data, ["zero-shot", "hint"])
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
    mine = tmp_path / "new"
    for stored in (14, 28):
        with pytest.raises(Killed):
            run(mine, asked, [old])
        assert episodes(mine).collect().height == stored
        assert reused.read_reused(mine).height == stored, "a row of what was not stored counts for nothing"
    assert run(mine, asked) > 0, "without --reuse the rest is played"
    assert reused.read_reused(mine).height == 28 and episodes(mine).collect()["key"].is_unique().all()
    assert content(mine)[0].height == 40


def test_verdicts_go_with_answers_that_are_the_same(demo_data, tmp_path):
    more = {"protocol": ["oeg"], "judge": {"model": "rule-judge"}}
    asked = wanted(demo_data, models=["ask-properly", "guess-aloud"], **more)
    old, mine = tmp_path / "old", tmp_path / "new"
    heard(played(old, asked), asked, asked.judge, Baseline("rule-judge"))
    part = next((old / "verdicts").glob("*.parquet"))
    rows = pl.read_parquet(part)
    lost = rows["key"][3]
    replaced(
        rows.with_columns(pl.when(pl.col("key") == lost).then(None).otherwise("aggregate").alias("aggregate")), part
    )
    run(mine, asked, [old])

    kept = verdicts(mine).collect()
    assert kept.height == 39 and lost not in kept["key"] and episodes(mine).collect().height == 40
    provenance = reused.read_reused(mine)
    assert provenance.filter(pl.col("judge").is_not_null()).height == 39 and provenance.height == 79
    assert len(reused.sentences(mine)) == 1 and reused.sentences(mine)[0].startswith("40 episodes were played in")


def test_audit_finds_no_difference_and_the_commands_say_what_was_reused(demo_data, old, tmp_path, tmp_path_factory):
    mine, asked = tmp_path / "new", wanted(demo_data, ["zero-shot", "hint"])
    file = tmp_path / "s.toml"
    file.write_text(
        f'name = "s"\ndata = "{demo_data}"\nmodels = ["vlm"]\nscenarios = ["ROD", "QD"]\nconditions = ["hint", "reference"]\n'
        f'[[model]]\nname = "vlm"\nsource = "org/vlm"\nrevision = "{"a" * 40}"\nbackend = "transformers"\n'
    )
    cli = CliRunner()
    told = cli.invoke(app, ["plan", str(file), "--output", str(mine), "--reuse", str(old), "--json"])
    cells = {row["cell"]: row["reused"] for row in json.loads(told.output)["cells"]}
    assert cells == {"vlm/ROD/hint": 10, "vlm/ROD/reference": 0, "vlm/QD/hint": 10, "vlm/QD/reference": 0}
    assert f"20 episodes of {old} can be reused" in told.output
    for arguments, sentence in (
        (["plan", str(file), "--reuse", str(tmp_path / "none")], "holds no run"),
        (["plan", str(file), "--reuse", str(old), "--gpus", "2"], "cannot be combined with --gpus"),
        (["plan", str(file), "--output", str(old), "--reuse", str(old)], "own folder"),
    ):
        found = cli.invoke(app, arguments)
        assert found.exit_code == 2 and sentence in found.output.replace("\n", " "), found.output

    assert run(mine, asked, [old]) == 0
    for command in (["status"], ["report", "--brief"]):
        assert "40 episodes were played in" in cli.invoke(app, [*command, str(mine)]).output
    assert json.loads(cli.invoke(app, ["status", str(mine), "--json"]).output)["reused"]["vlm/QD/hint"] == 10
    assert "40 episodes were played in" in str(
        json.loads(cli.invoke(app, ["report", str(mine), "--json"]).output)["notes"]
    )
    if oracle_python():
        checked = audit(mine, oracle_path(tmp_path_factory.mktemp("package")), oracle_python())
        assert (checked.episodes, checked.differences) == (40, ()) and checked.clean


def test_a_damaged_record_is_moved_aside_and_costs_no_episode(demo_data, old, tmp_path):
    mine, asked = tmp_path / "new", wanted(demo_data, ["zero-shot", "hint"])
    run(mine, asked, [old])
    (mine / reused.FILE).write_bytes(b"PAR1 no")
    assert reused.sentences(mine) == []
    assert run(mine, asked, [old]) == 0 and not (mine / reused.FILE).exists()


def test_the_runs_own_folder_is_refused(demo_data, old):
    asked = wanted(demo_data)
    with pytest.raises(RunFolderError, match="own folder"):
        reuse.find_reusable(asked, build_plan(asked), old, [("old", old)])


def test_a_run_in_a_bucket_gives_its_episodes_too(demo_data, old, tmp_path, url):
    asked = wanted(demo_data, ["zero-shot", "hint"])
    with remote.open_location(url) as place:
        shutil.copytree(old, place.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".lock"))
    mine = tmp_path / "new"
    ((name, view),) = reusable_folders([url])
    (found,) = reuse.find_reusable(asked, build_plan(asked), mine, [(name, view)])
    assert (found.source.name, found.source.own.height) == (url, 40)


SERVED = """name = "{name}"
data = "{data}"
models = ["served"]
scenarios = ["ROD", "QD"]
conditions = {conditions}
[tracking]
uri = "none"
[[model]]
name = "served"
source = "m"
endpoint = {{base_url = "{url}", key_env = ""}}
"""


@pytest.mark.slow
def test_a_real_sweep_asks_its_service_nothing_that_another_has(cli, demo_data, tmp_path):
    one, two, first, second = (tmp_path / name for name in ("one.toml", "two.toml", "first", "second"))
    with service(lambda number, body: said("A")) as served:
        for file, conditions in ((one, '["zero-shot"]'), (two, '["zero-shot", "hint"]')):
            file.write_text(SERVED.format(name=file.stem, data=demo_data, url=served.url, conditions=conditions))
        assert cli.run("run", one, "--output", first).returncode == 0
        before = len(served.bodies)
        done = cli.run("run", two, "--output", second, "--reuse", first)
        new = len(served.bodies) - before
    hints = turns(second).filter(pl.col("key").str.contains("/hint/")).collect()
    assert (done.returncode, new) == (0, hints.height), done.stderr
    assert f"20 episodes of {first} can be reused" in done.stdout.replace("\n", " ")
    assert reused.reused_per_cell(second) == {"served/QD/zero-shot": 10, "served/ROD/zero-shot": 10}
    assert (
        pictures.read_pictures(second).keys() >= pictures.read_pictures(first).keys()
        and len(pictures.read_pictures(first)) > 100
    )
