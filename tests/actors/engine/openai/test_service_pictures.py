"""A picture above a service's limit is shrunk as the service would, the same way each time; every other one travels as it is."""

from __future__ import annotations

import io
from base64 import b64decode
from random import Random

import pytest
from PIL import Image

from actors.engine.chat_format import SERVICE_EDGE, data_url
from sweeps.endpoint import PICTURE_LIMIT, Endpoint


def noise(width: int, height: int) -> Image.Image:
    """A picture that no PNG makes smaller."""
    return Image.frombytes("RGB", (width, height), Random(f"{width}x{height}").randbytes(3 * width * height))


def seen(url: str) -> Image.Image:
    return Image.open(io.BytesIO(b64decode(url.partition(",")[2])))


def test_a_picture_within_the_limit_is_sent_as_it_is():
    image = noise(90, 60)

    assert data_url(image, "png", len(data_url(image))) == data_url(image)
    assert seen(data_url(image, "png", PICTURE_LIMIT)).tobytes() == image.tobytes()


@pytest.mark.parametrize("form", ["png", "jpeg"])
def test_a_larger_one_is_halved_until_it_fits_and_keeps_its_shape(form):
    image = noise(600, 300)
    before, url = image.tobytes(), data_url(image, form, 60_000)

    assert len(url) <= 60_000 < len(data_url(image, form)) and url == data_url(noise(600, 300), form, 60_000)
    assert seen(url).size in ((256, 128), (128, 64)) and image.tobytes() == before


def test_what_openai_takes_no_more_fits_the_square_that_its_models_look_at():
    """2,400 x 2,400 noisy pixels are 23 MB in base64; 2,048 x 2,048 at most 17."""
    found = seen(data_url(noise(2400, 2400), "png", PICTURE_LIMIT))

    assert found.size == (SERVICE_EDGE, SERVICE_EDGE)


def test_the_limit_is_openais_unless_the_entry_says_another_and_only_that_one_is_in_the_key():
    assert Endpoint().largest_picture == PICTURE_LIMIT and Endpoint(server="vllm").largest_picture is None
    assert Endpoint(picture_limit=5_000_000, server="vllm").largest_picture == 5_000_000
    assert "picture_limit" not in Endpoint().identity
    assert Endpoint(picture_limit=5_000_000).identity == {"picture_limit": 5_000_000}
