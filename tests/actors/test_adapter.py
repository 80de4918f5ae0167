"""An adapter of a checkpoint changes its weights as its files say, wherever it lies, and Phi-4's template gets strings."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("peft", reason="the extra 'transformers' is not installed")

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from actors.engine.hf.backend import ModelAndProcessor
from sweeps.spec import ModelSpec
from tests.actors.tiny import text_only

IDS = torch.tensor([[1, 9, 10, 11]])
RANK, ALPHA = 4, 8


def test_an_adapter_is_added_to_the_weights(tmp_path: Path) -> None:
    """The reference adds alpha/r * B A to the weights by hand."""
    folder = text_only(tmp_path / "model")
    network = AutoModelForCausalLM.from_pretrained(folder)
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    get_peft_model(network, config).save_pretrained(folder / "vision-lora")
    plain = AutoModelForCausalLM.from_pretrained(folder)
    without = plain(IDS).logits
    deltas = load_file(folder / "vision-lora/adapter_model.safetensors")
    with torch.no_grad():
        for name in (key.removesuffix(".lora_A.weight") for key in deltas if key.endswith("lora_A.weight")):
            weight = plain.get_submodule(name.removeprefix("base_model.model.")).weight
            weight += ALPHA / RANK * deltas[f"{name}.lora_B.weight"] @ deltas[f"{name}.lora_A.weight"]
        expected = plain(IDS).logits

    assert (expected - without).abs().max() > 0.1
    for lora in ("vision-lora", str(folder / "vision-lora")):
        model = ModelSpec(name="m", source=str(folder), backend="transformers", gpus=0, dtype="float32", lora=lora)
        with torch.no_grad():
            assert torch.allclose(ModelAndProcessor(model).network(IDS).logits, expected, atol=1e-4)
