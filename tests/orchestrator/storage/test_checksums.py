"""A part whose bytes changed since it was written counts as absent, even if it can be read."""

import errno
import hashlib
import shutil
import subprocess
from random import Random

import polars as pl
import pytest

from orchestrator.storage import checksums
from orchestrator.storage.episode_store import EpisodeStore, episodes
from tests.orchestrator.storage.test_episode_store import ids, write_store


@pytest.mark.parametrize("table", ["episodes", "turns"])
def test_any_flipped_bit_is_detected(tmp_path, table):
    """Parquet may read a flipped bit as another value; the checksum of the file detects it."""
    chance, original = Random(0), write_store(tmp_path / "whole", range(200))
    for attempt in range(60):
        folder = tmp_path / str(attempt)
        shutil.copytree(original, folder)
        path = next((folder / table).glob("part-*.parquet"))
        raw = bytearray(path.read_bytes())
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        path.write_bytes(raw)
        store = EpisodeStore(folder)
        assert store.finished_episodes().is_empty() and list((folder / "damaged").iterdir())
        store.close()


def test_readers_skip_damaged_part_without_checksum(tmp_path):
    folder, heights = write_store(tmp_path / "run", range(200)), []
    (folder / checksums.NAME).unlink()
    path = next((folder / "episodes").iterdir())
    raw = path.read_bytes()
    for at in range(4, len(raw), 97):
        path.write_bytes(raw[:at] + bytes(byte ^ 0xFF for byte in raw[at : at + 8]) + raw[at + 8 :])
        heights.append(episodes(folder).collect().height)

    assert 0 in heights and len(heights) > 20


def test_torn_or_missing_checksum_file_damages_nothing(tmp_path):
    folder = write_store(tmp_path / "run", (1, 2), (3,))
    text = (folder / checksums.NAME).read_text()
    (folder / checksums.NAME).write_text(text + text[:30])
    assert ids(write_store(folder, (4,))) == [1, 2, 3, 4]
    (folder / checksums.NAME).unlink()
    assert ids(write_store(folder, (5,))) == [1, 2, 3, 4, 5]


def test_sha256sum_accepts_checksum_file(tmp_path):
    folder = write_store(tmp_path / "run", (1, 2), (3,))
    tool = shutil.which("sha256sum")
    if tool is None:
        pytest.skip("no sha256sum on this machine")

    assert subprocess.run([tool, "-c", "--quiet", checksums.NAME], cwd=folder).returncode == 0


def test_duplicate_episodes_are_reported_on_merge(tmp_path, caplog):
    folder = write_store(tmp_path / "run", (1, 2), (2, 3))
    store = EpisodeStore(folder)
    store.compact()
    store.close()

    assert "1 episodes were stored twice" in caplog.text
    assert ids(folder) == [1, 2, 3]


def test_replaced_file_may_have_either_checksum_until_settled(tmp_path):
    path = tmp_path / "plan.json"
    checksums.write(path, b"one")
    checksums.write(path, b"two")
    first, second = (hashlib.sha256(text).hexdigest() for text in (b"one", b"two"))
    assert path.read_bytes() == b"two" and sorted(tmp_path.iterdir()) == [path, tmp_path / checksums.NAME]
    header = {checksums.COMPLETE: {checksums.GONE}}
    assert checksums.read_sums(tmp_path) == header | {"plan.json": {first, second}}
    assert checksums.damaged_files(tmp_path) == []
    checksums.drop_stale_sums(tmp_path)
    assert (tmp_path / checksums.NAME).read_text() == f"{checksums.GONE}  {checksums.COMPLETE}\n{second}  plan.json\n"
    path.write_bytes(b"one")
    assert checksums.damaged_files(tmp_path) == ["plan.json"], "the sum before is no longer good"


def test_settling_keeps_every_sum_of_parts_missing_and_damaged_files(tmp_path):
    folder = write_store(tmp_path / "run", (1, 2))
    for name in ("gone.json", "odd.json"):
        checksums.write(folder / name, b"one")
        checksums.write(folder / name, b"two")
    (folder / "gone.json").unlink()
    (folder / "odd.json").write_bytes(b"three")
    before = (folder / checksums.NAME).read_text()
    checksums.drop_stale_sums(folder)
    assert (folder / checksums.NAME).read_text() == before
    assert checksums.damaged_files(folder) == ["odd.json"]


def test_settling_takes_each_line_once_and_drops_torn_ones(tmp_path):
    checksums.write(tmp_path / "a.json", b"one")
    line = (tmp_path / checksums.NAME).read_text()
    (tmp_path / checksums.NAME).write_text(line + line + "torn")
    checksums.drop_stale_sums(tmp_path)
    assert (tmp_path / checksums.NAME).read_text() == line
    number = (tmp_path / checksums.NAME).stat().st_ino
    checksums.drop_stale_sums(tmp_path)
    assert (tmp_path / checksums.NAME).stat().st_ino == number, "nothing to settle, nothing written"


def test_read_verified_returns_content_or_names_damaged_file(tmp_path):
    path = tmp_path / "plan.json"
    path.write_bytes(b"of an earlier version")
    assert checksums.read_verified(path) == b"of an earlier version"
    checksums.write(path, b"one")
    assert checksums.read_verified(path) == b"one"
    path.write_bytes(b"edited")
    with pytest.raises(OSError, match=r"damaged or was edited: sums\.sha256 has another sum.*plan\.json") as error:
        checksums.read_verified(path)
    assert error.value.errno == errno.EINVAL
    path.unlink()
    with pytest.raises(FileNotFoundError):
        checksums.read_verified(path)


def test_table_checksum_is_recorded_before_table_appears(tmp_path, monkeypatch):
    path = tmp_path / "results.parquet"
    with monkeypatch.context() as patch:
        patch.setattr(checksums.safe_write, "publish", lambda path: None)
        checksums.write_table(path, pl.DataFrame({"a": [1]}))
        checksums.write(tmp_path / "plan.json", b"one")
    assert (
        set(checksums.read_sums(tmp_path)) == {checksums.COMPLETE, "results.parquet", "plan.json"} and not path.exists()
    )
    checksums.write_table(path, pl.DataFrame({"a": [1, 2]}), compression="uncompressed")
    assert pl.read_parquet(path)["a"].to_list() == [1, 2] and checksums.damaged_files(tmp_path) == []


def test_unreadable_file_is_damaged(tmp_path):
    for name in ("a.json", "b.json"):
        checksums.write(tmp_path / name, b"one")
    (tmp_path / "a.json").unlink()
    (tmp_path / "b.json").unlink()
    (tmp_path / "b.json").mkdir()
    assert checksums.damaged_files(tmp_path) == ["b.json"], "a missing file is another finding"


def test_checksum_is_recomputed_when_file_changes(tmp_path):
    folder = write_store(tmp_path / "run", (1, 2))
    path = next((folder / "episodes").glob("part-*.parquet"))
    sums = checksums.read_sums(folder)
    assert checksums.sum_matches(path, sums)
    path.write_bytes(path.read_bytes() + b"x")
    assert not checksums.sum_matches(path, sums) and checksums.sum_matches(path, {})


@pytest.mark.parametrize(
    "line",
    [
        f"{'0' * 63}  a.json",
        f"{'0' * 64} a.json",
        f"{'0' * 64}  a/b.json",
        f"{'0' * 64}  ../a.json",
        f"{'g' * 64}  a.json",
        "",
    ],
)
def test_malformed_checksum_lines_are_ignored(tmp_path, line):
    (tmp_path / checksums.NAME).write_text(f"{line}\n{'1' * 64}  b.json\n")
    assert checksums.read_sums(tmp_path) == {"b.json": {"1" * 64}}
