"""Answers are judged while others are written; a verdict is never lost, never doubled, and never a zero by accident."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import polars as pl
import pytest

from orchestrator.storage.episode_store import episodes
from orchestrator.storage.verdict_store import verdicts
from tests.actors.service import Answer, completion, service
from tests.orchestrator.execution.test_attempt import assert_stored_once
from tests.orchestrator.execution.test_failures import ready_pids

pytestmark = pytest.mark.slow

RULES = '[judge]\nmodel = "rule-judge"\n'
ASKS, GUESSES = '["ask-properly"]', '["ask-properly", "guess-aloud", "refuse"]'
BITS = ["category", "suggestion", "aggregate"]


def sweep(path: Path, data: Path, judge: str = "", models: str = GUESSES, extra: str = "") -> Path:
    path.write_text(
        f'# A test.\ndata = "{data}"\nmodels = {models}\nconditions = ["zero-shot", "hint"]\nprotocol = "oeg"\n'
        f'{extra}tracking = {{ uri = "none" }}\n{judge}'
    )
    return path


def many_guessers(path: Path, data: Path, models: int, judge: str = RULES) -> Path:
    """So many copies of a policy that guesses, so that a fault falls into the run."""
    entry = '[[model]]\nname = "g{}"\nsource = "builtin:guess-aloud"\nbackend = "builtin"\ngpus = 0\n'
    names = json.dumps([f"g{n}" for n in range(models)])
    return sweep(path, data, judge + "".join(entry.format(n) for n in range(models)), names)


def unwrap_lines(printed: str) -> str:
    """What was printed, without the line breaks of a narrow table."""
    return " ".join(printed.split())


def verdicts_read_once(folder: Path, answers: int, judges: int = 1) -> pl.DataFrame:
    """Return the verdicts, after checking that every answer has one per judge."""
    rows = verdicts(folder).collect()
    parts = pl.concat([pl.read_parquet(path) for path in sorted((folder / "verdicts").glob("part-*.parquet"))])
    assert parts.height == rows.height == answers * judges
    assert set(rows["key"]) == set(episodes(folder).filter(ending="answered").collect()["key"])
    return rows


def judge_table(url: str, **endpoint: float) -> str:
    """Return a [judge] table for this address, without patience."""
    options = "".join(f", {name} = {value}" for name, value in endpoint.items())
    return (
        f'[judge]\nattempts = 2\ngold_check = false\n[judge.model]\nname = "served"\nsource = "m"\n'
        f'endpoint = {{ base_url = "{url}", key_env = ""{options} }}\n'
    )


# -- the way it should go ----------------------------------------------------------------------------------------------
def test_judging_later_equals_judging_at_once(cli, demo_data, tmp_path):
    now, later = tmp_path / "now", tmp_path / "later"
    done = cli.call("run", sweep(tmp_path / "x.toml", demo_data, RULES), "--output", now)
    assert done.returncode == 0 and "rule-judge/ours-" in unwrap_lines(done.stdout), done.stderr
    assert "0 of 210 answers without a verdict" in unwrap_lines(done.stdout)
    rows = pl.read_parquet(now / "results.parquet")
    assert set(rows["judged"]) == {10} and set(rows["unjudged"]) == {0} and rows["acc"].null_count() == rows.height
    shares = rows.group_by("model").agg(pl.col(BITS).mean()).sort("model")
    assert shares["suggestion"].to_list()[0] > 80 and shares["suggestion"].to_list()[1:] == [0, 0]
    assert shares["aggregate"].to_list()[2] == 0
    assert cli.call("run", sweep(tmp_path / "y.toml", demo_data, ""), "--output", later).returncode == 0
    assert not (later / "verdicts").exists()
    assert cli.call("judge", later, "--judge", "rule-judge").returncode == 0

    columns = ["key", *BITS, "text"]
    first, second = (verdicts_read_once(folder, 420).select(columns).sort("key") for folder in (now, later))
    assert first.equals(second)
    assert (now / "results.json").read_bytes() == (later / "results.json").read_bytes()
    again = cli.call("judge", later, "--judge", "rule-judge", "--set", "attempts=1")
    assert again.returncode == 0, again.stderr
    verdicts_read_once(later, 420, judges=2)
    pairs = json.loads(cli.call("judge", later, "--agreement", "--json").stdout)
    agreement = [(row["bit"], row["answers"], row["equal"], row["kappa"]) for row in pairs]
    assert agreement == [(bit, 420, 100.0, 1.0) for bit in BITS]


def kill_after_first_part(run: subprocess.Popen[str], table: Path) -> None:
    """Kill a driver as soon as a part of the table is stored."""
    deadline = time.monotonic() + 90
    while not list(table.glob("part-*.parquet")) and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()


# -- faults --------------------------------------------------------------------------------------------------------------
@pytest.mark.long
def test_killed_driver_and_rerun_give_identical_results(cli, demo_data, tmp_path):
    path, out, undisturbed = many_guessers(tmp_path / "x.toml", demo_data, 150), tmp_path / "killed", tmp_path / "whole"
    kill_after_first_part(cli.start("run", path, "--output", out), out / "verdicts")
    stored = verdicts(out).collect()
    assert 0 < stored.height < 150 * 140, "the kill must fall into the middle for this test to mean anything"
    assert set(stored["key"]) <= set(episodes(out).collect()["key"]), "no verdict without its episode"

    assert cli.run("run", path, "--output", out).returncode == 0
    assert cli.run("run", path, "--output", undisturbed).returncode == 0
    verdicts_read_once(out, 150 * 140)
    assert (out / "results.json").read_bytes() == (undisturbed / "results.json").read_bytes()


@pytest.mark.long
def test_a_killed_judge_is_replaced_and_every_answer_has_one_verdict(cli, demo_data, tmp_path):
    out = tmp_path / "run"
    process = cli.start("run", many_guessers(tmp_path / "x.toml", demo_data, 200), "--output", out)
    kills, deadline = 0, time.monotonic() + 60
    while process.poll() is None and kills < 4 and time.monotonic() < deadline:
        time.sleep(0.7)
        for pid in ready_pids(out):  # writers and judge alike
            os.kill(pid, signal.SIGKILL)
            kills += 1
    _, err = process.communicate(timeout=240)

    assert kills, "the kill must fall into the run for this test to mean anything"
    assert process.returncode == 0, err
    assert_stored_once(out, 200 * 140)
    verdicts_read_once(out, 200 * 140)


def test_a_judge_that_reads_nothing_is_stopped_after_twenty_answers_and_mended_reads_all(cli, demo_data, tmp_path):
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    healthy = threading.Event()

    def answer(number: int, body: dict) -> Answer:
        return completion("<think>1,1</think> so: 0,1" if healthy.is_set() else "I cannot decide. 1,1,1,1,1,1,1")

    out = tmp_path / "run"
    with service(answer) as judge:
        path = sweep(tmp_path / "x.toml", demo_data, judge_table(judge.url), GUESSES, 'scenarios = ["ROD", "MVP-N"]\n')
        done = cli.call("run", path, "--output", out)
        assert done.returncode == 1 and len(judge.bodies) == 2 * 20, done.stderr
        reason = "judge:served: served gave no verdict on its first 20 answers, so it is stopped"
        assert (
            reason in unwrap_lines(done.stderr) and "Traceback" not in done.stderr and "ModelStopped" not in done.stderr
        )
        rows = pl.read_parquet(out / "results.parquet")
        assert rows["unjudged"].sum() == 20 and rows["judge_calls"].sum() == 40
        assert rows["aggregate"].null_count() == rows.height, "nonsense is no zero"
        assert "0 verdicts of 10 answers" in unwrap_lines(done.stdout) and "10/10" not in done.stdout
        status = unwrap_lines(cli.call("status", out).stdout)
        assert "0 verdicts of 120 answers (20 without one, 40 calls; 100 not read yet)" in status
        strict = unwrap_lines(cli.call("report", out, "--brief", "--strict-paper").stdout)
        assert "0/0/0" in strict.replace(" ", "")

        healthy.set()
        assert cli.call("run", path, "--output", out).returncode == 0, "the same command reads all of them"
        assert len(judge.bodies) == 40 + 120
    assert verdicts(out).collect()["aggregate"].null_count() == 0
