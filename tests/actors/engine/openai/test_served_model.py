"""A service of one's own that comes back with another model under the same name is refused before a reply is stored."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.engine.backend import ModelStopped
from actors.engine.chat_format import FUNCTION_PROBE
from actors.engine.openai.backend import OpenAIBackend
from actors.engine.openai.rate_limit import Budget
from actors.engine.openai.served_identity import MAX_DISTANCE, Probe, same_model, to_identity
from actors.engine.openai.served_model import IDLE_S, QUESTIONS
from actors.engine.registry import open_engine
from tests.actors.asking import make_request, user
from tests.actors.engine.openai.test_openai_backend import model
from tests.actors.service import Answer, Service, completion, failure, serving

SAME, NOISY, OTHER = {"The": 0.6, "A": 0.3}, {"The": 0.57, "A": 0.33}, {"The": 0.3, "A": 0.6}
REQUEST = make_request(user("Which one?"))


def answer_probe(
    body: dict[str, Any], chances: dict[str, float] | None, tokens: int = 100, text: str = "The cat"
) -> Answer:
    """Answer as a model with these first tokens would; None refuses log-probabilities."""
    if body.get("logprobs") and chances is None:
        return failure(400, message="logprobs are not supported")
    status, headers, answer = completion(text)
    answer["usage"]["prompt_tokens"] = tokens
    top = [{"token": token, "logprob": math.log(chance)} for token, chance in (chances or {}).items()]
    answer["choices"][0]["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]} if top else None
    return status, headers, answer


def is_probe(body: dict[str, Any]) -> bool:
    return body["messages"][0]["content"] in QUESTIONS


def play_with(answer: Callable[[int, dict[str, Any]], Answer], play: Callable, **entry: Any) -> Service:
    async def run() -> Service:
        async with serving(answer) as service:
            service.models = ("served-m",)
            backend = open_engine(model(service.url, **{"key_env": "", "patience": 5, **entry}), Path())
            assert isinstance(backend, OpenAIBackend)
            try:
                await play(backend, service)
            finally:
                await backend.close()
            return service

    return asyncio.run(run())


def restart_with(after: Answer | Callable[[dict[str, Any]], Answer], trouble: Answer, **first: Any) -> Callable:
    """Return a service that fails once, at its second real request, and then answers questions as ``after`` does."""
    real: list[int] = []

    def answer(number: int, body: dict[str, Any]) -> Answer:
        if is_probe(body):
            return after(body) if len(real) > 1 else answer_probe(body, first.get("chances", SAME))
        real.append(number)
        return trouble if len(real) == 2 else completion("A")

    return answer


BROKEN: Answer = (200, {"connection": "close", "content-length": "9999"}, b"{")
BEFORE = {"logprobs": {"chances": SAME}, "text alone": {"chances": None}}
OTHERS = {
    "other first tokens": ("logprobs", lambda body: answer_probe(body, OTHER)),
    "another tokenizer": ("logprobs", lambda body: answer_probe(body, SAME, tokens=101)),
    "another text": ("text alone", lambda body: answer_probe(body, None, text="Dogs")),
}


@pytest.mark.parametrize("trouble", [BROKEN, failure(503)], ids=["broken", "503"])
@pytest.mark.parametrize("name", OTHERS)
def test_another_model_after_a_restart_stops_the_model(name: str, trouble: Answer) -> None:
    kind, after = OTHERS[name]

    async def play(backend: OpenAIBackend, service: Service) -> None:
        assert (await backend.identify()).startswith("served:")
        assert (await backend.reply(REQUEST)).text == "A"
        for _ in range(2):
            with pytest.raises(
                ModelStopped, match=r"served-m, http.* serves another model than this run began with; start"
            ):
                await backend.reply(REQUEST)

    service = play_with(restart_with(after, trouble, **BEFORE[kind]), play)
    assert len([body for body in service.bodies if not is_probe(body)]) == 2, "nothing is asked of the other model"


@pytest.mark.parametrize("kind", BEFORE)
def test_the_same_model_after_a_restart_goes_on(kind: str) -> None:
    noisy = NOISY if kind == "logprobs" else None

    async def play(backend: OpenAIBackend, service: Service) -> None:
        await backend.identify()
        assert [(await backend.reply(REQUEST)).text for _ in range(4)] == ["A"] * 4

    service = play_with(restart_with(lambda body: answer_probe(body, noisy), failure(503), **BEFORE[kind]), play)
    questions = len([body for body in service.bodies if is_probe(body)])
    assert questions == (4 if kind == "logprobs" else 8), "asked at the start and after the failure, not otherwise"


def test_a_restart_that_no_request_met_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an idle second, or by another fingerprint of an answer, which is not stored then."""
    states = {"chances": SAME, "fingerprint": "one"}

    def answer(number: int, body: dict[str, Any]) -> Answer:
        status, headers, content = answer_probe(body, states["chances"]) if is_probe(body) else completion("A")
        return status, headers, {**content, "system_fingerprint": states["fingerprint"]}

    async def play_idle(backend: OpenAIBackend, service: Service) -> None:
        await backend.identify()
        await backend.reply(REQUEST)
        states["chances"] = OTHER
        assert (await backend.reply(REQUEST)).text == "A", "no reason to ask yet"
        await asyncio.sleep(IDLE_S + 0.1)
        with pytest.raises(ModelStopped, match="another model"):
            await backend.reply(REQUEST)

    async def play_fingerprint(backend: OpenAIBackend, service: Service) -> None:
        states.update(chances=SAME)
        await backend.identify()
        await backend.reply(REQUEST)
        states.update(fingerprint="two")
        assert (await backend.reply(REQUEST)).text == "A", "another setting of the server, but the same model"
        states.update(chances=OTHER, fingerprint="three")
        with pytest.raises(ModelStopped, match="another model"):
            await backend.reply(REQUEST)

    play_with(answer, play_idle)
    play_with(answer, play_fingerprint)


def test_a_later_attempt_knows_the_model_of_the_run() -> None:
    answers: list[dict[str, float]] = [SAME, OTHER]
    identities: list[str] = []

    async def play(backend: OpenAIBackend, service: Service) -> None:
        identities.append(await backend.identify(*identities))
        if len(identities) == 2:
            with pytest.raises(ModelStopped, match="another model"):
                await backend.reply(REQUEST)

    for chances in answers:
        play_with(lambda n, body, chances=chances: answer_probe(body, chances), play)
    assert not same_model(*identities)


@pytest.mark.parametrize(
    "entry", [{"key_env": "SWEEP_TEST_KEY"}, {"decoding": False}], ids=["a provider's", "a reasoning model"]
)
def test_other_services_are_asked_nothing(entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEP_TEST_KEY", "key")

    async def play(backend: OpenAIBackend, service: Service) -> None:
        assert await backend.identify() == ""
        await backend.reply(REQUEST)

    assert len(play_with(lambda n, body: completion("A"), play, **entry).bodies) == 1


def test_the_questions_are_paid() -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        await backend.identify()
        assert backend.budget.spent == pytest.approx(2 * 110 / 1e6)  # type: ignore[union-attr]

    play_with(lambda n, body: answer_probe(body, SAME), play, prompt_price=1.0, reply_price=1.0)


def test_what_counts_as_the_same_model() -> None:
    def identity(moved: float = 0.0, **fields: Any) -> str:
        first = {"The": 0.6 - moved, "A": 0.3 + moved}
        return to_identity([Probe(**{"prompt_tokens": 9, "first": first, "text": "The", **fields})])

    assert same_model(identity(), identity(MAX_DISTANCE * 0.9))
    assert not same_model(identity(), identity(MAX_DISTANCE * 1.1))
    assert not same_model(identity(), identity(first={"Dog": 0.9}))
    assert same_model(identity(), identity(text="A")), "a near tie"
    assert same_model(identity(first={}), identity(0.9)), "equal texts where one has no probabilities"
    for damaged in ("", "sha256:00", "served:", "served:[]", "served:[[1]]"):
        assert not same_model(identity(), damaged) and same_model(damaged, damaged)


@pytest.mark.parametrize("shown", [40, 0])
def test_a_service_whose_template_leaves_functions_out_is_stopped_before_a_reply(shown: int) -> None:
    """``shown``: prompt tokens of a function. llama.cpp drops functions silently if the template has no place for them."""
    calls = replace(REQUEST, tools=(FUNCTION_PROBE,))

    async def play(backend: OpenAIBackend, service: Service) -> None:
        await backend.identify()
        if shown:
            await backend.reply(calls)
            await backend.reply(calls)
            return
        with pytest.raises(
            ModelStopped, match=r'does not show functions to served-m: .* write tools = "text" in the entry'
        ):
            await backend.reply(calls)

    def answer(_: int, body: dict[str, Any]) -> Answer:
        return answer_probe(body, SAME, 100 + shown * len(body.get("tools", ())))

    bodies = play_with(answer, play).bodies
    assert sum(is_probe(body) for body in bodies) == len(QUESTIONS) + 2
    assert sum(not is_probe(body) for body in bodies) == (2 if shown else 0)


def test_a_budget_that_is_overspent_pays_for_no_question_about_the_model() -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        backend.budget = Budget(1.0, "served-m")
        await backend.budget.raise_spent_to(1.5)
        assert await backend.identify() == ""

    assert play_with(lambda number, body: completion("A"), play).bodies == []


def test_chances_of_first_tokens_are_kept_to_four_decimals() -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        probe = await backend.served._ask_question(QUESTIONS[0])
        assert probe is not None and probe.first == {"The": 0.6123, "A": 0.3}

    play_with(lambda number, body: answer_probe(body, {"The": 0.61234, "A": 0.29997}), play)
