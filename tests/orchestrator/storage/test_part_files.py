"""Names of parts, and which files of a folder count."""

import shutil
from pathlib import Path

import polars as pl
import pytest

from orchestrator.storage import checksums, safe_write
from orchestrator.storage.checksums import missing_files
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.storage.part_files import Part, hold_parts, list_parts
from orchestrator.storage.part_writer import mend, next_number
from tests.orchestrator.blocks import batch_of, episode
from tests.orchestrator.storage.test_episode_store import checked_ids, write_store


@pytest.fixture
def folder(tmp_path) -> Path:
    """A run folder with a complete list of sums and three parts."""
    checksums.write(tmp_path / "plan.json", b"{}")
    return write_store(tmp_path, (0,), (1,), (2,))


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("part-00000007.parquet", Part(7, 7)),
        ("part-00000002-00000010.parquet", Part(2, 10)),
        ("part-00000010-00000002.parquet", None),
        ("part-00000007.parquet.tmp", None),
    ],
)
def test_a_file_name_is_a_part_only_as_the_store_writes_it(name, part):
    assert Part.parse(name) == part
    assert part is None or part.name == name


@pytest.mark.parametrize("spoil", [lambda rows: rows.drop("seconds"), lambda rows: rows.cast({"turns": pl.String})])
def test_a_part_of_another_schema_does_not_count_although_it_has_its_sum(folder, spoil):
    path = folder / "episodes" / "part-00000002.parquet"
    safe_write.prepare(path, spoil(pl.read_parquet(path)))
    checksums.publish(folder, path)

    files = list_parts(folder)
    assert files.parts == [Part(1, 1), Part(3, 3)] and {file.name for file in files.bad} == {path.name}


def test_files_are_sorted_by_their_use_and_mended(folder):
    (folder / "turns" / "part-00000001.parquet").unlink()
    (folder / "episodes" / "part-00000002.parquet").unlink()
    (folder / "episodes" / "foreign.parquet").write_bytes(b"PAR1")
    shutil.copy(folder / "turns/part-00000003.parquet", folder / "turns/part-00000009.parquet")

    files = list_parts(folder)

    assert files.parts == [Part(3, 3)] and files.merged == []
    assert files.lone == [folder / f"turns/part-0000000{number}.parquet" for number in (2, 9)]
    assert files.bad == [folder / "episodes" / name for name in ("foreign.parquet", "part-00000001.parquet")]
    assert missing_files(folder) == ["turns/part-00000001.parquet", "episodes/part-00000002.parquet"]
    mend(folder)
    assert list_parts(folder).bad == list_parts(folder).lone == missing_files(folder) == []
    assert len(list((folder / "damaged").iterdir())) == 4


def test_a_table_that_the_disk_does_not_list_is_not_an_empty_one(folder):
    (folder / "episodes").rename(folder / "away")
    (folder / "episodes").symlink_to("episodes")
    with pytest.raises(OSError, match="Too many levels"):  # else its turns would be moved aside as those of a crash
        list_parts(folder)


def test_a_number_is_never_used_twice(folder):
    assert next_number(folder, ["episodes"]) == 4 and next_number(folder, ["verdicts"]) == 1
    (folder / "turns/part-00000003.parquet").unlink()
    mend(folder)
    assert next_number(folder, ["turns"]) == 4
    (folder / "turns/part-00000008-00000012.parquet").touch()
    assert next_number(folder, ["turns"]) == 13 and next_number(folder, ["episodes"]) == 4


def test_a_part_without_a_sum_counts_only_if_the_list_is_not_complete(folder):
    for table in ("episodes", "turns"):
        shutil.copy(folder / table / "part-00000001.parquet", folder / table / "part-00000007.parquet")
    assert Part(7, 7) not in list_parts(folder).parts and len(list_parts(folder).bad) == 2
    (folder / checksums.NAME).unlink()
    assert Part(7, 7) in list_parts(folder).parts
    (folder / "turns/part-00000007.parquet").write_bytes(b"PAR1")
    assert Part(7, 7) not in list_parts(folder).parts


def test_a_held_folder_is_read_as_it_was(folder):
    """Discards, merges and new parts change nothing for a reader that holds the folder."""
    store = EpisodeStore(folder)
    with hold_parts([folder]):
        rows = episodes(folder).collect()
        store.discard({episode(1)["key"]})
        store.append(batch_of(7))
        store.compact()
        turn_rows = turns(folder).collect()
        assert episodes(folder).collect().equals(rows) and set(turn_rows["key"]) == set(rows["key"])
    store.close()
    assert checked_ids(folder) == {0, 2, 7}
