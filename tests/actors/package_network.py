"""The package's call with its network: the reference for token ids and replies of our engines."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Image
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, Phi4MultimodalProcessor

from actors.engine.backend import Message
from actors.engine.hf.package_call import PackageCall
from envs.types import ImageRef


class PackageNetwork(PackageCall):
    """A checkpoint's processor and network; the network is loaded for the first reply."""

    network: Any = None

    def ids(self, messages: Sequence[Message], pictures: Mapping[ImageRef, Image]) -> list[int]:
        """Return the token ids of the prompt, pictures expanded."""
        ids: list[int] = self._inputs(messages, pictures)["input_ids"][0].tolist()
        return ids

    @torch.inference_mode()
    def reply(self, messages: Sequence[Message], pictures: Mapping[ImageRef, Image], max_tokens: int = 50) -> str:
        """Return the greedy reply, because sampled replies of two engines cannot be compared."""
        if self.network is None:
            self.network = self._load()
        inputs = self._inputs(messages, pictures).to(self.network.device, self.network.dtype)
        tokenizer = self.tokenizer
        output = self.network.generate(
            **inputs, max_new_tokens=max_tokens, do_sample=False, num_beams=1, pad_token_id=tokenizer.eos_token_id
        )
        length = inputs["input_ids"].shape[1]
        new = output[0][length:] if torch.equal(output[0][:length], inputs["input_ids"][0]) else output[0]
        text: str = tokenizer.decode(new, skip_special_tokens=True, clean_up_tokenization_spaces=True)
        return text

    def _load(self) -> Any:
        device = "cuda" if self.model.gpus and torch.cuda.is_available() else "cpu"
        placement = {"device_map": "auto"} if self.model.gpus > 1 else {}
        phi4 = isinstance(self.processor, Phi4MultimodalProcessor)
        family = AutoModelForCausalLM if phi4 else AutoModelForImageTextToText
        network = family.from_pretrained(self.model.source, dtype=self.model.dtype, **self.source, **placement)
        if self.model.lora:  # as in transformers' documentation of Phi-4
            subfolder: dict[str, Any] = {"subfolder": self.model.lora, "revision": self.model.revision or None}
            if (folder := Path(self.model.source)).is_dir():  # transformers looks for the subfolder only on the Hub
                network.load_adapter(str(folder / self.model.lora), adapter_name="vision")
            else:
                network.load_adapter(self.model.source, adapter_name="vision", adapter_kwargs=subfolder)
            network.set_adapter("vision")
        return (network if placement else network.to(device)).eval()
