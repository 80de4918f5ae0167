"""A model's pictures are fitted first where the package's ``process_vision_info`` does it: for Qwen's models."""

import asyncio

from actors.engine.backend import Message
from actors.engine.image_loader import PictureLoader, encode_png, picture_bounds
from envs.render import Fit
from envs.types import ImageRef
from sweeps.registry import judges, registry
from sweeps.spec import ModelSpec
from tests.actors.asking import paint_pictures


def test_qwens_models_fit_their_pictures_within_their_processors_bounds():
    fitting = {name for name, model in registry().items() if picture_bounds(model)}
    local = ModelSpec(name="q", source="/models/q", architecture="Qwen2_5_VLForConditionalGeneration")

    assert fitting == {name for name in registry() if name.startswith(("qwen2.5-vl", "qwen3-vl"))} and len(fitting) == 9
    assert picture_bounds(local) == Fit() and picture_bounds(local.model_copy(update={"fit_pictures": False})) is None
    assert picture_bounds(local.model_copy(update={"processor": {"max_pixels": 1_003_520}})) == Fit(most=1_003_520)
    assert judges()["qwen3-8b"].identity.get("fit_pictures") is None


def test_an_engine_gets_the_fitted_pixels(tmp_path):
    paint_pictures(tmp_path, ["a.png"], (90, 60))
    ref = ImageRef("a.png")
    sizes = []
    for model in (registry()["qwen2.5-vl-3b"], registry()["idefics3-8b"]):
        pictures = PictureLoader(tmp_path, model)
        sizes.append(asyncio.run(pictures.load([Message("user", "?", (ref,))]))[ref].size)
        pictures.close()

    assert sizes == [(84, 56), (90, 60)]


def test_a_picture_that_a_conversation_repeats_is_opened_once(tmp_path):
    paint_pictures(tmp_path, ["a.png", "b.png"], (90, 60))
    pictures, opened = PictureLoader(tmp_path), []
    first, second = ImageRef("a.png"), ImageRef("b.png")
    messages = [Message("user", "?", (first, second)), Message("user", "again?", (first,))]
    encoded = asyncio.run(pictures.load_as(messages, lambda image: opened.append(image.size) or encode_png(image)))
    keyed = pictures.load_blocking(messages)
    pictures.close()

    assert opened == [(90, 60)] * 2 and list(encoded) == list(keyed) == [first, second]
    assert encoded[first].startswith(b"\x89PNG") and keyed[first][0].size == (90, 60)
