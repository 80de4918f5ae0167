"""status, report, track, plan, audit, compare and merge beside a sweep that writes: no traceback, and nothing damaged.

The writer is a process of its own that does what drivers do to a folder, much faster: small parts, merges, retries.
"""

import asyncio
import multiprocessing
import shutil
import time
from itertools import cycle
from pathlib import Path

import polars as pl
import pytest

from actors.engine.baselines import Baseline
from actors.playing.episode_runner import EpisodeRunner
from orchestrator.planning.build_plan import build_plan, planned_cells, stored_episodes
from orchestrator.report.scores.metrics import score, write_results
from orchestrator.storage import run_folder
from orchestrator.storage.episode_store import EpisodeStore, episodes
from orchestrator.storage.status import read_status, write_status
from orchestrator.storage.verdict_store import VerdictStore, verdicts
from sweeps.load import load
from tests.oracle import oracle_path, oracle_python
from tests.orchestrator.cli.test_cli import call
from tests.orchestrator.report import runs
from tests.orchestrator.storage.test_episode_store import checked_ids

LEAST_S = 3.0
"""For which the commands are typed over and over."""
SWEEP = """# A test.
name = "beside"
data = "{data}"
models = ["uniform", "ask-properly"]
conditions = ["zero-shot", "hint"]
protocols = ["mcqa", "oeg"]
judge = {{ model = "rule-judge" }}
selection = {{ limit = 3 }}
"""


def attempt(folder: Path, file: Path) -> None:
    """Store a part every few episodes, then what the end of an attempt stores."""
    sweep = load(file)
    plan = build_plan(sweep)
    with run_folder.claim(folder, sweep, left_out=plan.left_out):
        store = EpisodeStore(folder, rows=5)
        finished = set(store.finished_episodes()["key"])
        pending = [ordinal for queue in plan.pending(finished).values() for ordinal in queue][:40]
        run_folder.write_plan(folder, planned_cells(plan), plan.all_keys())
        engines = {model.name: Baseline(model.name) for model in sweep.models}
        asyncio.run(runs._play(EpisodeRunner(plan, engines, in_flight=4), pending, store))
        store.compact()
        runs.judge_answers(folder, sweep, sweep.judge, Baseline("rule-judge"), only=20)
        VerdictStore(folder).compact()
        write_results(folder, score(stored_episodes(plan, folder), pl.DataFrame(planned_cells(plan)), verdicts(folder)))
        write_status(folder, [], finished=False)
        if not pending:
            store.discard(episodes(folder).select("key").collect()["key"].to_list()[::2])
        store.close()


def write(folder: Path, file: Path, stop) -> None:
    while not stop.is_set():
        attempt(folder, file)


@pytest.fixture
def writer(tmp_path, demo_data):
    """Yield a run folder in which a process writes continuously."""
    folder, file, context = tmp_path / "run", tmp_path / "s.toml", multiprocessing.get_context("spawn")
    file.write_text(SWEEP.format(data=demo_data))
    attempt(folder, file)
    stop = context.Event()
    process = context.Process(target=write, args=(folder, file, stop), daemon=True)
    process.start()
    yield folder, file, process
    stop.set()
    process.join(60)
    assert process.exitcode == 0
    assert not read_status(folder)["damaged"] and checked_ids(folder)


def assert_command_works(command, process) -> None:
    assert process.is_alive()
    done = call(*command)
    assert done.exit_code == 0 and "Traceback" not in done.output, (command, done.output)


def test_commands_that_read_beside_a_writer(writer, tmp_path):
    folder, file, process = writer
    commands = [
        ("status", folder), ("report", folder, "--brief"), ("plan", file, "--output", folder),
        ("status", folder, "--json"), ("compare", folder), ("judge", folder, "--agreement"),
    ]  # fmt: skip
    if oracle_python():
        commands.append(("audit", folder, "--package", oracle_path(tmp_path), "--python", oracle_python()))
    deadline = time.monotonic() + LEAST_S
    for count, command in enumerate(cycle(commands)):
        if count >= 3 * len(commands) and time.monotonic() > deadline:
            break
        assert_command_works(command, process)


def test_merge_beside_writer_is_refused_or_complete(writer, tmp_path):
    """Between attempts the folder is unlocked for a moment; a merge then has every turn of its episodes."""
    folder, file, process = writer
    still = tmp_path / "still"
    attempt(still, file)
    refused, deadline, into = 0, time.monotonic() + LEAST_S, tmp_path / "merged"
    while not refused or time.monotonic() < deadline:
        assert process.is_alive()
        done = call("merge", folder, still, "--prefer", str(still), "--output", into)
        assert "Traceback" not in done.output
        if done.exit_code == 0:
            assert checked_ids(into)
            shutil.rmtree(into)
        else:
            assert done.exit_code == 2 and "wait for its driver" in done.output and not into.exists()
            refused += 1
