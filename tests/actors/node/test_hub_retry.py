"""An unreachable Hub is distinguished from a missing model. Errors come from the real client and a real server."""

import socket

import pytest

from actors.node.hub_retry import HubUnreachable, retry_hub, unreachable_reason
from orchestrator.execution.losses import FATAL_START_ERRORS
from tests.actors.service import failure, service

pytest.importorskip("transformers", reason="the extra `transformers` is not installed")

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


@pytest.mark.parametrize(
    ("status", "away"), [(503, True), (504, True), (429, True), (404, False), (401, False), (403, False)]
)
def test_status_tells_busy_hub_from_refusal(status, away):
    with service(lambda number, body: failure(status)) as hub:
        reason = unreachable_reason(problem_of(hub.url))

    assert reason == (f"HTTP {status}" if away else None)


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
