"""A picture above the service's limit is shrunk the same way every time; all others are sent unchanged."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image

from actors.engine.chat_format import data_url
from actors.engine.registry import open_engine
from envs.types import ImageRef
from sweeps.model import Endpoint
from sweeps.spec import ModelSpec
from tests.actors.asking import make_request, user
from tests.actors.engine.test_chat_format import opened
from tests.actors.service import completion, serving
from tests.envs.picture_zoo import draw_zoo


def noise(width: int, height: int) -> Image.Image:
    """Return a picture that no PNG makes smaller."""
    return Image.frombytes("RGB", (width, height), Random(0).randbytes(3 * width * height))


@pytest.mark.parametrize("form", ["png", "jpeg"])
def test_larger_picture_is_halved_until_it_fits(form):
    image = noise(600, 300)
    before, url = image.tobytes(), data_url(image, form, 60_000)

    assert len(url) <= 60_000 < len(data_url(image, form)) and url == data_url(noise(600, 300), form, 60_000)
    assert opened(url).size in ((256, 128), (128, 64)) and image.tobytes() == before


def test_a_service_gets_the_packages_pixels_of_every_kind_of_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    monkeypatch.setenv("SWEEP_TEST_KEY", "sk-test")
    names = draw_zoo(tmp_path)

    async def ask() -> list[dict[str, Any]]:
        async with serving(lambda number, body: completion("A")) as service:
            entry = Endpoint(base_url=service.url, key_env="SWEEP_TEST_KEY")
            backend = open_engine(ModelSpec(name="m", source="m", backend="openai", gpus=0, endpoint=entry), tmp_path)
            try:
                await backend.reply(make_request(user("What is this?", *map(ImageRef, names))))
            finally:
                await backend.close()
            return [part for part in service.bodies[0]["messages"][0]["content"] if part["type"] == "image_url"]

    for name, part in zip(names, asyncio.run(ask()), strict=True):
        sent, package = opened(part["image_url"]["url"]), Image.open(tmp_path / name).convert("RGB")

        assert (sent.mode, sent.size, sent.tobytes()) == ("RGB", package.size, package.tobytes()), name
        assert sent.getexif() == {}, name
