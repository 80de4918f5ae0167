"""Every engine takes the probes: a blank picture is sent as one, a question without picture is sent without."""

import asyncio
import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from actors.engine.backend import Request, Situation
from actors.engine.registry import open_engine
from actors.playing.prompts import messages, turn_view
from envs import SCENARIOS
from envs.foreign_suggestions import with_swapped_pictures
from envs.render import GREY
from envs.samples import load_samples
from envs.types import Sample
from sweeps.conditions import CONDITIONS, VARIANTS
from sweeps.sampling import Sampling
from sweeps.spec import ModelSpec
from tests.actors.service import completion, serving

PROBES = ("blank", "swapped", "text-only")
NAMED = {**CONDITIONS, **VARIANTS}


@pytest.fixture(scope="module")
def samples(demo_data: Path) -> list[Sample]:
    coco = load_samples(demo_data, "COCO")
    return with_swapped_pictures(coco, coco, 0)


def requests(sample: Sample, names: Sequence[str]) -> dict[str, Request]:
    game, by_name = SCENARIOS[sample.scenario], {}
    state = game.initial(sample)
    for name in names:
        view = turn_view(sample, state, NAMED[name])
        prompt = messages(sample, view, NAMED[name])
        by_name[name] = Request(prompt, Sampling(max_tokens=8), 1, Situation(sample, state, view))
    return by_name


def test_a_service_is_sent_what_the_probe_shows(demo_data: Path, samples: list[Sample], monkeypatch: Any) -> None:
    monkeypatch.setenv("SWEEP_TEST_KEY", "k")
    probes = requests(samples[0], ("zero-shot", *PROBES))

    async def run() -> list[list[dict[str, Any]]]:
        async with serving(lambda n, _: completion("A")) as service:
            endpoint = {"base_url": service.url, "key_env": "SWEEP_TEST_KEY"}
            backend = open_engine(ModelSpec(name="m", source="m", endpoint=endpoint), demo_data)
            for request in probes.values():
                await backend.reply(request)
            await backend.close()
            return [body["messages"][0]["content"] for body in service.bodies]

    own, blank, swapped, text = asyncio.run(run())
    pictures = [_decode_picture(content) for content in (own, blank, swapped)]
    assert pictures[0].size == pictures[1].size and set(pictures[1].get_flattened_data()) == {GREY}
    assert pictures[2].tobytes() != pictures[0].tobytes() and len(set(pictures[2].get_flattened_data())) > 1
    assert text == own[1]["text"] or text == [own[1]], "the same question, and no picture"


def _decode_picture(content: list[dict[str, Any]]) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(content[0]["image_url"]["url"].partition(";base64,")[2])))


def test_a_model_reads_the_question_without_a_picture(
    demo_data: Path, samples: list[Sample], tiny_checkpoint: Path
) -> None:
    """All four in one batch of the event loop: those without a picture are batched apart."""
    probes = requests(samples[0], ("zero-shot", *PROBES))

    async def run() -> tuple[list[Any], list[list[int]]]:
        entry = {"source": str(tiny_checkpoint), "backend": "transformers", "gpus": 0, "dtype": "float32"}
        backend: Any = open_engine(ModelSpec(name="tiny", **entry), demo_data)
        try:
            replies = await asyncio.gather(*map(backend.reply, probes.values()))
            return replies, [list((await backend.model_input(request)).ids) for request in probes.values()]
        finally:
            await backend.close()

    replies, (own, blank, swapped, text) = asyncio.run(run())
    assert all(reply.text for reply in replies)
    assert own == blank == swapped, "they differ in pixels alone"
    assert len(text) < len(own) and [token for token in own if token in set(text)] == text
