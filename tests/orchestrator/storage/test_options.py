"""The table of options is stored exactly once with its episodes: in resume, merge of parts, damage and discard."""

from dataclasses import replace

import pytest

from actors.playing.records import to_columns
from actors.playing.rows import OptionRow
from orchestrator.storage.episode_store import EpisodeStore, options
from orchestrator.storage.status import find_faults
from tests.orchestrator.blocks import batch_of, episode


def with_options(*numbers):
    """A batch of episodes with two options each."""
    rows = [
        OptionRow(
            episode(n)["key"], "m", "QD", "every-state", n, 0, 0, 0, "p", position, "x", "wrong", -0.5, False, None, 4
        )
        for n in numbers
        for position in (0, -1)
    ]
    return replace(batch_of(*numbers), options=to_columns(OptionRow, rows))


def stored(folder):
    return sorted(options(folder).collect()["sample_id"].to_list())


def store_each(folder, *batches):
    store = EpisodeStore(folder)
    for batch in batches:
        store.append(batch)
        store.flush()
    return store


def test_options_are_read_back_and_parts_without_them_have_no_file(tmp_path):
    store = store_each(tmp_path, with_options(1), batch_of(2), with_options(3))
    assert stored(tmp_path) == [1, 1, 3, 3]
    assert len(list((tmp_path / "options").glob("*.parquet"))) == 2
    store.compact()
    assert stored(tmp_path) == [1, 1, 3, 3]
    assert [path.name for path in (tmp_path / "options").glob("*.parquet")] == ["part-00000001-00000003.parquet"]
    store.discard([episode(1)["key"]])
    assert stored(tmp_path) == [3, 3]
    store.close()


@pytest.mark.parametrize("spoil", ["remove", "truncate"])
def test_episodes_whose_options_are_lost_are_pending_again(tmp_path, spoil):
    store_each(tmp_path, with_options(1), with_options(2), batch_of(3)).close()
    path = tmp_path / "options" / "part-00000001.parquet"
    path.unlink() if spoil == "remove" else path.write_bytes(path.read_bytes()[:100])
    assert stored(tmp_path) == [2, 2] and find_faults(tmp_path)
    store = EpisodeStore(tmp_path)
    assert sorted(store.finished_episodes()["key"]) == [episode(n)["key"] for n in (2, 3)]
    store.append(with_options(1))
    store.close()
    assert stored(tmp_path) == [1, 1, 2, 2] and find_faults(tmp_path) == {}
