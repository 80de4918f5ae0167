"""Batched and single requests get the same replies; of the checkpoint's defaults, only the repetition penalty applies."""

import asyncio
import gc
import json
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")

import torch
from accelerate.hooks import ModelHook, add_hook_to_module
from transformers import RepetitionPenaltyLogitsProcessor

from actors.engine.backend import BackendDied, Message, Overflow, Reply, Request, Unprocessable
from actors.engine.batching import Job
from actors.engine.decoding import Decoding
from actors.engine.hf.backend import TransformersBackend
from actors.engine.hf.input_hashes import holds_raw_pixels
from actors.engine.hf.sampling import RepetitionPenalty, logits_processors
from actors.engine.hf.template import prompt_text
from actors.engine.registry import open_engine
from envs.render import UnreadablePicture
from envs.types import ImageRef
from sweeps.spec import ModelSpec
from tests.actors.asking import make_request, paint_pictures, user
from tests.actors.tiny import checkpoint

QUESTIONS = ["What is this?", "Which of these is it? A. Fork. B. Banana. C. I cannot tell.", "Colour?", "A " * 60]
OWN_CODE = """from transformers import Idefics3Config, Idefics3ForConditionalGeneration
class OwnConfig(Idefics3Config):
    model_type = "own"
class OwnModel(Idefics3ForConditionalGeneration):
    config_class = OwnConfig
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a checkpoint in ``model``, five pictures and one broken picture."""
    folder = tmp_path_factory.mktemp("tiny")
    checkpoint(folder / "model")
    paint_pictures(folder, [f"{n}.png" for n in range(5)])
    (folder / "broken.png").write_bytes(b"\x89PNG no more")
    return folder


@pytest.fixture(scope="module")
def backend(folder: Path) -> Iterator[TransformersBackend]:
    opened = open_backend(folder)
    yield opened
    asyncio.run(opened.close())


def open_backend(folder: Path, **entry: Any) -> TransformersBackend:
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
    return [make_request(m, seed=n, **sampling) for n, m in enumerate(plain)] + [
        make_request(two, seed=50, **sampling),
        make_request(*earlier, seed=51, **sampling),
        make_request(user("What is this?", picture(0)), seed=0, **sampling),
    ]


def reply_together(backend: TransformersBackend, many: list[Request]) -> list[Reply]:
    async def run() -> list[Reply]:
        return await asyncio.gather(*map(backend.reply, many))

    return asyncio.run(run())


def reply_singly(backend: TransformersBackend, many: list[Request]) -> list[Reply]:
    return [reply_together(backend, [request])[0] for request in many]


def test_a_prompt_beyond_the_context_overflows_and_the_next_one_is_answered(backend: TransformersBackend) -> None:
    with pytest.raises(Overflow, match=r"the model takes \d+$"):
        reply_together(backend, [make_request(user("A " * 20_000))])
    assert reply_together(backend, [make_request(user("A"))])


def test_batch_answers_match_single_requests(backend: TransformersBackend) -> None:
    many = requests(max_tokens=12)
    batched, single = reply_together(backend, many), reply_singly(backend, many)
    assert [(r.text, r.prompt_tokens, r.reply_tokens, r.finish) for r in batched] == [
        (r.text, r.prompt_tokens, r.reply_tokens, r.finish) for r in single
    ]
    assert len({reply.text for reply in batched}) > 5, "the model looks at its input"


def test_greedy_ignores_checkpoint_sampling_defaults(backend: TransformersBackend) -> None:
    """The checkpoint asks for top-3 sampling; the expected tokens are a stepwise argmax after its repetition penalty."""
    model, penalised = backend.model, RepetitionPenaltyLogitsProcessor(1.3)
    for request in requests(max_tokens=8)[:4]:
        reply = reply_together(backend, [request])[0]
        pictures = asyncio.run(backend.pictures.load(request.messages))
        inputs = dict(model.inputs([Job(request, pictures)]))
        tokens: list[int] = []
        with torch.inference_mode():
            while len(tokens) < 8 and not (tokens and tokens[-1] in model.stops):
                token = int(penalised(inputs["input_ids"], model.network(**inputs).logits[:, -1]).argmax())
                tokens.append(token)
                inputs["input_ids"] = torch.cat([inputs["input_ids"], torch.tensor([[token]])], 1)
                inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        assert reply.reply_tokens == len(tokens)
        decoded = model.decoder.decode([t for t in tokens if t not in model.stops], skip_special_tokens=True)
        assert reply.text == decoded.rstrip("\ufffd")


@pytest.mark.parametrize("start", ["template", "tokenizer", "both"])
def test_every_conversation_begins_with_one_start_token(tmp_path: Path, start: str) -> None:
    """The package's tokenizer adds a start token, so a template that writes one as well (Idefics3) yields two."""
    checkpoint(tmp_path / "model", start=start)
    paint_pictures(tmp_path, [f"{n}.png" for n in range(3)])
    backend = open_backend(tmp_path)
    request = make_request(user("What is this?", picture(0), picture(1), picture(2)))
    try:
        model, pictures = backend.model, asyncio.run(backend.pictures.load(request.messages))
        ids = model.inputs([Job(request, pictures)])["input_ids"][0].tolist()
        chat = prompt_text(model.processor, request.messages, {})
        package = model.processor(text=[chat], images=[pictures[picture(n)] for n in range(3)])["input_ids"][0]
    finally:
        asyncio.run(backend.close())

    begin = model.tokenizer.bos_token_id
    assert ids.count(begin) == 1 and ids[0] == begin
    assert list(package) == ([begin, *ids] if start == "both" else ids)


def test_sampled_replies_follow_the_models_distribution(backend: TransformersBackend) -> None:
    """First tokens of 4,000 seeds against the softmax: no token strays by more than 4.5 standard errors."""
    scores = torch.tensor([[2.0, 1.0, 0.0, -1.0, float("-inf")]])
    seeds = list(range(4000))
    processors = logits_processors(Decoding(1.0, 1.0, -1, 1.0), seeds, "cpu", torch.ones(4000, 1))
    sampled = processors(torch.zeros(4000, 1), scores.repeat(4000, 1)).argmax(1)
    for token, share in enumerate(scores.softmax(1)[0].tolist()):
        error = (share * (1 - share) / 4000) ** 0.5
        assert abs((sampled == token).float().mean().item() - share) <= 4.5 * error


def test_unanswerable_request_fails_alone(backend: TransformersBackend) -> None:
    async def run() -> list[Any]:
        fine = backend.reply(make_request(user("What is this?", picture(1)), max_tokens=4))
        long = backend.reply(make_request(user("word " * 2000, picture(1)), max_tokens=4))
        broken = backend.reply(make_request(user("What is this?", ImageRef("broken.png")), max_tokens=4))
        return await asyncio.gather(fine, long, broken, return_exceptions=True)

    fine, long, broken = asyncio.run(run())
    assert isinstance(fine, Reply)
    assert isinstance(long, Unprocessable) and "the model takes 1024" in str(long)
    assert isinstance(broken, UnreadablePicture)


def test_picture_refused_by_processor_ends_only_its_episode(folder: Path) -> None:
    """One picture is refused in the middle of a batch; the other requests are answered."""
    backend = open_backend(folder)
    process = backend.model.caching_processor.image_processor.preprocess

    def strict(images: Any, **options: Any) -> Any:
        for pictures in images:
            for image in pictures if isinstance(pictures, list) else [pictures]:
                if image.size[0] > 100 * image.size[1]:
                    raise ValueError("absolute aspect ratio must be smaller than 200")
        return process(images, **options)

    backend.model.caching_processor.image_processor.preprocess = strict
    paint_pictures(folder, ["thin.png"], (600, 2))
    many = [
        make_request(user("What is this?", ref), max_tokens=4) for ref in (picture(0), ImageRef("thin.png"), picture(2))
    ]

    async def run() -> list[Any]:
        results = await asyncio.gather(*map(backend.reply, many), return_exceptions=True)
        await backend.close()
        return results

    first, thin, last = asyncio.run(run())
    assert isinstance(first, Reply) and isinstance(last, Reply)
    assert isinstance(thin, Unprocessable) and "aspect ratio" in str(thin)


def test_batch_is_halved_until_it_fits_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device is real, but more than two rows or a long reply raise an out-of-memory error."""
    backend = open_backend(folder, options={"batch": 8})
    generate = backend.model.network.generate

    def fail_if_large(**inputs: Any) -> Any:
        if len(inputs["input_ids"]) > 2 or inputs["max_new_tokens"] > 20:
            raise torch.OutOfMemoryError("out of memory")
        return generate(**inputs)

    monkeypatch.setattr(backend.model.network, "generate", fail_if_large)
    many = [make_request(user("What is this?", picture(n)), max_tokens=4) for n in range(8)]

    async def run() -> list[Any]:
        replies: list[Any] = await asyncio.gather(*map(backend.reply, many))
        too_long = make_request(user("?", picture(0)), max_tokens=21)
        replies += await asyncio.gather(backend.reply(too_long), return_exceptions=True)
        await backend.close()
        return replies

    *replies, refused = asyncio.run(run())
    assert all(isinstance(reply, Reply) for reply in replies)
    assert backend.size <= 2 and isinstance(refused, Unprocessable)


def test_close_answers_waiting_requests_and_leaves_no_thread(folder: Path) -> None:
    before = set(threading.enumerate())
    backend = open_backend(folder)

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
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive(), thread


def test_close_frees_a_network_whose_hooks_refer_to_it(folder: Path) -> None:
    """As the hooks of a network on several devices do."""
    opened = open_backend(folder)
    network = weakref.ref(add_hook_to_module(opened.model.network, ModelHook()))
    gc.disable()
    asyncio.run(opened.close())
    gc.enable()
    assert network() is None


def test_pictures_as_bytes_are_told_from_normalized_ones() -> None:
    raw = torch.zeros(2, dtype=torch.uint8)
    assert holds_raw_pixels({"pixel_values": raw})
    assert not holds_raw_pixels({"pixel_values": raw.float(), "input_ids": raw})


def test_penalty_counts_every_token_of_a_reply_without_its_prompt() -> None:
    """Some models pass the reply alone: it keeps its first tokens once it is as long as the padded prompt."""
    penalty = RepetitionPenalty(2.0, torch.tensor([[0, 0, 0, 1, 1]]))
    for length in range(1, 9):
        scores = penalty(torch.arange(length)[None], torch.ones(1, 9))
        assert scores[0].tolist() == [0.5] * length + [1.0] * (9 - length)


def test_model_with_code_of_its_own_reads_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    file, (shown,) = checkpoint(tmp_path / "model") / "config.json", paint_pictures(tmp_path, ["0.png"])
    (tmp_path / "model/own.py").write_text(OWN_CODE)
    classes = {"AutoConfig": "own.OwnConfig", "AutoModelForImageTextToText": "own.OwnModel"}
    file.write_text(json.dumps({**json.loads(file.read_text()), "model_type": "own", "auto_map": classes}))
    own = open_backend(tmp_path, trust_remote_code=True)
    (reply,) = reply_together(own, [make_request(user("What is this?", shown), max_tokens=4)])
    asyncio.run(own.close())
    assert reply.text


def test_conversation_that_the_chat_template_refuses_ends_alone(tmp_path: Path) -> None:
    """As Gemma's and Mistral's templates refuse a system message."""
    template = checkpoint(tmp_path / "model") / "chat_template.jinja"
    refusal = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    template.write_text(refusal + template.read_text())
    (shown,), own = paint_pictures(tmp_path, ["0.png"]), open_backend(tmp_path)
    question = user("What is this?", shown)
    many = [make_request(question, max_tokens=4), make_request(Message("system", "Look."), question, max_tokens=4)]

    async def run() -> list[Any]:
        results = await asyncio.gather(*map(own.reply, many), return_exceptions=True)
        await own.close()
        return results

    plain, system = asyncio.run(run())
    assert isinstance(plain, Reply) and isinstance(system, Unprocessable) and "no system role" in str(system)
