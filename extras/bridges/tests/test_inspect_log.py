"""Inspect's own reader finds every episode, turn, and score in an exported log; hostile replies stay text."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import polars as pl
import pytest

from orchestrator.export import export
from orchestrator.report.read_run import read_run
from orchestrator.storage.episode_store import turns
from orchestrator.storage.progress_log import Point, append_point
from tests.orchestrator.report.runs import play_export_run, replace_part

HOSTILE = '</script><img src="http://x/y.png" onerror=alert(1)>\x1b[2J\u202eattachment://0123 {"role": "user"}\x00'
READER = """
import json, sys
from inspect_ai import log as inspect
from inspect_ai.log import list_eval_logs, read_eval_log
summaries = getattr(inspect, "read_eval_log_sample_summaries", None)  # of newer versions
logs = []
for info in list_eval_logs(sys.argv[1]):
    header, log = read_eval_log(info, header_only=True), read_eval_log(info)
    logs.append({
        "task": header.eval.task, "model": header.eval.model, "status": header.status, "listed": info.task,
        "summaries": [sample.id for sample in (summaries(info) if summaries else log.samples)],
        "metrics": {s.name: {n: m.value for n, m in s.metrics.items()} for s in header.results.scores},
        "samples": [{
            "id": s.id, "replies": [m.text for m in s.messages if m.role == "assistant"], "target": s.target,
            "questions": [m.text for m in s.messages if m.role == "user"], "completion": s.output.completion,
            "scores": {n: score.value for n, score in (s.scores or {}).items()}, "key": s.metadata["key"],
            "error": s.error.message if s.error else None,
        } for s in log.samples],
    })
print(json.dumps(logs))
"""
ROUND_TRIP = """
import json, sys
from zipfile import ZipFile
from inspect_ai.log import EvalLog, EvalSample
members = {}
for path in sys.argv[1:]:
    with ZipFile(path) as log:
        for name in log.namelist():
            kind = EvalSample if name.startswith("samples/") else EvalLog if name == "header.json" else None
            if kind:
                read = kind.model_validate_json(log.read(name)).model_dump_json(exclude_none=True)
                members.setdefault(path, {})[name] = json.loads(read)
print(json.dumps(members))
"""


@pytest.fixture(scope="module")
def run(demo_data, tmp_path_factory):
    """Two policies in multiple choice and open-ended answers, one reply hostile, one episode refused."""
    folder = play_export_run(tmp_path_factory.mktemp("run") / "run", demo_data, HOSTILE)
    for path in (folder / "episodes").glob("*.parquet"):
        rows = pl.read_parquet(path)
        last = (pl.int_range(pl.len()) == 0) & (pl.col("protocol") == "mcqa")
        change = {"ending": "refused", "error": "a filter", "seconds": float("nan")}
        replace_part(
            rows.with_columns(pl.when(last).then(pl.lit(v)).otherwise(n).alias(n) for n, v in change.items()), path
        )
    return folder


@pytest.fixture(scope="module")
def logs(run, tmp_path_factory):
    """The logs as Inspect's own reader gives them, in a process of its own."""
    pytest.importorskip("inspect_ai", reason="the extra `inspect` is not installed")
    into = tmp_path_factory.mktemp("inspect") / "logs"
    export(run, "inspect", into)
    return run_inspect_script(READER, into)


def run_inspect_script(script: str, *paths: Path):
    """Return the JSON that a script prints; Inspect changes the event loop, so it runs in a process of its own."""
    command = [sys.executable, "-c", script, *map(str, paths)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=paths[0].parent)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def missing_fields(ours, theirs, path=""):
    """Yield the fields that Inspect writes and the exported JSON lacks or has with another value."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name, value in theirs.items():
            if name in ours or value not in ({}, [], False):  # defaults that only newer versions write
                yield from missing_fields(ours.get(name), value, f"{path}/{name}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(ours) == len(theirs):
        for own_value, value in zip(ours, theirs, strict=True):
            yield from missing_fields(own_value, value, path)
    elif ours != theirs:
        yield path


@pytest.mark.slow
def test_a_log_has_every_field_that_inspect_itself_writes(run, tmp_path):
    pytest.importorskip("inspect_ai", reason="the extra `inspect` is not installed")
    paths = [tmp_path / "logs" / name for name in export(run, "inspect", tmp_path / "logs")[::4]]
    for path, written in run_inspect_script(ROUND_TRIP, *paths).items():
        with ZipFile(path) as log:
            gaps = {
                gap
                for member, fields in written.items()
                for gap in missing_fields(json.loads(log.read(member)), fields)
            }

        assert {"header.json"} < written.keys() and gaps == set()


def test_the_viewer_finds_each_score_under_its_scorer(run, tmp_path):
    """It reads ``sample.scores[scorer]``, and the score itself as ``value[name]`` if name and scorer differ."""
    for name in export(run, "inspect", tmp_path / "logs"):
        with ZipFile(tmp_path / "logs" / name) as log:
            scores = json.loads(log.read("header.json"))["results"]["scores"]
            summaries = json.loads(log.read("summaries.json"))

        assert scores and all(score["name"] == score["scorer"] and score["params"] == {} for score in scores)
        for sample in summaries:
            assert "error" in sample or all(sample["scores"][score["scorer"]]["answer"] for score in scores)


@pytest.mark.slow
def test_inspects_own_reader_finds_every_episode_and_turn(run, logs):
    samples = {sample["key"]: sample for log in logs for sample in log["samples"]}
    replies = turns(run).sort("key", "turn").group_by("key", maintain_order=True).agg("reply").collect()
    names = {f"proactivebench-{name}" for name in ("zero-shot", "hint", "zero-shot-oeg", "hint-oeg")}

    assert len(logs) == 8 and {log["status"] for log in logs} == {"success"}
    assert {log["task"] for log in logs} == {log["listed"] for log in logs} == names
    assert {key: sample["replies"] for key, sample in samples.items()} == dict(replies.iter_rows())
    assert HOSTILE in [reply for sample in samples.values() for reply in sample["replies"]]
    assert all(sample["completion"] == sample["replies"][-1] and sample["target"] for sample in samples.values())
    assert all(sorted(log["summaries"]) == sorted(sample["id"] for sample in log["samples"]) for log in logs)
    for row in read_run(run).episodes.filter(protocol="mcqa").iter_rows(named=True):
        sample = samples[row["key"]]
        refused = row["ending"] == "refused"
        assert sample["error"] == ("a filter" if refused else None)
        assert sample["scores"] == ({} if refused else {"acc": "C" if row["correct"] else "I", "ps": row["turns"] - 1})
    assert sum(sample["error"] is not None for sample in samples.values()) == 1


@pytest.mark.slow
def test_its_figures_are_those_of_the_tables(run, logs):
    by_name = {(log["task"], log["model"]): log["metrics"] for log in logs}
    for row in read_run(run).rows.iter_rows(named=True):
        suffix, measure = ("", "acc") if row["protocol"] == "mcqa" else ("-oeg", "aggregate")
        metrics = by_name[f"proactivebench-{row['condition']}{suffix}", row["model"]]
        assert metrics[measure][row["scenario"]] == pytest.approx(row[measure] / 100)
        assert metrics[measure]["mean"] == pytest.approx((metrics[measure]["ROD"] + metrics[measure]["QD"]) / 2)


def test_a_log_is_a_zip_of_json_that_names_no_path_of_this_machine(run, tmp_path):
    names = export(run, "inspect", tmp_path / "logs")
    with ZipFile(tmp_path / "logs" / names[0]) as log:
        texts = {name: log.read(name).decode() for name in log.namelist()}
    members = {name: json.loads(text) for name, text in texts.items()}

    assert {"header.json", "summaries.json", "_journal/start.json"} <= members.keys()
    assert members["_journal/start.json"]["version"] == members["header.json"]["version"]
    assert members["header.json"]["eval"] == members["_journal/start.json"]["eval"]
    assert not any(str(path) in text for text in texts.values() for path in (run, tmp_path, Path.cwd()))
    assert all(text.isascii() and "\x1b" not in text for text in texts.values())


def test_without_the_data_folder_a_log_has_replies_and_no_question(run, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    names = export(run, "inspect", tmp_path / "logs", data=empty)
    with ZipFile(tmp_path / "logs" / names[0]) as log:
        samples = [json.loads(log.read(name)) for name in log.namelist() if name.startswith("samples/")]

    assert samples and all(sample["input"].endswith(f" sample {sample['metadata']['sample_id']}") for sample in samples)
    assert all("choices" not in sample and sample["target"] == "" for sample in samples)


@pytest.mark.parametrize(("points", "times"), [([5, 86_405], ("1970-01-01", "1970-01-02")), ([], ("1970-01-01",) * 2)])
def test_a_copied_folder_has_the_times_at_which_it_was_played(run, tmp_path, points, times):
    copy = shutil.copytree(run, tmp_path / "copy", copy_function=shutil.copy)
    for done, second in enumerate(points):
        append_point(copy, Point(done=done, at=1000 * second))
    for name in export(copy, "inspect", tmp_path / "logs"):
        with ZipFile(tmp_path / "logs" / name) as log:
            header = json.loads(log.read("header.json"))

        assert name.startswith(times[1]) and header["eval"]["created"].startswith(times[1])
        assert header["stats"]["started_at"].startswith(times[0])
