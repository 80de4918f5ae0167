"""Names of parts, and which files of a folder count."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import polars as pl
import pytest

from orchestrator.storage import part_files
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.part_files import Part, damaged_parts, find_merged, is_usable, list_parts, part_numbers
from orchestrator.storage.schemas import EPISODES
from tests.orchestrator.blocks import batch_of


@pytest.fixture
def folder(tmp_path) -> Path:
    """A store of three parts."""
    store = EpisodeStore(tmp_path)
    for number in range(3):
        store.append(batch_of(number))
        store.flush()
    store.close()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("part-00000007.parquet", Part(7, 7)),
        ("part-00000002-00000010.parquet", Part(2, 10)),
        ("part-123456789.parquet", Part(123_456_789, 123_456_789)),
        ("part-00000010-00000002.parquet", None),
        ("part-00000007-00000007.parquet", None),
        ("part-000000007.parquet", None),
        ("part-0000007.parquet", None),
        ("part-00000007.parquet.tmp", None),
        ("other.parquet", None),
    ],
)
def test_a_file_name_is_a_part_only_as_the_store_writes_it(name, part):
    assert Part.parse(name) == part
    assert part is None or part.name == name


def test_a_part_is_inside_a_merge_that_holds_all_its_rows():
    merge = Part(2, 5)

    assert [Part(n, n).is_inside(merge) for n in range(1, 7)] == [False, True, True, True, True, False]
    assert Part(2, 4).is_inside(merge) and Part(3, 5).is_inside(merge)
    assert not Part(1, 5).is_inside(merge) and not Part(2, 6).is_inside(merge) and not merge.is_inside(merge)


@pytest.mark.parametrize("seed", range(20))
def test_merged_parts_are_those_inside_another_one(seed):
    chance = Random(seed)
    parts = {Part(first, first + chance.choice((0, 0, 1, 5))) for first in chance.choices(range(1, 30), k=20)}
    merges = {part for part in parts if chance.random() < 0.5}

    expected = {part for part in parts if any(part.is_inside(merge) for merge in merges)}
    assert set(find_merged(parts, merges)) == expected


@pytest.mark.parametrize("spoil", [lambda rows: rows.drop("seconds"), lambda rows: rows.cast({"turns": pl.String})])
def test_one_part_of_another_schema_spoils_none_decoded_with_it(folder, spoil):
    path = folder / "episodes" / "part-00000002.parquet"
    spoil(pl.read_parquet(path)).write_parquet(path.with_name(f"{path.name}.tmp"))
    part_files.checksums.record_sums(folder, [path])
    path.with_name(f"{path.name}.tmp").replace(path)

    files = list_parts(folder, decode=True)
    assert files.parts == [Part(1, 1), Part(3, 3)] and {file.name for file in files.bad} == {path.name}
    assert files.bad == list_parts(folder).bad


def test_files_are_sorted_by_their_use(folder):
    (folder / "turns" / "part-00000001.parquet").unlink()
    (folder / "episodes" / "part-00000002.parquet").unlink()
    (folder / "episodes" / "foreign.parquet").write_bytes(b"PAR1")
    (folder / "turns" / "part-00000009.parquet").write_bytes(b"")

    files = list_parts(folder)

    assert files.parts == [Part(3, 3)] and files.merged == []
    assert files.lone == [folder / "turns" / "part-00000002.parquet"]
    assert files.bad == [
        folder / "episodes" / "foreign.parquet",
        folder / "episodes" / "part-00000001.parquet",
        folder / "turns" / "part-00000009.parquet",
    ]
    assert damaged_parts(folder) == files.bad


def test_a_valid_table_of_another_name_is_no_part(folder):
    for table in ("turns", "episodes"):
        shutil.copy(folder / table / "part-00000001.parquet", folder / table / "copy.parquet")

    assert list_parts(folder).bad == [folder / "episodes" / "copy.parquet", folder / "turns" / "copy.parquet"]
    assert list_parts(folder).parts == [Part(1, 1), Part(2, 2), Part(3, 3)]


def test_a_bad_part_is_listed_twice_and_a_good_folder_once(folder, monkeypatch):
    listings = []

    def count(path):
        listings.append(path)
        return list_parts(path)

    monkeypatch.setattr(part_files, "list_parts", count)

    assert damaged_parts(folder) == [] and len(listings) == 1
    (folder / "turns" / "part-00000001.parquet").unlink()
    assert damaged_parts(folder) == [folder / "episodes" / "part-00000001.parquet"] and len(listings) == 3


def test_a_merge_replaces_the_parts_inside_it_once_both_halves_exist(folder):
    merge = Part(1, 2)
    for table in ("turns", "episodes"):
        assert list_parts(folder).parts == [Part(1, 1), Part(2, 2), Part(3, 3)]
        shutil.copy(folder / table / "part-00000001.parquet", folder / table / merge.name)

    files = list_parts(folder)

    assert files.parts == [merge, Part(3, 3)] and files.bad == files.lone == []
    assert sorted(files.merged) == [Part(1, 1), Part(2, 2)]


def test_numbers_of_parts_that_were_moved_aside_stay_taken(folder):
    (folder / "damaged").mkdir()
    shutil.copy(folder / "turns" / "part-00000003.parquet", folder / "damaged" / "turns-part-00000008-00000012.parquet")
    (folder / "damaged" / "a-part-of-nothing").touch()

    assert set(part_numbers(folder, part_files.checksums.read_sums(folder))) == {1, 2, 3, 12}


def test_a_part_with_its_sum_is_not_decoded_unless_asked(folder, monkeypatch):
    path, name = folder / "episodes" / "part-00000001.parquet", "episodes/part-00000001.parquet"
    collected = []
    collect = part_files.pl.LazyFrame.collect

    def count(frame, *args, **kwargs):
        collected.append(frame)
        return collect(frame, *args, **kwargs)

    monkeypatch.setattr(part_files.pl.LazyFrame, "collect", count)
    sums = part_files.checksums.read_sums(folder)
    assert name in sums

    assert is_usable(path, EPISODES, sums) and not collected
    assert is_usable(path, EPISODES, sums, decode=True) and len(collected) == 1
    assert is_usable(path, EPISODES, {}) and len(collected) == 2
    assert not is_usable(folder / "turns" / path.name, EPISODES, sums), "another schema"
    assert not is_usable(folder / "episodes", EPISODES, sums) and not is_usable(folder / "absent", EPISODES, sums)
