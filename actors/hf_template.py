"""What the processor of a model on this disk makes of a conversation and of a picture; nothing is downloaded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from transformers import AutoProcessor

from actors.backend import Message
from actors.backend_registry import at_home
from actors.hf_backend import prompt_text
from sweeps.spec import ModelSpec


def template_text(model: ModelSpec, messages: Sequence[Message], tools: Sequence[dict[str, Any]] = ()) -> str | None:
    """What the model's processor turns the conversation into, ``tools`` beside it; None when its files are not on this disk."""
    processor = _processor(model)
    chat = {**model.chat, "tools": list(tools)} if tools else model.chat
    return None if processor is None else prompt_text(processor, messages, chat)


def picture_tokens(model: ModelSpec, sizes: Sequence[tuple[int, int]]) -> list[int] | None:
    """Tokens of one picture of each (height, width); None when the model's files are not here or cannot tell.

    transformers' processors count them for engines that must know before a picture is there.
    """
    processor = _processor(model)
    try:
        counted = processor._get_num_multimodal_tokens(image_sizes=[list(size) for size in sizes])
        return [int(count) for count in counted["num_image_tokens"]]
    except (AttributeError, KeyError, TypeError, ValueError, NotImplementedError):
        return None


def _processor(model: ModelSpec) -> Any:
    """The model's processor, or None when its files are not on this disk."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    model = at_home(model)
    try:
        return AutoProcessor.from_pretrained(
            model.source,
            revision=model.revision or None,
            local_files_only=True,
            trust_remote_code=model.trust_remote_code,
            **model.processor,
        )
    except OSError:
        return None
