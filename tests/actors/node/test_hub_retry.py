"""An unreachable Hub is distinguished from a missing model. Errors come from the real client and a real server."""

import socket
from functools import partial

import pytest

from actors.engine import loader as engine_loader
from actors.engine.backend import ScriptedBackend
from actors.node.hub_retry import HubUnreachable, retry_hub, unreachable_reason
from orchestrator.execution.loss_reason import FATAL_START_ERRORS
from sweeps.spec import ModelSpec
from tests.actors.service import failure, service

utils = pytest.importorskip("huggingface_hub.utils", reason="the extra `hub` is not installed")
errors = pytest.importorskip("huggingface_hub.errors")


def unused_address() -> str:
    """Return an address at which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}/"


def request_hub(url):
    """Request as huggingface_hub does; an error leaves transformers as an OSError."""
    try:
        utils.hf_raise_for_status(utils.get_session().post(url, json={}))
    except Exception as problem:
        raise OSError("We couldn't connect to the Hub to load the files") from problem


def problem_of(url):
    with pytest.raises(OSError) as raised:
        request_hub(url)
    return raised.value


def test_refused_connection_is_not_the_models_fault():
    assert "refused" in unreachable_reason(problem_of(unused_address()))


@pytest.mark.parametrize(
    ("status", "away"), [(503, True), (504, True), (429, True), (404, False), (401, False), (403, False)]
)
def test_status_tells_busy_hub_from_refusal(status, away):
    with service(lambda number, body: failure(status)) as hub:
        reason = unreachable_reason(problem_of(hub.url))

    assert reason == (f"HTTP {status}" if away else None)


@pytest.mark.parametrize("problem", [OSError("no such folder"), ValueError("an option"), ImportError("peft")])
def test_every_other_error_travels_up_at_once(problem):
    messages = []
    with pytest.raises(type(problem)):
        retry_hub(lambda: (_ for _ in ()).throw(problem), "m", messages.append, [60.0])
    assert messages == []


def test_offline_mode_is_not_retried():
    refused = problem_of(unused_address())
    offline = errors.OfflineModeIsEnabled("HF_HUB_OFFLINE is set")
    offline.__cause__ = refused

    assert unreachable_reason(offline) is None


def test_returning_hub_is_retried_until_it_answers():
    address, messages, tries = unused_address(), [], []

    def load():
        tries.append(1)
        return "loaded" if len(tries) == 3 else request_hub(address)

    assert retry_hub(load, "m", messages.append, [0.01, 0.02, 60.0]) == "loaded"
    assert len(tries) == 3 and [line.rpartition("; ")[2] for line in messages] == [
        "asking again in 0.01 s",
        "asking again in 0.02 s",
    ]


def test_absent_hub_does_not_exclude_model():
    """The driver starts such a worker again instead of leaving the model out."""
    address = unused_address()
    with pytest.raises(HubUnreachable, match=r"does not answer for m .*; asked 2 times"):
        retry_hub(lambda: request_hub(address), "m", lambda line: None, [0.01])
    assert not issubclass(HubUnreachable, FATAL_START_ERRORS)


def test_the_loader_of_a_worker_asks_again(tmp_path, monkeypatch):
    """Its turn to load is released meanwhile, so another engine may load."""
    address, opened, backend = unused_address(), [], ScriptedBackend(lambda _: "A")

    def engine(model, data):
        opened.append(model.name)
        return request_hub(address) if len(opened) == 1 else backend

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(engine_loader, "open_engine", engine)
    monkeypatch.setattr(engine_loader, "retry_hub", partial(retry_hub, sleep=opened.append))
    model = ModelSpec(name="m", source="no/such", gpus=0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert engine_loader.load_engine(model, tmp_path, [], lambda line: None) is backend
    assert opened == ["m", 15.0, "m"]
