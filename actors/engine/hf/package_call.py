"""Calls a checkpoint through transformers as the package proactivebench does: the reference for our engines.

Source: the package's example ``tests/mcqa.py`` (0.1.1): ``processor.apply_chat_template(conversation,
add_generation_prompt=True)``, then ``processor(text=[chat], images=[...])`` with pictures as one flat list, then
``generate``, which a comparison of inputs leaves out. This module shares no code with ``actors.engine.hf.backend``, so that it
reveals errors there.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import torch
from PIL.Image import Image
from transformers import AutoProcessor, Phi4MultimodalProcessor

from actors.engine.backend import Message, ModelInput
from actors.engine.hf.input_hashes import IDS, hash_normalization, hash_tensors
from envs.types import ImageRef
from sweeps.spec import ModelSpec


class PackageCall:
    """One checkpoint's processor."""

    def __init__(self, model: ModelSpec) -> None:
        """Load the processor; raises what transformers raises."""
        self.model = model
        self.source = {"revision": model.revision or None, "trust_remote_code": model.trust_remote_code}
        self.processor = AutoProcessor.from_pretrained(model.source, **self.source)
        self.tokenizer = getattr(self.processor, "tokenizer", self.processor)
        """The processor itself for a model that reads text only."""

    def hashes(
        self, messages: Sequence[Message], pictures: Mapping[ImageRef, Image], engine: ModelInput
    ) -> tuple[dict[str, str], bool]:
        """Return each tensor's hash, floats in the type of the engine's network, and True if the start token is repeated.

        It is repeated if it occurs twice here but once in the engine; it is then hashed once (docs/decisions/0008). If the engine
        normalizes pictures on its device, the pixels are hashed unnormalized, and the processor's normalization has its own hash.
        """
        raw = {"do_rescale": False, "do_normalize": False} if engine.raw_pixels else {}
        inputs = dict(self._inputs(messages, pictures, **raw))
        length, own = inputs[IDS].shape[1], inputs[IDS][0].tolist()
        repeats = len(own) > 1 and own[0] == own[1] and own[1:] == list(engine.ids)
        if repeats:
            inputs = {name: value[:, 1:] if value.shape == (1, length) else value for name, value in inputs.items()}
        if raw:
            inputs = {
                name: value.to(torch.uint8) if value.is_floating_point() else value for name, value in inputs.items()
            }
        hashes = hash_tensors(inputs, getattr(torch, engine.dtype))
        return hashes | (self._normalization() if raw else {}), repeats

    def _normalization(self) -> dict[str, str]:
        pictures = self.processor.image_processor
        mean, deviation = (pictures.image_mean, pictures.image_std) if pictures.do_normalize else ((0,) * 3, (1,) * 3)
        return hash_normalization(mean, deviation, pictures.rescale_factor if pictures.do_rescale else 1)

    def _inputs(self, messages: Sequence[Message], pictures: Mapping[ImageRef, Image], **options: bool) -> Any:
        images = [pictures[image] for message in messages for image in message.images]
        text = [self._chat(messages)]
        if self.processor is self.tokenizer:
            return self.processor(text, padding=True, return_tensors="pt")
        return self.processor(text=text, images=images or None, padding=True, return_tensors="pt", **options)

    def _chat(self, messages: Sequence[Message]) -> str:
        """Render the conversation; a model without template (InstructBLIP) reads the plain question."""
        if not (self.tokenizer.chat_template or getattr(self.processor, "chat_template", None)):
            return messages[-1].text
        if isinstance(self.processor, Phi4MultimodalProcessor):
            return self._phi4_chat(messages)
        parts = [[*({"type": "image"} for _ in m.images), {"type": "text", "text": m.text}] for m in messages]
        texts = [message.text for message in messages]
        contents = texts if self.processor is self.tokenizer else parts
        conversation = [{"role": m.role, "content": content} for m, content in zip(messages, contents, strict=True)]
        chat = dict(self.model.chat)
        if day := chat.pop("today", ""):  # the package itself renders today's date
            chat["strftime_now"] = lambda form: datetime.fromisoformat(day).strftime(form)
        text: str = self.processor.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True, **chat)
        return text

    def _phi4_chat(self, messages: Sequence[Message]) -> str:
        """Render the conversation as transformers' tests do for Phi-4 (``<|user|><|image|>?<|end|><|assistant|>``)."""
        turns = [f"<|{message.role}|>{'<|image|>' * len(message.images)}{message.text}<|end|>" for message in messages]
        return "".join(turns) + "<|assistant|>"
