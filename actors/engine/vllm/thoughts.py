"""vLLM's reasoning parsers for an engine in this process."""

from copy import deepcopy
from typing import Any

from vllm.reasoning import ReasoningParserManager
from vllm.renderers.params import ChatParams

from actors.engine.thoughts import ThoughtReader
from actors.engine.vllm.tool_calls import plain_request, render_question
from envs.thoughts import MAX_THOUGHTS, tidy_answer
from sweeps.spec import ModelSpec


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
    return (
        ThoughtReader(decoder, prompt, model.thinking)
        if model.thinking.parser == "auto"
        else ParsedThoughts(model, decoder, prompt)
    )
