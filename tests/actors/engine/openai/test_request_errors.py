"""A service's backend without a request: what it would send, and which error an answer stands for."""

from __future__ import annotations

import asyncio
import hashlib
import json
from contextlib import nullcontext
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.engine.backend import BackendDied, ModelStopped, Unprocessable
from actors.engine.openai.backend import OpenAIBackend
from actors.engine.openai.http_client import read_key
from actors.engine.openai.rate_limit import RetryableError
from actors.engine.openai.reply import Tokens
from sweeps.spec import ModelSpec
from tests.actors.asking import make_request, user


def model(**endpoint: Any) -> ModelSpec:
    entry = {"base_url": "http://127.0.0.1:9/v1", "key_env": "SWEEP_TEST_KEY", **endpoint}
    return ModelSpec(name="m", source="s", backend="openai", endpoint=entry)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> OpenAIBackend:
    monkeypatch.setenv("SWEEP_TEST_KEY", "sk-secret-0123456789")
    return OpenAIBackend(model(), tmp_path)


def test_the_input_is_the_hash_of_the_body_with_sorted_keys(backend: OpenAIBackend) -> None:
    request = make_request(user("Which one?"))
    shown = asyncio.run(backend.model_input(request))
    body = {
        "extra_body": {}, "max_completion_tokens": request.sampling.max_tokens,
        "messages": [{"content": "Which one?", "role": "user"}], "model": "s", "seed": request.seed,
        "temperature": 0.0, "top_p": 1.0,
    }  # fmt: skip

    assert shown.hashes == {"request": hashlib.sha256(json.dumps(body).encode()).hexdigest()}
    assert shown.decoding == {name: value for name, value in body.items() if name != "messages"}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (299, "m: HTTP 299 c: words"),
        (300, "m: HTTP 300: the service redirects; give the final address as base_url"),
        (399, "m: HTTP 399: the service redirects; give the final address as base_url"),
        (401, "m: HTTP 401: the service refuses the key in SWEEP_TEST_KEY"),
        (402, "m: HTTP 402 c: words"),
    ],
)
def test_reasons_name_what_to_change(backend: OpenAIBackend, status: int, reason: str) -> None:
    error = backend.classify_status(status, "c", "words")

    assert isinstance(error, ModelStopped) and str(error) == reason


def test_reasons_hold_no_key_and_at_most_300_characters_of_one_line(backend: OpenAIBackend) -> None:
    error = backend.classify_status(400, "c", "sk-secret-0123456789\n\x1b[31m" + "x" * 400)

    assert isinstance(error, Unprocessable) and len(str(error)) == 300
    assert "secret" not in str(error) and "\n" not in str(error) and "\x1b" not in str(error)
    retried = backend.classify(RuntimeError("broken"))
    assert isinstance(retried, RetryableError) and retried.reason == "RuntimeError: broken" and retried.rest is None
    caused = RuntimeError("broken")
    caused.__cause__ = OSError("refused")
    assert str(getattr(backend.classify(caused), "reason", "")) == "RuntimeError: refused"


def test_a_key_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEP_TEST_KEY", "sk")
    assert read_key(model()) == "sk" and read_key(model(key_env="")) == ""
    monkeypatch.setenv("SWEEP_TEST_KEY", "")
    with pytest.raises(ValueError) as problem:
        read_key(model())
    assert str(problem.value) == (
        'm needs a key: set SWEEP_TEST_KEY, or write key_env = "" in its entry if the service needs none'
    )


@pytest.mark.parametrize(
    ("first", "answered", "failures", "unreadable", "error"),
    [
        (0, -1e6, 0, 4, "m gave 4 answers that cannot be read; last error: why"),
        (0, -1e6, 0, 3, ""),
        (-5, -1, 8, 0, "m failed 8 times on this request alone; last error: why"),
        (-5, -1, 7, 0, ""),
        (-5, -9, 8, 0, ""),  # nothing was answered meanwhile
        (-605, -1000, 1, 0, "m: no answer for 600 s; last error: why"),
        (-595, -1000, 1, 0, ""),
        (-605, -595, 1, 0, ""),
        (-1000, -605, 1, 0, "m: no answer for 600 s; last error: why"),
    ],
)
def test_limits_of_retries(
    backend: OpenAIBackend, first: float, answered: float, failures: int, unreadable: int, error: str
) -> None:
    """Seconds from now of the request's first failure and of the last answer to any request."""
    backend.last_answer_at = monotonic() + answered
    with pytest.raises((Unprocessable, BackendDied), match=f"^{error}$") if error else nullcontext():
        backend._check_limits(monotonic() + first, failures, unreadable, "why")


def test_prices_are_per_million_tokens_and_bound_a_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """2 and 8 per million: 1,000 tokens of a prompt cost 0.002, 500 of a reply 0.004; odd counts cost the bound."""
    monkeypatch.setenv("SWEEP_TEST_KEY", "sk")
    backend = OpenAIBackend(model(prompt_price=2.0, reply_price=8.0, reserve=50), tmp_path)
    request = make_request(user("x" * 400))
    longest = request.sampling.max_tokens + 50
    price = backend._price(request)

    assert price == pytest.approx((8 * longest / 1e6, 2 * (100 + 4) / 1e6, 0.0))
    assert backend._charge(Tokens(1000, 500), price) == pytest.approx(0.006) == backend.budget.spent
    assert backend.budget.ratios == {("m", "text"): pytest.approx(1000 / 104)}
    for _ in range(2):
        assert backend._charge(Tokens(invalid="usage is odd"), price) == 0.0
    assert backend.budget.spent == pytest.approx(0.006 + 2 * sum(price))
    assert capsys.readouterr().out == "m: invalid token counts of the service are stored as 0: usage is odd\n"


def test_a_live_limit_of_requests_reaches_the_pace(backend: OpenAIBackend) -> None:
    backend.limit_in_flight(2)

    assert (backend.pace.max_in_flight, backend.pace.allowed) == (2, 2.0)
