"""Transcripts of episodes, turn by turn: equal for equal seeds, with replies as plain text, each shown once in MLflow."""

from __future__ import annotations

import os
import re

import polars as pl
import pytest

from actors.engine.backend import Backend, Reply
from actors.text.printable import UNSAFE
from orchestrator.report.read_run import read_run
from orchestrator.storage.schemas import VERDICTS
from orchestrator.storage.verdict_store import VerdictStore
from orchestrator.tracking.rebuild import track
from proactive_bridges.traces import sample_keys, transcripts
from tests.orchestrator.mlflow_stores import client, parent, runs
from tests.orchestrator.report.runs import play_sweep, replace_part, sweep
from tests.orchestrator.report.test_hostile_data import hostile_run  # noqa: F401 - a fixture

HOSTILE = "```\n# A heading\n<script>alert(1)</script> ![x](http://y/z.png) \x07\u202e ```` A"


class HostileModel(Backend):
    """A model that replies with markup."""

    async def reply(self, request):
        return Reply(HOSTILE)

    async def close(self):
        return None


@pytest.fixture(scope="module")
def run(demo_data, tmp_path_factory):
    wanted = sweep(demo_data, ["oracle", "uniform", "guess"], ["zero-shot", "hint"], protocol=["mcqa", "oeg"])
    return play_sweep(tmp_path_factory.mktemp("transcripts") / "run", wanted, backends={"guess": HostileModel()})


def test_equal_seeds_give_equal_bounded_transcripts(run):
    run_data = read_run(run)
    first, again = list(transcripts(run_data, limit=12, seed=1)), list(transcripts(run_data, limit=12, seed=1))

    assert first == again and len(first) == 12
    assert [entry.key for entry in first] != [entry.key for entry in transcripts(run_data, limit=12, seed=2)]
    for turn in [turn for transcript in first for turn in transcript.turns]:
        assert turn.question["content"][0]["image_url"]["url"].startswith("data:image/")


def test_a_hostile_reply_stays_in_its_fence(run):
    entries = [entry for entry in transcripts(read_run(run), limit=500) if entry.tags["model"] == "guess"]
    turns = [turn for entry in entries for turn in entry.turns]

    assert turns
    for turn in turns:
        first, *lines, last = turn.reply.strip("\n").split("\n")
        fence, body = first.removesuffix("text"), ("\n".join(lines), last)
        assert set(fence) == {"`"} and len(fence) > 4 and body[1] == fence and fence not in body[0]
        assert "\x07" not in turn.reply and "\u202e" not in turn.reply


def test_a_transcript_says_what_was_read_from_each_reply_and_what_was_right(run):
    entries = list(transcripts(read_run(run), limit=60))
    right = [entry for entry in entries if entry.tags["model"] == "oracle" and entry.tags["ending"] == "correct"]

    assert right
    for entry in right:
        steps = r"1 turn|(?!1 )\d+ turns"
        answer = re.fullmatch(
            rf"{entry.name.rpartition(' · ')[2]} after (?:{steps})\. The right answer: \n(`+)text\n(.+)\n\1\n",
            entry.ending,
        )
        assert answer, entry.ending
        assert f"after {len(entry.turns)} turn" in entry.ending
        for number, turn in enumerate(entry.turns, 1):
            action = turn.name.removeprefix(f"turn {number} · ")
            assert turn.verdict.startswith(f"Read as {action}: suggestion side ")
            letters = re.findall(r"^([A-Z])\. ", turn.question["content"][1]["text"], re.MULTILINE)
            assert letters == [chr(65 + place) for place in range(len(letters))] and len(letters) > 3
    open_ended = [entry for entry in entries if entry.tags["protocol"] == "oeg"]
    assert open_ended and {turn.name for entry in open_ended for turn in entry.turns} == {"turn 1 · free answer"}


def test_open_ended_transcript_ends_with_judge_verdict(run):
    run_data = read_run(run)
    row = run_data.episodes.filter(ending="answered").sort("key").to_dicts()[0]
    verdict = {name: [row[name]] for name in ("key", "cell", "model", "scenario", "condition", "sample_id")}
    verdict |= {"judge": ["rule-judge/x"], "category": [False], "suggestion": [True], "aggregate": [True]}
    store = VerdictStore(run)
    store.append({name: verdict.get(name, [None]) for name in VERDICTS})
    store.flush()
    transcript = {entry.key: entry for entry in transcripts(read_run(run), limit=2000)}[row["key"]]

    assert "Judge rule-judge/x: category no, suggestion yes, aggregate yes." in transcript.ending
    assert [turn.verdict for turn in transcript.turns] == ["Open-ended: a judge decides."]


@pytest.mark.slow
@pytest.mark.long
def test_track_shows_tables_figures_report_and_each_transcript_once(run):
    for part in (run / "episodes").glob("*.parquet"):
        replace_part(pl.read_parquet(part).with_columns(seconds=pl.lit(float("nan"))), part)
    address = os.environ.get("MLFLOW_TRACKING_URI")
    for _ in range(2):
        track(run)
    assert os.environ.get("MLFLOW_TRACKING_URI") == address  # the process's own address is unchanged
    mlflow_client = client(run)
    sweep_run = parent(runs(run, "test"))
    there = {file.path for file in mlflow_client.list_artifacts(sweep_run.info.run_id)}
    traces = mlflow_client.search_traces(locations=[sweep_run.info.experiment_id], max_results=200)

    turns = dict(read_run(run).episodes.select("key", "turns").iter_rows())

    assert {"tables", "figures", "report.html", "results.json"} <= there
    assert len(traces) == len({trace.info.tags["proactive_sweep.episode"] for trace in traces}) == 60
    assert all(len(t.data.spans) == 1 + turns[t.info.tags["proactive_sweep.episode"]] for t in traces)
    assert sweep_run.inputs.dataset_inputs


def test_one_episode_of_every_ending_comes_before_a_second():
    names = [(scenario, kind, f"{scenario}{kind}{n}") for scenario in "BA" for kind in "yx" for n in range(4)]
    kinds = pl.DataFrame(names, ["scenario", "kind", "key"], orient="row")
    drawn = sample_keys(kinds, 16, 0)

    assert [key[:2] for key in drawn] == ["Ax", "Ay", "Bx", "By"] * 4 and sorted(drawn) == sorted(kinds["key"])
    assert drawn[:8] == sample_keys(kinds, 8, 0) == sample_keys(kinds.reverse(), 8, 0) != sample_keys(kinds, 8, 1)


def test_mlflow_transcripts_are_code_and_printable(hostile_run):  # noqa: F811
    records = list(transcripts(read_run(hostile_run[1]), limit=500))

    assert records
    assert not any(UNSAFE.search(str(part)) for record in records for part in record[1:5])
    for text in [record.ending for record in records] + [turn.verdict for record in records for turn in record.turns]:
        prose = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)
        assert not re.search(r"[<\[#|]", prose), "MLflow renders messages as Markdown"
    assert any("alert(3)" in record.ending for record in records), "the hostile texts are shown"
