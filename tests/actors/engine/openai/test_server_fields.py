"""Fields that servers other than OpenAI's get, and the check that a reply kept its limit."""

from __future__ import annotations

from typing import Any

import pytest

from actors.engine.backend import ModelStopped
from actors.engine.openai.server_fields import check_length, length_field, server_fields
from sweeps.sampling import Sampling
from sweeps.spec import ModelSpec

PLAIN, OWN = Sampling(top_k=7), Sampling(checkpoint=True)


def model(server: str = "openai", key_env: str = "", **fields: Any) -> ModelSpec:
    endpoint = {"base_url": "http://127.0.0.1:9/v1", "key_env": key_env, "server": server}
    return ModelSpec(**{"name": "m", "source": "s", "backend": "openai", "endpoint": endpoint, **fields})


@pytest.mark.parametrize(
    ("entry", "sampling", "fields"),
    [
        (model(), PLAIN, {}),
        (model("vllm"), PLAIN, {"top_k": 7, "min_p": 0.0}),
        (model("vllm"), OWN, {"min_p": 0.0}),
        (model("vllm", repetition_penalty=1.1), PLAIN, {"top_k": 7, "min_p": 0.0, "repetition_penalty": 1.1}),
        (model("llama.cpp"), PLAIN, {"top_k": 7, "min_p": 0.0, "repeat_penalty": 1.0}),
        (model("llama.cpp", repetition_penalty=1.1), Sampling(), {"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.1}),
        (model(chat={"enable_thinking": False}), PLAIN, {"chat_template_kwargs": {"enable_thinking": False}}),
        (model(processor={"max_pixels": 9}), PLAIN, {"mm_processor_kwargs": {"max_pixels": 9}}),
        (model("vllm", options={"min_p": 0.2, "user": "u"}), OWN, {"min_p": 0.2, "user": "u"}),
    ],
)
def test_every_server_gets_its_own_names(entry: ModelSpec, sampling: Sampling, fields: dict[str, Any]) -> None:
    assert server_fields(entry, sampling) == fields


@pytest.mark.parametrize(
    ("server", "field"),
    [("openai", "max_completion_tokens"), ("vllm", "max_completion_tokens"), ("llama.cpp", "max_tokens")],
)
def test_a_reply_longer_than_twice_its_limit_and_sixteen_stops_a_service_of_ones_own(server: str, field: str) -> None:
    entry = model(server)
    assert length_field(entry.endpoint) == field
    check_length(entry, 116, {field: 50})
    with pytest.raises(ModelStopped) as problem:
        check_length(entry, 117, {field: 50})
    assert str(problem.value) == (
        f"m: the service wrote 117 tokens where 50 are allowed, so it does not know {field};"
        ' write server = "llama.cpp" in its endpoint, or set the limit in its options'
    )
    for body in ({}, {"limit": 50}, {field: 50, "tools": []}):
        check_length(entry, 10**6, body)


def test_a_provider_is_not_checked() -> None:
    check_length(model(key_env="KEY"), 10**6, {"max_completion_tokens": 50})
    check_length(model(batch=True), 10**6, {"max_completion_tokens": 50})
