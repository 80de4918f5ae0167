"""Compare replies of tiny random checkpoints with a random adapter in transformers and in vLLM, and print JSON lines.

``python -m tests.orchestrator.learning.served_adapter FOLDER DATA NAME ...``: runs in its own process, as ``rehearsal`` does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from peft import get_peft_model

from actors.engine.backend import Request
from actors.engine.hf.backend import ModelAndProcessor
from actors.engine.registry import open_engine
from orchestrator.learning.settings import Lora
from orchestrator.learning.states import load_states
from orchestrator.learning.student import lora_config
from sweeps.sampling import Sampling
from sweeps.spec import ModelSpec
from tests.actors.architectures import write

ON_CPU = {"enforce_eager": True, "max_model_len": 8192, "block_size": 32, "max_lora_rank": 16}
SPREAD, TOKENS, ASKED = 0.3, 8, 60
"""Standard deviation of the adapter's weights, enough to change every reply; tokens per reply; number of questions."""


def write_adapter(model: ModelSpec, folder: Path) -> Path:
    """Write a random adapter for the layers that the paper trains."""
    network = ModelAndProcessor(model).network
    torch.manual_seed(1)
    adapted = get_peft_model(network, lora_config(network, Lora(), model.name))
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.normal_(0, SPREAD)
    adapted.save_pretrained(folder)
    return folder


def replies(model: ModelSpec, data_folder: Path, requests: Sequence[Request]) -> list[str]:
    """Return greedy replies of the model's engine."""

    async def ask() -> list[str]:
        backend = open_engine(model, data_folder)
        try:
            return [reply.text for reply in await asyncio.gather(*map(backend.reply, requests))]
        finally:
            await backend.close()

    return asyncio.run(ask())


def main(folder: Path, data_folder: Path, names: Sequence[str]) -> None:
    jobs = (state.job() for state in load_states(data_folder, ("QD", "COCO", "ROD"), None, 0))
    requests = [Request(job.request.messages, Sampling(max_tokens=TOKENS), 0, job.request.situation) for job in jobs][
        :ASKED
    ]
    for name in names:
        source = write(name, folder / name)
        model = ModelSpec(name=name, source=str(source), backend="transformers", gpus=0, dtype="float32")
        tuned = model.model_copy(update={"lora": str(write_adapter(model, folder / f"{name}-adapter"))})
        served = tuned.model_copy(update={"backend": "vllm", "options": ON_CPU})
        before, expected, actual = (replies(spec, data_folder, requests) for spec in (model, tuned, served))
        changed, equal = (sum(a == b for a, b in zip(expected, texts, strict=True)) for texts in (before, actual))
        print(
            json.dumps({"name": name, "asked": len(requests), "changed": len(requests) - changed, "equal": equal}),
            flush=True,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
