"""Every damaged, missing and foreign file of a run folder is named, by every command that reads it, with exit code 3."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from actors.engine.baselines import Baseline
from orchestrator.cli.main import app
from orchestrator.cli.printing import FAULTY
from orchestrator.execution.attempt import open_attempt
from orchestrator.execution.prepare import find_pending
from orchestrator.planning.build_plan import build_plan
from orchestrator.storage import checksums
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.storage.run_folder import RESOLVED, stored_sweep
from orchestrator.storage.status import DAMAGED, MISSING, NO_SUMS, find_faults, put_aside_unmended, read_status
from tests.orchestrator.report import runs
from tests.orchestrator.storage.test_flipped_bits import flip_bit

PART = "part-00000077.parquet"


@pytest.fixture(scope="module")
def finished(demo_data, tmp_path_factory):
    """A finished run in two protocols with verdicts, of two parts a table; tests copy it."""
    options = {"protocol": ["mcqa", "oeg"], "judge": {"model": "rule-judge"}, "scenarios": ["ROD", "QD"]}
    wanted = runs.sweep(demo_data, ["uniform", "ask-properly"], ["zero-shot"], **options)
    folder = tmp_path_factory.mktemp("manifest") / "run"
    runs.play_sweep(folder, wanted, only=10)
    runs.play_sweep(folder, wanted)
    runs.judge_answers(folder, wanted, wanted.judge, Baseline("rule-judge"), only=10)
    runs.judge_answers(folder, wanted, wanted.judge, Baseline("rule-judge"))
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def extend(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("spoil", [empty, extend, flip_bit, Path.unlink, replace_by_folder])
def test_every_fault_of_every_file_is_named(folder, finished, spoil):
    names = sorted(name for name in checksums.read_sums(folder) if (folder / name).is_file())
    assert find_faults(folder) == {} and len(names) >= 11
    for name in names:
        spoil(folder / name)
        assert name in find_faults(folder), (name, spoil.__name__)
        shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink(missing_ok=True)
        shutil.copy2(finished / name, folder / name)
        assert find_faults(folder) == {}


def test_a_forged_pair_of_parts_changes_no_table_and_is_moved_aside(folder):
    part, before = next((folder / "episodes").glob("part-*")), episodes(folder).collect()
    for table in ("episodes", "turns"):
        forged = pl.read_parquet(folder / table / part.name).with_columns(key=pl.col("key").str.replace("^.", "f"))
        forged.write_parquet(folder / table / PART)
    assert find_faults(folder).keys() == {f"episodes/{PART}", f"turns/{PART}"}
    assert episodes(folder).collect().equals(before) and turns(folder).collect().height
    EpisodeStore(folder).close()
    assert sorted(path.name for path in (folder / "damaged").glob("*")) == [f"episodes-{PART}", f"turns-{PART}"]
    assert find_faults(folder) == {}


@pytest.mark.parametrize("table", ["episodes", "turns", "verdicts"])
def test_a_removed_table_is_named_and_pending_again(folder, table):
    shutil.rmtree(folder / table)
    assert find_faults(folder)[f"{table}/"] == MISSING
    status = read_status(folder)
    assert any(fault.startswith(f"{table}/") for fault in status["faults"])
    assert (sum(cell["finished"] for cell in status["cells"]) == 0) == (table != "verdicts")
    EpisodeStore(folder).close()
    assert find_faults(folder) == {}


def test_files_that_no_attempt_rewrites_are_given_up(folder):
    (folder / "weights.json").write_bytes(b"{}")
    checksums.write(folder / "odd.json", b"1")
    checksums.write(folder / "gone.json", b"1")
    (folder / "odd.json").write_bytes(b"2")
    (folder / "gone.json").unlink()
    assert find_faults(folder).keys() == {"odd.json", "gone.json"}
    put_aside_unmended(folder)
    assert find_faults(folder) == {} and (folder / "damaged" / f"{folder.name}-odd.json").read_bytes() == b"2"


COMMANDS = (
    "status {}", "status {} --json", "report {} --brief", "compare {}", "export {} --to csv", "judge {} --agreement",
    "merge {} OTHER --output {}-merged",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_name_faults_alike_and_exit_with_3(folder, finished, command):
    if COMMANDS.index(command) % 2:
        shutil.copy(next((folder / "verdicts").glob("part-*")), folder / "verdicts" / PART)
    else:
        (folder / checksums.NAME).unlink()
    ((name, problem),) = find_faults(folder).items()
    assert problem == (DAMAGED if COMMANDS.index(command) % 2 else NO_SUMS)

    outcome = CliRunner().invoke(app, command.replace("{}", str(folder)).replace("OTHER", str(finished)).split())
    assert outcome.exit_code == FAULTY, outcome.output
    assert f"{folder}/{name} {problem}" in outcome.stderr


def damage_gold(folder: Path) -> str:
    shutil.copytree(folder / "verdicts", folder / "gold/verdicts")
    shutil.copy(folder / checksums.NAME, folder / "gold")
    flip_bit(part := next((folder / "gold/verdicts").glob("part-*")))
    return f"gold/verdicts/{part.name}"


def damage_commands(folder: Path) -> str:
    checksums.write(folder / "control.jsonl", b"{}\n")
    extend(folder / "control.jsonl")
    return "control.jsonl"


def forge_sweep(folder: Path) -> str:
    """Add a key, and the sum of the new bytes."""
    checksums.write(folder / RESOLVED, (folder / RESOLVED).read_bytes() + b"\n[unknown]\nkey = 1\n")
    return RESOLVED


@pytest.mark.parametrize("damage", [damage_gold, damage_commands, forge_sweep])
def test_other_damage_ends_in_one_sentence_and_3(folder, damage):
    name = damage(folder)
    for command in ("status", "report --brief", "compare"):
        outcome = CliRunner().invoke(app, [*command.split(), str(folder)])
        assert outcome.exit_code == FAULTY, outcome.output
        assert outcome.stderr.count(f"{folder}/{name}") == 1 and outcome.stderr.count("\n") <= 2, outcome.stderr


def test_damaged_verdicts_on_gold_answers_are_read_again_by_a_finished_run(folder):
    damage_gold(folder)
    spec = stored_sweep(folder)
    with open_attempt(spec, build_plan(spec), folder, print) as attempt:
        find_pending(attempt, (), ())
        assert not attempt.playable and len(attempt.judge_queue.first_answers) > 200
