"""A row of a batch is answered as if it were alone, and of the checkpoint's defaults only its repetition penalty counts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")

import torch
from transformers import RepetitionPenaltyLogitsProcessor

from actors.engine.backend import BackendDied, Message, Reply, Request, Unprocessable
from actors.engine.batching import Job, JobQueue, similar_jobs
from actors.engine.decoding import Decoding
from actors.engine.hf.backend import TransformersBackend
from actors.engine.hf.sampling import logits_processors
from actors.engine.hf.template import prompt_text
from actors.engine.registry import open_engine
from envs.render import UnreadablePicture as UnprocessablePicture
from envs.types import ImageRef
from sweeps.spec import ModelSpec
from tests.actors.asking import asked, painted, user
from tests.actors.tiny import checkpoint, instructblip

QUESTIONS = ["What is this?", "Which of these is it? A. Fork. B. Banana. C. I cannot tell.", "Colour?", "A " * 60]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint in ``model``, five pictures and one that is no picture."""
    folder = tmp_path_factory.mktemp("tiny")
    checkpoint(folder / "model")
    painted(folder, [f"{n}.png" for n in range(5)])
    (folder / "broken.png").write_bytes(b"\x89PNG no more")
    return folder


@pytest.fixture(scope="module")
def backend(folder: Path) -> Iterator[TransformersBackend]:
    opened = opened_backend(folder)
    yield opened
    asyncio.run(opened.close())


def opened_backend(folder: Path, **entry: Any) -> TransformersBackend:
    options = {"options": {"batch": 4}, **entry}
    model = ModelSpec(name="tiny", source=str(folder / "model"), backend="transformers", gpus=0, **options)
    opened = open_engine(model, folder)
    assert isinstance(opened, TransformersBackend)
    return opened


def picture(number: int) -> ImageRef:
    return ImageRef(f"{number % 5}.png")


def requests(**sampling: float) -> list[Request]:
    """Twelve of several lengths and kinds: one picture, two pictures, an earlier turn."""
    plain = [user(QUESTIONS[n % 4], picture(n)) for n in range(9)]
    two = user("Compare.", picture(1), picture(2))
    earlier = (user("First?", picture(3)), Message("assistant", "A. Wait."), user("And now?", picture(4)))
    return [asked(m, seed=n, **sampling) for n, m in enumerate(plain)] + [
        asked(two, seed=50, **sampling),
        asked(*earlier, seed=51, **sampling),
        asked(user("What is this?", picture(0)), seed=0, **sampling),
    ]


def together(backend: TransformersBackend, many: list[Request]) -> list[Reply]:
    async def run() -> list[Reply]:
        return await asyncio.gather(*map(backend.reply, many))

    return asyncio.run(run())


def alone(backend: TransformersBackend, many: list[Request]) -> list[Reply]:
    return [together(backend, [one])[0] for one in many]


def test_a_batch_answers_like_each_request_alone(backend: TransformersBackend) -> None:
    many = requests(max_tokens=12)
    batched, single = together(backend, many), alone(backend, many)
    assert [(r.text, r.prompt_tokens, r.reply_tokens, r.finish) for r in batched] == [
        (r.text, r.prompt_tokens, r.reply_tokens, r.finish) for r in single
    ]
    assert len({reply.text for reply in batched}) > 5, "the model looks at its input"


def test_greedy_is_greedy_whatever_the_checkpoint_says(backend: TransformersBackend) -> None:
    """The checkpoint asks for top-3 sampling; an argmax step by step, after its repetition penalty, is the judge."""
    mind, penalised = backend.model, RepetitionPenaltyLogitsProcessor(1.3)
    for request in requests(max_tokens=8)[:4]:
        reply = together(backend, [request])[0]
        pictures = asyncio.run(backend.pictures.load(request.messages))
        inputs = dict(mind.inputs([Job(request, pictures)]))
        tokens: list[int] = []
        with torch.inference_mode():
            while len(tokens) < 8 and not (tokens and tokens[-1] in mind.stops):
                token = int(penalised(inputs["input_ids"], mind.network(**inputs).logits[:, -1]).argmax())
                tokens.append(token)
                inputs["input_ids"] = torch.cat([inputs["input_ids"], torch.tensor([[token]])], 1)
                inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        assert reply.reply_tokens == len(tokens)
        said = mind.decoder.decode([t for t in tokens if t not in mind.stops], skip_special_tokens=True)
        assert reply.text == said.rstrip("\ufffd")


@pytest.mark.parametrize("start", ["template", "tokenizer", "both"])
def test_every_conversation_begins_with_one_start_token(tmp_path: Path, start: str) -> None:
    """The package's call adds one by the tokenizer; only where the template has written it (Idefics3) that makes two."""
    checkpoint(tmp_path / "model", start=start)
    painted(tmp_path, [f"{n}.png" for n in range(3)])
    backend = opened_backend(tmp_path)
    request = asked(user("What is this?", picture(0), picture(1), picture(2)))
    try:
        mind, shown = backend.model, asyncio.run(backend.pictures.load(request.messages))
        ids = mind.inputs([Job(request, shown)])["input_ids"][0].tolist()
        chat = prompt_text(mind.processor, request.messages, {})
        package = mind.processor(text=[chat], images=[shown[picture(n)] for n in range(3)])["input_ids"][0]
    finally:
        asyncio.run(backend.close())

    begin = mind.tokenizer.bos_token_id
    assert ids.count(begin) == 1 and ids[0] == begin
    assert list(package) == ([begin, *ids] if start == "both" else ids)


def test_a_processor_gets_its_pictures_as_one_flat_list(backend: TransformersBackend, folder: Path) -> None:
    """LLaVA-OneVision tiles no picture of a list in a list: the package gives it none."""
    request = asked(user("Compare.", picture(1), picture(2), picture(1)))
    shown, real, given = asyncio.run(backend.pictures.load(request.messages)), backend.model.processor, []

    class Recorded:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def __call__(self, **named: Any) -> Any:
            given.append(named["images"])
            return real(**named)

    backend.model.processor = Recorded()
    try:
        backend.model.inputs([Job(request, shown), Job(request, shown)])
    finally:
        backend.model.processor = real
    assert given == [[shown[picture(n)] for n in (1, 2, 1, 1, 2, 1)]]


def test_the_repetition_penalty_is_transformers_own_and_blind_to_padding() -> None:
    ids, scores = torch.tensor([[0, 0, 5, 6, 5], [1, 2, 3, 4, 5]]), torch.randn(2, 9, generator=torch.manual_seed(0))
    mask = torch.tensor([[0, 0, 1], [1, 1, 1]])  # of the prompt, three long
    theirs = RepetitionPenaltyLogitsProcessor(1.3)

    def penalised(penalty: float) -> Decoding:
        return Decoding(0.0, 1.0, -1, penalty)

    expected = torch.cat([theirs(ids[:1, 2:], scores[:1].clone()), theirs(ids[1:], scores[1:].clone())])

    assert torch.equal(logits_processors(penalised(1.3), [0, 1], "cpu", mask)(ids, scores), expected)
    assert torch.equal(logits_processors(penalised(1.0), [0, 1], "cpu", mask)(ids, scores), scores)
    reply_alone = logits_processors(penalised(1.3), [0, 1], "cpu", torch.zeros(2, 9))(ids, scores)
    assert torch.equal(reply_alone, theirs(ids, scores.clone())), (
        "a model that gives the reply alone has no padding in it"
    )


def test_an_entry_may_switch_the_checkpoints_penalty_off(backend: TransformersBackend, folder: Path) -> None:
    plain = opened_backend(folder, repetition_penalty=1.0)
    many = requests(max_tokens=30)
    try:
        assert (backend.model.checkpoint_decoding["repetition_penalty"], plain.model.model.repetition_penalty) == (
            1.3,
            1.0,
        )
        assert [r.text for r in together(plain, many)] != [r.text for r in together(backend, many)]
    finally:
        asyncio.run(plain.close())


def test_following_the_checkpoint_samples_as_its_file_says(backend: TransformersBackend) -> None:
    """Its file says top-3 at temperature 0.7: the same as a request that states it, and not greedy."""
    stated = together(backend, requests(max_tokens=10, temperature=0.7, top_p=0.5, top_k=3))
    follows = together(backend, requests(max_tokens=10, checkpoint=True))
    greedy = together(backend, requests(max_tokens=10))

    assert [r.text for r in follows] == [r.text for r in stated]
    assert [r.text for r in follows] != [r.text for r in greedy]


def test_a_seed_alone_decides_a_sampled_reply(backend: TransformersBackend) -> None:
    many = requests(max_tokens=10, temperature=1.0, top_p=0.95, top_k=40)
    first, again = together(backend, many), alone(backend, many[::-1])[::-1]
    assert [r.text for r in first] == [r.text for r in again]
    others = [asked(*r.messages, seed=r.seed + 1, max_tokens=10, temperature=1.0) for r in many]
    assert sum(a.text != b.text for a, b in zip(first, together(backend, others), strict=True)) >= 10


def test_sampled_replies_follow_the_models_distribution(backend: TransformersBackend) -> None:
    """First tokens of 4,000 seeds against the softmax: no token strays by more than 4.5 standard errors."""
    scores = torch.tensor([[2.0, 1.0, 0.0, -1.0, float("-inf")]])
    seeds = list(range(4000))
    found = logits_processors(Decoding(1.0, 1.0, -1, 1.0), seeds, "cpu", torch.ones(4000, 1))
    drawn = found(torch.zeros(4000, 1), scores.repeat(4000, 1)).argmax(1)
    for token, share in enumerate(scores.softmax(1)[0].tolist()):
        error = (share * (1 - share) / 4000) ** 0.5
        assert abs((drawn == token).float().mean().item() - share) <= 4.5 * error


def test_the_limit_is_kept_and_said(backend: TransformersBackend) -> None:
    short, long = (together(backend, requests(max_tokens=n)) for n in (1, 40))
    assert all(reply.reply_tokens == 1 for reply in short)
    assert all(reply.finish == "stop" for reply in long if reply.reply_tokens < 40)
    assert {reply.finish for reply in short + long} <= {"stop", "length"}
    assert any(reply.finish == "length" for reply in short)
    assert all(0 < reply.seconds < 120 and reply.prompt_tokens > 10 for reply in long)


def test_a_request_that_cannot_be_answered_ends_alone(backend: TransformersBackend) -> None:
    async def run() -> list[Any]:
        fine = backend.reply(asked(user("What is this?", picture(1)), max_tokens=4))
        long = backend.reply(asked(user("word " * 2000, picture(1)), max_tokens=4))
        broken = backend.reply(asked(user("What is this?", ImageRef("broken.png")), max_tokens=4))
        return await asyncio.gather(fine, long, broken, return_exceptions=True)

    fine, long, broken = asyncio.run(run())
    assert isinstance(fine, Reply)
    assert isinstance(long, Unprocessable) and "the model takes 1024" in str(long)
    assert isinstance(broken, UnprocessablePicture)


def test_a_picture_that_the_processor_refuses_ends_its_episode_only(folder: Path) -> None:
    """Refused in the middle of a batch: the others are answered."""
    backend = opened_backend(folder)
    process = backend.model.processor.image_processor.preprocess

    def strict(images: Any, **options: Any) -> Any:
        for pictures in images:
            for one in pictures if isinstance(pictures, list) else [pictures]:
                if one.size[0] > 100 * one.size[1]:
                    raise ValueError("absolute aspect ratio must be smaller than 200")
        return process(images, **options)

    backend.model.processor.image_processor.preprocess = strict
    painted(folder, ["thin.png"], (600, 2))
    many = [asked(user("What is this?", ref), max_tokens=4) for ref in (picture(0), ImageRef("thin.png"), picture(2))]

    async def run() -> list[Any]:
        results = await asyncio.gather(*map(backend.reply, many), return_exceptions=True)
        await backend.close()
        return results

    first, thin, last = asyncio.run(run())
    assert isinstance(first, Reply) and isinstance(last, Reply)
    assert isinstance(thin, Unprocessable) and "aspect ratio" in str(thin)


def test_without_room_a_batch_is_halved_until_it_fits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device is real and small in one respect: more than two rows, or a long reply, do not fit."""
    backend = opened_backend(folder, options={"batch": 8})
    generate = backend.model.network.generate

    def cramped(**inputs: Any) -> Any:
        if len(inputs["input_ids"]) > 2 or inputs["max_new_tokens"] > 20:
            raise torch.OutOfMemoryError("out of memory")
        return generate(**inputs)

    monkeypatch.setattr(backend.model.network, "generate", cramped)
    many = [asked(user("What is this?", picture(n)), max_tokens=4) for n in range(8)]

    async def run() -> list[Any]:
        replies: list[Any] = await asyncio.gather(*map(backend.reply, many))
        too_long = asked(user("?", picture(0)), max_tokens=21)
        replies += await asyncio.gather(backend.reply(too_long), return_exceptions=True)
        await backend.close()
        return replies

    *replies, refused = asyncio.run(run())
    assert all(isinstance(reply, Reply) for reply in replies)
    assert backend.size <= 2 and isinstance(refused, Unprocessable)


def test_what_a_processor_takes_only_alone_is_asked_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = opened_backend(folder, options={"batch": 8})
    many = [asked(user("What is this?", picture(n)), max_tokens=4) for n in range(8)]
    inputs = backend.model.inputs

    def single(jobs: list[Job]) -> Any:
        if len(jobs) > 1:
            raise ValueError("one at a time")
        return inputs(jobs)

    async def run() -> list[Any]:
        together = await asyncio.gather(*map(backend.reply, many))
        monkeypatch.setattr(backend.model, "inputs", single)
        alone = await asyncio.wait_for(asyncio.gather(*map(backend.reply, many), return_exceptions=True), 60)
        await backend.close()
        return [[getattr(reply, "text", reply) for reply in replies] for replies in (together, alone)]

    together, alone = asyncio.run(run())
    assert together == alone and backend.size == 1


def test_a_model_without_chat_template_takes_one_question_and_one_picture(tmp_path: Path) -> None:
    """InstructBLIP, which vLLM does not serve: the prompt alone, four picture tokens before it."""
    instructblip(tmp_path / "model")
    pictures = painted(tmp_path, ["0.png", "1.png"])
    backend = opened_backend(tmp_path, max_images=1)
    many = [
        asked(user(text, ref), max_tokens=6) for text in ("What is this?", "A. Fork. B. Banana.") for ref in pictures
    ]

    async def run() -> tuple[list[Reply], list[Reply], list[Any]]:
        batched = await asyncio.gather(*map(backend.reply, many))
        single = [await backend.reply(one) for one in many]
        two = asked(user("Which?", *pictures))
        refused = await asyncio.gather(backend.reply(two), return_exceptions=True)
        await backend.close()
        return batched, single, refused

    batched, single, refused = asyncio.run(run())
    assert [reply.text for reply in batched] == [reply.text for reply in single]
    assert batched[0].text != batched[2].text and all(reply.reply_tokens <= 6 for reply in batched)
    assert batched[0].prompt_tokens == 4 + len(backend.model.tokenizer("What is this?")["input_ids"])
    assert isinstance(refused[0], Unprocessable) and "one question with one picture" in str(refused[0])


def test_closing_answers_whoever_waits_and_leaves_no_thread(folder: Path) -> None:
    backend = opened_backend(folder)

    async def run() -> list[Any]:
        many = [asyncio.create_task(backend.reply(r)) for r in requests(max_tokens=30)]
        await asyncio.sleep(0.3)
        many[-1].cancel()
        await backend.close()
        await backend.close()
        results = await asyncio.gather(*many, return_exceptions=True)
        with pytest.raises(BackendDied):
            await backend.reply(requests()[0])
        return results

    results = asyncio.run(run())
    assert all(isinstance(r, Reply | BackendDied | asyncio.CancelledError) for r in results)
    assert not [thread for thread in threading.enumerate() if thread is backend.thread]


def test_the_oldest_plays_next_with_the_most_similar_company() -> None:
    def job(length: int, **sampling: float) -> Job:
        return Job(asked(user("x" * length, picture(0)), **sampling), {})

    jobs = [job(100), job(5), job(90), job(300), job(101, temperature=1.0), job(104)]
    assert [j.length for j in similar_jobs(jobs, 3)] == [100, 104, 90]
    assert similar_jobs([], 3) == []


def test_what_is_given_back_plays_next_or_hears_why_nothing_does() -> None:
    room, late = JobQueue(), Job(asked(user("late", picture(0))), {})
    for job in (early := [Job(asked(user("x", picture(0))), {}) for _ in range(2)]):
        room.put(job)
    taken = room.take(2)
    room.put(late)
    room.put_back(taken[1:])

    assert room.take(1) == [early[1]] and room.take(1) == [late]
    room.put_back([late])
    room.close(BackendDied("gone"))
    room.put_back([early[1]])
    assert [str(job.answer.exception(0)) for job in (late, early[1])] == ["gone", "gone"]
