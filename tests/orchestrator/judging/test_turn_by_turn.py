"""Open-ended episodes of several turns on Ray: equal bytes with any workers and after a kill, a mute judge leaves no zero."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import polars as pl
import pytest

from orchestrator.storage.episode_store import turns
from tests.actors.marking_judge import marking_judge
from tests.orchestrator.execution.test_attempt import assert_stored_once
from tests.orchestrator.judging.test_judging import sweep, unwrap_lines
from tests.orchestrator.report import runs

RULES = '[judge]\nmodel = "rule-judge"\n'
TALKERS = '["oracle", "ask-properly", "guess-aloud", "refuse"]'


def make_multi_turn(path: Path) -> Path:
    path.write_text(path.read_text().replace('"oeg"', '"oeg-multi"'))
    return path


@pytest.mark.slow
def test_one_worker_and_four_give_the_same_bytes(cli, demo_data, tmp_path):
    path, outputs = make_multi_turn(sweep(tmp_path / "x.toml", demo_data, RULES, TALKERS)), []
    for workers in (1, 4):
        out = tmp_path / f"by-{workers}"
        done = cli.run("run", path, "--output", out, "--set", f"cluster.workers={workers}")
        assert done.returncode == 0, done.stderr
        assert_stored_once(out, 4 * 2 * 70)
        outputs.append(((out / "results.json").read_bytes(), judged_turns(out)))

    assert outputs[0][0] == outputs[1][0] and outputs[0][1].equals(outputs[1][1])
    means = pl.read_parquet(out / "results.parquet").group_by("model").agg(pl.col("acc", "ps").mean()).sort("model")
    acc = dict(means.select("model", "acc").iter_rows())
    assert acc["oracle"] == 100 and acc["ask-properly"] == acc["refuse"] == 0 < acc["guess-aloud"] < 50
    assert dict(means.select("model", "ps").iter_rows())["guess-aloud"] == 0


# -- a judge with an engine of its own ------------------------------------------------------------------------------------
def marking_judge_table(folder: Path, backend: str) -> str:
    """A [judge] table of a checkpoint whose marks can be foretold, on an engine of its own."""
    flags = "enforce_eager = true, max_model_len = 256, block_size = 32" if backend == "vllm" else ""
    return (
        f'[judge]\nsampling = {{ temperature = 0, max_tokens = 64 }}\n[judge.model]\nname = "marks"\n'
        f'source = "{marking_judge(folder)}"\nbackend = "{backend}"\ngpus = 0\ndtype = "float32"\noptions = {{ {flags} }}\n'
    )


def judged_turns(out: Path) -> pl.DataFrame:
    return turns(out).select("key", "turn", "image", "reply", "read_as", "judged", "move").sort("key", "turn").collect()


def judges_ready(out: Path) -> int:
    logs = [path.read_text() for path in out.glob("logs/*/driver.log")]
    return sum(len(re.findall("worker [0-9]+ of judge:marks is ready", text)) for text in logs)


@pytest.mark.parametrize(
    ("backend", "numbers"), [("transformers", (2,)), pytest.param("vllm", (1, 2), marks=pytest.mark.long)]
)
@pytest.mark.slow
@pytest.mark.long
def test_judge_on_its_own_engine_gives_the_same_bytes(backend, numbers, cli, demo_data, tmp_path):
    pytest.importorskip(backend, reason=f"the extra '{backend}' is not installed")
    table = marking_judge_table(tmp_path / "judge", backend)
    path = make_multi_turn(sweep(tmp_path / "x.toml", demo_data, table, '["oracle", "refuse"]'))
    written = []
    for workers in numbers:
        out = tmp_path / f"by-{workers}"
        done = cli.run("run", path, "--output", out, "--set", f"cluster.workers={workers}")
        assert done.returncode == 0, done.stderr
        assert_stored_once(out, 2 * 2 * 70)
        written.append(((out / "results.json").read_bytes(), judged_turns(out)))

    assert written[0][0] == written[-1][0] and written[0][1].equals(written[-1][1])
    read = written[0][1]
    assert judges_ready(out) == 1 and read["judged"].null_count() == 0
    assert read["judged"].str.contains("1").any() and read["judged"].str.contains("^[01](,[01])*$").all()
    assert any(read["read_as"] != ""), "some answers must name something for this test to mean anything"


@pytest.mark.long
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_judge_killed_or_hung_is_replaced_with_same_bytes(fault, cli, demo_data, tmp_path):
    pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
    table = marking_judge_table(tmp_path / "judge", "transformers")
    path = make_multi_turn(sweep(tmp_path / "x.toml", demo_data, table, TALKERS))
    out, undisturbed = tmp_path / "killed", tmp_path / "whole"
    run = cli.start("run", path, "--output", out, "--set", "cluster.silence=30")
    hit = signal_judge(run, out, fault)
    _, err = run.communicate(timeout=300)
    assert run.returncode == 0, err
    assert hit and judges_ready(out) == 2, "the fault must fall into the run for this test to mean anything"

    assert cli.run("run", path, "--output", undisturbed).returncode == 0
    assert_stored_once(out, 4 * 2 * 70)
    assert (out / "results.json").read_bytes() == (undisturbed / "results.json").read_bytes()
    assert judged_turns(out).equals(judged_turns(undisturbed))


def signal_judge(run: subprocess.Popen[str], out: Path, fault: signal.Signals) -> bool:
    """Send the signal to the judge's first worker half a second after another worker, which asks it, is ready too."""
    deadline = time.monotonic() + 300
    while run.poll() is None and time.monotonic() < deadline:
        log = "".join(path.read_text() for path in out.glob("logs/*/driver.log"))
        pids = dict(re.findall(r"worker \d+ of (\S+) is ready \(process (\d+)", log))
        if {"judge:marks", "builtin"} <= pids.keys():
            time.sleep(0.5)
            os.kill(int(pids["judge:marks"]), fault)
            return True
        time.sleep(0.05)
    return False


def test_turns_judged_in_play_are_not_judged_again(cli, demo_data, tmp_path):
    spec = runs.sweep(
        demo_data, ["refuse"], ["zero-shot"], scenarios=["QD"], protocol="oeg-multi", judge={"model": "rule-judge"}
    )
    done = cli.run("judge", runs.play_sweep(tmp_path / "run", spec))

    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert "were read while they were played" in unwrap_lines(done.stderr)
