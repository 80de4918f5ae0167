"""Whatever a service answers, a request ends as a reply or a named error, and neither holds the key or a control character."""

from pathlib import Path

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.engine.backend import BackendDied, ModelStopped, Refused, Reply, Unprocessable
from actors.engine.openai.backend import UNREADABLE_TRIES
from actors.engine.openai.reply import MAX_TOKENS
from actors.text.printable import UNSAFE
from tests.actors.engine.openai.test_dialects import outcome
from tests.actors.engine.openai.test_openai_backend import quick as quick
from tests.actors.hostile import ENDS, KEY, MODES, REPLY, SHAPES, STOPS, USAGE, WAITS, pieces
from tests.actors.service import completion

NAMED = {ENDS: (Unprocessable, Refused), WAITS: (BackendDied,), STOPS: (ModelStopped,)}
ENDPOINT = {"key_env": "HOSTILE_KEY", "deadline": 10, "reply_price": 1.0}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTILE_KEY", KEY)


@pytest.mark.parametrize("name", MODES)
def test_every_mode_has_its_named_outcome(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    mode = MODES[name]
    patience = 0.05 if mode.outcome == WAITS else 30
    reply, service = outcome(tmp_path, mode.answer, patience=patience, **ENDPOINT)

    if mode.outcome == REPLY:
        assert isinstance(reply, Reply), reply
        assert type(reply.prompt_tokens) is type(reply.reply_tokens) is int
        assert 0 <= reply.prompt_tokens <= MAX_TOKENS and 0 <= reply.reply_tokens <= MAX_TOKENS
        assert len(service.bodies) == 1
    else:
        assert isinstance(reply, NAMED[mode.outcome]), reply
        assert not UNSAFE.search(str(reply)) and len(str(reply)) < 500
    if name in SHAPES:
        assert len(service.bodies) == UNREADABLE_TRIES and "cannot be read" in str(reply)
    output = f"{reply!s} {capsys.readouterr()}".encode("utf-8", "replace")
    assert not [piece for piece in pieces(KEY) if piece in output]


@pytest.mark.parametrize("name", [*SHAPES, *USAGE])
def test_unreadable_answer_is_asked_again(tmp_path: Path, name: str) -> None:
    bad = MODES[name].answer
    reply, service = outcome(tmp_path, lambda number, _: bad if number == 0 else completion("B"), **ENDPOINT)

    assert isinstance(reply, Reply)
    assert (reply.text, len(service.bodies)) == (("B", 2) if name in SHAPES else ("A", 1))
