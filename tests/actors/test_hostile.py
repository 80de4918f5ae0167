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
from sweeps.endpoint import Endpoint
from sweeps.spec import ModelSpec
from tests.actors.asking import asked, user
from tests.actors.hostile import ENDS, KEY, MODES, REPLY, SHAPES, STOPS, USAGE, WAITS, pieces
from tests.actors.service import said, serving

NAMED = {ENDS: (Unprocessable, Refused), WAITS: (BackendDied,), STOPS: (ModelStopped,)}


async def asking(folder: Path, answers) -> tuple[object, int]:
    """What one request comes to, and how often the service was asked."""
    async with serving(answers) as service:
        endpoint = Endpoint(base_url=service.url, key_env="HOSTILE_KEY", deadline=10, patience=0.05, reply_price=1.0)
        backend = OpenAIBackend(ModelSpec(name="m", source="served", backend="openai", endpoint=endpoint), folder)
        try:
            return await backend.reply(asked(user("?"))), len(service.bodies)
        except (Unprocessable, Refused, BackendDied, ModelStopped) as error:
            return error, len(service.bodies)
        finally:
            await backend.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTILE_KEY", KEY)
    monkeypatch.setattr("actors.engine.openai.rate_limit.MIN_BACKOFF_S", 0.02)


def test_the_catalogue_is_large() -> None:
    assert len(MODES) >= 60 and len({str(mode.answer) for mode in MODES.values()}) >= 60


@pytest.mark.parametrize("name", MODES)
def test_every_mode_has_its_named_outcome(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    mode = MODES[name]
    result, times = asyncio.run(asking(tmp_path, lambda *_: mode.answer))

    if mode.outcome == REPLY:
        assert isinstance(result, Reply), result
        assert type(result.prompt_tokens) is type(result.reply_tokens) is int
        assert 0 <= result.prompt_tokens <= MAX_TOKENS and 0 <= result.reply_tokens <= MAX_TOKENS and times == 1
    else:
        assert isinstance(result, NAMED[mode.outcome]), result
        assert not UNSAFE.search(str(result)) and len(str(result)) < 500
    if name in SHAPES:
        assert times == UNREADABLE_TRIES and "cannot be read" in str(result)
    told = f"{result!s} {capsys.readouterr()}".encode("utf-8", "replace")
    assert not [piece for piece in pieces(KEY) if piece in told]


@pytest.mark.parametrize("name", [*SHAPES, *USAGE])
def test_what_cannot_be_read_once_is_asked_again(tmp_path: Path, name: str) -> None:
    bad = MODES[name].answer
    result, times = asyncio.run(asking(tmp_path, lambda number, _: bad if number == 0 else said("B")))

    assert isinstance(result, Reply)
    assert (result.text, times) == (("B", 2) if name in SHAPES else ("A", 1))


def test_an_odd_count_is_named_and_the_budget_takes_the_most_it_may_have_cost(tmp_path, capsys) -> None:
    reply, _ = asyncio.run(asking(tmp_path, lambda *_: MODES["usage 10**30"].answer))

    assert (reply.prompt_tokens, reply.reply_tokens, reply.cost) == (0, 0, 0.0)
    assert "m: odd token counts of the service are stored as 0: prompt_tokens is 1000" in capsys.readouterr().out
