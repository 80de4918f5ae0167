"""A folder of a table that somebody removes, in mid-run or between runs: a sentence, and what it held is pending again."""

import shutil

import pytest

from orchestrator.storage.episode_store import EpisodeStore, episodes
from orchestrator.storage.status import read_status
from orchestrator.storage.verdict_store import VerdictStore, pending_answers
from tests.orchestrator.blocks import numbered
from tests.orchestrator.storage.test_episode_store import sound, written
from tests.orchestrator.storage.test_flipped_bits import columns, judged, verdict
from tests.orchestrator.storage.test_run_folder import plan


def emptied(folder):
    for path in folder.iterdir():
        path.unlink()


REMOVED = pytest.mark.parametrize("remove", [shutil.rmtree, emptied])


def unread(folder):
    return pending_answers(episodes(folder), folder, "j").height


@REMOVED
@pytest.mark.parametrize("table", ["episodes", "turns"])
def test_in_mid_run_what_is_played_from_then_on_is_stored(tmp_path, caplog, table, remove):
    store = EpisodeStore(tmp_path)
    for numbers in ((1, 2), (3,)):
        store.append(numbered(*numbers))
        store.flush()
    remove(tmp_path / table)
    store.append(numbered(4, 5))
    store.flush()
    store.compact()
    assert store.finished_episodes().height == 2
    store.append(numbered(1, 2, 3))
    store.close()

    assert sound(tmp_path) == {1, 2, 3, 4, 5}
    (said,) = [line.getMessage() for line in caplog.records if "pending again" in line.getMessage()]
    assert said.startswith("each of 2 parts from part-00000001.parquet to part-00000002.parquet") and "removed" in said


@REMOVED
@pytest.mark.parametrize("table", ["episodes", "turns"])
def test_between_runs_all_is_pending_again(tmp_path, caplog, table, remove):
    written(tmp_path, (1, 2), (3,))
    remove(tmp_path / table)
    store = EpisodeStore(tmp_path)
    assert store.finished_episodes().is_empty()
    assert "pending again" in caplog.text
    store.append(numbered(1, 2, 3))
    store.close()

    assert sound(tmp_path) == {1, 2, 3}
    caplog.clear()
    EpisodeStore(tmp_path).close()
    assert "pending" not in caplog.text, "it is said once"


def test_a_crash_between_two_renames_is_not_taken_for_it(tmp_path, caplog):
    written(tmp_path, (1, 2), (3,))
    (tmp_path / "episodes/part-00000002.parquet").unlink()
    EpisodeStore(tmp_path).close()

    assert sound(tmp_path) == {1, 2} and "removed" not in caplog.text


@REMOVED
def test_verdicts_that_go_are_read_again(tmp_path, caplog, remove):
    judged(tmp_path, range(4), range(4, 6))
    store = VerdictStore(tmp_path)
    remove(tmp_path / "verdicts")
    store.append(columns(verdict(9)))
    store.compact()

    assert unread(tmp_path) == 6
    assert "2 parts of" in caplog.text and "their answers are read again" in caplog.text


def test_a_folder_of_verdicts_that_is_gone_is_said_once_more_is_written(tmp_path, caplog):
    judged(tmp_path, range(4))
    shutil.rmtree(tmp_path / "verdicts")
    store = VerdictStore(tmp_path)
    assert f"{tmp_path / 'verdicts'} was removed; its answers are read again" in caplog.text
    store.append(columns(*map(verdict, range(4))))
    store.flush()

    assert unread(tmp_path) == 0


def test_status_names_a_table_that_is_gone(tmp_path):
    plan(tmp_path, 3)
    written(tmp_path, (1, 2), (3,))
    assert read_status(tmp_path)["damaged"] == []
    shutil.rmtree(tmp_path / "episodes")
    found = read_status(tmp_path)

    assert found["damaged"] == ["episodes/"] and [cell["finished"] for cell in found["cells"]] == [0]
