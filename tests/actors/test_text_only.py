"""A judge has no eyes: every engine answers a conversation without pictures, on a model that knows none."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")

from actors.engine.backend import Backend, Message, Reply, Request
from actors.engine.registry import open_engine
from actors.playing.judge import judge
from sweeps.conditions import CONDITIONS
from sweeps.sampling import Sampling
from sweeps.spec import Cell, Judge, ModelSpec, Protocol
from tests.actors.asking import asked, user
from tests.actors.tiny import text_only
from tests.envs.games import SAMPLES

QUESTIONS = ["What is this?", "Which of these is it? A. Fork. B. Banana. C. I cannot tell.", "A " * 60]
ENGINE = {"enforce_eager": True, "max_model_len": 4096, "block_size": 32}
CELL = Cell(
    model=ModelSpec(name="m", source="builtin:refuse", backend="builtin"), scenario="QD",
    condition=CONDITIONS["zero-shot"], protocol=Protocol.OEG,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_only(tmp_path_factory.mktemp("text") / "model").parent


def entry(folder: Path, backend: str, **more: Any) -> ModelSpec:
    options = ENGINE if backend == "vllm" else {"batch": 4}
    return ModelSpec(
        name="text", source=str(folder / "model"), backend=backend, gpus=0, dtype="float32", options=options, **more
    )


def questions(**sampling: float) -> list[Request]:
    brief = Message("system", "Be brief.")
    plain = [asked(user(text), seed=n, **sampling) for n, text in enumerate(QUESTIONS)]
    return plain + [asked(brief, user(text), seed=n, **sampling) for n, text in enumerate(QUESTIONS)]


async def replies(backend: Backend, many: list[Request]) -> list[tuple[str, int, int]]:
    found = await asyncio.gather(*map(backend.reply, many))
    assert all(isinstance(one, Reply) for one in found)
    return [(one.text, one.prompt_tokens, one.reply_tokens) for one in found]


async def unjudged(backend: Backend, model: ModelSpec) -> None:
    """A judge that babbles is asked again with other seeds, and then the answer is unjudged."""
    by = Judge(model=model, sampling=Sampling(temperature=1.0, max_tokens=8), attempts=3)
    found = await judge(SAMPLES["QD"], CELL, "Please add more strokes.", by, backend, 5)
    assert found.bits is None and found.reason and found.attempts == 3 and found.reply_tokens > 3
    assert found.prompt_tokens > 900, "the instruction reached it whole, three times"
    short = await judge(SAMPLES["QD"], CELL, "?", by.model_copy(update={"attempts": 1}), backend, 5)
    assert short.prompt_tokens < found.prompt_tokens / 2.9 and short.attempts == 1


async def talked(model: ModelSpec, folder: Path, many: list[Request]) -> list[tuple[str, int, int]]:
    backend = open_engine(model, folder)
    try:
        found = await replies(backend, many)
        await unjudged(backend, model)
        return found
    finally:
        await backend.close()


def test_transformers_reads_every_word_and_thinking_can_be_switched_off(folder: Path) -> None:
    found = asyncio.run(talked(entry(folder, "transformers"), folder, questions(max_tokens=12)))
    mute = asyncio.run(
        talked(entry(folder, "transformers", chat={"enable_thinking": False}), folder, questions(max_tokens=12))
    )

    assert len({text for text, *_ in found}) == 6, "the replies differ by question and by system message"
    assert [after - before for (_, before, _), (_, after, _) in zip(found, mute, strict=True)] == [
        len("<think></think>")
    ] * 6


@pytest.mark.long
@pytest.mark.slow
def test_vllm_reads_the_same_words_as_transformers(folder: Path) -> None:
    pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")
    many = questions(max_tokens=12)

    assert asyncio.run(talked(entry(folder, "vllm"), folder, many)) == asyncio.run(
        talked(entry(folder, "transformers"), folder, many)
    )
