"""What vLLM is told of a checkpoint's own decoding is what transformers' ``generate``, and so the package, would do."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")

import torch
from transformers import AutoModelForImageTextToText
from vllm import SamplingParams

from actors.engine.vllm.parameters import COLDEST
from actors.engine.vllm.token_input import open_without_engine
from sweeps.spec import ModelSpec
from tests.actors.asking import asked, painted, user
from tests.actors.tiny import checkpoint

pytestmark = pytest.mark.slow
FILES: dict[str, dict[str, Any]] = {
    "all is said": {"do_sample": True, "temperature": 0.7, "top_k": 3, "top_p": 0.5, "repetition_penalty": 1.3},
    "transformers adds top_k": {"do_sample": True, "temperature": 0.9},
    "no top_k": {"do_sample": True, "top_k": 0, "top_p": 0.8},
    "Qwen2.5-VL's": {"do_sample": True, "temperature": 1e-6, "repetition_penalty": 1.05},
    "not sampled": {"do_sample": False, "temperature": 0.2, "repetition_penalty": 1.1},
    "nothing is said": {},
    "banned tokens": {"suppress_tokens": [5, 7], "bad_words_ids": [[9]]},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decoding")
    checkpoint(folder / "model")
    painted(folder, ["0.png"])
    return folder


@pytest.mark.parametrize("forced", [False, True], ids=["multiple choice", "open-ended"])
@pytest.mark.parametrize("says", FILES)
def test_vllm_gets_what_generate_uses(folder: Path, says: str, forced: bool) -> None:
    """The package's open-ended example passes ``do_sample=True``, its multiple choice nothing."""
    (folder / "model/generation_config.json").write_text(
        json.dumps({"eos_token_id": 2, "pad_token_id": 0, **FILES[says]})
    )
    sampled, steps = generate_uses(folder / "model", {"do_sample": True} if forced else {})
    temperature = getattr(steps.get("TemperatureLogitsWarper"), "temperature", 1.0)
    given = vllm_gets(folder, sampled=forced)

    assert given.repetition_penalty == getattr(steps.get("RepetitionPenaltyLogitsProcessor"), "penalty", 1.0)
    banned = {*FILES[says].get("suppress_tokens", ()), *(word[0] for word in FILES[says].get("bad_words_ids", ()))}
    assert set(given.logit_bias or {}) == banned
    assert ({"SuppressTokensLogitsProcessor", "NoBadWordsLogitsProcessor"} <= steps.keys()) == bool(banned)
    if not sampled or temperature < COLDEST:
        assert (given.temperature, given.top_p, given.top_k) == (0.0, 1.0, 0)
        return
    assert (given.temperature, given.seed) == (temperature, 7)
    assert given.top_p == getattr(steps.get("TopPLogitsWarper"), "top_p", 1.0)
    assert max(0, given.top_k) == getattr(steps.get("TopKLogitsWarper"), "top_k", 0)


def generate_uses(model: Path, options: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Whether transformers samples from the checkpoint, and what it does to the scores, by class."""
    network = AutoModelForImageTextToText.from_pretrained(model)
    real, seen = network._get_logits_processor, list[Any]()

    def recorded(*args: Any, **named: Any) -> Any:
        config = named.get("generation_config") or args[0]
        seen.append((config.do_sample, real(*args, **named)))
        return seen[-1][1]

    network._get_logits_processor = recorded
    network.generate(torch.tensor([[1, 9, 10]]), max_new_tokens=1, **options)
    ((sampled, steps),) = seen
    return sampled, {type(step).__name__: step for step in steps}


def vllm_gets(folder: Path, sampled: bool) -> SamplingParams:
    """What the backend hands to the engine for a request that follows the checkpoint."""
    given: list[SamplingParams] = []

    async def generate(prompt: Any, choices: SamplingParams, number: str, lora_request: Any) -> AsyncIterator[Any]:
        given.append(choices)
        said = SimpleNamespace(text="A", token_ids=[5], finish_reason="stop")
        yield SimpleNamespace(finished=True, outputs=[said], prompt_token_ids=[1], num_cached_tokens=0)

    async def awake() -> bool:
        return False

    async def ask() -> None:
        options = {"enforce_eager": True, "max_model_len": 1024}
        model = ModelSpec(name="tiny", source=str(folder / "model"), gpus=0, dtype="float32", options=options)
        backend: Any = open_without_engine(model, folder)
        backend.engine.generate, backend.engine.is_sleeping = generate, awake
        (picture,) = painted(folder, ["0.png"])
        await backend.reply(
            asked(user("What is this?", picture), seed=7, checkpoint=True, sampled=sampled, max_tokens=4)
        )
        await backend.close()

    asyncio.run(ask())
    return given[0]
