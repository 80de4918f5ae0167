"""What is planted is what is counted: a run beside repeats of which every changed reply is known by construction."""

from __future__ import annotations

import itertools
import json
import os
from hashlib import sha256
from pathlib import Path
from threading import Event

import polars as pl
import pytest
from typer.testing import CliRunner

from actors.engine.backend import Reply, ScriptedBackend
from actors.engine.baselines import Baseline, abstain
from actors.engine.registry import open_engine
from orchestrator.cli.main import app
from orchestrator.flip_rate import flip_rate as flips
from orchestrator.flip_rate.repeats import Setting
from orchestrator.planning import pictures
from orchestrator.planning.build_plan import build_plan
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.flip_rates import flip_rate_table
from orchestrator.storage.episode_store import episodes, turns
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.run_folder import differences
from orchestrator.storage.run_folder import settings as identity
from tests.actors.service import said, service
from tests.orchestrator.report.runs import played, sweep

ENGINE = {"name": "vlm", "source": "org/vlm", "revision": "a" * 40, "backend": "vllm"}
ALONE = Setting(batch=1)


class Planted(ScriptedBackend):
    """The oracle; where ``tilted``, it gives up every fifth sample, and words its replies on every third otherwise."""

    def __init__(self, tilted: bool) -> None:
        self.tilted, self.oracle = tilted, Baseline("oracle")

    async def reply(self, request):
        found = await self.oracle.reply(request)
        now = request.situation
        if self.tilted and now.sample.id % 5 == 0:
            return Reply(abstain(now, 0))
        if self.tilted and now.sample.id % 3 == 0:
            return Reply(f" {found.text}")
        return found


def wanted(data, **more):
    given = {"scenarios": ["ROD", "QD"], "model": [ENGINE], **more}
    return sweep(data, ["vlm", "oracle"], ["zero-shot", "hint"], **given)


def run(folder, asked, tilted=False):
    played(folder, asked, backends={"vlm": Planted(tilted)})
    pictures.record_pictures(folder, Path(asked.data), pictures.ShownPictures(build_plan(asked)).all_paths(), Event())
    return folder


@pytest.fixture
def original(demo_data, tmp_path):
    return run(tmp_path / "run", wanted(demo_data))


def repeated(folder, tilted, share=100.0, setting=ALONE):
    found = flips.prepare_repeats(folder, share, 0, [setting.batch])
    ((_, again),) = found.sweeps()
    run(found.output / setting.name, again, tilted)
    return found, flips.compare_repeats(found)


def bytes_of(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and "flip-rate" not in path.parts)
    return {path.relative_to(folder): path.read_bytes() for path in files}


def test_a_setting_changes_no_key_and_a_larger_share_holds_the_smaller(demo_data, original):
    samples = []
    for share in (5, 20, 50, 100):
        found = flips.prepare_repeats(original, share)
        for setting, again in found.sweeps():
            keys = set(build_plan(again).all_keys())
            assert keys <= set(episodes(original).collect()["key"]), setting.name
            assert len(keys) == 4 * sum(map(len, found.ids[False].values()))
        samples.append({(name, one) for name, ids in found.ids[False].items() for one in ids})
    assert [len(one) for one in samples] == [2, 4, 10, 20] and all(a < b for a, b in itertools.pairwise(samples))
    other = flips.prepare_repeats(original, 20, seed=1)
    assert other.ids != flips.prepare_repeats(original, 20).ids and other.output != found.output


def test_function_calls_are_drawn_as_letters_are(demo_data, tmp_path):
    asked = sweep(demo_data, ["oracle"], ["zero-shot"], scenarios=["ROD"], protocols=["mcqa", "tools"])
    found = flips.prepare_repeats(played(tmp_path / "run", asked), 20, 0, [1])
    ((_, again),) = found.sweeps()

    assert {words: {name: len(ids) for name, ids in one.items()} for words, one in found.ids.items()} == {
        False: {"ROD": 2}
    }
    assert build_plan(again).total == 4, "two samples under two protocols"


def test_settings_reach_the_engine_and_nothing_that_identifies_a_run(demo_data, original):
    whole = flips.prepare_repeats(original, 100, 0, [3], [2])
    (_, small), (_, two) = whole.sweeps()
    engine = next(model for model in small.models if model.name == "vlm")
    assert (engine.in_flight, engine.options) == (3, {"max_num_seqs": 3})
    assert (two.cluster.workers, two.cluster.gpus) == (2, 2) and two.models == whole.sweep.models
    changed = differences(identity(whole.sweep), identity(small))
    assert changed and all(line.startswith("selection.ids") for line in changed)


def test_an_engine_that_answers_alike_has_no_flip_and_an_upper_bound(original):
    _, found = repeated(original, tilted=False)

    assert found.rates["model"].to_list() == ["oracle", "vlm"] and found.changed.is_empty() and not found.notes
    for row in found.rates.iter_rows(named=True):
        assert row["episodes"] == 40 and row["cell_of"] == 4 and row["reply_of"] > 40
        for name in ("reply", "verdict", "ending", "correct", "cell"):
            assert row[f"{name}_changed"] == 0 and row[f"{name}_low"] == 0
        assert 12 < row["reply_high"] < 30, "20 samples, not hundreds of turns, have shown no change"
    assert set(found.cells["difference"]) == {0.0}


def test_planted_flips_are_counted_as_they_were_planted(original):
    before = bytes_of(original)
    _, found = repeated(original, tilted=True)

    ids = [
        (name, one)
        for name in ("ROD", "QD")
        for one in sorted(
            episodes(original).filter(scenario=name).select("sample_id").unique().collect()["sample_id"].to_list()
        )
    ]
    silent = sum(one % 5 == 0 for _, one in ids)
    (vlm,) = found.rates.filter(model="vlm").to_dicts()
    assert 0 < silent < len(ids) and vlm["ending_of"] == 40
    assert vlm["ending_changed"] == vlm["correct_changed"] == vlm["verdict_changed"] == 2 * silent
    asked = turns(original).filter(pl.col("key").str.starts_with("vlm/")).collect()
    number = asked["key"].str.extract(r"/(\d{4})-").cast(pl.Int64)
    worded = asked.filter((number % 3 == 0) & (number % 5 != 0)).height
    assert vlm["reply_changed"] == worded + 2 * silent
    assert vlm["reply_low"] < vlm["reply_percent"] < vlm["reply_high"]
    (oracle,) = found.rates.filter(model="oracle").to_dicts()
    assert oracle["reply_changed"] == 0 and found.changed.height == vlm["reply_changed"]
    cells = found.cells.filter(model="vlm")
    assert cells["lost"].sum() == 2 * silent and cells["won"].sum() == 0 and set(cells["acc_before"]) == {100.0}
    assert cells.filter(scenario="ROD")["difference"][0] == -10.0 * sum(
        one % 5 == 0 for name, one in ids if name == "ROD"
    )
    assert bytes_of(original) == before, "the run is only read"


def test_tables_are_written_beside_the_repeats_and_stand_in_the_report(original):
    repeats, found = repeated(original, tilted=True, share=50)
    place = flips.write_tables(repeats, found)

    assert place == original / "flip-rate" / "share-50-seed-0" and (place / "cells.csv").exists()
    table = flip_rate_table(read_run(original))
    assert [row[0].text for row in table.rows] == [
        "oracle, batch-1 (share-50-seed-0)",
        "vlm, batch-1 (share-50-seed-0)",
    ]
    assert table.rows[0][1].text.startswith("0.0 (0.0 to ") and table.rows[1][1].value > 0
    for content in (b"\xff\x00,", b"", b"setting,model\na,b,c\n", None):
        (place / "rates.csv").unlink()
        os.mkfifo(place / "rates.csv") if content is None else (place / "rates.csv").write_bytes(content)
        assert not flip_rate_table(read_run(original)).rows, content
    result = CliRunner().invoke(app, ["report", str(original), "--json"])
    assert result.exit_code == 0, "a repeat is no part of the run"
    assert sum(cell["finished"] for cell in json.loads(result.stdout)["cells"]) == 80


def test_what_is_not_there_twice_is_not_compared(demo_data, original):
    repeats = flips.prepare_repeats(original, 100, 0, [1])
    ((_, again),) = repeats.sweeps()
    played(repeats.output / ALONE.name, again, only=30, backends={"vlm": Planted(False)})

    found = flips.compare_repeats(repeats)
    assert found.rates["episodes"].sum() == 30 and found.notes == (
        "batch-1 lacks 50 episodes of the run: not compared",
    )


def test_a_run_without_a_common_sample_or_of_other_data_is_refused(demo_data, tmp_path, original):
    half = played(tmp_path / "half", wanted(demo_data), only=5, backends={"vlm": Planted(False)})
    with pytest.raises(RunFolderError, match="holds no run"):
        flips.prepare_repeats(tmp_path / "none", 5, 0, [1])
    assert flips.prepare_repeats(half, 5, 0, [1]).ids, "samples that all cells with anything have played"
    table = (original / "plan.parquet").read_bytes()
    (original / "plan.parquet").write_bytes(b"no table")
    with pytest.raises(RunFolderError, match=r"plan\.parquet is damaged"):
        flips.prepare_repeats(original, 5, 0, [1])
    (original / "plan.parquet").write_bytes(table)


def test_services_are_asked_only_after_their_cost_was_shown(demo_data, tmp_path):
    with service(lambda number, body: said("A")) as one:
        end = {"base_url": one.url, "key_env": "", "prompt_price": 100.0, "reply_price": 100.0}
        asked = sweep(
            demo_data,
            ["api"],
            ["zero-shot"],
            scenarios=["ROD"],
            model=[{"name": "api", "source": "m", "endpoint": end}],
        )
        folder = played(tmp_path / "run", asked)
        result = CliRunner().invoke(app, ["flip-rate", str(folder), "--share", "20", "--batch", "1"])

        assert result.exit_code == 2 and "add --yes" in result.stderr and not one.bodies
        assert "batch-1: 2 episodes of 2 samples, 2 pending" in result.stdout
        assert "batch-1: api: 2 episodes" in result.stdout and "its prices" in result.stdout
    assert not (folder / "flip-rate").exists()


def test_a_service_has_one_worker_whatever_is_asked(demo_data, tmp_path):
    entry = {"name": "api", "source": "m", "endpoint": {"base_url": "http://127.0.0.1:1/v1", "key_env": ""}}
    asked = sweep(demo_data, ["api"], ["reference"], scenarios=["QD"], model=[entry])
    folder = played(tmp_path / "run", asked, backends={"api": Planted(False)})

    assert [one.name for one in flips.prepare_repeats(folder, 5).settings] == ["batch-1", "batch-8"]
    found = flips.prepare_repeats(folder, 5, workers=[2])
    assert next(found.lines()) == "workers-2: api always has one worker and is replayed as in the run"


def test_a_service_asked_by_a_batch_api_is_asked_in_the_same_way_again(demo_data, tmp_path):
    entry = {
        "name": "api",
        "source": "m",
        "batch": True,
        "endpoint": {"base_url": "http://127.0.0.1:1/v1", "key_env": ""},
    }
    folder = played(
        tmp_path / "run",
        sweep(demo_data, ["api"], ["reference"], scenarios=["QD"], model=[entry]),
        backends={"api": Planted(False)},
    )
    found = flips.prepare_repeats(folder, 5, batches=[1])
    assert next(found.lines()).startswith("batch-1: api uses a Batch API")
    assert next(found.sweeps())[1].models == found.sweep.models


@pytest.mark.slow
def test_a_service_whose_answer_depends_on_the_batch_flips_what_was_planted(demo_data, tmp_path, cli):
    """From its 20th request on it answers half of the questions otherwise, once it has held two at the same time.

    So the repeat with two episodes at once can only end if both are really asked at once.
    """
    held, samples = [], 10

    def planted(body):
        return int(sha256(json.dumps(body["messages"]).encode()).hexdigest(), 16) % 2

    def answer(number, body):
        if number == 2 * samples:
            held[0].together = 2
            held[0].enough.clear()
        return said("B" if number >= 2 * samples and planted(body) else "A")

    with service(answer) as one:
        held.append(one)
        entry = {"name": "api", "source": "m", "in_flight": 1, "endpoint": {"base_url": one.url, "key_env": ""}}
        asked = sweep(demo_data, ["api"], ["reference"], scenarios=["QD"], model=[entry])
        folder = played(tmp_path / "run", asked, backends={"api": open_engine(asked.models[0], demo_data)})
        pictures.record_pictures(folder, demo_data, pictures.ShownPictures(build_plan(asked)).all_paths(), Event())
        done = cli.run("flip-rate", folder, "--share", 100, "--batch", 1, "--batch", 2, "--yes", "--json")
        again = cli.run("flip-rate", folder, "--share", 100, "--batch", 1, "--batch", 2, "--yes", "--json")
        count = sum(map(planted, one.bodies[:samples]))

    assert done.returncode == 0 and len(one.bodies) == 3 * samples and 0 < count < samples, done.stderr
    assert again.stdout == done.stdout, "nothing that is stored is asked twice"
    rows = json.loads(done.stdout)["rates"]
    assert [(row["setting"], row["reply_changed"], row["reply_of"]) for row in rows] == [
        ("batch-1", 0, samples), ("batch-2", count, samples),
    ]  # fmt: skip
    assert rows[1]["reply_low"] < 10 * count < rows[1]["reply_high"] and one.busiest == 2
