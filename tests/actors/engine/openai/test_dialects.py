"""What each provider sends, and what becomes of it: the dialects are data, a real HTTP server speaks them."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.engine.backend import BackendDied, BackendError, ModelStopped, Overflow, Refused, Reply, Unprocessable
from actors.engine.openai.backend import OpenAIBackend
from envs.tool_calls import Function
from tests.actors.asking import make_request, user
from tests.actors.engine.openai.test_openai_backend import ask, play_against
from tests.actors.engine.openai.test_openai_backend import quick as quick
from tests.actors.service import Answer, Service, completion, failure


def outcome(
    folder: Path, answer: Any, prompt: str = "?", tools: tuple[Function, ...] = (), **endpoint: Any
) -> tuple[Reply | BackendError, Service]:
    """Return the reply or the error of one request, and the service."""
    results: list[Reply | BackendError] = []

    async def play(backend: OpenAIBackend, service: Service) -> None:
        try:
            results.append(await backend.reply(make_request(user(prompt))._replace(tools=tools)))
        except BackendError as error:
            results.append(error)

    answers = answer if callable(answer) else lambda n, _: answer
    service = play_against(folder, answers, play, **{"patience": 0.3, **endpoint})
    return results[0], service


def message(word: Any = "stop", **fields: Any) -> Answer:
    status, headers, body = completion("A", word)
    body["choices"][0]["message"] |= fields
    return status, headers, body


# -- answers -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("words", "finish"),
    [
        (["stop", "", None, "STOP", "end_turn", "tired", 3, ["stop"]], "stop"),
        (["length", "MAX_TOKENS", "model_length", "model_context_window_exceeded"], "length"),
    ],
)
def test_a_text_is_kept_whatever_word_ends_it(tmp_path: Path, words: list[Any], finish: str) -> None:
    for word in words:
        reply, _ = outcome(tmp_path, completion("A", word))
        assert isinstance(reply, Reply) and (reply.text, reply.finish) == ("A", finish), word
        assert ("end" in reply.note) == (word not in ("stop", "length"))


@pytest.mark.parametrize("word", ["SAFETY", "content_filter: SAFETY", "refusal", "guardrail_intervened"])
def test_a_declined_reply_is_refused(tmp_path: Path, word: str) -> None:
    refusal, _ = outcome(tmp_path, completion("", word))
    assert isinstance(refusal, Refused) and word in str(refusal)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"content": [{"type": "text", "text": "B"}, {"type": "text", "text": " C"}]}, "B C"),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "B"}]}, "B"),
        ({"content": [{"type": "thinking", "thinking": [{"type": "reference"}]}, {"type": "text", "text": "B"}]}, "B"),
        ({"content": "B", "reasoning_content": "hm"}, "B"), ({"content": "B", "reasoning": "hm"}, "B"),
    ],
)  # fmt: skip
def test_content_is_a_text_or_parts_and_thoughts_stay_out(tmp_path: Path, fields: dict[str, Any], text: str) -> None:
    reply, _ = outcome(tmp_path, message(**fields))
    assert isinstance(reply, Reply) and reply.text == text and reply.thought in ("", "hm")


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ({"error": {"message": "Insufficient credits", "code": 402}}, ModelStopped, "Insufficient credits"),
        ({"error": {"message": "Provider returned error", "code": 502, "metadata": {"raw": "gone"}}}, BackendDied, "gone"),
        ({"error": {"message": "This endpoint's maximum context length is 8192 tokens", "code": 400}}, Overflow, "8192"),
        ({"choices": [{"finish_reason": "error", "message": {"content": "par"}}]}, BackendDied, "finish_reason is 'error'"),
        ({"detail": "worker is away"}, BackendDied, "worker is away"),
    ],
)  # fmt: skip
def test_an_error_inside_http_200_is_that_error(tmp_path: Path, body: dict[str, Any], kind: type, words: str) -> None:
    error, _ = outcome(tmp_path, (200, {}, body))
    assert type(error) is kind and words in str(error)


QUOTA = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (200, {"message": "Rate limit exceeded: free-models-per-min"}),
        (429, {"message": QUOTA, "details": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]}),
    ],
)
def test_an_answer_about_the_rate_slows_the_model_down(tmp_path: Path, status: int, error: dict[str, Any]) -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        await ask(backend, service)
        assert backend.pace.reductions == 1

    play_against(tmp_path, lambda n, _: (status, {}, {"error": error}) if n == 0 else completion("A"), play)


# -- refusals ----------------------------------------------------------------------------------------------------------
TOO_LONG = {
    "OpenAI": (
        400, {"error": {"message": "This model's maximum context length is 8192 tokens.", "code": "context_length_exceeded"}}),
    "vLLM": (
        400, {"object": "error", "message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."}),
    "vLLM, pictures": (400, {"error": {"message": "At most 1 image(s) may be provided in one prompt."}}),
    "SGLang": (
        400, {"object": "error", "message": "The input (5000 tokens) is longer than the model's context length (4096 tokens)."}),
    "llama-server": (
        400, {"error": {"code": 400, "message": "the request exceeds the available context size, try increasing it",
                                     "type": "exceed_context_size_error"}}),
    "Gemini": (400, [{"error": {"code": 400, "message": "The input token count (1200000) exceeds the maximum number of tokens "
                                                       "allowed (1048576).", "status": "INVALID_ARGUMENT"}}]),
    "Anthropic": (
        400, {"error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
    "Mistral": (
        400, {"object": "error", "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 "
                                                    "maximum context length"}),
    "OpenRouter": (400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": json.dumps(
        {"error": {"message": "This endpoint's maximum context length is 8192 tokens."}})}}}),
    "DashScope": (
        400, {"error": {"message": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 204800]"}}),
    "LM Studio": (400, {"error": "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"}),
    "Bedrock": (400, {"message": "Input is too long for requested model."}),
    "TGI": (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: 9000"}),
    "vLLM behind a gateway": (400, {"error": {"type": "invalid_request_error", "message":
        "'max_completion_tokens' is too large: 50. This model's maximum context length is 4096 tokens, your request has 4090."}}),
    "nginx": (413, b"<html><head><title>413 Request Entity Too Large</title></head></html>"),
}  # fmt: skip


@pytest.mark.parametrize("name", TOO_LONG)
def test_every_servers_words_for_too_long_are_an_overflow(tmp_path: Path, name: str) -> None:
    status, body = TOO_LONG[name]
    error, service = outcome(tmp_path, (status, {}, body))
    assert type(error) is Overflow and len(service.bodies) == 1


def test_where_words_fail_the_context_that_the_service_lists_decides(tmp_path: Path) -> None:
    """The stand-in lists a context of 100 tokens and refuses every prompt in words that nobody knows."""
    for prompt, kind in (("word " * 200, Overflow), ("short", Unprocessable)):

        async def play(backend: OpenAIBackend, service: Service, prompt: str = prompt, kind: type = kind) -> None:
            service.models, service.context = ("served-m",), 100
            with pytest.raises(BackendError) as refused:
                await backend.reply(make_request(user(prompt)))
            assert type(refused.value) is kind

        play_against(tmp_path, lambda n, _: failure(400, message="non"), play)


REFUSED = {
    "Mistral": (
        422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "FIELD"], "msg": "Extra inputs are not permitted"}]}),
    "OpenAI": (400, {"error": {"message": "Unsupported parameter: 'FIELD' is not supported with this model.", "param": "FIELD",
                               "code": "unsupported_parameter"}}),
    "Gemini": (
        400, [{"error": {"code": 400, "message": 'Invalid JSON payload received. Unknown name "FIELD": Cannot find field.'}}]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_fields_are_left_out_one_by_one_and_once(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, body = REFUSED[name]

    def answer(number: int, sent: dict[str, Any]) -> Answer:
        for field in ("max_completion_tokens", "seed"):
            if field in sent:
                return status, {}, json.loads(json.dumps(body).replace("FIELD", field))
        return completion("A")

    async def play(backend: OpenAIBackend, service: Service) -> None:
        replies = [await ask(backend, service) for _ in range(3)]
        assert {reply.note for reply in replies} == {"model m; without seed"}

    service = play_against(tmp_path, answer, play)
    assert len(service.bodies) == 5 and service.bodies[-1]["max_tokens"] == 50
    said = capsys.readouterr().out.splitlines()
    assert said.count("m: the service refuses seed; requests leave it out") == 1
    assert said.count("m: the service refuses max_completion_tokens; requests say max_tokens") == 1


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("Unsupported value: 'temperature' does not support 0.0 with this model.", "decoding = false"),
        ("Unsupported parameters: max_tokens, max_completion_tokens", "play through another server"),
        ("max_tokens is too large: 50. This model supports at most 16 completion tokens", "lower sampling.max_tokens"),
    ],
)
def test_a_refusal_that_every_request_would_get_stops_with_the_remedy(
    tmp_path: Path, message: str, remedy: str
) -> None:
    error, _ = outcome(tmp_path, failure(400, message=message))
    assert type(error) is ModelStopped and remedy in str(error) and message[:20] in str(error)


def test_an_address_without_its_version_is_named_with_the_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(backend: OpenAIBackend, service: Service) -> None:
        backend.client.base_url = service.url.removesuffix("/v1")
        with pytest.raises(ModelStopped, match=r"404: Cannot POST; asked http://127\S+/chat/completions; .*no /v1"):
            await ask(backend, service)

    play_against(tmp_path, lambda n, _: (404, {}, b"<html><pre>Cannot POST</pre></html>"), play)
    monkeypatch.setenv("http_proxy", "http://me:secret@127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    error, _ = outcome(tmp_path, completion("A"))
    assert isinstance(error, BackendDied) and "through the proxy http://***@127.0.0.1:9" in str(error)
