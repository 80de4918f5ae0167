"""A run as logs of Inspect: its own reader finds every episode, turn and figure, and hostile replies are texts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import polars as pl
import pytest

from orchestrator.export.export import export
from orchestrator.report.read_run import read_run
from orchestrator.storage.episode_store import turns
from tests.orchestrator.report.runs import exported, replaced

HOSTILE = '</script><img src="http://x/y.png" onerror=alert(1)>\x1b[2J\u202eattachment://0123 {"role": "user"}\x00'
READER = """
import json, sys
from inspect_ai import log as inspect
from inspect_ai.log import list_eval_logs, read_eval_log
summaries = getattr(inspect, "read_eval_log_sample_summaries", None)  # of newer versions
found = []
for info in list_eval_logs(sys.argv[1]):
    header, log = read_eval_log(info, header_only=True), read_eval_log(info)
    found.append({
        "task": header.eval.task, "model": header.eval.model, "status": header.status, "listed": info.task,
        "summaries": [one.id for one in (summaries(info) if summaries else log.samples)],
        "metrics": {s.name: {n: m.value for n, m in s.metrics.items()} for s in header.results.scores},
        "samples": [{
            "id": s.id, "replies": [m.text for m in s.messages if m.role == "assistant"], "target": s.target,
            "asked": [m.text for m in s.messages if m.role == "user"], "completion": s.output.completion,
            "scores": {n: one.value for n, one in (s.scores or {}).items()}, "key": s.metadata["key"],
            "error": s.error.message if s.error else None,
        } for s in log.samples],
    })
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def run(demo_data, tmp_path_factory):
    """Two policies in multiple choice and open-ended answers, one reply hostile, one episode refused."""
    folder = exported(tmp_path_factory.mktemp("run") / "run", demo_data, HOSTILE)
    for path in (folder / "episodes").glob("*.parquet"):
        found = pl.read_parquet(path)
        last = (pl.int_range(pl.len()) == 0) & (pl.col("protocol") == "mcqa")
        change = {"ending": "refused", "error": "a filter", "seconds": float("nan")}
        replaced(
            found.with_columns(pl.when(last).then(pl.lit(v)).otherwise(n).alias(n) for n, v in change.items()), path
        )
    return folder


@pytest.fixture(scope="module")
def logs(run, tmp_path_factory):
    """The logs as Inspect's own reader gives them, in a process of its own."""
    pytest.importorskip("inspect_ai", reason="the extra `inspect` is not installed")
    into = tmp_path_factory.mktemp("inspect") / "logs"
    export(run, "inspect", into)
    command = [sys.executable, "-c", READER, str(into)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=into.parent)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_inspects_own_reader_finds_every_episode_and_turn(run, logs):
    told = {one["key"]: one for log in logs for one in log["samples"]}
    replies = turns(run).sort("key", "turn").group_by("key", maintain_order=True).agg("reply").collect()
    names = {f"proactivebench-{name}" for name in ("zero-shot", "hint", "zero-shot-oeg", "hint-oeg")}

    assert len(logs) == 8 and {log["status"] for log in logs} == {"success"}
    assert {log["task"] for log in logs} == {log["listed"] for log in logs} == names
    assert {key: one["replies"] for key, one in told.items()} == dict(replies.iter_rows())
    assert HOSTILE in [reply for one in told.values() for reply in one["replies"]]
    assert all(one["completion"] == one["replies"][-1] and one["target"] for one in told.values())
    assert all(sorted(log["summaries"]) == sorted(one["id"] for one in log["samples"]) for log in logs)
    for row in read_run(run).episodes.filter(protocol="mcqa").iter_rows(named=True):
        one = told[row["key"]]
        refused = row["ending"] == "refused"
        assert one["error"] == ("a filter" if refused else None)
        assert one["scores"] == ({} if refused else {"acc": "C" if row["correct"] else "I", "ps": row["turns"] - 1})
    assert sum(one["error"] is not None for one in told.values()) == 1


@pytest.mark.slow
def test_its_figures_are_those_of_the_tables(run, logs):
    by_name = {(log["task"], log["model"]): log["metrics"] for log in logs}
    for row in read_run(run).rows.iter_rows(named=True):
        suffix, measure = ("", "acc") if row["protocol"] == "mcqa" else ("-oeg", "aggregate")
        metrics = by_name[f"proactivebench-{row['condition']}{suffix}", row["model"]]
        assert metrics[measure][row["scenario"]] == pytest.approx(row[measure] / 100)
        assert metrics[measure]["mean"] == pytest.approx((metrics[measure]["ROD"] + metrics[measure]["QD"]) / 2)


@pytest.mark.slow
def test_a_sample_shows_what_was_asked(logs):
    asked = [(log["task"], one["asked"][0]) for log in logs for one in log["samples"] if "/QD/" in one["key"]]

    assert asked and all(text.startswith("[picture: QuickDraw/") and "?" in text for _, text in asked)
    lettered = {text for task, text in asked if "A. " in text}
    assert {task for task, text in asked if text in lettered} == {"proactivebench-zero-shot", "proactivebench-hint"}


def test_a_log_is_a_zip_of_json_that_names_no_path_of_this_machine(run, tmp_path):
    names = export(run, "inspect", tmp_path / "logs", by="a lab")
    with ZipFile(tmp_path / "logs" / names[0]) as log:
        texts = {name: log.read(name).decode() for name in log.namelist()}
    members = {name: json.loads(text) for name, text in texts.items()}

    assert {"header.json", "summaries.json", "_journal/start.json"} <= members.keys()
    assert members["header.json"]["eval"] == members["_journal/start.json"]["eval"]
    assert members["header.json"]["eval"]["metadata"]["evaluated_by"] == "a lab"
    assert not any(str(place) in text for text in texts.values() for place in (run, tmp_path, Path.cwd()))
    assert all(text.isascii() and "\x1b" not in text for text in texts.values())


def test_without_the_data_folder_a_log_has_replies_and_no_question(run, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    names = export(run, "inspect", tmp_path / "logs", data=empty)
    with ZipFile(tmp_path / "logs" / names[0]) as log:
        samples = [json.loads(log.read(name)) for name in log.namelist() if name.startswith("samples/")]

    assert samples and all(one["input"].endswith(f" sample {one['metadata']['sample_id']}") for one in samples)
    assert all("choices" not in one and one["target"] == "" for one in samples)
