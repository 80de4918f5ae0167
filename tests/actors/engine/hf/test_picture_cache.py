"""A picture is processed once while it is kept, batches get the processor's own tensors, and the oldest pictures go first."""

from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")

import torch

from actors.engine.hf import picture_cache
from actors.engine.hf.picture_cache import PictureCache, are_equal
from tests.actors.newer_architectures import EVERY

NOISE = np.random.default_rng(0)
SHAPES = (60, 80, 3), (200, 90, 3), (64, 64, 3)
PICTURES = [Image.fromarray(NOISE.integers(0, 256, shape, dtype=np.uint8)) for shape in SHAPES]
ROWS = [PICTURES[:2], PICTURES[2:], PICTURES[:1]]
BATCHES = {"llava-1.5": PICTURES, "llava-next-mistral": PICTURES * 2, "idefics3": ROWS}


class Counted:
    """A processor's ``preprocess`` that counts the pictures it is given."""

    def __init__(self, name: str) -> None:
        self.preprocess, self.seen = EVERY[name].build()[1].image_processor.preprocess, 0

    def __call__(self, images: list[Any], **options: Any) -> Any:
        self.seen += sum(len(row) if isinstance(row, list) else 1 for row in images)
        return self.preprocess(images, **options)


@pytest.mark.parametrize("name", BATCHES)
def test_each_picture_is_processed_once_and_no_tensor_differs(name: str) -> None:
    counted, images = Counted(name), BATCHES[name]
    keeping = PictureCache(counted)
    first, tested = keeping(images, return_tensors="pt"), counted.seen
    again = keeping(images[::-1], return_tensors="pt")

    assert are_equal(first, counted.preprocess(images, return_tensors="pt"))
    assert are_equal(again, counted.preprocess(images[::-1], return_tensors="pt"))
    assert counted.seen == tested, "nothing is processed again"


def test_only_so_many_bytes_are_kept_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted("llava-1.5")
    one = counted([PICTURES[0]], return_tensors="pt")["pixel_values"].nbytes
    monkeypatch.setattr(picture_cache, "MAX_BYTES", 2 * one)
    keeping = PictureCache(counted)
    keeping(PICTURES, return_tensors="pt")
    before = counted.seen
    assert len(keeping.kept) == 2

    keeping(PICTURES[1:], return_tensors="pt")
    assert counted.seen == before
    keeping(PICTURES[:1], return_tensors="pt")
    assert counted.seen == before + 1


def test_a_processor_whose_batches_are_otherwise_is_asked_itself() -> None:
    def scale_by_number(images: list[Any], **options: Any) -> Any:
        return {"pixel_values": torch.full((len(images), 2), float(len(images)))}

    keeping = PictureCache(scale_by_number)
    assert are_equal(keeping(PICTURES), scale_by_number(PICTURES)) and not keeping.kept
