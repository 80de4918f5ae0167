"""If a table's folder is removed, during or between runs, a message says so and its rows are pending again."""

import shutil

import pytest

from orchestrator.storage.episode_store import EpisodeStore, episodes
from orchestrator.storage.status import read_status
from orchestrator.storage.verdict_store import VerdictStore, pending_answers
from tests.orchestrator.blocks import batch_of
from tests.orchestrator.storage.test_episode_store import checked_ids, write_store
from tests.orchestrator.storage.test_flipped_bits import columns, store_judged, verdict
from tests.orchestrator.storage.test_run_folder import plan


def empty_folder(folder):
    for path in folder.iterdir():
        path.unlink()


REMOVED = pytest.mark.parametrize("remove", [shutil.rmtree, empty_folder])


def count_unread(folder):
    return pending_answers(episodes(folder), folder, "j").height


@REMOVED
@pytest.mark.parametrize("table", ["episodes", "turns"])
def test_episodes_played_after_removal_are_stored(tmp_path, caplog, table, remove):
    store = EpisodeStore(tmp_path)
    for numbers in ((1, 2), (3,)):
        store.append(batch_of(*numbers))
        store.flush()
    remove(tmp_path / table)
    store.append(batch_of(4, 5))
    store.flush()
    store.compact()
    assert store.finished_episodes().height == 2
    store.append(batch_of(1, 2, 3))
    store.close()

    assert checked_ids(tmp_path) == {1, 2, 3, 4, 5}
    (warning,) = [line.getMessage() for line in caplog.records if "pending again" in line.getMessage()]
    assert (
        warning.startswith("each of 2 parts from part-00000001.parquet to part-00000002.parquet")
        and "removed" in warning
    )


@REMOVED
@pytest.mark.parametrize("table", ["episodes", "turns"])
def test_removal_between_runs_makes_all_pending(tmp_path, caplog, table, remove):
    write_store(tmp_path, (1, 2), (3,))
    remove(tmp_path / table)
    store = EpisodeStore(tmp_path)
    assert store.finished_episodes().is_empty()
    assert "pending again" in caplog.text
    store.append(batch_of(1, 2, 3))
    store.close()

    assert checked_ids(tmp_path) == {1, 2, 3}
    caplog.clear()
    EpisodeStore(tmp_path).close()
    assert "pending" not in caplog.text, "it is said once"


def test_crash_between_renames_is_not_taken_for_removal(tmp_path, caplog):
    write_store(tmp_path, (1, 2), (3,))
    (tmp_path / "episodes/part-00000002.parquet").unlink()
    EpisodeStore(tmp_path).close()

    assert checked_ids(tmp_path) == {1, 2} and "removed" not in caplog.text


@REMOVED
def test_answers_of_removed_verdicts_are_judged_again(tmp_path, caplog, remove):
    store_judged(tmp_path, range(4), range(4, 6))
    store = VerdictStore(tmp_path)
    remove(tmp_path / "verdicts")
    store.append(columns(verdict(9)))
    store.compact()

    assert count_unread(tmp_path) == 6
    assert (
        f"each of 2 parts from part-00000001.parquet to part-00000002.parquet of {tmp_path / 'verdicts'} was"
        in caplog.text
    )


def test_removed_verdict_folder_is_reported_once(tmp_path, caplog):
    store_judged(tmp_path, range(4))
    shutil.rmtree(tmp_path / "verdicts")
    store = VerdictStore(tmp_path)
    assert f"{tmp_path / 'verdicts'} was removed; its answers are read again" in caplog.text
    store.append(columns(*map(verdict, range(4))))
    store.flush()

    assert count_unread(tmp_path) == 0


def test_status_names_removed_table(tmp_path):
    plan(tmp_path, 3)
    write_store(tmp_path, (1, 2), (3,))
    assert read_status(tmp_path)["damaged"] == []
    shutil.rmtree(tmp_path / "episodes")
    status = read_status(tmp_path)

    assert status["damaged"] == ["episodes/"] and [cell["finished"] for cell in status["cells"]] == [0]
