"""The chat template of a model that is on this disk, applied to a conversation; nothing is downloaded."""

from __future__ import annotations

import os
from collections.abc import Sequence

from transformers import AutoProcessor

from actors.backend import Message
from actors.backend_registry import at_home
from actors.hf_backend import prompt_text
from sweeps.spec import ModelSpec


def template_text(model: ModelSpec, messages: Sequence[Message]) -> str | None:
    """What the model's processor turns the conversation into; None when its files are not on this disk."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    model = at_home(model)
    try:
        processor = AutoProcessor.from_pretrained(
            model.source,
            revision=model.revision or None,
            local_files_only=True,
            trust_remote_code=model.trust_remote_code,
        )
    except OSError:
        return None
    return prompt_text(processor, messages, model.chat)
