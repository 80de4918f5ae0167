"""A service is asked over HTTP: what it is sent, which failures are retried, and when its model stops."""

import asyncio
import base64
import io
import logging
import pickle
import re
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
from sweeps.model import Endpoint
from sweeps.spec import ModelSpec
from tests.actors.asking import make_request, paint_pictures, user
from tests.actors.service import HANG, Answer, Service, completion, failure, serving

KEY = "sk-test-8f2d-not-a-real-key"
Play = Callable[[OpenAIBackend, Service], Awaitable[Any]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEP_TEST_KEY", KEY)
    monkeypatch.setattr("actors.engine.openai.backend.MIN_BACKOFF_S", 0.01)
    monkeypatch.setattr("actors.engine.openai.backend.MAX_BACKOFF_S", 0.05)


@pytest.fixture
def picture(tmp_path: Path) -> ImageRef:
    return paint_pictures(tmp_path, ["a.png"])[0]


def model(url: str, in_flight: int = 8, **endpoint: Any) -> ModelSpec:
    entry = Endpoint(**{"base_url": url, "key_env": "SWEEP_TEST_KEY", **endpoint})
    return ModelSpec(name="m", source="served-m", backend="openai", gpus=0, in_flight=in_flight, endpoint=entry)


def play_against(folder: Path, answer: Callable[[int, dict[str, Any]], Answer], play: Play, **entry: Any) -> Service:
    """Run ``play`` against a backend whose service answers with ``answer``; return the service."""

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


async def ask(backend: OpenAIBackend, service: Service) -> Reply:
    return await backend.reply(make_request(user("?"), seed=7))


def test_request_and_reply_carry_every_field(tmp_path: Path, picture: ImageRef) -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        reply = await backend.reply(make_request(user("What is it?", picture), seed=7))
        assert (reply.text, reply.prompt_tokens, reply.reply_tokens, reply.finish) == ("B. Fork.", 100, 10, "length")
        assert reply.cost == pytest.approx((100 * 2.0 + 10 * 8.0) / 1e6)
        assert 0 < reply.seconds < 30 and reply.note == "model m"

    prices = {"prompt_price": 2.0, "reply_price": 8.0}
    body = play_against(tmp_path, lambda n, _: completion("B. Fork.", "length"), play, **prices).bodies[0]
    assert body["model"] == "served-m" and body["max_completion_tokens"] == 50 and "max_tokens" not in body
    assert (body["temperature"], body["top_p"], body["seed"]) == (0.0, 1.0, 7)
    picture_part, text_part = body["messages"][0]["content"]
    assert text_part == {"type": "text", "text": "What is it?"}
    kind, _, content = picture_part["image_url"]["url"].partition(";base64,")
    sent = Image.open(io.BytesIO(base64.b64decode(content)))
    assert kind == "data:image/png" and sent.tobytes() == Image.open(tmp_path / picture.path).tobytes()


@pytest.mark.parametrize(
    ("endpoint", "sent", "absent"),
    [
        ({"decoding": False, "reserve": 4096, "effort": "low"},
         {"max_completion_tokens": 4146, "reasoning_effort": "low"}, {"temperature", "top_p", "seed"}),
        ({"server": "vllm"}, {"top_k": -1, "min_p": 0.0}, {"repetition_penalty", "extra_body"}),
        ({"server": "llama.cpp"}, {"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0, "max_tokens": 50}, {"max_completion_tokens"}),
    ],
    ids=["a reasoning model", "vllm", "llama.cpp"],
)  # fmt: skip
def test_every_server_gets_its_own_fields(
    tmp_path: Path, endpoint: dict[str, Any], sent: dict[str, Any], absent: set[str]
) -> None:
    body = play_against(tmp_path, lambda n, _: completion("A"), ask, **endpoint).bodies[0]
    assert {name: body[name] for name in sent} == sent and not absent & body.keys()


def test_own_service_that_ignores_the_limit_of_a_reply_is_stopped(tmp_path: Path) -> None:
    def long_reply(number: int, body: dict[str, Any]) -> Answer:
        status, headers, answer = completion("A" * 900)
        answer["usage"]["completion_tokens"] = 900
        return status, headers, answer

    for server, remedy in (
        ("vllm", r'write server = "llama\.cpp"'),
        ("llama.cpp", "max_tokens; set the limit in its options"),
    ):

        async def play(backend: OpenAIBackend, service: Service, remedy: str = remedy) -> None:
            with pytest.raises(ModelStopped, match=f"wrote 900 tokens where 50 .*{remedy}"):
                await ask(backend, service)

        play_against(tmp_path, long_reply, play, key_env="", server=server)
    play_against(tmp_path, long_reply, ask)  # a provider may count its thoughts


def test_all_requests_pause_when_one_is_rate_limited(tmp_path: Path) -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        replies = [asyncio.create_task(backend.reply(make_request(user("?"), seed=i))) for i in range(12)]
        while not backend.last_failure:
            await asyncio.sleep(0.01)
        assert "next try in 1 s" in backend.describe_trouble()
        assert [reply.text for reply in await asyncio.gather(*replies)] == ["A"] * 12

    service = play_against(tmp_path, lambda n, _: failure(429, retry_after="1") if n == 0 else completion("A"), play)
    quiet = max(later - sooner for sooner, later in zip(service.times, service.times[1:], strict=False))
    assert len(service.times) == 13 and quiet >= 0.9, "nobody asked while the service wanted rest"


def test_concurrency_grows_and_shrinks_with_service_speed(tmp_path: Path) -> None:
    many = [make_request(user("?"), seed=i) for i in range(150)]
    allowed: dict[str, float] = {}

    async def play(backend: OpenAIBackend, service: Service) -> None:
        await asyncio.gather(*map(backend.reply, many))
        allowed["grown"] = backend.pace.allowed
        service.together, service.enough = 24, asyncio.Event()
        await asyncio.wait_for(asyncio.gather(*map(backend.reply, many[:72])), 60)
        service.answer = lambda n, _: failure(429, retry_after_ms="1") if n % 2 else completion("A")
        await asyncio.gather(*map(backend.reply, many[:40]))
        allowed["shrunk"] = backend.pace.allowed

    service = play_against(tmp_path, lambda n, _: completion("A"), play, in_flight=24)
    assert allowed["grown"] == 24 and service.busiest == 24
    assert 1 <= allowed["shrunk"] <= 8


def test_transient_errors_are_retried(tmp_path: Path) -> None:
    bad = [
        failure(500), failure(409), failure(503, retry_after_ms="5"), (200, {}, {"choices": []}), (200, {}, "text"),
        failure(503, retry_after="soon"), (200, {}, {"error": {"message": "busy", "code": 502}}),
    ]  # fmt: skip

    async def play(backend: OpenAIBackend, service: Service) -> None:
        assert (await ask(backend, service)).text == "C"

    service = play_against(tmp_path, lambda n, _: bad[n] if n < len(bad) else completion("C"), play)
    assert len(service.bodies) == len(bad) + 1 and all(body == service.bodies[0] for body in service.bodies)


def test_hanging_request_is_retried_at_deadline(tmp_path: Path) -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        began = monotonic()
        assert (await ask(backend, service)).text == "D"
        assert monotonic() - began >= 0.3, "the deadline was waited for"

    assert len(play_against(tmp_path, lambda n, _: HANG if n == 0 else completion("D"), play, deadline=0.3).bodies) == 2


@pytest.mark.parametrize("ended_by", ["caller", "deadline"])
def test_a_request_that_is_cut_off_in_flight_counts_with_its_maximum(tmp_path: Path, ended_by: str) -> None:
    """The service may bill it: here a reply of 10 tokens for 100 a million, each time."""
    times = 2 if ended_by == "deadline" else 1

    async def play(backend: OpenAIBackend, service: Service) -> None:
        reply = asyncio.create_task(backend.reply(make_request(user("?"), max_tokens=10)))
        while len(service.bodies) < times:
            await asyncio.sleep(0.01)
        reply.cancel()
        await asyncio.gather(reply, return_exceptions=True)
        assert (await backend.wallet.ledger.spending())["m"] == pytest.approx(0.001 * times)

    deadline = 1.5 if ended_by == "deadline" else 60.0
    play_against(tmp_path, lambda n, _: HANG, play, deadline=deadline, reply_price=100.0, max_cost=1.0)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0}, {"completion_tokens": -1}])
def test_an_answer_without_valid_counts_is_charged_with_its_maximum(tmp_path: Path, usage: Any, capsys: Any) -> None:
    status, headers, body = completion("A")

    async def play(backend: OpenAIBackend, service: Service) -> None:
        assert (await backend.reply(make_request(user("?"), max_tokens=10))).reply_tokens == 0
        assert (await backend.wallet.ledger.spending())["m"] == pytest.approx(0.001)

    answer = status, headers, {**body, "usage": usage}
    play_against(tmp_path, lambda n, _: answer, play, reply_price=100.0, max_cost=1.0)
    assert re.search(r"stored as 0: (usage|\w+_tokens) is (missing|-1)", capsys.readouterr().out)


REFUSALS = {
    "filtered reply": completion(None, "content_filter"),
    "refusal": completion(None, refusal="I will not."),
    "filtered prompt": failure(400, "content_filter"),
}


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
def test_refusal_ends_episode_and_is_paid(tmp_path: Path, answer: Answer) -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        with pytest.raises(Refused):
            await ask(backend, service)
        assert ((await backend.wallet.ledger.spending())["m"] > 0) == (answer[0] == 200)

    play_against(tmp_path, lambda n, _: answer, play, prompt_price=1.0)


STOPS = [(401, ""), (402, ""), (403, ""), (404, ""), (429, "insufficient_quota"), (400, "unknown_parameter"), (302, "")]


@pytest.mark.parametrize(("status", "code"), STOPS)
def test_permanent_error_stops_model_for_all_requests(
    tmp_path: Path, status: int, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def play(backend: OpenAIBackend, service: Service) -> None:
        for _ in range(3):
            with pytest.raises(ModelStopped, match=str(status)) as stopped:
                await ask(backend, service)
            assert KEY not in str(stopped.value)
            assert str(pickle.loads(pickle.dumps(stopped.value))) == str(stopped.value)

    service = play_against(tmp_path, lambda n, _: failure(status, code, f"wrong key {KEY}"), play)
    assert len(service.bodies) == 1 and service.keys == [f"Bearer {KEY}"]
    assert KEY not in caplog.text


def test_silent_service_counts_as_dead(tmp_path: Path) -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        with pytest.raises(BackendDied, match="no answer for"):
            await ask(backend, service)

    assert len(play_against(tmp_path, lambda n, _: failure(500), play, patience=0.5).bodies) > 1


def test_requests_that_always_fail_end_only_their_episodes(tmp_path: Path) -> None:
    def answer(number: int, body: dict[str, Any]) -> Answer:
        return failure(500) if "poison" in str(body["messages"]) else completion("A")

    async def play(backend: OpenAIBackend, service: Service) -> None:
        poison = [asyncio.create_task(backend.reply(make_request(user("poison")))) for _ in range(2)]
        while not all(task.done() for task in poison):
            await backend.reply(make_request(user("fine")))
        errors = await asyncio.gather(*poison, return_exceptions=True)
        assert {type(error) for error in errors} == {Unprocessable} and "one bad replica of several" in f"{errors}"

    play_against(tmp_path, answer, play)


def test_spending_never_exceeds_max_cost(tmp_path: Path) -> None:
    """Each answer costs 0.0014 at most; 0.01 buys seven, however many ask at once."""

    async def play(backend: OpenAIBackend, service: Service) -> None:
        every = (backend.reply(make_request(user("?"), seed=i, max_tokens=10)) for i in range(40))
        results = await asyncio.gather(*every, return_exceptions=True)
        replies = [outcome for outcome in results if isinstance(outcome, Reply)]
        stops = [outcome for outcome in results if isinstance(outcome, BudgetSpent)]
        assert len(replies) + len(stops) == 40 and len(replies) == 7 == len(service.bodies)
        spent = (await backend.wallet.ledger.spending())["m"]
        assert spent == pytest.approx(sum(reply.cost for reply in replies))
        assert spent <= 0.01 and "max_cost = 0.01" in str(stops[0])

    prices = {"prompt_price": 4.0, "reply_price": 100.0, "max_cost": 0.01}
    play_against(tmp_path, lambda n, _: completion("A"), play, delay=0.01, in_flight=1, **prices)


def test_thoughts_without_a_text_stop_the_model_with_the_remedy(tmp_path: Path) -> None:
    status, headers, thinking = completion(None)
    thinking["choices"][0]["message"]["reasoning_content"] = "B. Fork."
    texts = iter([*range(19), "text", *range(30)])

    async def play(backend: OpenAIBackend, service: Service) -> None:
        replies = [await backend.reply(make_request(user("?"), seed=seed)) for seed in range(39)]
        assert [reply.thought for reply in replies if not reply.text] == ["B. Fork."] * 38
        with pytest.raises(
            ModelStopped, match=r"20 replies in a row have .* in reasoning_content.*thinking = .*budget"
        ):
            await ask(backend, service)

    play_against(tmp_path, lambda n, _: completion("A") if next(texts) == "text" else (status, headers, thinking), play)


def test_key_contains_only_settings_that_change_answers() -> None:
    plain = model("http://a/v1").identity
    same = model("http://b/v1", in_flight=3, key_env="", deadline=1.0, prompt_price=1.0, max_cost=2.0).identity
    assert plain == same
    for change in ({"effort": "low"}, {"decoding": False}, {"reserve": 1}, {"pictures": "jpeg"}, {"server": "vllm"}):
        assert model("http://a/v1", **change).identity != plain
