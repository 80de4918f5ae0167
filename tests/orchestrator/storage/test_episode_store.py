"""Every finished episode is stored exactly once, or is still pending."""

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import polars as pl
import pytest

from orchestrator.storage import episode_store
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.storage.part_files import list_parts
from orchestrator.storage.status import find_faults
from tests.orchestrator.blocks import batch_of, block, episode

ROOT = Path(__file__).parents[3]


def ids(folder):
    return episodes(folder).collect()["sample_id"].to_list()


def write_store(folder, *parts):
    """Write and close a store with one part per tuple of sample ids, whose list of sums is complete."""
    with_store = EpisodeStore(folder)
    for numbers in parts:
        with_store.append(batch_of(*numbers))
        with_store.flush()
    with_store.close()
    return folder


def files(folder, table):
    return sorted(path.name for path in (folder / table).iterdir())


def checked_ids(folder):
    """Check that each episode is stored once, with its own turns in order; return the sample ids."""
    stored, played = episodes(folder).collect(), turns(folder).collect()
    assert stored["key"].is_unique().all()
    grouped = {key: part["turn"].to_list() for (key,), part in played.group_by("key", maintain_order=True)}
    assert grouped == {key: list(range(count)) for key, count in stored.select("key", "turns").iter_rows() if count}
    return set(stored["sample_id"])


@pytest.mark.parametrize("name", ["run[1]", "a=b", "x*", "späte Läufe"])
def test_a_folder_may_have_any_name(tmp_path, name):
    write_store(tmp_path / name, (1, 2), (3,))

    EpisodeStore(tmp_path / name).close()

    assert ids(tmp_path / name) == [1, 2, 3]
    assert turns(tmp_path / name).collect().height == 6


def test_rows_and_seconds_decide_when_a_part_is_written(tmp_path):
    opened = EpisodeStore(tmp_path, rows=4, seconds=1e9)
    opened.append(batch_of(1, 2, 3))
    assert ids(tmp_path) == []
    opened.append(batch_of(4))
    assert ids(tmp_path) == [1, 2, 3, 4]
    opened.seconds = 0.05
    opened.append(batch_of(5))
    time.sleep(0.06)
    opened.flush_old()
    assert ids(tmp_path) == [1, 2, 3, 4, 5] and len(files(tmp_path, "episodes")) == 2
    opened.close()


def test_values_that_fit_no_column_are_null_and_cost_no_row(tmp_path, caplog):
    batch = batch_of(1, 2)
    batch.episodes["prompt_tokens"] = [10**30, 7]
    batch.turns["reply"][:2] = [b"bytes", "half a pair \ud800"]
    batch.turns["frame"][0] = 2**40
    opened = EpisodeStore(tmp_path)
    opened.append(batch)
    opened.close()
    assert episodes(tmp_path).collect()["prompt_tokens"].to_list() == [None, 7]
    assert checked_ids(tmp_path) == {1, 2} and "does not fit its column" in caplog.text
    assert turns(tmp_path).collect()["reply"][:2].to_list() == [None, "half a pair ?"]


def test_discarded_episodes_are_pending_again_with_their_turns(tmp_path):
    write_store(tmp_path, (1, 2), (3,), (4, 5))
    opened = EpisodeStore(tmp_path)
    opened.append(batch_of(6, 7))
    untouched = (tmp_path / "episodes/part-00000003.parquet").stat().st_ino

    opened.discard({episode(number)["key"] for number in (1, 3, 6)})

    assert (tmp_path / "episodes/part-00000003.parquet").stat().st_ino == untouched
    assert checked_ids(tmp_path) == {2, 4, 5, 7}
    assert opened.finished_episodes()["key"].to_list() == [episode(number)["key"] for number in (2, 4, 5, 7)]
    opened.append(block([episode(3, turns=4)]))
    opened.compact()
    opened.close()
    assert checked_ids(tmp_path) == {2, 3, 4, 5, 7} and list_parts(tmp_path).bad == []


def test_key_counts_once_with_its_first_turns(tmp_path):
    opened = EpisodeStore(tmp_path)
    opened.append(block([episode(1, turns=1), episode(2, turns=3)]))
    opened.append(block([episode(1, turns=4), episode(3, turns=2)]))
    opened.append(block([episode(2, turns=5)]))
    opened.flush()

    assert checked_ids(tmp_path) == {1, 2, 3}
    assert episodes(tmp_path).sort("key").collect()["turns"].to_list() == [1, 3, 2]
    opened.compact()
    assert checked_ids(tmp_path) == {1, 2, 3}
    assert episodes(tmp_path).sort("key").collect()["turns"].to_list() == [1, 3, 2]
    opened.close()


def test_a_failed_write_loses_nothing(tmp_path):
    opened = EpisodeStore(tmp_path)
    opened.append(batch_of(1, 2))
    shutil.rmtree(tmp_path / "episodes")
    (tmp_path / "episodes").write_text("")  # as if the disk had gone away
    with pytest.raises(OSError):
        opened.flush()

    (tmp_path / "episodes").unlink()
    opened.close()
    assert checked_ids(tmp_path) == {1, 2}


def tear(path):
    path.write_bytes(path.read_bytes()[:-20])


def blank(path):
    path.write_bytes(b"")


def rot(path):
    """Damage in the middle, behind an intact footer."""
    content = bytearray(path.read_bytes())
    content[4:200] = Random(1).randbytes(196)
    path.write_bytes(content)


def become_folder(path):
    path.unlink()
    path.mkdir()


SPOILS = [tear, blank, rot, become_folder, Path.unlink]


@pytest.mark.parametrize("table", ["episodes", "turns"])
@pytest.mark.parametrize("spoil", SPOILS)
def test_a_part_that_cannot_be_used_is_skipped_then_moved_aside_and_its_episodes_are_pending(
    tmp_path, spoil, table, caplog
):
    write_store(tmp_path, (1, 2), (3,), (4,))
    name = files(tmp_path, table)[1]

    spoil(tmp_path / table / name)

    with caplog.at_level(logging.WARNING):
        assert checked_ids(tmp_path) == {1, 2, 4}
    if (spoil, table) != (Path.unlink, "episodes"):  # turns without an episode are left by a crash and are no damage
        assert name in caplog.text
        assert {part.name for part in list_parts(tmp_path).bad} == {name}
    assert f"{table}/{name}" in find_faults(tmp_path)
    opened = EpisodeStore(tmp_path)
    assert opened.finished_episodes()["key"].to_list() == [episode(number)["key"] for number in (1, 2, 4)]
    opened.append(batch_of(3))
    opened.compact()
    opened.close()
    assert checked_ids(tmp_path) == {1, 2, 3, 4}
    assert len(files(tmp_path, "damaged")) == (1 if spoil is Path.unlink else 2)
    assert find_faults(tmp_path) == {}


def test_parts_are_merged_while_the_run_goes_on(tmp_path, monkeypatch):
    """A run of days must neither list nor open ten thousand files."""
    monkeypatch.setattr(episode_store, "MOST_SMALL", 8)
    monkeypatch.setattr(episode_store, "LARGE", 20)
    store, most = EpisodeStore(tmp_path), 0
    for number in range(60):
        store.append(batch_of(number))
        store.flush()
        most = max(most, len(files(tmp_path, "episodes")))
        assert len(files(tmp_path, "turns")) == len(files(tmp_path, "episodes"))
    assert most <= 8 + 60 / 16 and checked_ids(tmp_path) == set(range(60))
    assert ids(tmp_path) == list(range(60)), "in the order of play"
    store.discard({episode(5)["key"], episode(59)["key"]})
    store.append(batch_of(59))
    store.close()
    assert checked_ids(tmp_path) == set(range(60)) - {5}
    assert checked_ids(write_store(tmp_path, (5,))) == set(range(60))


class Crash(BaseException):
    """Simulates the end of the process."""


@pytest.fixture
def crash_at(monkeypatch):
    """Return a function that arms a crash before the n-th disk operation; a negative number disarms it."""
    remaining = -1

    def count_operations(real):
        def operation(*arguments, **named):
            nonlocal remaining
            remaining -= 1
            if remaining == -1:
                raise Crash
            if remaining < -1:
                remaining = -2
            return real(*arguments, **named)

        return operation

    for owner, name in ((os, "replace"), (os, "fsync"), (os, "unlink"), (pl.DataFrame, "write_parquet")):
        monkeypatch.setattr(owner, name, count_operations(getattr(owner, name)))

    def arm(operations):
        nonlocal remaining
        remaining = operations

    return arm


@pytest.mark.parametrize("verb", ["flush", "compact"])
def test_a_crash_before_any_single_step_neither_loses_nor_doubles(tmp_path, crash_at, verb):
    write_store(tmp_path / "before", (1, 2), (3,), (4, 5))
    crashes = 0
    while True:
        folder = tmp_path / str(crashes)
        shutil.copytree(tmp_path / "before", folder)
        opened = EpisodeStore(folder)
        if verb == "flush":
            opened.append(batch_of(6))
        crash_at(crashes)
        try:
            getattr(opened, verb)()
        except Crash:
            crash_at(-2)
        else:
            crash_at(-2)
            opened.close()
            break
        assert checked_ids(folder) - {6} == {1, 2, 3, 4, 5}
        assert list_parts(folder).bad == []
        again = EpisodeStore(folder)
        assert len(again.finished_episodes()) == len(ids(folder))
        again.append(batch_of(7))
        again.compact()
        again.close()
        assert checked_ids(folder) - {6} == {1, 2, 3, 4, 5, 7}
        assert len(files(folder, "episodes")) <= 2
        assert files(folder, "episodes") == files(folder, "turns")
        crashes += 1

    assert crashes >= {"flush": 8, "compact": 14}[verb]
    assert checked_ids(folder) == {1, 2, 3, 4, 5} | ({6} if verb == "flush" else set())


WRITER = """
import sys
from pathlib import Path
from random import Random
from orchestrator.storage.episode_store import EpisodeStore
from tests.orchestrator.blocks import batch_of
folder, first = Path(sys.argv[1]), int(sys.argv[2])
chance = Random(first)
opened = EpisodeStore(folder)
print("open", flush=True)
while True:
    count = chance.randint(1, 40)
    opened.append(batch_of(*range(first, first + count)))
    first += count
    if chance.random() < 0.7:
        opened.flush()
        print(first, flush=True)
    if chance.random() < 0.2:
        opened.compact()
        print(first, flush=True)
"""


def start(code, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_kill_9_at_any_moment_keeps_what_was_flushed(tmp_path):
    chance = Random(0)
    durable: set[int] = set()
    for attempt in range(6):
        first = attempt * 100_000
        writer = start(WRITER, tmp_path, first)
        assert writer.stdout.readline() == "open\n"
        time.sleep(chance.uniform(0, 0.15))
        writer.send_signal(signal.SIGKILL)
        lines = writer.communicate(timeout=90)[0].split("\n")[:-1]  # an unterminated last line does not count
        durable |= set(range(first, int(lines[-1]) if lines else first))

        assert durable <= checked_ids(tmp_path)
        assert list_parts(tmp_path).bad == []

    opened = EpisodeStore(tmp_path)
    assert durable <= set(episodes(tmp_path).collect()["sample_id"])
    opened.compact()
    opened.close()
    assert durable <= checked_ids(tmp_path)
    assert not list(tmp_path.rglob("*.tmp"))
    assert len(durable) > 20, "the kills must leave something for this test to mean anything"
