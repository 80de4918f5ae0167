"""What ``data fetch`` does and says, in this process: the lines, the record, the disk, and the archives that are left out."""

import fcntl
import json
import zipfile
from collections import namedtuple
from pathlib import Path
from threading import Timer
from types import SimpleNamespace

import pytest

from envs.samples import BadData
from orchestrator.datasets import download, staging
from orchestrator.datasets.download import FetchRecord, Meter, fetch_benchmark, picture_folders, require_space
from orchestrator.datasets.remote_files import FetchError
from orchestrator.datasets.safe_unzip import BadArchive
from orchestrator.datasets.staging import pin_data
from orchestrator.datasets.train_split import fetch_split
from sweeps.load import build
from tests.orchestrator.hubserver import COMMIT, Hub, ask_here, serving

pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
DATASET = "tdemin16/ProactiveBench"
QD = "test/QuickDraw_preprocessed.jsonl"
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def hub(demo_data, tmp_path, monkeypatch):
    """The demo benchmark: sketches in one archive, below test/, and all other pictures in another."""
    bench = tmp_path / "hub/test"
    bench.mkdir(parents=True)
    for path in demo_data.glob("*.jsonl"):
        (bench / path.name).write_bytes(path.read_bytes())
    with zipfile.ZipFile(bench / "data1.zip", "w") as others, zipfile.ZipFile(bench / "data2.zip", "w") as sketches:
        for path in (path for path in sorted(demo_data.rglob("*")) if path.is_file() and path.parent != demo_data):
            name = path.relative_to(demo_data).as_posix()
            if name.startswith("QuickDraw/"):
                sketches.write(path, f"test/{name}")
            else:
                others.write(path, name)
    with serving(Hub(tmp_path / "hub", DATASET)) as running:
        ask_here(running, monkeypatch)
        monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(9e9, 1e9, 8_000_000_000))
        yield running


def sketch_sizes(demo_data) -> list[int]:
    return [path.stat().st_size for path in (demo_data / "QuickDraw").rglob("*") if path.is_file()]


def test_each_step_is_a_line_and_the_folder_remembers_what_it_holds(hub, demo_data, tmp_path):
    said: list[str] = []
    folder, count = tmp_path / "bench", len(sketch_sizes(demo_data))
    report = fetch_benchmark(folder, ["QD"], say=said.append)

    gigabytes = (sum(sketch_sizes(demo_data)) + (hub.folder / "test/data2.zip").stat().st_size) / 1e9
    packed = (hub.folder / "test/data2.zip").stat().st_size / 1e9
    assert said == [
        f"{DATASET} at commit {COMMIT}",
        "test/data1.zip: nothing in it is needed",
        f"test/data2.zip: {packed:.2f} GB, {count} of its files are needed",
        f"needs {gigabytes:.2f} GB, 8.00 GB are free",
        f"data2.zip: extracting {count} files, {sum(sketch_sizes(demo_data)) / 1e9:.2f} GB",
    ]
    assert not report.problems and set(hub.sent) == {QD, "test/data2.zip"}
    assert (folder / "fetched.json").read_text() == (
        f'{{\n  "dataset": "{DATASET}",\n  "commit": "{COMMIT}",\n  "archives": {{\n'
        '    "test/data1.zip": [\n      "QuickDraw"\n    ],\n    "test/data2.zip": [\n      "QuickDraw"\n    ]\n  }\n}\n'
    )
    assert sorted(path.name for path in (folder / "test").iterdir()) == [
        "QuickDraw", "QuickDraw_preprocessed.jsonl", "data2.zip",
    ]  # fmt: skip


def test_a_second_fetch_adds_to_the_record_and_reads_no_archive_twice(hub, demo_data, tmp_path):
    folder, said = tmp_path / "bench", list[str]()
    fetch_benchmark(folder, ["QD"], delete_archives=True, say=said.append)
    assert not (folder / "test/data2.zip").exists()
    fetch_benchmark(folder, ["QD"], say=said.append)
    assert said[5:] == [f"{DATASET} at commit {COMMIT}"]

    fetch_benchmark(folder, ["QD", "ROD"], say=said.append)
    archives = json.loads((folder / "fetched.json").read_text())["archives"]
    tops = sorted(picture_folders(folder / "test", ["QD", "ROD"]))
    assert len(tops) == 2 and archives == {"test/data1.zip": tops, "test/data2.zip": tops}
    assert hub.sent["test/data2.zip"] == 2 * (hub.folder / "test/data2.zip").stat().st_size


def test_a_folder_of_another_commit_is_left_as_it_is(hub, tmp_path):
    (tmp_path / "fetched.json").write_text(json.dumps({"commit": "0" * 40}))
    with pytest.raises(FetchError) as refused:
        fetch_benchmark(tmp_path, ["QD"], revision="main")
    assert str(refused.value) == (
        f"{tmp_path} holds commit {'0' * 40}, not {COMMIT}: name another folder, or leave out --revision"
    )
    with pytest.raises(FetchError) as refused:
        fetch_benchmark(tmp_path, ["QD", "Q", "R"])
    assert str(refused.value) == "there is no scenario 'Q'; ROD, VSOD, MVP-N, IN-C, QD, CIT, COCO exist"


def test_a_data_set_without_the_lines_is_a_sentence(hub, tmp_path):
    (hub.folder / QD).unlink()
    with pytest.raises(FetchError) as refused:
        fetch_benchmark(tmp_path / "bench", ["QD"], say=lambda line: None)
    assert str(refused.value) == f"{DATASET} at {COMMIT} holds no {QD}"


@pytest.mark.parametrize(("delete", "hint"), [(False, "; --delete-archives needs less"), (True, "")])
def test_the_disk_must_hold_archives_files_and_a_gibibyte(hub, demo_data, tmp_path, monkeypatch, delete, hint):
    files = sum(path.stat().st_size for path in demo_data.rglob("*") if path.is_file() and path.parent != demo_data)
    packed = [(hub.folder / f"test/data{number}.zip").stat().st_size for number in (1, 2)]
    need = files + (max(packed) if delete else sum(packed)) + (1 << 30)
    scenarios = ["ROD", "VSOD", "MVP-N", "IN-C", "QD", "CIT", "COCO"]
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(0, 0, need - 1))
    with pytest.raises(FetchError) as refused:
        fetch_benchmark(tmp_path / "bench", scenarios, None, delete, say=lambda line: None)
    assert str(refused.value) == (
        f"{tmp_path / 'bench'} has {(need - 1) / 1e9:.1f} GB free, and {need / 1e9:.1f} GB are needed{hint}"
    )
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(0, 0, need))
    assert not fetch_benchmark(tmp_path / "bench", scenarios, None, delete, say=lambda line: None).problems


def test_space_is_told_in_gigabytes(tmp_path, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(0, 0, 5_249_000_000))
    require_space(tmp_path, 4_175_258_176, "!", said.append)
    assert said == ["needs 4.18 GB, 5.25 GB are free"]
    with pytest.raises(FetchError) as refused:
        require_space(tmp_path, 4_175_258_177, "; buy a disk", said.append)
    assert str(refused.value) == f"{tmp_path} has 5.2 GB free, and 5.2 GB are needed; buy a disk"


def test_an_archive_that_is_none_is_a_sentence(hub, tmp_path):
    (hub.folder / "test/data2.zip").write_bytes(b"hello " * 100)
    with pytest.raises(BadArchive, match=r"^test/data2\.zip is no zip archive: File is not a zip file$"):
        fetch_benchmark(tmp_path / "bench", ["QD"], say=lambda line: None)


def test_a_file_in_the_way_of_a_folder_is_a_sentence(hub, tmp_path):
    (tmp_path / "bench/test").mkdir(parents=True)
    (tmp_path / "bench/test/QuickDraw").write_text("mine")
    with pytest.raises(FetchError, match=r"^data2\.zip could not be extracted: .*; rerun the same command to resume$"):
        fetch_benchmark(tmp_path / "bench", ["QD"], say=lambda line: None)


def test_an_unreadable_file_of_lines_is_a_sentence(tmp_path):
    with pytest.raises(BadData, match=r"^the downloaded .*/QuickDraw_preprocessed\.jsonl: is not there"):
        picture_folders(tmp_path, ["QD"])


def test_a_record_that_cannot_be_read_counts_as_none(tmp_path):
    assert download._read_record(tmp_path) == FetchRecord(dataset=DATASET, commit="", archives={})
    (tmp_path / "fetched.json").write_text("[")
    assert download._read_record(tmp_path) == FetchRecord()


def test_progress_is_said_every_five_seconds(monkeypatch):
    said, clock = list[str](), iter([0.0, 5.0, 5.1, 5.1, 10.1, 10.2, 10.2])
    monkeypatch.setattr(download, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    meter = Meter(said.append)
    for size in (400_000_000, 850_000_000, 1, 1_000_000_000):
        meter(size)
    assert said == ["1.25 GB arrived", "2.25 GB arrived"]


def test_only_archives_with_a_top_folder_test_lose_it(tmp_path):
    path = Path(tmp_path / "x.zip")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("testing/a", b"1")
        archive.writestr("A/test/b", b"22")
        archive.writestr("A/c", b"333")
    with path.open("rb") as content:
        archive = download.read_archive(content, download.RemoteFile("test/x.zip", path.stat().st_size), {"A", "b"})
    assert (archive.strip, archive.extracted_size, [member.name for member in archive.wanted]) == (
        "", 5, ["A/test/b", "A/c"],
    )  # fmt: skip


def test_data_are_pinned_to_the_commit_of_the_day(hub, tmp_path):
    used = {"scenarios": ["QD"], "conditions": ["zero-shot"], "models": ["oracle"], "name": "x"}
    pinned = pin_data(build({**used, "data": f"hf://{DATASET}/test"}, "x.toml"))
    assert pinned.data == f"hf://{DATASET}@{COMMIT}/test" and pin_data(pinned) == pinned
    local = build({**used, "data": str(tmp_path)}, "x.toml")
    assert pin_data(local) == local


def test_the_train_split_is_fetched_into_a_folder_of_its_own(hub, tmp_path):
    (hub.folder / "data").mkdir()
    (hub.folder / "data/train-0.parquet").write_bytes(b"x" * 2_400_000)
    (hub.folder / "data/other.parquet").write_bytes(b"y")
    said: list[str] = []
    assert (
        fetch_split(tmp_path, "main", said.append, lambda folder: len(list(folder.iterdir())) + 1_233)
        == tmp_path / "train"
    )
    assert [path.name for path in (tmp_path / "train").iterdir()] == ["train-0.parquet"]
    assert said == ["data/train-0.parquet: 2 MB", f"{tmp_path / 'train'}: 1,234 rows at commit {COMMIT}, all good"]


def test_a_second_process_waits_for_the_lock_of_the_first_and_says_so(tmp_path):
    """Programs of several versions share a cache, so the lock's name stays."""
    said: list[str] = []
    with (tmp_path / ".lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        Timer(0.1, lambda: fcntl.flock(first, fcntl.LOCK_UN)).start()
        with staging._stage_lock(tmp_path, said.append):
            pass
    assert said == [f"{tmp_path}: another process stages here; waiting for it"]
