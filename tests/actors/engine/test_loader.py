"""What an engine needs before it loads: bytes of weights, GPUs and their memory, and its turn."""

from pathlib import Path
from typing import Any

import pytest

from actors.engine import registry as engine_loader
from actors.engine.registry import HubUnreachable, gpu_request, load_engine, must_load_alone, weight_bytes
from actors.node.gpu_check import GpuRequest, GpuUnavailable
from orchestrator.execution.worker_pool import FATAL_START_ERRORS
from sweeps.spec import ModelSpec
from tests.actors.scripted_backend import ScriptedBackend
from tests.actors.service import failure, service


def model(backend: str = "vllm", **fields: Any) -> ModelSpec:
    return ModelSpec(**{"name": "m", "source": "no/such", "backend": backend, **fields})


@pytest.mark.parametrize(
    ("entry", "size", "expected"),
    [
        (model(gpus=2), 100, GpuRequest("m", 2, 0.9)),
        (model(gpus=1, options={"gpu_memory_utilization": 0.4}), None, GpuRequest("m", 1, 0.4)),
        (model("transformers", gpus=1), 1000, GpuRequest("m", 1, 0.0, 1200)),
        (model("transformers", gpus=4), 1000, GpuRequest("m", 4, 0.0, 300)),
    ],
)
def test_vllm_needs_a_share_of_the_memory_and_others_their_weights(
    entry: ModelSpec, size: int | None, expected: GpuRequest
) -> None:
    """Others need 1.2 times their weights, divided among whole GPUs."""
    assert gpu_request(entry, size) == expected


@pytest.mark.parametrize(
    ("entry", "alone"),
    [
        (model("transformers", gpus=0), False),
        (model("transformers", gpus=0.25), True),
        (model(gpus=0.5), True),
        (model(gpus=2), False),
    ],
)
def test_engines_that_would_disturb_others_load_alone(entry: ModelSpec, alone: bool) -> None:
    assert must_load_alone(entry, 1) is alone and must_load_alone(entry, 1 << 60)


def test_weights_of_an_unread_checkpoint_take_two_or_four_bytes_a_parameter() -> None:
    assert [weight_bytes(model(parameters=7.0, dtype=dtype)) for dtype in ("auto", "float32")] == [14e9, 28e9]
    assert weight_bytes(model()) is None


def test_gpus_are_checked_where_the_engine_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(engine_loader, "open_engine", lambda entry, data: ScriptedBackend(lambda request: "A"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    lines: list[str] = []
    with pytest.raises(GpuUnavailable, match=r"Ray gave m the GPUs 3,4, but CUDA_VISIBLE_DEVICES says 0,1"):
        load_engine(model(gpus=2), tmp_path, [3, 4], lines.append)
    assert lines == []
    monkeypatch.setattr(engine_loader, "check_gpus", lambda *arguments: (f"{argument}" for argument in arguments))
    load_engine(model(gpus=2, parameters=1.0), tmp_path, [0, 1], lines.append)

    assert lines == [str(GpuRequest("m", 2, 0.9)), "[0, 1]", "0,1"]


@pytest.mark.parametrize(
    ("status", "reason"), [(503, "HTTP 503"), (429, "HTTP 429"), (404, ""), (401, ""), (0, "Connection refused")]
)
def test_a_hub_that_does_not_answer_is_told_from_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, reason: str
) -> None:
    """A refusal leaves the model out of the run; a worker that meets an outage is started again."""
    hub = pytest.importorskip("huggingface_hub.utils", reason="the extra `hub` is not installed")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)  # as another test's environment may say

    def open_engine(entry: ModelSpec, data: Path) -> None:
        try:
            hub.hf_raise_for_status(hub.get_session().post(url, json={}))
        except Exception as problem:
            raise OSError("We couldn't connect to the Hub to load the files") from problem

    monkeypatch.setattr(engine_loader, "open_engine", open_engine)
    with service(lambda number, body: failure(status or 500)) as server:
        url = server.url if status else "http://127.0.0.1:9/"
        with pytest.raises(HubUnreachable if reason else OSError, match=reason or "couldn't connect"):
            load_engine(model("transformers", gpus=0), tmp_path, [], print)
    assert not issubclass(HubUnreachable, FATAL_START_ERRORS)
