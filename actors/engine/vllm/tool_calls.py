"""vLLM's tool calling for an engine in this process: functions into the model's chat template, calls out of what it wrote.

vLLM 0.32's server does the same (``vllm.parser.abstract_parser``); its "auto" constrains no token: template and parser are all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.tool_parsers import ToolParserManager

from actors.engine.chat_format import function_schema
from actors.engine.openai.reply import bounded_call
from envs.tool_calls import Function, encode_calls


class ToolCalls:
    """One of vLLM's tool parsers with its tokenizer."""

    def __init__(self, name: str, tokenizer: Any) -> None:
        """Raises ValueError if vLLM has no parser of this name."""
        try:
            self.parser: Any = ToolParserManager.get_tool_parser(name)
        except KeyError:
            names = ", ".join(sorted(ToolParserManager.list_registered()))
            raise ValueError(f"tools = {name!r} is no tool parser of vLLM; write one of {names}") from None
        self.tokenizer = tokenizer

    def request(self, functions: Sequence[Function]) -> Any:
        """Return the request that the parser would see in vLLM's server."""
        request = ChatCompletionRequest.model_validate({
            "model": "m", "messages": [{"role": "user", "content": "?"}], 
            "tools": [function_schema(function) for function in functions],
            "tool_choice": "auto",
        })  # fmt: skip
        return self.parser(self.tokenizer, request.tools).adjust_request(request)

    def skips_special_tokens(self, functions: Sequence[Function]) -> bool:
        """Return True if the parser reads texts without special tokens; some models write calls with them."""
        return bool(self.request(functions).skip_special_tokens)

    def read(self, text: str, functions: Sequence[Function]) -> str:
        """Return a reply as ``envs.tool_calls`` reads it; a text without a call stays as it is."""
        request = self.request(functions)
        try:
            extracted = self.parser(self.tokenizer, request.tools).extract_tool_calls(text, request)
        except Exception:  # parsers raise anything on unexpected texts
            return text
        calls = [bounded_call(str(call.function.name), str(call.function.arguments)) for call in extracted.tool_calls]
        return encode_calls(calls, extracted.content or "") if calls else text
