"""Whatever a service answers, a request ends as a reply or a named error, and neither holds the key or a control character."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.engine.backend import BackendDied, ModelStopped, Refused, Reply, Unprocessable
from actors.engine.openai.backend import UNREADABLE_TRIES, OpenAIBackend
from actors.engine.openai.reply import MAX_TOKENS
from actors.text.printable import UNSAFE
from sweeps.model import Endpoint
from sweeps.spec import ModelSpec
from tests.actors.asking import make_request, user
from tests.actors.hostile import ENDS, KEY, MODES, REPLY, SHAPES, STOPS, USAGE, WAITS, pieces
from tests.actors.service import completion, serving

NAMED = {ENDS: (Unprocessable, Refused), WAITS: (BackendDied,), STOPS: (ModelStopped,)}


async def ask_service(folder: Path, answers, patience: float = 30) -> tuple[object, int]:
    """Send one request; return its outcome and the number of requests that the service got."""
    async with serving(answers) as service:
        endpoint = Endpoint(
            base_url=service.url, key_env="HOSTILE_KEY", deadline=10, patience=patience, reply_price=1.0
        )
        backend = OpenAIBackend(ModelSpec(name="m", source="served", backend="openai", endpoint=endpoint), folder)
        try:
            return await backend.reply(make_request(user("?"))), len(service.bodies)
        except (Unprocessable, Refused, BackendDied, ModelStopped) as error:
            return error, len(service.bodies)
        finally:
            await backend.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTILE_KEY", KEY)
    monkeypatch.setattr("actors.engine.openai.backend.MIN_BACKOFF_S", 0.02)


@pytest.mark.parametrize("name", MODES)
def test_every_mode_has_its_named_outcome(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    mode = MODES[name]
    patience = 0.05 if mode.outcome == WAITS else 30
    outcome, times = asyncio.run(ask_service(tmp_path, lambda *_: mode.answer, patience))

    if mode.outcome == REPLY:
        assert isinstance(outcome, Reply), outcome
        assert type(outcome.prompt_tokens) is type(outcome.reply_tokens) is int
        assert 0 <= outcome.prompt_tokens <= MAX_TOKENS and 0 <= outcome.reply_tokens <= MAX_TOKENS and times == 1
    else:
        assert isinstance(outcome, NAMED[mode.outcome]), outcome
        assert not UNSAFE.search(str(outcome)) and len(str(outcome)) < 500
    if name in SHAPES:
        assert times == UNREADABLE_TRIES and "cannot be read" in str(outcome)
    output = f"{outcome!s} {capsys.readouterr()}".encode("utf-8", "replace")
    assert not [piece for piece in pieces(KEY) if piece in output]


@pytest.mark.parametrize("name", [*SHAPES, *USAGE])
def test_unreadable_answer_is_asked_again(tmp_path: Path, name: str) -> None:
    bad = MODES[name].answer
    outcome, times = asyncio.run(ask_service(tmp_path, lambda number, _: bad if number == 0 else completion("B")))

    assert isinstance(outcome, Reply)
    assert (outcome.text, times) == (("B", 2) if name in SHAPES else ("A", 1))
