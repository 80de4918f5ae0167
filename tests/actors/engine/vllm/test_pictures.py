"""vLLM changes nothing in a picture that the renderer hands over, whatever the file was."""

from pathlib import Path

import pytest
from PIL import Image

from envs.render import Renderer
from envs.types import ImageRef
from tests.envs.picture_zoo import draw_zoo

vllm_image = pytest.importorskip("vllm.multimodal.image", reason="the extra 'vllm' is not installed")


def test_vllm_neither_turns_nor_paints_any_kind_of_picture(tmp_path: Path) -> None:
    names, renderer = draw_zoo(tmp_path), Renderer(tmp_path)
    changed = set()
    for name in names:
        picture, raw = renderer.picture(ImageRef(name)), Image.open(tmp_path / name).convert("RGB")
        received = vllm_image.convert_image_mode(vllm_image.normalize_image(picture), "RGB")
        assert (received.size, received.tobytes()) == (picture.size, picture.tobytes()), name
        if vllm_image.convert_image_mode(vllm_image.normalize_image(raw), "RGB").tobytes() != raw.tobytes():
            changed.add(name)

    assert {"exif-6.jpg", "exif-3.jpg"} <= changed, "the zoo holds pictures that vLLM would change with their metadata"
