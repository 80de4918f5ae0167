"""Planted flips are counted exactly: a run is compared with repeats whose changed replies are known by construction."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from threading import Event

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from actors.engine.backend import Reply, ScriptedBackend
from actors.engine.baselines import Baseline, abstain
from actors.engine.registry import open_engine
from envs.errors import RunFolderError
from orchestrator.cli.main import app
from orchestrator.flip_rate import comparison
from orchestrator.flip_rate import flip_rate as flips
from orchestrator.flip_rate.repeats import PLAIN, WITHOUT_CACHES, Setting, describe_left_out
from orchestrator.planning import pictures
from orchestrator.planning.build_plan import build_plan
from orchestrator.report.read_run import read_run
from orchestrator.report.statistics.clusters import effective_size
from orchestrator.report.statistics.intervals import score_interval, stratum_from_values
from orchestrator.report.statistics.proportion import proportion_interval
from orchestrator.report.tables.flip_rates import flip_rate_table
from orchestrator.storage.episode_store import episodes, turns
from orchestrator.storage.run_folder import differences
from orchestrator.storage.run_folder import settings as identity
from tests.actors.service import completion, service
from tests.orchestrator.report.runs import play_sweep, sweep

ENGINE = {"name": "vlm", "source": "org/vlm", "revision": "a" * 40, "backend": "vllm"}
ALONE = Setting(batch=1)


class Planted(ScriptedBackend):
    """The oracle; where ``tilted``, it gives up every fifth sample, and words its replies on every third otherwise."""

    def __init__(self, tilted: bool) -> None:
        self.tilted, self.oracle = tilted, Baseline("oracle")

    async def reply(self, request):
        reply = await self.oracle.reply(request)
        situation = request.situation
        if self.tilted and situation.sample.id % 5 == 0:
            return Reply(abstain(situation, 0))
        if self.tilted and situation.sample.id % 3 == 0:
            return Reply(f" {reply.text}")
        return reply


class EveryFrame(ScriptedBackend):
    """Names the first category on each picture; where ``tilted``, nothing on about a third of them."""

    def __init__(self, tilted: bool) -> None:
        self.tilted, self.planted = tilted, 0

    async def reply(self, request):
        picture = str(request.messages[-1].images[0])
        planted = self.tilted and int(sha256(picture.encode()).hexdigest(), 16) % 3 == 0
        self.planted += planted
        return Reply("?" if planted else "A")


def vlm_sweep(data, **fields):
    settings = {"scenarios": ["ROD", "QD"], "model": [ENGINE], **fields}
    return sweep(data, ["vlm", "oracle"], ["zero-shot", "hint"], **settings)


def run(folder, spec, tilted=False, backend=None):
    play_sweep(folder, spec, backends={"vlm": backend or Planted(tilted)})
    pictures.record_pictures(folder, Path(spec.data), pictures.ShownPictures(build_plan(spec)).all_paths(), Event())
    return folder


@pytest.fixture
def original(demo_data, tmp_path):
    return run(tmp_path / "run", vlm_sweep(demo_data))


def run_repeats(folder, tilted, share=100.0, setting=ALONE):
    repeats = flips.prepare_repeats(folder, share, 0, [setting.batch])
    ((_, repeat),) = repeats.sweeps()
    run(repeats.output / setting.name, repeat, tilted)
    return repeats, flips.compare_repeats(repeats)


def bytes_of(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and "flip-rate" not in path.parts)
    return {path.relative_to(folder): path.read_bytes() for path in files}


def test_setting_changes_no_key_and_larger_share_includes_smaller(demo_data, original):
    samples = []
    for share in (5, 20, 50, 100):
        repeats = flips.prepare_repeats(original, share)
        for setting, repeat in repeats.sweeps():
            keys = set(build_plan(repeat).all_keys())
            assert keys <= set(episodes(original).collect()["key"]), setting.name
            assert len(keys) == 4 * sum(map(len, repeats.ids[False].values()))
        samples.append({(name, sample_id) for name, ids in repeats.ids[False].items() for sample_id in ids})
    assert [*map(len, samples)] == [2, 4, 10, 20] and all(a < b for a, b in itertools.pairwise(samples))
    other_seed = flips.prepare_repeats(original, 20, seed=1)
    assert other_seed.ids != flips.prepare_repeats(original, 20).ids and other_seed.output != repeats.output


def test_function_calls_are_drawn_as_letters_are(demo_data, tmp_path):
    spec = sweep(demo_data, ["oracle"], ["zero-shot"], scenarios=["ROD"], protocols=["mcqa", "tools"])
    repeats = flips.prepare_repeats(play_sweep(tmp_path / "run", spec), 20, 0, [1])
    ((_, again),) = repeats.sweeps()

    assert {
        words: {name: len(ids) for name, ids in by_scenario.items()} for words, by_scenario in repeats.ids.items()
    } == {False: {"ROD": 2}}
    assert build_plan(again).total == 4, "two samples under two protocols"


def test_settings_reach_the_engine_and_nothing_that_identifies_a_run(demo_data, original):
    repeats = flips.prepare_repeats(original, 100, 0, [3], [2])
    (_, small), (_, two) = repeats.sweeps()
    engine = next(model for model in small.models if model.name == "vlm")
    assert (engine.in_flight, engine.options) == (3, {"max_num_seqs": 3})
    assert (two.cluster.workers, two.cluster.gpus) == (2, 2) and two.models == repeats.sweep.models
    changed = differences(identity(repeats.sweep), identity(small))
    assert changed and all(line.startswith("selection.ids") for line in changed)


def test_equal_engine_has_no_flips_and_an_upper_bound(original):
    _, comparison = run_repeats(original, tilted=False)

    assert (
        comparison.rates["model"].to_list() == ["oracle", "vlm"]
        and comparison.changed.is_empty()
        and not comparison.notes
    )
    for row in comparison.rates.iter_rows(named=True):
        assert row["episodes"] == 40 and row["cell_of"] == 4 and row["reply_of"] > 40
        for name in ("reply", "verdict", "ending", "correct", "cell"):
            assert row[f"{name}_changed"] == 0 and row[f"{name}_low"] == 0
        assert 12 < row["reply_high"] < 30, "20 samples, not hundreds of turns, have shown no change"
    assert set(comparison.cells["difference"]) == {0.0}


def test_planted_flips_are_counted(original):
    before = bytes_of(original)
    _, comparison = run_repeats(original, tilted=True)

    ids = [
        (name, sample_id)
        for name in ("ROD", "QD")
        for sample_id in sorted(
            episodes(original).filter(scenario=name).select("sample_id").unique().collect()["sample_id"].to_list()
        )
    ]
    silent = sum(sample_id % 5 == 0 for _, sample_id in ids)
    (vlm,) = comparison.rates.filter(model="vlm").to_dicts()
    assert 0 < silent < len(ids) and vlm["ending_of"] == 40
    assert vlm["ending_changed"] == vlm["correct_changed"] == vlm["verdict_changed"] == 2 * silent
    replies = turns(original).filter(pl.col("key").str.starts_with("vlm/")).collect()
    number = replies["key"].str.extract(r"/(\d{4})-").cast(pl.Int64)
    worded = replies.filter((number % 3 == 0) & (number % 5 != 0)).height
    assert vlm["reply_changed"] == worded + 2 * silent
    assert vlm["reply_low"] < vlm["reply_percent"] < vlm["reply_high"]
    (oracle,) = comparison.rates.filter(model="oracle").to_dicts()
    assert oracle["reply_changed"] == 0 and comparison.changed.height == vlm["reply_changed"]
    cells = comparison.cells.filter(model="vlm")
    assert cells["lost"].sum() == 2 * silent and cells["won"].sum() == 0 and set(cells["acc_before"]) == {100.0}
    assert cells.filter(scenario="ROD")["difference"][0] == -10.0 * sum(
        sample_id % 5 == 0 for name, sample_id in ids if name == "ROD"
    )
    assert bytes_of(original) == before, "the run is only read"


def test_every_planted_change_of_every_frame_counts_because_each_picture_is_asked_afresh(demo_data, tmp_path):
    """After a changed turn the others of its episode still have the picture that they had."""
    asked = sweep(demo_data, ["vlm"], ["every-frame"], scenarios=["ROD", "QD"], model=[ENGINE])
    original, again = EveryFrame(tilted=False), EveryFrame(tilted=True)
    folder = run(tmp_path / "run", asked, backend=original)
    found = flips.prepare_repeats(folder, 100, 0, [1])
    ((setting, repeat),) = found.sweeps()
    run(found.output / setting.name, repeat, backend=again)
    (vlm,) = flips.compare_repeats(found).rates.to_dicts()

    assert vlm["reply_of"] == turns(folder).collect().height > 2 * vlm["episodes"] > 0
    assert vlm["reply_changed"] == again.planted > vlm["episodes"], "more than one in an episode"
    assert vlm["verdict_changed"] == again.planted


def test_a_plain_repeat_and_one_without_caches_change_nothing_else(demo_data, original):
    found = flips.prepare_repeats(original, 100, others=[PLAIN, WITHOUT_CACHES])
    (plain, same), (bare, without) = found.sweeps()

    assert (plain.name, bare.name) == ("repeat", "caches-off")
    assert (same.models, same.cluster) == (found.sweep.models, found.sweep.cluster)
    engines = {model.name: model for model in without.models}
    assert engines["vlm"].options == {"enable_prefix_caching": False, "mm_processor_cache_gb": 0}
    assert engines["oracle"] == next(model for model in found.sweep.models if model.name == "oracle")
    assert (
        set(build_plan(without).all_keys())
        == set(build_plan(same).all_keys())
        <= set(episodes(original).collect()["key"])
    )
    assert next(found.lines()) == (
        "caches-off: oracle has no caches that this command controls and is replayed as in the run"
    )
    commands = CliRunner().invoke(app, ["models", "flip-rate", str(original), "--repeat", "--caches-off", "--help"])
    assert commands.exit_code == 0


def test_tables_are_written_beside_the_repeats_and_stand_in_the_report(original):
    repeats, comparison = run_repeats(original, tilted=True, share=50)
    folder = flips.write_tables(repeats, comparison)

    assert folder == original / "flip-rate" / "share-50-seed-0" and (folder / "cells.csv").exists()
    table = flip_rate_table(read_run(original))
    assert [row[0].text for row in table.rows] == [
        "oracle, batch-1 (share-50-seed-0)",
        "vlm, batch-1 (share-50-seed-0)",
    ]
    assert table.rows[0][1].text.startswith("0.0 (0.0 to ") and table.rows[1][1].value > 0
    for content in (b"\xff\x00,", b"", b"setting,model\na,b,c\n", None):
        (folder / "rates.csv").unlink()
        os.mkfifo(folder / "rates.csv") if content is None else (folder / "rates.csv").write_bytes(content)
        assert not flip_rate_table(read_run(original)).rows, content
    outcome = CliRunner().invoke(app, ["report", str(original), "--json"])
    assert outcome.exit_code == 0, "a repeat is no part of the run"
    assert sum(cell["finished"] for cell in json.loads(outcome.stdout)["cells"]) == 80


def test_what_is_not_replayed_is_said_in_a_sentence_each(demo_data):
    wanted = sweep(demo_data, ["oracle"], ["hint"], scenarios=["ROD", "QD"])
    person = wanted.models[0].model_copy(update={"name": "anna", "backend": "human"})
    wanted = wanted.model_copy(update={"models": (person,)})

    played = {"mcqa": {"ROD": (1,)}, "oeg": {"ROD": (2,), "QD": (3,)}}
    assert list(describe_left_out(wanted, played, ())) == [
        "anna is a person and is not replayed",
        "QD has no sample that every cell has played",
    ]


def test_missing_repeats_are_not_compared(demo_data, original):
    repeats = flips.prepare_repeats(original, 100, 0, [1])
    ((_, again),) = repeats.sweeps()
    play_sweep(repeats.output / ALONE.name, again, only=30, backends={"vlm": Planted(False)})

    comparison = flips.compare_repeats(repeats)
    assert comparison.rates["episodes"].sum() == 30 and comparison.notes == (
        "batch-1 lacks 50 episodes of the run: not compared",
    )


def test_a_run_without_a_common_sample_or_of_other_data_is_refused(demo_data, tmp_path, original):
    half = play_sweep(tmp_path / "half", vlm_sweep(demo_data), only=5, backends={"vlm": Planted(False)})
    with pytest.raises(RunFolderError, match="holds no run"):
        flips.prepare_repeats(tmp_path / "none", 5, 0, [1])
    assert flips.prepare_repeats(half, 5, 0, [1]).ids, "samples that all cells with anything have played"
    table = (original / "plan.parquet").read_bytes()
    (original / "plan.parquet").write_bytes(b"no table")
    with pytest.raises(RunFolderError, match=r"plan\.parquet is damaged"):
        flips.prepare_repeats(original, 5, 0, [1])
    (original / "plan.parquet").write_bytes(table)


def test_services_are_asked_only_after_cost_preview(demo_data, tmp_path):
    with service(lambda number, body: completion("A")) as server:
        end = {"base_url": server.url, "key_env": "", "prompt_price": 100.0, "reply_price": 100.0}
        spec = sweep(
            demo_data,
            ["api"],
            ["zero-shot"],
            scenarios=["ROD"],
            model=[{"name": "api", "source": "m", "endpoint": end}],
        )
        folder = play_sweep(tmp_path / "run", spec)
        outcome = CliRunner().invoke(app, ["models", "flip-rate", str(folder), "--share", "20", "--batch", "1"])

        assert outcome.exit_code == 2 and "add --yes" in outcome.stderr and not server.bodies
        assert "batch-1: 2 episodes of 2 samples, 2 pending" in outcome.stdout
        assert "batch-1: api: 2 episodes" in outcome.stdout and "its prices" in outcome.stdout
    assert not (folder / "flip-rate").exists()


def test_a_service_has_one_worker_whatever_is_asked(demo_data, tmp_path):
    entry = {"name": "api", "source": "m", "endpoint": {"base_url": "http://127.0.0.1:1/v1", "key_env": ""}}
    spec = sweep(demo_data, ["api"], ["reference"], scenarios=["QD"], model=[entry])
    folder = play_sweep(tmp_path / "run", spec, backends={"api": Planted(False)})

    assert [setting.name for setting in flips.prepare_repeats(folder, 5).settings] == ["batch-1", "batch-8"]
    repeats = flips.prepare_repeats(folder, 5, workers=[2])
    assert next(repeats.lines()) == "workers-2: api always has one worker and is replayed as in the run"


@pytest.mark.slow
def test_batch_dependent_service_flips_as_planted(demo_data, tmp_path, cli):
    """From its 20th request on it answers half of the questions otherwise, once it has held two at the same time.

    So the repeat with two episodes at once can only end if both are really asked at once.
    """
    servers, samples = [], 10

    def is_flipped(body):
        return int(sha256(json.dumps(body["messages"]).encode()).hexdigest(), 16) % 2

    def answer(number, body):
        if number == 2 * samples:
            servers[0].together = 2
            servers[0].enough.clear()
        return completion("B" if number >= 2 * samples and is_flipped(body) else "A")

    with service(answer) as server:
        servers.append(server)
        entry = {"name": "api", "source": "m", "in_flight": 1, "endpoint": {"base_url": server.url, "key_env": ""}}
        spec = sweep(demo_data, ["api"], ["reference"], scenarios=["QD"], model=[entry])
        folder = play_sweep(tmp_path / "run", spec, backends={"api": open_engine(spec.models[0], demo_data)})
        pictures.record_pictures(folder, demo_data, pictures.ShownPictures(build_plan(spec)).all_paths(), Event())
        done = cli.run("models", "flip-rate", folder, "--share", 100, "--batch", 1, "--batch", 2, "--yes", "--json")
        again = cli.run("models", "flip-rate", folder, "--share", 100, "--batch", 1, "--batch", 2, "--yes", "--json")
        count = sum(map(is_flipped, server.bodies[:samples]))

    assert done.returncode == 0 and len(server.bodies) == 3 * samples and 0 < count < samples, done.stderr
    assert again.stdout == done.stdout, "nothing that is stored is asked twice"
    rows = json.loads(done.stdout)["rates"]
    assert [(row["setting"], row["reply_changed"], row["reply_of"]) for row in rows] == [
        ("batch-1", 0, samples), ("batch-2", count, samples),
    ]  # fmt: skip
    assert rows[1]["reply_low"] < 10 * count < rows[1]["reply_high"] and server.busiest == 2


def planted_pairs():
    """Ten samples of one cell: two lost, one won, and two turns each, of which the second one's reply changed."""
    before, after = [True] * 6 + [False] * 4, [False] * 2 + [True] * 5 + [False] * 3
    names = {"model": "m", "scenario": "QD", "condition": "hint", "protocol": "mcqa", "cell": "m/QD/hint"}
    rows = pl.DataFrame(
        {
            "key": [f"k{n}" for n in range(10)], "sample_id": list(range(10)),
            "right_before": before, "right_after": after,
        }
    ).with_columns(**{name: pl.lit(value) for name, value in names.items()})  # fmt: skip
    rows = rows.with_columns(
        ending_changed=pl.lit(False), correct_changed=pl.col("right_before") != pl.col("right_after")
    )
    turn_rows = rows.select("key", "model", "scenario", "condition", "sample_id").join(
        pl.DataFrame({"turn": [0, 1]}), how="cross"
    )
    turn_rows = turn_rows.with_columns(
        reply_changed=pl.col("turn") == 1, verdict_changed=pl.lit(False),
        action_before=pl.lit("category"), action_after=pl.lit("suggestion"),
    )  # fmt: skip
    return comparison.Pairs(rows, turn_rows, 0)


def test_rates_are_percent_of_what_can_be_compared_with_their_intervals():
    (row,) = comparison.rates(planted_pairs(), "batch-1").to_dicts()
    size = effective_size(np.array([1] * 3 + [0] * 7), np.arange(10))
    low, high = proportion_interval(0.3 * size, size)

    assert (row["setting"], row["model"], row["episodes"]) == ("batch-1", "m", 10)
    assert (row["reply_changed"], row["reply_of"], row["reply_percent"]) == (10, 20, 50.0)
    assert (row["correct_changed"], row["correct_of"], row["correct_percent"]) == (3, 10, 30.0)
    assert (row["correct_low"], row["correct_high"]) == pytest.approx((100 * low, 100 * high), rel=1e-12)
    assert (row["ending_changed"], row["ending_percent"], row["ending_low"]) == (0, 0.0, 0.0) and 20 < row[
        "ending_high"
    ] < 40
    assert (row["cell_changed"], row["cell_of"], row["cell_percent"]) == (1, 1, 100.0) and row["cell_high"] == 100.0


def test_a_cells_difference_has_the_interval_of_values_from_minus_100_to_100():
    pairs = planted_pairs()
    (row,) = comparison.cells(pairs, "batch-1").to_dicts()
    changes = [-100.0, -100.0, 0.0, 0.0, 0.0, 0.0, 100.0, 0.0, 0.0, 0.0]
    low, high = score_interval([stratum_from_values(np.array(changes), -100, 100)])

    assert {name: row[name] for name in ("setting", "cell", "model", "scenario", "condition", "protocol", "n")} == {
        "setting": "batch-1", "cell": "m/QD/hint", "model": "m", "scenario": "QD", "condition": "hint", "protocol": "mcqa",
        "n": 10,
    }  # fmt: skip
    assert (row["acc_before"], row["acc_after"], row["difference"], row["lost"], row["won"]) == (
        60.0,
        50.0,
        -10.0,
        2,
        1,
    )
    assert (row["difference_low"], row["difference_high"]) == (low, high)
    changed = comparison.changed_turns(pairs, "batch-1")
    assert changed.columns == ["setting", "key", "turn", "verdict_changed", "action_before", "action_after"]
    assert changed.height == 10 and set(changed["turn"]) == {1} and set(changed["setting"]) == {"batch-1"}


def test_nothing_to_compare_has_no_rate():
    pairs = planted_pairs()
    unscored = pairs.episodes.with_columns(correct_changed=pl.lit(None, pl.Boolean))
    (row,) = comparison.rates(replace(pairs, episodes=unscored, turns=pairs.turns.clear()), "s").to_dicts()

    assert row["reply_of"] in (0, None) and row["reply_percent"] is None and row["cell_percent"] is None
    assert comparison.cells(replace(pairs, episodes=unscored), "s").is_empty()


def test_a_batch_size_reaches_engines_and_no_policy(demo_data, original):
    repeats = flips.prepare_repeats(original, 20, 0, [3])
    ((_, repeat),) = repeats.sweeps()
    vlm, oracle = repeat.models

    assert (vlm.in_flight, vlm.options) == (3, {"max_num_seqs": 3}) and oracle == vlm_sweep(demo_data).models[1]


def test_the_work_of_each_setting_is_a_line_with_what_is_pending(demo_data, original):
    repeats = flips.prepare_repeats(original, 20, 0, [1])
    ((setting, repeat),) = repeats.sweeps()
    total = build_plan(repeat).total
    assert list(repeats.lines())[-1] == f"batch-1: {total} episodes of {total // 4} samples, {total} pending"
    play_sweep(repeats.output / setting.name, repeat, only=3, backends={"vlm": Planted(False)})

    assert list(repeats.lines())[-1] == f"batch-1: {total} episodes of {total // 4} samples, {total - 3} pending"
