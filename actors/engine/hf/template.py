"""Renders prompts and counts picture tokens with the processor of a local model, without downloads."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image
from transformers import AutoProcessor

from actors.engine.backend import Message
from actors.engine.chat_format import Chat, conversation, template_variables, with_picture_marks
from envs.render import GREY
from envs.types import ImageRef
from sweeps.package_models import resolve_source
from sweeps.spec import ModelSpec

COUNTING_ERRORS = (AttributeError, KeyError, TypeError, ValueError, IndexError, ImportError, NotImplementedError)
"""Errors of processors that cannot count, or refuse a picture."""


def prompt_text(processor: Any, messages: Sequence[Message], chat: Mapping[str, Any]) -> str:
    """Render a prompt with the processor's own chat template, before pictures become tokens.

    A model without template (InstructBLIP) takes one question with one picture; raises ValueError for more, and for pictures if
    the model reads text only.
    """
    tokenizer = getattr(processor, "tokenizer", processor)
    if processor is tokenizer and any(message.images for message in messages):
        raise ValueError("the model reads text only, and the prompt has pictures")
    if not (tokenizer.chat_template or getattr(processor, "chat_template", None)):
        if len(messages) != 1 or len(messages[0].images) != 1:
            raise ValueError("a model without chat template takes one question with one picture")
        return messages[0].text

    variables = template_variables(chat)

    def render(turns: Chat) -> str:
        renderer = processor if getattr(processor, "chat_template", None) else tokenizer
        text: str = renderer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, **variables)
        return text

    try:
        return render(conversation(messages, lambda image: {"type": "image"}, plain=processor is tokenizer))
    except TypeError:  # a template that joins strings, such as Phi-4's, cannot join a list
        if (mark := getattr(processor, "image_token", None)) is None:
            raise
        return render(with_picture_marks(messages, mark))


def template_text(model: ModelSpec, messages: Sequence[Message], tools: Sequence[dict[str, Any]] = ()) -> str | None:
    """Return the rendered conversation with these ``tools``; None if the model's files are not on this disk."""
    processor = _processor(model)
    chat = {**model.chat, "tools": list(tools)} if tools else model.chat
    return None if processor is None else prompt_text(processor, messages, chat)


class TokenCounter:
    """Counts tokens with the processor of a model whose files are on this disk."""

    def __init__(self, processor: Any, chat: Mapping[str, Any]) -> None:
        self.processor, self.chat = processor, chat
        self.tokenizer = getattr(processor, "tokenizer", processor)

    def text(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return len(self.tokenizer(text)["input_ids"])

    def pictures(self, sizes: Sequence[tuple[int, int]]) -> list[int] | None:
        """Return the number of tokens of a picture of each (height, width); None if the processor cannot count them.

        A processor that does not report these numbers is called with gray pictures.
        """
        if self.processor is self.tokenizer:
            return None
        try:
            counts = self.processor._get_num_multimodal_tokens(image_sizes=[list(size) for size in sizes])
            return [int(count) for count in counts["num_image_tokens"]]
        except COUNTING_ERRORS:
            pass
        try:
            return [self._call(size) for size in sizes]
        except COUNTING_ERRORS:
            return None

    def _call(self, size: tuple[int, int]) -> int:
        """Return by how many tokens a second picture of this size lengthens a prompt."""
        gray, lengths = Image.new("RGB", size[::-1], GREY), []
        for count in (1, 2):
            message = Message("user", "?", (ImageRef("gray.png"),) * count)
            text = prompt_text(self.processor, [message], self.chat)
            lengths.append(len(self.processor(text=[text], images=[gray] * count)["input_ids"][0]))
        return lengths[1] - lengths[0]


def token_counter(model: ModelSpec) -> TokenCounter | None:
    """Return a counter of the model's tokens; None if its files are not on this disk, or no processor can be built here."""
    processor = _processor(model)
    return None if processor is None else TokenCounter(processor, model.chat)


def _processor(model: ModelSpec) -> Any:
    """Return the model's processor; None if its files are not on this disk, or no processor can be built here."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    model = resolve_source(model)
    try:
        processor = AutoProcessor.from_pretrained(
            model.source,
            revision=model.revision or None,
            local_files_only=True,
            trust_remote_code=model.trust_remote_code,
            **model.processor,
        )
    except (OSError, ValueError, ImportError):  # ImportError: a package such as torchvision is missing
        return None
    return processor if hasattr(getattr(processor, "tokenizer", processor), "chat_template") else None
