"""vLLM's parsers for an engine in this process: of thoughts, and of calls to functions, which enter the model's chat template.

vLLM 0.32's server does the same (``vllm.parser.abstract_parser``); its tool choice "auto" constrains no token.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.reasoning import ReasoningParserManager
from vllm.renderers.params import ChatParams
from vllm.tool_parsers import ToolParserManager

from actors.engine.chat_format import FUNCTION_PROBE, bounded_call, function_schema, has_start_token
from actors.engine.thoughts import ThoughtReader
from envs.thoughts import MAX_THOUGHTS, tidy_answer
from envs.tool_calls import Function, encode_calls
from sweeps.spec import ModelSpec

QUESTION = [{"role": "user", "content": [{"type": "text", "text": "?"}]}]

HF_FORMAT = 'options = { config_format = "hf", tokenizer_mode = "hf", load_format = "safetensors" }'
"""Options for an entry whose repository also has Mistral's format, which vLLM would otherwise choose."""


def writes_start_token(renderer: Any, template: ChatParams) -> bool:
    """Return True if the model's chat template begins every conversation with the start token itself.

    Raises ValueError for a tokenizer in Mistral's own format, because its prompts differ from the package's.
    """
    tokenizer = renderer.get_tokenizer()
    if not hasattr(tokenizer, "bos_token"):
        kind = type(tokenizer).__name__
        raise ValueError(f"vLLM chose a tokenizer without chat template ({kind}); write {HF_FORMAT}")
    _, prompt = renderer.render_messages(QUESTION, template)
    return "prompt" not in prompt or has_start_token(prompt["prompt"], tokenizer)


def processor_adds_tokens(renderer: Any) -> bool:
    """Return False if the checkpoint's processor adds no special tokens by default, as LFM2-VL's."""
    processor = renderer.mm_processor.info.get_hf_processor() if renderer.mm_processor else None
    defaults = getattr(getattr(processor, "valid_processor_kwargs", None), "_defaults", {})
    return bool(defaults.get("text_kwargs", {}).get("add_special_tokens", True))


def add_functions(template: ChatParams, functions: Sequence[Function]) -> ChatParams:
    """Return the chat template's arguments with these functions."""
    tools = [function_schema(function) for function in functions]
    return replace(template, chat_template_kwargs={**template.chat_template_kwargs, "tools": tools})


def render_question(renderer: Any, template: ChatParams) -> str:
    """Return a prompt of the model's chat template."""
    _, prompt = renderer.render_messages(QUESTION, template)
    return str(prompt["prompt"] if "prompt" in prompt else renderer.get_tokenizer().decode(prompt["prompt_token_ids"]))


def plain_request(**fields: Any) -> ChatCompletionRequest:
    """Return a request as vLLM's server passes it to a parser."""
    messages = [{"role": "user", "content": "?"}]
    return ChatCompletionRequest.model_validate({"model": "m", "messages": messages, **fields})


class ToolCalls:
    """One of vLLM's tool parsers with its tokenizer."""

    def __init__(self, model: ModelSpec, renderer: Any, template: ChatParams) -> None:
        """Raises ValueError if vLLM lacks the entry's parser, or the model's template takes no functions."""
        try:
            self.parser: Any = ToolParserManager.get_tool_parser(model.tools)
        except KeyError:
            names = ", ".join(sorted(ToolParserManager.list_registered()))
            raise ValueError(f"tools = {model.tools!r} is not a tool parser of vLLM; write one of {names}") from None
        if FUNCTION_PROBE.name not in render_question(renderer, add_functions(template, [FUNCTION_PROBE])):
            raise ValueError(
                f'the chat template of {model.source} takes no functions: write tools = "text" for {model.name}'
            )
        self.tokenizer = renderer.get_tokenizer()

    def request(self, functions: Sequence[Function]) -> Any:
        """Return the request that the parser would see in vLLM's server.

        Its ``skip_special_tokens`` is False if the model writes calls with special tokens.
        """
        tools = [function_schema(function) for function in functions]
        request = plain_request(tools=tools, tool_choice="auto")
        return self.parser(self.tokenizer, request.tools).adjust_request(request)

    def read(self, text: str, functions: Sequence[Function]) -> str:
        """Return a reply in the format that ``envs.tool_calls`` reads; a text without a call stays unchanged."""
        request = self.request(functions)
        try:
            extracted = self.parser(self.tokenizer, request.tools).extract_tool_calls(text, request)
        except Exception:  # parsers raise anything on unexpected texts
            return text
        calls = [bounded_call(str(call.function.name), str(call.function.arguments)) for call in extracted.tool_calls]
        return encode_calls(calls, extracted.content or "") if calls else text


class ParsedThoughts(ThoughtReader):
    """A reasoning parser of vLLM; replies that it cannot read are split by their marks."""

    def __init__(self, model: ModelSpec, decoder: Any, prompt: str) -> None:
        """Raises ValueError if vLLM lacks the entry's parser."""
        assert model.thinking is not None
        super().__init__(decoder, prompt, model.thinking)
        self.chat = model.chat
        try:
            self.parser: Any = ReasoningParserManager.get_reasoning_parser(model.thinking.parser)
        except KeyError:
            names = ", ".join(ReasoningParserManager.list_registered())
            raise ValueError(
                f'thinking.parser = "{model.thinking.parser}" is not a reasoning parser of vLLM; write "auto" or one of {names}'
            ) from None

    def split(self, text: str, finish: str) -> tuple[str, str]:
        try:
            parser = self.parser(self.decoder, chat_template_kwargs=self.chat)
            thought, answer = parser.extract_reasoning(text, plain_request())
        except Exception:  # parsers raise anything on unexpected texts
            return super().split(text, finish)
        return self.clean(thought or "")[:MAX_THOUGHTS], tidy_answer(answer or "")


def open_thoughts(model: ModelSpec, renderer: Any, template: ChatParams) -> ThoughtReader | None:
    """Return the reader of the model's thoughts; None if its entry has no ``thinking``."""
    if model.thinking is None:
        return None
    decoder, prompt = deepcopy(renderer.get_tokenizer()), render_question(renderer, template)
    if model.thinking.parser == "auto":
        return ThoughtReader(decoder, prompt, model.thinking)
    return ParsedThoughts(model, decoder, prompt)
