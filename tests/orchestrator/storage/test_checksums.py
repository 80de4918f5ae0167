"""A part whose bytes are not those that were written counts as absent, however well it reads."""

import shutil
import subprocess
from random import Random

import pytest

from orchestrator.storage import checksums
from orchestrator.storage.episode_store import EpisodeStore
from tests.orchestrator.storage.test_episode_store import ids, written


@pytest.mark.parametrize("table", ["episodes", "turns"])
def test_one_flipped_bit_anywhere_is_found(tmp_path, table):
    """Parquet reads many a flipped bit as another value; the sum of the file does not."""
    chance, whole = Random(0), written(tmp_path / "whole", range(200))
    for place in range(60):
        folder = tmp_path / str(place)
        shutil.copytree(whole, folder)
        path = next((folder / table).glob("part-*.parquet"))
        raw = bytearray(path.read_bytes())
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        path.write_bytes(raw)
        store = EpisodeStore(folder)
        assert store.finished().is_empty() and list((folder / "damaged").iterdir())
        store.close()


def test_a_torn_line_or_a_missing_file_of_sums_damages_nothing(tmp_path):
    folder = written(tmp_path / "run", (1, 2), (3,))
    text = (folder / checksums.NAME).read_text()
    (folder / checksums.NAME).write_text(text + text[:30])
    assert ids(written(folder, (4,))) == [1, 2, 3, 4]
    (folder / checksums.NAME).unlink()
    assert ids(written(folder, (5,))) == [1, 2, 3, 4, 5]


def test_the_systems_own_tool_checks_them(tmp_path):
    folder = written(tmp_path / "run", (1, 2), (3,))
    tool = shutil.which("sha256sum")
    if tool is None:
        pytest.skip("no sha256sum on this machine")

    assert subprocess.run([tool, "-c", "--quiet", checksums.NAME], cwd=folder).returncode == 0


def test_what_was_stored_twice_is_told_when_parts_are_merged(tmp_path, caplog):
    folder = written(tmp_path / "run", (1, 2), (2, 3))
    store = EpisodeStore(folder)
    store.compact()
    store.close()

    assert "1 episodes were there twice" in caplog.text
    assert ids(folder) == [1, 2, 3]
