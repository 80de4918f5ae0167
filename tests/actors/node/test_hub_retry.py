"""A Hub that does not answer is told from a model that is not there. Errors of the real client, from a real server."""

import socket
from functools import partial

import pytest

from actors.engine import loader as engine_loader
from actors.node.hub_retry import HubUnreachable, retry_hub, unreachable_reason
from orchestrator.execution.driver import FATAL_START_ERRORS
from sweeps.spec import ModelSpec
from tests.actors.service import failed, service

utils = pytest.importorskip("huggingface_hub.utils", reason="the extra `hub` is not installed")
errors = pytest.importorskip("huggingface_hub.errors")


def nobody() -> str:
    """An address at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/"


def asked(url):
    """Ask as huggingface_hub asks; what fails comes out of transformers as an OSError."""
    try:
        utils.hf_raise_for_status(utils.get_session().post(url, json={}))
    except Exception as problem:
        raise OSError("We couldn't connect to the Hub to load the files") from problem


def problem_of(url):
    with pytest.raises(OSError) as found:
        asked(url)
    return found.value


def test_a_connection_that_nobody_takes_is_no_fault_of_the_model():
    assert "refused" in unreachable_reason(problem_of(nobody()))


@pytest.mark.parametrize(
    ("status", "away"), [(503, True), (504, True), (429, True), (404, False), (401, False), (403, False)]
)
def test_a_status_tells_whether_the_hub_is_busy_or_says_no(status, away):
    with service(lambda number, body: failed(status)) as hub:
        found = unreachable_reason(problem_of(hub.url))

    assert found == (f"HTTP {status}" if away else None)


@pytest.mark.parametrize("problem", [OSError("no such folder"), ValueError("an option"), ImportError("peft")])
def test_every_other_error_travels_up_at_once(problem):
    said = []
    with pytest.raises(type(problem)):
        retry_hub(lambda: (_ for _ in ()).throw(problem), "m", said.append, [60.0])
    assert said == []


def test_offline_mode_is_the_users_wish_and_is_not_asked_again():
    refused = problem_of(nobody())
    offline = errors.OfflineModeIsEnabled("HF_HUB_OFFLINE is set")
    offline.__cause__ = refused

    assert unreachable_reason(offline) is None


def test_a_hub_that_comes_back_is_asked_until_then_and_not_again():
    address, said, tries = nobody(), [], []

    def load():
        tries.append(1)
        return "loaded" if len(tries) == 3 else asked(address)

    assert retry_hub(load, "m", said.append, [0.01, 0.02, 60.0]) == "loaded"
    assert len(tries) == 3 and [line.rpartition("; ")[2] for line in said] == [
        "asking again in 0.01 s",
        "asking again in 0.02 s",
    ]


def test_a_hub_that_stays_away_is_no_hopeless_start():
    """The driver starts such a worker again instead of leaving the model out."""
    address = nobody()
    with pytest.raises(HubUnreachable, match=r"does not answer for m .*; asked 2 times"):
        retry_hub(lambda: asked(address), "m", lambda line: None, [0.01])
    assert not issubclass(HubUnreachable, FATAL_START_ERRORS)


def test_the_loader_of_a_worker_asks_again(tmp_path, monkeypatch):
    """Its turn to load is free meanwhile: another engine may load."""
    address, opened = nobody(), []

    def engine(model, data):
        opened.append(model.name)
        return asked(address) if len(opened) == 1 else "an engine"

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(engine_loader, "open_engine", engine)
    monkeypatch.setattr(engine_loader, "retry_hub", partial(retry_hub, sleep=opened.append))
    model = ModelSpec(name="m", source="no/such", gpus=0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert engine_loader.load_engine(model, tmp_path, [], lambda line: None) == "an engine"
    assert opened == ["m", 15.0, "m"]
