"""vLLM's tool calling for an engine in this process: functions into the model's chat template, calls out of what it wrote.

vLLM 0.32's server does the same (``vllm.parser.abstract_parser``); its "auto" constrains no token: template and parser are all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.renderers.params import ChatParams
from vllm.tool_parsers import ToolParserManager

from actors.openai_reply import kept_call
from actors.tool_prompts import schema
from envs.tool_calls import Function, sent

PROBE = Function("look_behind", "Looks behind it.", "side", ("left",))
"""Shown to a chat template to see whether it takes functions."""


class ToolCalls:
    """One of vLLM's tool parsers, and the tokenizer that it reads with."""

    def __init__(self, name: str, tokenizer: Any) -> None:
        """Raises ValueError where vLLM has no parser of this name."""
        try:
            self.parser: Any = ToolParserManager.get_tool_parser(name)
        except KeyError:
            known = ", ".join(sorted(ToolParserManager.list_registered()))
            raise ValueError(f"tools = {name!r} is no tool parser of vLLM; there are {known}") from None
        self.tokenizer = tokenizer

    def request(self, functions: Sequence[Function]) -> Any:
        """The request that the parser would see in vLLM's server."""
        asked = ChatCompletionRequest.model_validate({
            "model": "m", "messages": [{"role": "user", "content": "?"}], "tools": [schema(one) for one in functions],
            "tool_choice": "auto",
        })  # fmt: skip
        return self.parser(self.tokenizer, asked.tools).adjust_request(asked)

    def skips_special_tokens(self, functions: Sequence[Function]) -> bool:
        """Whether the parser reads texts without the special tokens, which some models write calls with."""
        return bool(self.request(functions).skip_special_tokens)

    def read(self, text: str, functions: Sequence[Function]) -> str:
        """What the model wrote, as ``envs.tool_calls`` reads it; words in which the parser finds no call stay as they are."""
        asked = self.request(functions)
        try:
            found = self.parser(self.tokenizer, asked.tools).extract_tool_calls(text, asked)
        except Exception:  # whatever a parser raises on words that it was not made for
            return text
        calls = [kept_call(str(one.function.name), str(one.function.arguments)) for one in found.tool_calls]
        return sent(calls, found.content or "") if calls else text


def with_functions(template: ChatParams, functions: Sequence[Function]) -> ChatParams:
    """The chat template's arguments with these functions."""
    tools = [schema(one) for one in functions]
    return replace(template, chat_template_kwargs={**template.chat_template_kwargs, "tools": tools})


def takes_functions(renderer: Any, template: ChatParams) -> bool:
    """Whether the model's chat template writes functions down; others pass over them in silence."""
    chat = [{"role": "user", "content": [{"type": "text", "text": "?"}]}]
    _, prompt = renderer.render_messages(chat, with_functions(template, [PROBE]))
    text = prompt["prompt"] if "prompt" in prompt else renderer.get_tokenizer().decode(prompt["prompt_token_ids"])
    return PROBE.name in text
