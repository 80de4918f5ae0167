"""Renders prompts with the processor of a local model, without downloads."""

import os
from collections.abc import Mapping, Sequence, Set
from typing import Any

from jinja2 import TemplateError
from PIL import Image
from transformers import AutoProcessor

from actors.engine.backend import Message
from actors.engine.chat_format import conversation, template_variables, with_picture_marks
from envs.types import ImageRef
from sweeps.checkpoint import checkpoint_folder
from sweeps.packages import resolve_source
from sweeps.spec import ModelSpec


def prompt_text(processor: Any, messages: Sequence[Message], chat: Mapping[str, Any]) -> str:
    """Render a prompt with the processor's own chat template, before pictures become tokens.

    A model without template (InstructBLIP) takes one question with one picture; raises ValueError for more, for pictures if the
    model reads text only, and for a conversation that the template refuses.
    """
    tokenizer = getattr(processor, "tokenizer", processor)
    if processor is tokenizer and any(message.images for message in messages):
        raise ValueError("the model reads text only, and the prompt has pictures")
    if not (tokenizer.chat_template or getattr(processor, "chat_template", None)):
        if len(messages) != 1 or len(messages[0].images) != 1:
            raise ValueError("a model without chat template takes one question with one picture")
        return messages[0].text

    renderer = processor if getattr(processor, "chat_template", None) else tokenizer
    options = {"tokenize": False, "add_generation_prompt": True, **template_variables(chat)}
    parts = conversation(messages, lambda image: {"type": "image"}, plain=processor is tokenizer)
    try:
        return str(renderer.apply_chat_template(parts, **options))
    except TemplateError as refusal:
        raise ValueError(f"{refusal} (says the chat template)") from refusal
    except TypeError:  # a template that joins strings, such as Phi-4's, cannot join a list
        if (mark := getattr(processor, "image_token", None)) is None:
            raise
        return str(renderer.apply_chat_template(with_picture_marks(messages, mark), **options))


def template_text(model: ModelSpec, messages: Sequence[Message], tools: Sequence[dict[str, Any]] = ()) -> str | None:
    """Return the rendered conversation with these ``tools``; None if the model's files are not on this disk."""
    processor = _processor(model)
    chat = {**model.chat, "tools": list(tools)} if tools else model.chat
    return None if processor is None else prompt_text(processor, messages, chat)


def drops_pictures(model: ModelSpec, image_tokens: Set[int]) -> bool:
    """Return True if a question has no token for its picture: the chat template leaves it out or misspells it.

    ``image_tokens`` are the checkpoint's ids of a part of a picture; without, only a picture that is left out is seen.
    """
    if (processor := _processor(model)) is None:
        return False
    questions = ([Message("user", "?", images)] for images in ((ImageRef("a"),), ()))
    with_picture, without = (prompt_text(processor, question, model.chat) for question in questions)
    if with_picture == without or not image_tokens:
        return with_picture == without
    tensors = processor(text=[with_picture], images=[Image.new("RGB", (224, 224), "gray")], return_tensors="pt")
    return image_tokens.isdisjoint(tensors["input_ids"].flatten().tolist())


def _processor(model: ModelSpec) -> Any:
    """Return the model's processor; None if its files are not on this disk, or no processor can be built here."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    model = resolve_source(model)
    if checkpoint_folder(model) is None:
        return None
    try:
        source = {"revision": model.revision or None, "trust_remote_code": model.trust_remote_code}
        processor = AutoProcessor.from_pretrained(model.source, local_files_only=True, **source, **model.processor)
    except (OSError, ValueError, ImportError):  # ImportError: a package such as torchvision is missing
        return None
    return processor if hasattr(getattr(processor, "tokenizer", processor), "chat_template") else None
