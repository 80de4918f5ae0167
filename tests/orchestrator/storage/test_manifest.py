"""Every damaged, missing and unlisted file of a run folder is named, by every command that reads it, with exit code 3."""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from actors.engine.baselines import Baseline
from orchestrator.cli.main import app
from orchestrator.cli.printing import FAULTY
from orchestrator.storage import checksums, manifest
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.storage.manifest import DAMAGED, MISSING, NO_SUMS, UNLISTED, find_faults
from orchestrator.storage.verdict_store import VerdictStore
from tests.orchestrator.report import runs

OLD = Path(__file__).parent / "old_folders"
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


def listed(folder: Path) -> list[str]:
    return sorted(name for name in checksums.read_sums(folder) if (folder / name).is_file())


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def extend(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def flip_bit(path: Path, number: int = 99) -> None:
    content = bytearray(path.read_bytes())
    content[number // 8 % len(content)] ^= 1 << number % 8
    path.write_bytes(content)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def names_of(folder: Path) -> set[str]:
    return {fault.name for fault in find_faults(folder)}


def test_whole_folder_has_no_fault(finished, folder):
    assert find_faults(folder) == []
    tables = {name.partition("/")[0] for name in listed(folder) if "/" in name}
    assert tables == {"episodes", "turns", "verdicts"} and checksums.read_sums(folder)[checksums.COMPLETE]


@pytest.mark.parametrize("spoil", [empty, cut, extend, flip_bit, Path.unlink, replace_by_folder])
def test_every_fault_of_every_file_is_named(folder, finished, spoil):
    assert len(listed(folder)) >= 11
    for name in listed(folder):
        spoil(folder / name)
        assert name in names_of(folder), (name, spoil.__name__)
        shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink(missing_ok=True)
        shutil.copy2(finished / name, folder / name)
        assert find_faults(folder) == []


@pytest.mark.parametrize("table", ["episodes", "turns", "verdicts"])
def test_forged_part_without_a_sum_and_a_removed_table_are_named(folder, table):
    part = next((folder / table).glob("part-*"))
    shutil.copy(part, folder / table / PART)
    assert f"{table}/{PART}" in names_of(folder)
    shutil.rmtree(folder / table)
    assert f"{table}/" in names_of(folder)


def test_forged_pair_of_parts_is_named_as_unlisted(folder):
    for table in ("episodes", "turns"):
        shutil.copy(next((folder / table).glob("part-*")), folder / table / PART)
    problems = {fault.name: fault.problem for fault in find_faults(folder)}
    assert problems == {f"episodes/{PART}": UNLISTED, f"turns/{PART}": UNLISTED}


def test_unlisted_pair_does_not_count_and_is_moved_aside(folder):
    """Parts that somebody added change no table, and the episodes that they name are still played."""
    part, before = next((folder / "episodes").glob("part-*")), episodes(folder).collect()
    for table in ("episodes", "turns"):
        forged = pl.read_parquet(folder / table / part.name).with_columns(key=pl.col("key").str.replace("^.", "f"))
        forged.write_parquet(folder / table / PART)
    assert episodes(folder).collect().equals(before) and turns(folder).collect().height
    with closing(EpisodeStore(folder)) as store:
        assert store.finished_episodes().height == before.height
    assert sorted(path.name for path in (folder / "damaged").glob("*")) == [f"episodes-{PART}", f"turns-{PART}"]
    assert find_faults(folder) == []


def test_missing_list_is_named(folder):
    (folder / checksums.NAME).unlink()
    assert [tuple(fault) for fault in find_faults(folder)] == [(checksums.NAME, NO_SUMS)]


def test_parts_that_the_store_merges_or_sets_aside_are_not_missed(folder):
    cut(next((folder / "verdicts").glob("part-*")))
    (next((folder / "episodes").glob("part-*"))).unlink()
    assert {fault.problem for fault in find_faults(folder)} >= {DAMAGED}
    VerdictStore(folder).compact()
    store = EpisodeStore(folder)
    store.compact()
    store.close()
    assert find_faults(folder) == []


@pytest.mark.parametrize("version", ["0.1", "0.2"])
def test_folders_of_earlier_versions_read_without_faults(tmp_path, version):
    old = Path(shutil.copytree(OLD / version, tmp_path / "old"))
    assert find_faults(old) == []
    (old / "results.json").unlink()
    assert find_faults(old) == [manifest.Fault("results.json", MISSING)]


@pytest.mark.parametrize("command", ["status {}", "status {} --json", "report {} --brief", "compare {}", "compare {} --power",
                                     "export {} --to csv", "merge {} OTHER --into {}-merged",
                                     "track {} --tracking-uri sqlite"])  # fmt: skip
def test_commands_name_faults_alike_and_exit_with_3(folder, finished, command):
    cut(next((folder / "verdicts").glob("part-*")))
    shutil.copy(next((folder / "verdicts").glob("part-*")), folder / "verdicts" / PART)
    expected = [f"{folder}/{fault}" for fault in find_faults(folder)]
    assert len(expected) == 2

    outcome = CliRunner().invoke(app, command.replace("{}", str(folder)).replace("OTHER", str(finished)).split())
    assert outcome.exit_code == FAULTY, outcome.output
    assert all(line in outcome.stderr for line in expected)


@pytest.mark.long
def test_a_thousand_flipped_bits_are_each_named(folder, finished):
    draw, names = random.Random(33), listed(folder)
    for _ in range(1_000):
        name = draw.choice(names)
        flip_bit(folder / name, draw.randrange(8 * (folder / name).stat().st_size))
        assert name in names_of(folder), name
        shutil.copy2(finished / name, folder / name)
