"""Open-ended answers are read while others are written; a verdict is never lost, never doubled, and never a zero by accident."""

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
from tests.actors.service import HANG, Answer, failed, said, service
from tests.orchestrator.execution.test_attempt import exactly_once
from tests.orchestrator.execution.test_failures import at_work

pytestmark = pytest.mark.slow

RULES = '[judge]\nmodel = "rule-judge"\n'
ASKS, GUESSES = '["ask-properly"]', '["ask-properly", "guess-aloud", "refuse"]'
BITS = ["category", "suggestion", "aggregate"]


def sweep(path: Path, data: Path, judge: str = "", models: str = GUESSES, more: str = "") -> Path:
    path.write_text(
        f'# A test.\ndata = "{data}"\nmodels = {models}\nconditions = ["zero-shot", "hint"]\nprotocol = "oeg"\n'
        f'{more}tracking = {{ uri = "none" }}\n{judge}'
    )
    return path


def many(path: Path, data: Path, models: int, judge: str = RULES) -> Path:
    """So many copies of a policy that guesses, so that a fault falls into the run."""
    entry = '[[model]]\nname = "g{}"\nsource = "builtin:guess-aloud"\nbackend = "builtin"\ngpus = 0\n'
    named = json.dumps([f"g{n}" for n in range(models)])
    return sweep(path, data, judge + "".join(entry.format(n) for n in range(models)), named)


def flat(printed: str) -> str:
    """What was printed, without the line breaks of a narrow table."""
    return " ".join(printed.split())


def read_once(folder: Path, answers: int, judges: int = 1) -> pl.DataFrame:
    """The verdicts, after a look that every answer has one of each judge."""
    found = verdicts(folder).collect()
    written = pl.concat([pl.read_parquet(path) for path in sorted((folder / "verdicts").glob("part-*.parquet"))])
    assert written.height == found.height == answers * judges
    assert set(found["key"]) == set(episodes(folder).filter(ending="answered").collect()["key"])
    return found


def by(url: str, **endpoint: float) -> str:
    """A [judge] table that asks this address, without patience."""
    more = "".join(f", {name} = {value}" for name, value in endpoint.items())
    return (
        f'[judge]\nattempts = 2\n[judge.model]\nname = "served"\nsource = "m"\n'
        f'endpoint = {{ base_url = "{url}", key_env = ""{more} }}\n'
    )


# -- the way it should go ----------------------------------------------------------------------------------------------
def test_a_run_reads_what_it_writes_and_the_tables_name_the_judge(cli, demo_data, tmp_path):
    out = tmp_path / "run"
    done = cli.run("run", sweep(tmp_path / "x.toml", demo_data, RULES), "--output", out)

    assert done.returncode == 0, done.stderr
    exactly_once(out, 3 * 2 * 70)
    read_once(out, 3 * 2 * 70)
    rows = pl.read_parquet(out / "results.parquet")
    assert set(rows["judged"]) == {10} and set(rows["unjudged"]) == {0} and rows["acc"].null_count() == rows.height
    shares = rows.group_by("model").agg(pl.col(BITS).mean()).sort("model")
    assert shares["suggestion"].to_list()[0] > 80 and shares["suggestion"].to_list()[1:] == [0, 0]
    assert shares["aggregate"].to_list()[2] == 0
    assert "rule-judge/ours-" in flat(done.stdout) and "0 of 210 answers without a verdict" in flat(done.stdout)
    before = (out / "results.json").read_bytes()
    assert cli.run("run", sweep(tmp_path / "x.toml", demo_data, RULES), "--output", out).returncode == 0
    assert (out / "results.json").read_bytes() == before


def test_reading_later_gives_what_reading_at_once_gives_and_judges_live_side_by_side(cli, demo_data, tmp_path):
    now, later = tmp_path / "now", tmp_path / "later"
    assert cli.run("run", sweep(tmp_path / "x.toml", demo_data, RULES), "--output", now).returncode == 0
    assert cli.run("run", sweep(tmp_path / "y.toml", demo_data, ""), "--output", later).returncode == 0
    assert not (later / "verdicts").exists()
    assert cli.run("judge", later, "--by", "rule-judge").returncode == 0

    columns = ["key", *BITS, "text"]
    assert read_once(now, 420).select(columns).sort("key").equals(read_once(later, 420).select(columns).sort("key"))
    assert (now / "results.json").read_bytes() == (later / "results.json").read_bytes()
    again = cli.run("judge", later, "--by", "rule-judge", "--set", "attempts=1")
    assert again.returncode == 0, again.stderr
    read_once(later, 420, judges=2)
    pairs = json.loads(cli.run("judge", later, "--agreement", "--json").stdout)
    assert [(row["bit"], row["answers"], row["equal"], row["kappa"]) for row in pairs] == [
        (bit, 420, 100.0, 1.0) for bit in BITS
    ]


def test_both_protocols_share_a_sweep_each_with_its_own_samples(cli, demo_data, tmp_path):
    more = "[open_ended.selection]\nlimit = 3\n[selection]\nlimit = 5\n"
    path = sweep(tmp_path / "x.toml", demo_data, RULES + more, ASKS)
    path.write_text(path.read_text().replace('"oeg"', '["mcqa", "oeg"]'))
    done = cli.run("run", path, "--output", tmp_path / "run")

    assert done.returncode == 0, done.stderr
    rows = pl.read_parquet(tmp_path / "run/results.parquet")
    assert set(rows.filter(protocol="oeg")["judged"]) == {3}
    assert set(rows.filter(protocol="mcqa")["scored"]) == {5}
    assert rows.filter(protocol="mcqa")["acc"].null_count() == 0


def killed_with_a_part(run: subprocess.Popen[str], table: Path) -> None:
    """Kill a driver as soon as a part of the table is stored."""
    deadline = time.monotonic() + 90
    while not list(table.glob("part-*.parquet")) and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()


# -- faults --------------------------------------------------------------------------------------------------------------
@pytest.mark.long
def test_a_killed_driver_and_the_same_command_give_byte_identical_results(cli, demo_data, tmp_path):
    path, out, whole = many(tmp_path / "x.toml", demo_data, 150), tmp_path / "killed", tmp_path / "whole"
    killed_with_a_part(cli.start("run", path, "--output", out), out / "verdicts")
    kept = verdicts(out).collect()
    assert 0 < kept.height < 150 * 140, "the kill must fall into the middle for this test to mean anything"
    assert set(kept["key"]) <= set(episodes(out).collect()["key"]), "no verdict without its episode"

    assert cli.run("run", path, "--output", out).returncode == 0
    assert cli.run("run", path, "--output", whole).returncode == 0
    read_once(out, 150 * 140)
    assert (out / "results.json").read_bytes() == (whole / "results.json").read_bytes()


@pytest.mark.long
def test_a_killed_judge_is_replaced_and_every_answer_has_one_verdict(cli, demo_data, tmp_path):
    out = tmp_path / "run"
    process = cli.start("run", many(tmp_path / "x.toml", demo_data, 200), "--output", out)
    kills, deadline = 0, time.monotonic() + 60
    while process.poll() is None and kills < 4 and time.monotonic() < deadline:
        time.sleep(0.7)
        for pid in at_work(out):  # writers and judge alike
            os.kill(pid, signal.SIGKILL)
            kills += 1
    _, err = process.communicate(timeout=240)

    assert kills, "the kill must fall into the run for this test to mean anything"
    assert process.returncode == 0, err
    exactly_once(out, 200 * 140)
    read_once(out, 200 * 140)


@pytest.mark.long
def test_a_judge_that_cannot_load_leaves_the_answers_pending_and_another_command_reads_them(cli, demo_data, tmp_path):
    broken = '[judge]\n[judge.model]\nname = "broken"\nsource = "no/such/folder"\nbackend = "transformers"\ngpus = 0\n'
    out = tmp_path / "run"
    done = cli.run("run", sweep(tmp_path / "x.toml", demo_data, broken, ASKS), "--output", out)

    assert done.returncode == 1
    assert "judge:broken: " in done.stderr and "Traceback" not in done.stderr
    exactly_once(out, 140)
    rows = pl.read_parquet(out / "results.parquet")
    assert rows["aggregate"].null_count() == rows.height, "an answer that nobody read is no zero"
    assert cli.run("judge", out, "--by", "rule-judge").returncode == 0
    read_once(out, 140)


@pytest.mark.long
def test_nonsense_is_unjudged_never_a_zero_and_can_be_asked_again(cli, demo_data, tmp_path):
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    healthy = threading.Event()

    def answer(number: int, body: dict) -> Answer:
        return said("<think>1,1</think> so: 0,1" if healthy.is_set() else "I cannot decide. 1,1,1,1,1,1,1")

    out = tmp_path / "run"
    with service(answer) as judge:
        path = sweep(tmp_path / "x.toml", demo_data, by(judge.url), ASKS, 'scenarios = ["ROD", "MVP-N"]\n')
        done = cli.run("run", path, "--output", out)
        assert done.returncode == 0, done.stderr
        rows = pl.read_parquet(out / "results.parquet")
        assert set(rows["unjudged"]) == {10} and rows["aggregate"].null_count() == rows.height
        assert set(read_once(out, 40)["attempts"]) == {2} and len(judge.bodies) == 80
        assert "20 of 20 answers without a verdict" in flat(cli.run("report", out, "--brief").stdout)
        strict = flat(cli.run("report", out, "--brief", "--strict-paper").stdout)
        assert "0 of 20 answers without a verdict" in strict and "0 /0 /0" in strict
        healthy.set()
        assert cli.run("judge", out).returncode == 0 and len(judge.bodies) == 80, "what was tried is not tried again"
        assert cli.run("judge", out, "--again").returncode == 0
    read = verdicts(out).collect()
    assert read.height == 40 and read["aggregate"].null_count() == 0 and set(read["text"].str.slice(-3)) == {"0,1"}


@pytest.mark.long
def test_a_judge_that_hangs_and_then_refuses_ends_as_unjudged_or_pending_and_the_run_says_so(cli, demo_data, tmp_path):
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")

    def answer(number: int, body: dict) -> Answer:
        return HANG if number % 7 == 3 else failed(500) if number % 7 == 5 else said("0,0" if number % 2 else "1,0")

    out = tmp_path / "run"
    with service(answer) as judge:
        path = sweep(
            tmp_path / "x.toml", demo_data, by(judge.url, deadline=0.5, patience=30.0), ASKS, 'scenarios = ["ROD"]\n'
        )
        done = cli.run("run", path, "--output", out)
    assert done.returncode == 0, done.stderr
    assert read_once(out, 20)["aggregate"].null_count() == 0, "a hanging or failing request is asked again"
