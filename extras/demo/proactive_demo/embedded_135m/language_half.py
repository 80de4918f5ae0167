"""Makes the language half: ``python -m proactive_demo.embedded_135m.language_half FILE.gguf FOLDER``.

It runs as a process of its own, with the package that reads GGUF files on PYTHONPATH.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def convert(gguf: Path, folder: Path) -> None:
    """Write a GGUF file as a folder that transformers and vLLM load: bfloat16 weights, configuration, tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    quantized = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    config = quantized.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # the loaded weights are no longer quantized
    model = AutoModelForCausalLM.from_config(config)
    model.load_state_dict(quantized.state_dict())
    model.tie_weights()
    model.generation_config = quantized.generation_config
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)


if __name__ == "__main__":
    torch.set_num_threads(1)
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
