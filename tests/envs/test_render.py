"""Pictures are what their references say; whatever is wrong with a file ends as Unprocessable with the reason."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image

from envs.render import Renderer, Unprocessable
from envs.types import ImageRef


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    picture = Image.new("RGB", (90, 60), "white")
    picture.paste((255, 0, 0), (10, 20, 40, 50))
    picture.save(tmp_path / "a.png")
    Image.new("RGBA", (30, 200), (0, 0, 255, 128)).save(tmp_path / "alpha.png")
    return tmp_path


def test_crop_rounds_as_pillow_does_and_pads_with_black(folder):
    ours = Renderer(folder).picture(ImageRef("a.png", crop=(9.5, 19.4, 40.6, 70.0)))
    theirs = Image.open(folder / "a.png").convert("RGB").crop((9.5, 19.4, 40.6, 70.0))

    assert ours.size == theirs.size
    assert ours.tobytes() == theirs.tobytes()
    assert ours.getpixel((0, ours.height - 1)) == (0, 0, 0)


@pytest.mark.parametrize(("name", "edge"), [("a.png", 224), ("alpha.png", 7), ("a.png", 512)])
def test_the_short_edge_is_resized_as_the_package_does_it(folder, name, edge):
    source = Image.open(folder / name).convert("RGB")
    scale = edge / min(source.size)
    theirs = source.resize((int(source.size[0] * scale), int(source.size[1] * scale)))

    assert Renderer(folder).picture(ImageRef(name, short_edge=edge)).tobytes() == theirs.tobytes()


def png_claiming(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


def hostile(folder: Path) -> dict[str, ImageRef]:
    whole = (folder / "a.png").read_bytes()
    (folder / "cut.png").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.png").write_bytes(b"")
    (folder / "text.png").write_text("<script>")
    (folder / "bomb.png").write_bytes(png_claiming(60_000, 60_000))
    (folder / "wide.png").write_bytes(png_claiming(9_000, 9_000))
    (folder / "folder.png").mkdir()
    os.symlink("/etc/hostname", folder / "link.png")
    return {
        "missing": ImageRef("no.png"), "cut": ImageRef("cut.png"), "empty": ImageRef("empty.png"), "text": ImageRef("text.png"),
        "bomb": ImageRef("bomb.png"), "wide": ImageRef("wide.png"), "folder": ImageRef("folder.png"),
        "link": ImageRef("link.png"), "outside": ImageRef("../a.png"), "absolute": ImageRef("/etc/hostname"),
        "no area": ImageRef("a.png", crop=(5, 5, 5, 9)), "inverted": ImageRef("a.png", crop=(9, 9, 2, 20)),
        "huge crop": ImageRef("a.png", crop=(0, 0, 1e6, 1e6)), "endless crop": ImageRef("a.png", crop=(0, 0, float("inf"), 9)),
        "vanishing": ImageRef("alpha.png", short_edge=0), "NUL": ImageRef("a\0.png"),
    }  # fmt: skip


def test_whatever_is_wrong_is_unprocessable_with_the_reason(folder):
    renderer = Renderer(folder)
    for name, ref in hostile(folder).items():
        with pytest.raises(Unprocessable) as reason:
            renderer.picture(ref)
        assert str(folder) not in str(reason.value), f"{name}: the machine's own path is nobody's business"
        assert "\n" not in str(reason.value), name


def test_the_cache_is_bounded_and_serves_the_same_pixels(folder):
    for number in range(20):
        Image.new("RGB", (100, 100), (number, 0, 0)).save(folder / f"{number}.png")
    renderer = Renderer(folder, cache_bytes=100_000)
    for _ in range(2):
        for number in range(20):
            assert renderer.picture(ImageRef(f"{number}.png")).getpixel((5, 5)) == (number, 0, 0)
            assert renderer.held <= 100_000
    assert renderer.source("19.png") is renderer.source("19.png")


def test_verify_sees_a_broken_header_without_decoding(folder):
    hostile(folder)
    renderer = Renderer(folder)
    renderer.verify("a.png")
    for name in ("no.png", "empty.png", "text.png"):
        with pytest.raises(Unprocessable):
            renderer.verify(name)
