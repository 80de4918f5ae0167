"""Bounds of archives, downloads and rows on both sides, and the sentences of what fails, without a server."""

import zipfile
from types import SimpleNamespace

import polars as pl
import pytest

from envs.samples import BadData
from orchestrator.datasets import remote_files, safe_unzip, train_split
from orchestrator.datasets.remote_files import (
    ChangedFile,
    FetchError,
    RemoteFile,
    RemoteFolder,
    fetch_errors,
    file_version,
    short_message,
)
from orchestrator.datasets.safe_unzip import BadArchive, Member, check_members
from orchestrator.datasets.sources import Address, parse_address
from orchestrator.datasets.train_split import check_split, is_split, read_rows
from tests.orchestrator.datasets.test_rows_and_terms import ROW


class Directory:
    """The directory of an archive, without its bytes."""

    def __init__(self, *files: tuple[str, int, int]) -> None:
        self.entries = []
        for name, size, packed in files:
            entry = zipfile.ZipInfo(name)
            entry.file_size, entry.compress_size = size, packed
            self.entries.append(entry)

    def infolist(self) -> list[zipfile.ZipInfo]:
        return self.entries


def refusal(size: int, *files: tuple[str, int, int]) -> str:
    """Return why an archive of so many bytes is refused; empty if it is not."""
    try:
        members = check_members(Directory(*files), size, "x.zip")
    except BadArchive as problem:
        return str(problem)
    assert members == [Member(name, length) for name, length, _ in files if not name.endswith("/")]
    return ""


def test_an_archive_is_refused_beyond_each_bound_and_not_at_it(monkeypatch):
    monkeypatch.setattr(safe_unzip, "MAX_FILES", 2)
    assert refusal(9, ("a/", 0, 0), ("a/b", 1, 1), ("a/c", 1, 1)) == ""
    assert refusal(9, ("a", 1, 1), ("b", 1, 1), ("c", 1, 1)) == "x.zip holds 3 files, more than 2"
    assert refusal(10, ("a", 5, 4), ("b", 5, 6)) == ""
    assert refusal(9, ("a", 5, 4), ("b", 5, 6)) == "x.zip claims 10 packed bytes but has 9: files of it overlap"
    grown = 100 * (1 << 20)
    assert refusal(1 << 20, ("a", grown, 1 << 20)) == refusal(2 << 20, ("a", 2 * grown, 2 << 20)) == ""
    assert refusal(1 << 20, ("a", grown, 1 << 20), ("b", 1, 0)) == (
        "x.zip would grow from 1,048,576 to 104,857,601 bytes: that is a bomb, not a benchmark"
    )
    assert refusal(2 << 20, ("a", grown + 1, 1 << 20)) == "x.zip: 'a' would grow from 1,048,576 to 104,857,601 bytes"
    huge = 1 << 39
    assert refusal(huge, ("a", huge, huge)) == ""
    assert refusal(huge, ("a", huge, huge), ("b", 1, 0)) == (
        "x.zip would grow from 549,755,813,888 to 549,755,813,889 bytes: that is a bomb, not a benchmark"
    )


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["n" * 1024], ""), (["n" * 1025], f"'{'n' * 200}' is no file name"), (["a/b:c"], ""),
        (["a:b/c"], "'a:b/c' would land outside the folder"), (["a/.."], "'a/..' would land outside the folder"),
        (["a", "a/b"], "'a' is a file and a folder"), (["a/b", "a/b/c/d"], "'a/b' is a file and a folder"),
        (["/a"], "'/a' would land outside the folder"), (["."], "'.' is no file name"),
    ],
)  # fmt: skip
def test_names_that_are_none_are_refused(names, reason):
    assert refusal(99, *((name, 1, 1) for name in names)) == (f"x.zip: {reason}" if reason else "")


class Feeble(RemoteFolder):
    """A server that sends a few bytes a time, as ``parts`` say, and then fails."""

    name = root = "feeble"

    def __init__(self, *parts: bytes, commit: str = "c") -> None:
        self.parts, self.commit, self.offsets = list(parts), commit, []

    def _append(self, file, part) -> None:
        self.offsets.append(part.stat().st_size if part.exists() else 0)
        with part.open("ab") as out:
            out.write(self.parts.pop(0) if self.parts else b"")
        raise ConnectionError("reset by peer?token=secret\nmore")


@pytest.fixture
def pauses(monkeypatch):
    waited: list[float] = []
    monkeypatch.setattr(remote_files, "time", SimpleNamespace(sleep=waited.append))
    return waited


def test_four_attempts_in_a_row_without_a_byte_end_a_download(tmp_path, pauses):
    server = Feeble(b"12", b"", b"", b"", b"34")
    assert server.download(RemoteFile("a/b", 4), tmp_path / "b").read_bytes() == b"1234"
    assert server.offsets == [0, 2, 2, 2, 2] and pauses == [0, 0, 0.5, 1.5, 3.5]
    pauses.clear()
    with pytest.raises(FetchError) as broken:
        Feeble(b"123").download(RemoteFile("a/c", 2_000), tmp_path / "c")
    assert str(broken.value) == ("a/c broke off at 3 of 2,000 bytes (reset by peer); rerun the same command to resume")
    assert pauses == [0, 0, 0.5, 1.5, 3.5] and not (tmp_path / "c").exists()
    resumed = Feeble(b"4" * 1_997)
    assert resumed.download(RemoteFile("a/c", 2_000), tmp_path / "c").stat().st_size == 2_000 and resumed.offsets == [3]


def test_a_download_is_kept_if_whole_and_removed_if_damaged(tmp_path, pauses):
    server = Feeble(b"12345", b"1234")
    assert server.download(RemoteFile("a", 4), tmp_path / "a").read_bytes() == b"1234" and server.offsets == [0, 0]
    assert server.download(RemoteFile("a", 4), tmp_path / "a") == tmp_path / "a" and len(server.offsets) == 2
    damaged = Feeble(b"1234")
    with pytest.raises(FetchError) as refused:
        damaged.download(RemoteFile("b", 4, sha256="0" * 64), tmp_path / "b")
    assert str(refused.value) == "b arrived damaged (its SHA-256 differs) and was removed; fetch it again"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    right = "03ac674216f3e15c761ee1a5e255f067953623c8b388b4459e13f978d7c846f4"
    assert Feeble(b"1234").download(RemoteFile("b", 4, sha256=right), tmp_path / "b").read_bytes() == b"1234"


def test_only_partial_files_of_other_versions_of_one_file_are_deleted(tmp_path):
    names = [".a.111111111111.part", ".ab.111111111111.part", ".a.txt", "a.part"]
    for name in names:
        (tmp_path / name).touch()
    part = Feeble()._part(RemoteFile("x/a", 1, version="v"), tmp_path / "a")
    part.touch()
    assert Feeble()._part(RemoteFile("x/a", 1, version="v"), tmp_path / "a") == part
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([part.name, *names[1:]])
    others = [RemoteFile("x/a", 1), RemoteFile("x/a", 1, version="w"), RemoteFile("x/a", 1, "s", "v")]
    assert len({part, *(Feeble()._part(file, tmp_path / "a") for file in others)}) == 4


def test_errors_of_libraries_are_one_line_without_signatures():
    assert short_message(OSError(" https://b/x?sig=1&k=2 refused \nmore")) == "https://b/x refused "
    assert short_message(ValueError("  ")) == "ValueError" and short_message(ValueError("x" * 201)) == "x" * 200
    cases = [
        (
            ModuleNotFoundError("no", name="s3fs"),
            "this needs the package s3fs: pip install 'proactive-sweep[hub,cloud]'",
        ),
        (RuntimeError("down"), "the Hub did not give org/name: down"),
        (BadData("own words"), "own words"),
    ]
    for problem, sentence in cases:
        with pytest.raises(BadData) as raised, fetch_errors("org/name"):
            raise problem
        assert str(raised.value) == sentence and isinstance(raised.value, FetchError) is (problem is not cases[2][0])
    with pytest.raises(FetchError, match=r"^the bucket did not give x: down$"), fetch_errors("x", "the bucket"):
        raise RuntimeError("down")
    assert issubclass(ChangedFile, FetchError) and RemoteFolder.who == "the server" and RemoteFolder.commit == ""


def test_versions_are_strong_tags_or_dates_and_ranges_have_a_first_byte():
    assert file_version({"ETag": '"a"', "Last-Modified": "d"}) == '"a"'
    assert file_version({"ETag": 'W/"a"', "Last-Modified": "d"}) == "d" and file_version({"ETag": 'W/"a"'}) == ""
    ranges = {"bytes 17-20/30": 17, "bytes */30": -1, "": -1, "17-20": -1}
    assert {text: remote_files._first_byte({"Content-Range": text}) for text in ranges} == ranges
    assert remote_files._first_byte({}) == -1
    assert (remote_files.ATTEMPTS, remote_files.RETRY_PAUSE_S, remote_files.READ_TIMEOUT_S) == (4, 0.5, 60)


@pytest.mark.parametrize(
    ("data", "parts", "text", "is_fixed"),
    [
        ("hf://o/n", ("hf", "o/n", "", ""), "hf://o/n@main", False),
        ("hf://datasets/o/n@v1/test/", ("hf", "o/n", "v1", "test"), "hf://o/n@v1/test", False),
        (f"hf://o/n@{'a' * 40}/t/u", ("hf", "o/n", "a" * 40, "t/u"), f"hf://o/n@{'a' * 40}/t/u", True),
        (f"hf://o/n@{'a' * 39}", ("hf", "o/n", "a" * 39, ""), f"hf://o/n@{'a' * 39}", False),
        ("https://h/x//", ("https", "https://h/x", "", ""), "https://h/x", True),
        ("s3://b/k", ("s3", "s3://b/k", "", ""), "s3://b/k", True),
    ],
)  # fmt: skip
def test_an_address_has_these_parts_and_prints_as_typed(data, parts, text, is_fixed):
    address = parse_address(data)
    assert address == Address(*parts) and (str(address), address.fixed) == (text, is_fixed)
    assert parse_address("some/folder") is None


def write_rows(folder, *counts):
    folder.mkdir(exist_ok=True)
    for number, count in enumerate(counts):
        pl.DataFrame([ROW] * count).write_parquet(folder / f"train-{number:05d}.parquet")
    return folder


def test_rows_are_numbered_over_all_files_and_counted(tmp_path):
    folder = write_rows(tmp_path / "train", 2, 1)
    assert [row.number for row in read_rows(folder)] == [0, 1, 2] and check_split(folder, 3) == 3
    with pytest.raises(BadData) as wrong:
        check_split(folder)
    assert str(wrong.value) == f"{folder} holds 3 rows, and the published train split 26,879; fetch it again"
    assert is_split(folder) and not is_split(tmp_path) and not is_split(tmp_path / "gone")
    with pytest.raises(BadData) as empty:
        check_split(tmp_path)
    assert str(empty.value) == (
        f"{tmp_path} holds no train-*.parquet; `proactive-sweep data fetch DIR --split train` brings them"
    )
    assert (train_split.FOLDER, train_split.REMOTE) == ("train", "data")


def test_a_file_of_rows_that_is_none_is_a_sentence(tmp_path):
    file = write_rows(tmp_path, 1) / "train-00000.parquet"
    pl.DataFrame([ROW]).drop("options", "images").write_parquet(file)
    with pytest.raises(BadData) as lacking:
        list(read_rows(tmp_path))
    assert str(lacking.value) == (
        f"{file} has no column 'options'; the published train split has prompt, ground_truth, proactive_actions, options,"
        " images"
    )
    file.write_bytes(b"PAR1 no")
    with pytest.raises(BadData) as torn:
        list(read_rows(tmp_path))
    text = str(torn.value)
    assert text.startswith(f"{file} is no Parquet file (") and text.endswith("); fetch it again") and "\n" not in text
