"""Properties of a model's chat template that vLLM does not report: its start token, and whether it takes functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vllm.renderers.params import ChatParams

from actors.engine.chat_format import function_schema, has_start_token
from envs.tool_calls import Function

QUESTION = [{"role": "user", "content": [{"type": "text", "text": "?"}]}]
PROBE = Function("look_behind", "Looks behind it.", "side", ("left",))
"""A function to see whether a chat template writes it down."""


def writes_start_token(renderer: Any, template: ChatParams) -> bool:
    """Return True if the model's chat template begins every conversation with the start token itself."""
    _, prompt = renderer.render_messages(QUESTION, template)
    return "prompt" not in prompt or has_start_token(prompt["prompt"], renderer.get_tokenizer())


def add_functions(template: ChatParams, functions: Sequence[Function]) -> ChatParams:
    """Return the chat template's arguments with these functions."""
    tools = [function_schema(function) for function in functions]
    return replace(template, chat_template_kwargs={**template.chat_template_kwargs, "tools": tools})


def template_takes_functions(renderer: Any, template: ChatParams) -> bool:
    """Return True if the model's chat template writes functions down; others ignore them silently."""
    _, prompt = renderer.render_messages(QUESTION, add_functions(template, [PROBE]))
    text = prompt["prompt"] if "prompt" in prompt else renderer.get_tokenizer().decode(prompt["prompt_token_ids"])
    return PROBE.name in text
