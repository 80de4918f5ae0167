"""Planted flips are counted exactly: a run is compared with repeats whose changed replies are known by construction."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from threading import Event

import polars as pl
import pytest
from typer.testing import CliRunner

from actors.engine.backend import Reply
from actors.engine.baselines import Baseline, abstain
from envs.errors import RunFolderError
from orchestrator.cli.main import app
from orchestrator.flip_rate import BATCHES, RATES, compare_repeats, prepare_repeats, rate_table
from orchestrator.planning import pictures
from orchestrator.planning.build_plan import build_plan
from orchestrator.report.statistics.proportion import proportion_interval
from orchestrator.report.tables.paper_comparison import measured_flips
from orchestrator.storage.episode_store import episodes, turns
from orchestrator.storage.run_folder import differences
from orchestrator.storage.run_folder import settings as identity
from tests.actors.scripted_backend import ScriptedBackend
from tests.orchestrator.report.runs import play_sweep, sweep

ENGINE = {"name": "vlm", "source": "org/vlm", "revision": "a" * 40, "backend": "vllm"}


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


def play(folder, spec, tilted=False):
    play_sweep(folder, spec, backends={"vlm": Planted(tilted)})
    pictures.record_pictures(folder, Path(spec.data), pictures.all_paths(build_plan(spec)), Event())
    return folder


@pytest.fixture
def original(demo_data, tmp_path):
    spec = sweep(demo_data, ["vlm", "oracle"], ["zero-shot", "hint"], scenarios=["ROD", "QD"], model=[ENGINE])
    return play(tmp_path / "run", spec)


def compare_with(folder, tilted):
    repeats = prepare_repeats(folder, 100)
    for name, repeat in repeats.sweeps():
        play(repeats.output / name, repeat, tilted and name == "batch-1")
    return compare_repeats(repeats)


def test_a_repeat_changes_no_key_and_a_larger_share_includes_a_smaller(original):
    samples = []
    for share in (5, 20, 50, 100):
        repeats = prepare_repeats(original, share)
        for batch, (_, repeat) in zip(BATCHES, repeats.sweeps(), strict=True):
            keys = set(build_plan(repeat).all_keys())
            assert keys <= set(episodes(original).collect()["key"])
            assert len(keys) == 4 * sum(map(len, repeats.ids[False].values()))
            engine = next(model for model in repeat.models if model.name == "vlm")
            assert (engine.in_flight, engine.options) == (batch, {"max_num_seqs": batch})
            changed = differences(identity(repeats.sweep), identity(repeat))
            assert changed and all(text.startswith("selection.ids") for text in changed)
        samples.append({(name, sample_id) for name, ids in repeats.ids[False].items() for sample_id in ids})

    assert [*map(len, samples)] == [2, 4, 10, 20] and all(a < b for a, b in itertools.pairwise(samples))


def test_planted_flips_are_counted_where_both_sides_start_from_the_same_state(original):
    before = {path: path.read_bytes() for path in original.rglob("*.parquet")}
    rates, notes = compare_with(original, tilted=True)
    rows = {(row["model"], row["setting"]): row for row in rates.iter_rows(named=True)}
    played = episodes(original).filter(model="vlm").collect()
    given_up, worded = (played.filter(pl.col("sample_id") % n == 0) for n in (5, 3))
    worded = worded.filter(pl.col("sample_id") % 5 != 0)
    tilted = rows["vlm", "batch-1"]

    assert notes == [] and rates.schema == pl.Schema(RATES)
    assert (tilted["correct_changed"], tilted["correct_of"]) == (given_up.height, played.height)
    worded_turns = turns(original).join(worded.lazy().select("key"), on="key", how="semi").collect().height
    assert tilted["reply_changed"] == given_up.height + worded_turns, "after a changed verdict no turn is compared"
    for other in (rows["oracle", "batch-1"], rows["vlm", "batch-8"]):
        assert other["reply_changed"] == other["correct_changed"] == 0 < other["reply_of"]
        assert other["correct_high"] == pytest.approx(100 * proportion_interval(0, 20)[1]), "20 samples, asked twice"
    assert measured_flips(original) == pytest.approx(
        {"vlm": tilted["correct_high"], "oracle": rows["oracle", "batch-1"]["correct_high"]}
    )
    assert [cell.text for cell in rate_table(rates).rows[0]][2].startswith("0.0 (0.0 to ")
    assert before == {path: path.read_bytes() for path in before}, "the run is only read"


def test_a_paid_service_is_asked_again_only_with_yes(demo_data, tmp_path):
    endpoint = {"base_url": "http://127.0.0.1:9/v1", "key_env": "", "prompt_price": 1.0}
    paid = ENGINE | {"backend": "openai", "revision": "", "endpoint": endpoint}
    folder = play(tmp_path / "run", sweep(demo_data, ["vlm"], ["hint"], scenarios=["QD"], model=[paid]))
    refused = CliRunner().invoke(app, ["models", "try", str(folder), "--flip-rate", "20"])

    assert refused.exit_code == 2 and "--yes" in refused.output
    assert not (folder / "flip-rate").exists()


def test_rates_of_an_earlier_version_are_read_and_damaged_files_are_not(tmp_path):
    earlier = "setting,model,episodes,verdict_high,correct_high\nbatch-1,m,4,1.0,2.5\n"
    for share, text in (("a", earlier), ("b", "\0")):
        (tmp_path / "flip-rate" / share).mkdir(parents=True)
        (tmp_path / "flip-rate" / share / "rates.csv").write_text(text)

    assert measured_flips(tmp_path) == {"m": 2.5}


def test_other_data_are_not_compared_and_an_unplayed_run_has_nothing_to_repeat(demo_data, tmp_path, original):
    spec = sweep(demo_data, ["oracle"], ["zero-shot"], scenarios=["QD"])
    with pytest.raises(RunFolderError, match="finish the run first"):
        prepare_repeats(play_sweep(tmp_path / "empty", spec, only=0), 5)
    repeats = prepare_repeats(original, 100)
    other = repeats.sweep.model_copy(update={"seed": 7})
    moved = type(repeats)(original, 100, other, repeats.ids)
    with pytest.raises(RunFolderError, match="no key of this version and data"):
        compare_repeats(moved)


@pytest.mark.slow
def test_the_command_repeats_resumes_and_reports_as_json(ray_address, demo_data, tmp_path):
    folder = play(tmp_path / "run", sweep(demo_data, ["oracle", "always-ask"], ["zero-shot"], scenarios=["QD"]))
    command = ["models", "try", str(folder), "--flip-rate", "20", "--json"]
    first, second = (CliRunner().invoke(app, command) for _ in range(2))

    assert first.exit_code == second.exit_code == 0, first.output
    rates = json.loads(second.stdout)["rates"]
    assert [(row["model"], row["setting"]) for row in rates] == [
        (name, f"batch-{batch}") for batch in BATCHES for name in ("always-ask", "oracle")
    ]
    assert {row["correct_changed"] for row in rates} == {0} and "0 pending" in second.stderr
