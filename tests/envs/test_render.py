"""Pictures match their references; any defect of a file ends as Unprocessable with the reason."""

from __future__ import annotations

import os
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

from envs.render import Fit, Renderer, UnreadablePicture, fitted_size
from envs.types import Crop, ImageRef
from tests.envs.picture_zoo import draw_zoo


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    picture = Image.new("RGB", (90, 60), "white")
    picture.paste((255, 0, 0), (10, 20, 40, 50))
    picture.save(tmp_path / "a.png")
    Image.new("RGBA", (30, 200), (0, 0, 255, 128)).save(tmp_path / "alpha.png")
    return tmp_path


@pytest.mark.parametrize(
    ("size", "full", "small"),
    [
        ((640, 480), (644, 476), (644, 476)),
        ((4032, 3024), (4032, 3024), (1148, 840)),
        ((10, 10), (56, 56), (56, 56)),
        ((28, 5600), (28, 5600), (28, 5600)),
    ],
)
def test_a_fitted_size_is_that_of_qwen_vl_utils(size, full, small):
    """Recorded from ``smart_resize`` of qwen_vl_utils 0.0.14 with its own bounds, and with at most 1,003,520 pixels."""
    assert fitted_size(size, Fit()) == full
    assert fitted_size(size, Fit(most=1_003_520)) == small


@pytest.mark.parametrize("crop", [None, (9.5, 19.4, 40.6, 70.0)], ids=["whole", "crop"])
@pytest.mark.parametrize("edge", [None, 30], ids=["size", "edge"])
def test_every_kind_of_picture_has_the_pixels_of_the_package_and_nothing_else(
    tmp_path: Path, crop: Crop | None, edge: int | None
) -> None:
    """The package calls ``Image.open(path).convert("RGB")`` (``load_image``) and hands the pixels to transformers."""
    ours = Renderer(tmp_path)
    for name in draw_zoo(tmp_path):
        theirs = Image.open(tmp_path / name).convert("RGB")
        theirs = theirs.crop(crop) if crop else theirs
        if edge:
            scale = edge / min(theirs.size)
            theirs = theirs.resize((int(theirs.width * scale), int(theirs.height * scale)))
        picture = ours.picture(ImageRef(name, crop=crop, short_edge=edge))

        assert (picture.mode, picture.size, picture.info) == ("RGB", theirs.size, {}), name
        assert picture.tobytes() == theirs.tobytes(), name
        assert picture.getexif() == {}, name


def test_every_kind_of_picture_is_fitted_as_qwen_vl_utils_does_it(tmp_path: Path) -> None:
    ours = Renderer(tmp_path, fit=Fit())
    for name in draw_zoo(tmp_path):
        source = Image.open(tmp_path / name)
        if max(source.size) / min(source.size) >= 200:
            continue
        if source.mode == "RGBA":  # ``qwen_vl_utils.vision_process.to_rgb``
            theirs = Image.new("RGB", source.size, (255, 255, 255))
            theirs.paste(source, mask=source.split()[3])
        else:
            theirs = source.convert("RGB")
        picture = ours.picture(ImageRef(name))

        assert picture.tobytes() == theirs.resize(fitted_size(source.size, Fit())).tobytes(), name
        assert picture.info == {}, name


def test_a_key_names_the_content_of_the_file(folder: Path) -> None:
    crop = ImageRef("a.png", crop=(0.0, 0.0, 10.0, 10.0))
    before = {Renderer(folder).keyed_picture(ref)[1] for ref in (crop, ImageRef("a.png"), ImageRef("alpha.png"))}
    (folder / "b.png").write_bytes((folder / "a.png").read_bytes())
    same = Renderer(folder).keyed_picture(ImageRef("b.png"))[1]
    Image.new("RGB", (90, 60), "green").save(folder / "a.png")

    assert len(before) == 3 and same in before
    assert Renderer(folder).keyed_picture(crop)[1] not in before, "a replaced file never reuses features"


def png_claiming(width: int, height: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


def write_hostile_files(folder: Path) -> dict[str, ImageRef]:
    content = (folder / "a.png").read_bytes()
    (folder / "cut.png").write_bytes(content[: len(content) // 2])
    (folder / "empty.png").write_bytes(b"")
    (folder / "text.png").write_text("<script>")
    (folder / "bomb.png").write_bytes(png_claiming(60_000, 60_000))
    (folder / "wide.png").write_bytes(png_claiming(9_000, 9_000))
    Image.new("RGB", (300, 300), "green").save(folder / "photo.jpg")
    (folder / "cut.jpg").write_bytes((folder / "photo.jpg").read_bytes()[:-40])
    (folder / "folder.png").mkdir()
    os.mkfifo(folder / "pipe.png")
    os.symlink("loop.png", folder / "loop.png")
    os.symlink("/etc/hostname", folder / "link.png")
    return {
        "missing": ImageRef("no.png"), "cut": ImageRef("cut.png"), "empty": ImageRef("empty.png"), "text": ImageRef("text.png"),
        "bomb": ImageRef("bomb.png"), "wide": ImageRef("wide.png"), "folder": ImageRef("folder.png"),
        "link": ImageRef("link.png"), "outside": ImageRef("../a.png"), "absolute": ImageRef("/etc/hostname"),
        "no area": ImageRef("a.png", crop=(5, 5, 5, 9)), "inverted": ImageRef("a.png", crop=(9, 9, 2, 20)),
        "huge crop": ImageRef("a.png", crop=(0, 0, 1e6, 1e6)), "endless crop": ImageRef("a.png", crop=(0, 0, float("inf"), 9)),
        "vanishing": ImageRef("alpha.png", short_edge=0), "NUL": ImageRef("a\0.png"),
        "cut photo": ImageRef("cut.jpg"), "pipe": ImageRef("pipe.png"), "loop": ImageRef("loop.png"),
        "long name": ImageRef("x" * 400 + ".png"), "below a file": ImageRef("a.png/b.png"),
        "not a number": ImageRef("a.png", crop=(0, 0, float("nan"), 9)), "thin": ImageRef("a.png", crop=(0, 0.1, 9, 0.4)),
    }  # fmt: skip


def test_unreadable_picture_is_unprocessable_with_reason(folder):
    renderer = Renderer(folder)
    for name, ref in write_hostile_files(folder).items():
        with pytest.raises(UnreadablePicture) as reason:
            renderer.picture(ref)
        assert str(reason.value).startswith(f"{ref.path}: "), name
        assert str(folder) not in str(reason.value), f"{name}: the machine's own path is nobody's business"
        assert "\n" not in str(reason.value), name


def test_crops_of_one_file_decode_it_once_and_the_least_used_goes_first(folder):
    renderer = Renderer(folder, cache_bytes=90 * 60 * 4 + 30 * 200 * 4)
    first = renderer.decode("a.png")
    renderer.decode("alpha.png")
    for offset in range(5):
        renderer.picture(ImageRef("a.png", crop=(offset, 0, offset + 30, 30)))
    Image.new("RGB", (10, 10)).save(folder / "third.png")
    renderer.decode("third.png")

    assert renderer.decode("a.png") is first, "used last, kept"
    assert renderer.cached_bytes == 90 * 60 * 4 + 10 * 10 * 4, "the other one made room"


def test_many_threads_see_the_same_pixels_and_the_count_of_bytes_stays_right(folder):
    for number in range(12):
        Image.new("RGB", (100, 100), (number, 0, 0)).save(folder / f"{number}.png")
    renderer = Renderer(folder, cache_bytes=5 * 40_000)

    def check_crop(turn: int) -> bool:
        number = turn * 7 % 12
        crop = (turn % 50, 0.0, turn % 50 + 20.0, 20.0)
        return renderer.picture(ImageRef(f"{number}.png", crop=crop)).getpixel((3, 3)) == (number, 0, 0)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(check_crop, range(600)))
    assert renderer.cached_bytes == 5 * 40_000
