"""Scored replies of a tiny checkpoint beside one forward pass over prompt and reply, as tasks of ``tests.actors.rehearsal``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from actors.engine.backend import Request
from actors.engine.batching import Job
from actors.engine.registry import open_engine
from proactive_operating.reply_scores import score_replies
from proactive_operating.transformers_scores import extend_inputs
from tests.actors import rehearsal
from tests.actors.asking import make_request
from tests.actors.newer_architectures import EVERY
from tests.actors.rehearsal_prompts import entry, prompts

REPLIES = ("A", "B. Move the blocks to the left.", "Cat.", "Cat. It is behind the blocks.")


async def compare_scores(name: str, folder: Path, data: Path) -> dict[str, Any]:
    """Map the titles of two prompts to the largest difference of a reply's log-probability from the forward pass's."""
    backend: Any = open_engine(entry(name, "transformers", folder), data)
    conversations, gaps = prompts(EVERY[name].pictures, data), dict[str, float]()
    try:
        for title in ("1 picture", "3 turns"):
            if title in conversations:
                gaps[title] = await _largest_gap(backend, make_request(*conversations[title], max_tokens=8))
    finally:
        await backend.close()
    return {"gaps": gaps}


async def _largest_gap(backend: Any, request: Request) -> float:
    scores = (await score_replies(backend, request, REPLIES)).scores
    job = Job(request, await backend.pictures.load(request.messages))
    inputs = backend.model.on_device(backend.model.inputs([job]))
    inputs.pop("labels", None)
    expected = [_forward_score(backend.model, inputs, reply) for reply in REPLIES]
    return max(abs(score.log_probability - other) for score, other in zip(scores, expected, strict=True))


@torch.inference_mode()
def _forward_score(model: Any, inputs: dict[str, Any], reply: str) -> float:
    ids = model.decoder(reply, add_special_tokens=False)["input_ids"]
    whole = extend_inputs(inputs, ids)
    if model.network.config.model_type == "paligemma":  # 0 is its prefix, where tokens see later ones, too
        whole["token_type_ids"][:, -len(ids) :] = 1
    steps = model.network(**whole).logits[0].float().log_softmax(-1)[-len(ids) - 1 :]
    written = sum(float(steps[number, token]) for number, token in enumerate(ids))
    ends = [stop for stop in sorted(model.stops) if stop < steps.shape[-1]]
    return written + float(steps[-1, ends].logsumexp(0))


if __name__ == "__main__":
    rehearsal.TASKS["scores"] = compare_scores
    rehearsal.main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
