"""A service's refusal is data, its trouble is waited out, and its final no stops the model."""

from __future__ import annotations

import asyncio
import base64
import io
import logging
import pickle
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from PIL import Image

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.engine.backend import BackendDied, BudgetSpent, ModelStopped, Refused, Reply, Unprocessable
from actors.engine.openai.backend import OpenAIBackend
from actors.engine.registry import open_engine
from envs.types import ImageRef
from sweeps.endpoint import Endpoint
from sweeps.spec import ModelSpec
from tests.actors.asking import asked, painted, user
from tests.actors.service import HANG, Answer, Service, failed, said, serving

KEY = "sk-test-8f2d-not-a-real-key"
Play = Callable[[OpenAIBackend, Service], Awaitable[Any]]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEP_TEST_KEY", KEY)


@pytest.fixture
def picture(tmp_path: Path) -> ImageRef:
    return painted(tmp_path, ["a.png"])[0]


def model(url: str, in_flight: int = 8, **endpoint: Any) -> ModelSpec:
    entry = Endpoint(**{"base_url": url, "key_env": "SWEEP_TEST_KEY", **endpoint})
    return ModelSpec(name="m", source="served-m", backend="openai", gpus=0, in_flight=in_flight, endpoint=entry)


def against(folder: Path, answer: Callable[[int, dict[str, Any]], Answer], play: Play, **entry: Any) -> Service:
    """Let ``play`` talk to a backend whose service answers as ``answer`` says; gives the service to look at."""

    async def run() -> Service:
        async with serving(answer, entry.pop("delay", 0.0)) as service:
            backend = open_engine(model(service.url, **entry), folder)
            assert isinstance(backend, OpenAIBackend)
            try:
                await play(backend, service)
            finally:
                await backend.close()
                await backend.close()
            return service

    return asyncio.run(run())


def test_a_reply_carries_everything_and_the_request_says_everything(tmp_path: Path, picture: ImageRef) -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        reply = await backend.reply(asked(user("What is it?", picture), seed=7))
        assert (reply.text, reply.prompt_tokens, reply.reply_tokens, reply.finish) == ("B. Fork.", 100, 10, "length")
        assert reply.cost == pytest.approx((100 * 2.0 + 10 * 8.0) / 1e6)
        assert 0 < reply.seconds < 30

    prices = {"prompt_price": 2.0, "reply_price": 8.0}
    body = against(tmp_path, lambda n, _: said("B. Fork.", "length"), play, **prices).bodies[0]
    assert body["model"] == "served-m" and body["max_completion_tokens"] == 50 and "max_tokens" not in body
    assert (body["temperature"], body["top_p"], body["seed"]) == (0.0, 1.0, 7)
    picture_part, text_part = body["messages"][0]["content"]
    assert text_part == {"type": "text", "text": "What is it?"}
    kind, _, content = picture_part["image_url"]["url"].partition(";base64,")
    sent = Image.open(io.BytesIO(base64.b64decode(content)))
    assert kind == "data:image/png" and sent.size == (64, 48)
    assert sent.tobytes() == Image.open(tmp_path / picture.path).tobytes()


def test_reasoning_models_get_no_temperature_and_room_to_think(tmp_path: Path, picture: ImageRef) -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        await backend.reply(asked(user("?", picture)))

    service = against(tmp_path, lambda n, _: said(""), play, decoding=False, reserve=4096, effort="low")
    assert not {"temperature", "top_p", "seed"} & service.bodies[0].keys()
    assert service.bodies[0]["max_completion_tokens"] == 4146 and service.bodies[0]["reasoning_effort"] == "low"


def test_a_vllm_server_is_told_every_decoding_choice(tmp_path: Path, picture: ImageRef) -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        await backend.reply(asked(user("?", picture)))

    body = against(tmp_path, lambda n, _: said("A"), play, server="vllm").bodies[0]
    assert (body["top_k"], body["min_p"]) == (-1, 0.0)
    assert "repetition_penalty" not in body, "the server takes the checkpoint's own"


def test_everybody_rests_when_one_is_told_to(tmp_path: Path, picture: ImageRef) -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        replies = await asyncio.gather(*(backend.reply(asked(user("?", picture), seed=i)) for i in range(12)))
        assert [reply.text for reply in replies] == ["A"] * 12

    service = against(tmp_path, lambda n, _: failed(429, retry_after="1") if n == 0 else said("A"), play)
    quiet = max(later - sooner for sooner, later in zip(service.times, service.times[1:], strict=False))
    assert len(service.times) == 13 and quiet >= 0.9, "nobody asked while the service wanted rest"


def test_concurrency_grows_while_the_service_keeps_up_and_shrinks_when_it_does_not(tmp_path: Path) -> None:
    pictures = painted(tmp_path, ["a.png"])
    seen: dict[str, float] = {}

    async def play(backend: OpenAIBackend, service: Service) -> None:
        many = [asked(user("?", *pictures), seed=i) for i in range(150)]
        await asyncio.gather(*map(backend.reply, many))
        seen["grown"] = backend.pace.allowed
        service.together, service.enough = 24, asyncio.Event()
        await asyncio.wait_for(asyncio.gather(*map(backend.reply, many[:72])), 60)
        service.answer = lambda n, _: failed(429, retry_after_ms="1") if n % 2 else said("A")
        await asyncio.gather(*map(backend.reply, many[:40]))
        seen["shrunk"] = backend.pace.allowed

    service = against(tmp_path, lambda n, _: said("A"), play, in_flight=24)
    assert seen["grown"] == 24 and service.busiest == 24
    assert 1 <= seen["shrunk"] <= 8


def test_passing_trouble_is_waited_out(tmp_path: Path, picture: ImageRef, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.engine.openai.rate_limit.MIN_BACKOFF_S", 0.01)
    bad = [failed(500), failed(409), failed(503, retry_after_ms="5"), (200, {}, {"choices": []}), (200, {}, "text")]

    async def play(backend: OpenAIBackend, service: Service) -> None:
        assert (await backend.reply(asked(user("?", picture)))).text == "C"

    service = against(tmp_path, lambda n, _: bad[n] if n < len(bad) else said("C"), play)
    assert len(service.bodies) == len(bad) + 1 and all(body == service.bodies[0] for body in service.bodies)


def test_a_hanging_connection_is_cut_at_the_deadline_and_asked_again(tmp_path: Path, picture: ImageRef) -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        began = monotonic()
        assert (await backend.reply(asked(user("?", picture)))).text == "D"
        assert monotonic() - began >= 0.3, "the deadline was waited for"

    assert len(against(tmp_path, lambda n, _: HANG if n == 0 else said("D"), play, deadline=0.3).bodies) == 2


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_no_service_can_answer_ends_its_episode(tmp_path: Path, picture: ImageRef, status: int) -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        with pytest.raises(Unprocessable, match=f"HTTP {status}"):
            await backend.reply(asked(user("?", picture)))
        service.answer = lambda n, _: said("A")
        assert (await backend.reply(asked(user("?", picture)))).text == "A"

    against(tmp_path, lambda n, _: failed(status, message="too long"), play)


REFUSALS = {
    "filtered reply": said(None, "content_filter"),
    "refusal": said(None, refusal="I will not."),
    "filtered prompt": failed(400, "content_filter"),
}


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_an_ending_and_is_paid_for(tmp_path: Path, picture: ImageRef, answer: Answer) -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        with pytest.raises(Refused):
            await backend.reply(asked(user("?", picture)))
        assert (backend.budget.spent > 0) == (answer[0] == 200)

    against(tmp_path, lambda n, _: answer, play, prompt_price=1.0)


STOPS = [(401, ""), (402, ""), (403, ""), (404, ""), (429, "insufficient_quota"), (400, "unknown_parameter")]


@pytest.mark.parametrize(("status", "code"), STOPS)
def test_a_final_no_stops_the_model_for_all(
    tmp_path: Path, picture: ImageRef, status: int, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def play(backend: OpenAIBackend, service: Service) -> None:
        for _ in range(3):
            with pytest.raises(ModelStopped, match=str(status)) as stopped:
                await backend.reply(asked(user("?", picture)))
            assert KEY not in str(stopped.value)
            assert str(pickle.loads(pickle.dumps(stopped.value))) == str(stopped.value)

    service = against(tmp_path, lambda n, _: failed(status, code, f"wrong key {KEY}"), play)
    assert len(service.bodies) == 1 and service.keys == [f"Bearer {KEY}"]
    assert KEY not in caplog.text


def test_a_silent_service_counts_as_dead_after_a_while(tmp_path: Path, picture: ImageRef) -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        with pytest.raises(BackendDied, match="no answer for"):
            await backend.reply(asked(user("?", picture)))

    assert len(against(tmp_path, lambda n, _: failed(500), play, patience=0.5).bodies) > 1


def test_a_request_that_fails_alone_ends_its_own_episode(
    tmp_path: Path, picture: ImageRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.engine.openai.rate_limit.MIN_BACKOFF_S", 0.001)

    def answer(number: int, body: dict[str, Any]) -> Answer:
        return failed(500) if "poison" in str(body["messages"]) else said("A")

    async def play(backend: OpenAIBackend, service: Service) -> None:
        poison = asyncio.create_task(backend.reply(asked(user("poison", picture))))
        while not poison.done():
            await backend.reply(asked(user("fine", picture)))
        with pytest.raises(Unprocessable, match="on this request alone"):
            await poison

    against(tmp_path, answer, play)


def test_no_more_is_spent_than_given(tmp_path: Path, picture: ImageRef) -> None:
    """Each answer costs 0.0014 at most; 0.01 buys seven, however many ask at once."""

    async def play(backend: OpenAIBackend, service: Service) -> None:
        every = (backend.reply(asked(user("?", picture), seed=i, max_tokens=10)) for i in range(40))
        results = await asyncio.gather(*every, return_exceptions=True)
        replies = [result for result in results if isinstance(result, Reply)]
        stops = [result for result in results if isinstance(result, BudgetSpent)]
        assert len(replies) + len(stops) == 40 and len(replies) == 7 == len(service.bodies)
        assert backend.budget.spent == pytest.approx(sum(reply.cost for reply in replies))
        assert backend.budget.spent <= 0.01 and "max_cost = 0.01" in str(stops[0])

    prices = {"prompt_price": 4.0, "reply_price": 100.0, "max_cost": 0.01}
    against(tmp_path, lambda n, _: said("A"), play, delay=0.01, in_flight=1, **prices)


def test_a_missing_key_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWEEP_TEST_KEY")
    with pytest.raises(ValueError, match="m needs a key: set SWEEP_TEST_KEY"):
        open_engine(model("http://127.0.0.1:9/v1"), tmp_path)


def test_a_budget_without_prices_is_refused() -> None:
    with pytest.raises(ValueError, match="max_cost needs prompt_price"):
        Endpoint(max_cost=1.0)


def test_only_what_changes_answers_is_part_of_the_key() -> None:
    plain = model("http://a/v1").identity
    same = model("http://b/v1", in_flight=3, key_env="", deadline=1.0, prompt_price=1.0, max_cost=2.0).identity
    assert plain == same
    for change in ({"effort": "low"}, {"decoding": False}, {"reserve": 1}, {"pictures": "jpeg"}, {"server": "vllm"}):
        assert model("http://a/v1", **change).identity != plain
