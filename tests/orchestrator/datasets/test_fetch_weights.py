"""What ``models fetch`` does and says, in this process: lines, sizes, disks, and which models it is for."""

from collections import namedtuple
from functools import partial
from random import Random

import pytest

from orchestrator.datasets import weights
from orchestrator.datasets.hub import HubSnapshot, SnapshotFile
from orchestrator.datasets.remote_files import FetchError
from orchestrator.datasets.weights import fetch_all, fetch_weights, fetched_models, prepare_weights
from sweeps.registry import registry
from sweeps.spec import ModelSpec
from tests.orchestrator.hubserver import COMMIT, Hub, ask_here, serving

pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
FILES = {"config.json": 40, "model.safetensors": 12_345_678, "model.bin": 700, "onnx/config.json": 20}
SIZE = "12345718 bytes"
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    for number, (name, size) in enumerate(FILES.items()):
        path = tmp_path / "published" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(Random(number).randbytes(size))
    monkeypatch.setattr(weights, "perf_counter", iter((100.0, 107.6, 200.0)).__next__)
    with serving(Hub(tmp_path / "published", "someone/tiny", "models")) as running:
        ask_here(running, monkeypatch)
        yield running


@pytest.fixture
def tiny(tmp_path) -> ModelSpec:
    return ModelSpec(name="tiny", source="someone/tiny", options={"download_dir": str(tmp_path / "cache")})


def test_missing_files_are_counted_before_and_timed_after(hub, tiny, tmp_path):
    said: list[str] = []

    assert fetch_weights(tiny, said.append) == 12_345_718
    assert said == [
        "tiny: 2 files, 0.01 GB; 0 bytes are here, 0.01 GB to fetch",
        "tiny: 0.01 GB fetched in 8 s",
    ]
    assert (tmp_path / f"cache/models--someone--tiny/snapshots/{COMMIT}/model.safetensors").stat().st_size == 12_345_678
    assert fetch_weights(tiny, said.append) == 0
    assert said[2:] == ["tiny: 2 files, 0.01 GB; 0.01 GB are here, 0 bytes to fetch"]


def test_a_snapshot_lists_what_is_cached(hub, tmp_path):
    snapshot = HubSnapshot("someone/tiny", "main", str(tmp_path / "cache"))
    assert sorted(snapshot.list_files(["*.json", "*.bin"], ["onnx/*"]), key=lambda file: file.name) == [
        SnapshotFile("config.json", 40, False),
        SnapshotFile("model.bin", 700, False),
    ]
    snapshot.download(["model.bin"])
    files = snapshot.list_files(["*.json", "*.bin"], ["onnx/*"])
    assert {file.name: file.is_cached for file in files} == {"config.json": False, "model.bin": True}
    assert HubSnapshot("someone/tiny", "main").folder.name == "hub"


def test_sizes_are_in_bytes_up_to_ten_megabytes():
    assert [weights._size(count) for count in (9_999_999, 10_000_000, 1_234_567_890)] == [
        "9,999,999 bytes", "0.01 GB", "1.23 GB",
    ]  # fmt: skip


def test_the_disk_must_hold_what_is_missing(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(0, 0, 3_000_000_000))
    weights._check_space(tiny, tmp_path, 3_000_000_000)
    with pytest.raises(FetchError) as refused:
        weights._check_space(tiny, tmp_path / "not/yet", 3_010_000_000)
    assert str(refused.value) == (
        f"tiny: 3.01 GB are to fetch and 3.00 GB are free in {tmp_path}; let HF_HOME name a larger disk on this node"
    )


def test_a_model_without_a_file_for_engines_is_a_sentence(hub, tiny):
    for name in FILES:
        (hub.folder / name).unlink()
    (hub.folder / "README.md").write_text("nothing")
    with pytest.raises(FetchError, match=r"^tiny: someone/tiny holds no file that an engine reads$"):
        fetch_weights(tiny, lambda line: None)


def test_other_errors_say_how_to_go_on(hub, tiny, tmp_path):
    (tmp_path / "cache").write_text("a file in the way")
    with pytest.raises(FetchError, match=r"^tiny: .*; rerun the same command to resume$"):
        fetch_weights(tiny, lambda line: None)


def test_models_with_weights_on_the_hub_once_a_source(tmp_path):
    models = [
        ModelSpec(name="a", source="x/y"), ModelSpec(name="b", source="x/y"),
        ModelSpec(name="c", source="x/y", revision="0" * 40), ModelSpec(name="d", source=str(tmp_path)),
        registry()["oracle"],
        ModelSpec(name="e", source="gpt", backend="openai"),
    ]  # fmt: skip
    assert [model.name for model in fetched_models(models)] == ["a", "c"]


def test_a_failure_stops_no_other_model_and_the_last_line_counts(monkeypatch, tmp_path):
    models = [ModelSpec(name=name, source=f"x/{name}") for name in ("a", "b")]
    said: list[str] = []

    def fetch(model, say, pauses):
        if model.name == "a":
            raise FetchError("a: no")
        return 50

    monkeypatch.setattr(weights, "fetch_weights", fetch)
    assert fetch_all(models, said.append) == ["a"]
    assert fetch_all(models[:1], said.append) == ["a"]
    assert fetch_all(models[1:], said.append) == []
    assert said == [
        "a: no", "1 of 2 models are here, 50 bytes fetched now", "a: no", "0 of 1 model is here, 0 bytes fetched now",
        "1 of 1 model is here, 50 bytes fetched now",
    ]  # fmt: skip


def test_weights_are_read_ahead_and_a_failure_is_a_line(tmp_path, monkeypatch):
    model = ModelSpec(name="here", source=str(tmp_path), backend="transformers")
    said: list[str] = []
    monkeypatch.setattr(weights, "read_ahead", partial(weights.read_ahead, free=lambda: 1 << 40))
    (tmp_path / "model.safetensors").write_bytes(b"x" * 5_000)
    prepare_weights([model], said.append)
    assert said == ["here: 5,000 bytes are read into memory"]
    (tmp_path / "model.safetensors").unlink()
    prepare_weights([model], said.append)
    assert said[1:] == []
    for problem, reason in ((OSError(5, "broken"), "broken"), (OSError("odd"), "odd")):
        monkeypatch.setattr(weights, "read_ahead", lambda files, problem=problem: (_ for _ in ()).throw(problem))
        prepare_weights([model, model], said.append)
        assert said[-2:] == [f"here: its weights cannot be read: {reason}"] * 2
