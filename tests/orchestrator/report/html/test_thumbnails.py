"""Thumbnails: how large they are, which pictures share one, and why one is missing."""

import io
from types import SimpleNamespace

import pytest
from PIL import Image

from envs.types import ImageRef
from orchestrator.report.html import thumbnails as room
from orchestrator.report.html.thumbnails import Thumbnails, make_thumbnail, parse_image_key, picture_folder


class Pictures:
    """A renderer of one picture."""

    def __init__(self, *size: int) -> None:
        self.size = size

    def picture(self, ref):
        return Image.new("RGB", self.size, "red")


@pytest.mark.parametrize(
    ("size", "small"),
    [((416, 104), (208, 52)), ((100, 1000), (21, 208)), ((208, 3), (208, 3)), ((9, 7), (9, 7)), ((2000, 1), (208, 1))],
)
def test_the_longer_side_has_at_most_208_pixels_and_none_is_enlarged(size, small):
    content = make_thumbnail(Pictures(*size), ImageRef("x"))

    with Image.open(io.BytesIO(content)) as picture:
        assert (picture.format, picture.size) == ("WEBP", small)


@pytest.fixture
def folder(tmp_path):
    for name in "abc":
        Image.new("RGB", (40, 30), "blue").save(tmp_path / f"{name}.png")
    return tmp_path


def test_turns_with_one_picture_share_its_thumbnail(folder):
    pictures = Thumbnails(folder, 9)

    assert [pictures.number(key) for key in ("a.png", "b.png", "a.png^224", "a.png#grey", "a.png@0.0,0.0,20.0,10.0")] == [
        0, 1, 0, 2, 3,
    ]  # fmt: skip
    assert pictures.number("") == "none was shown" and pictures.left_out == 0
    assert pictures.bytes == sum(map(len, pictures.uris)) and len(pictures.uris) == 4
    assert all(uri.startswith("data:image/webp;base64,") for uri in pictures.uris)
    assert Thumbnails(None, 9).number("a.png") == Thumbnails(None, 9).number("") == "the data folder is not available"


def test_number_and_bytes_are_bounded(folder):
    few = Thumbnails(folder, 2)
    reason = "left out: the number of pictures of a page is bounded"

    assert [few.number(f"{name}.png") for name in "abcc"] == [0, 1, reason, reason] and few.left_out == 1
    one = Thumbnails(folder, 9)
    one.number("a.png")
    full = Thumbnails(folder, 9, most_bytes=one.bytes)
    assert [full.number(f"{name}.png") for name in "ab"] == [0, reason]
    more = Thumbnails(folder, 9, most_bytes=one.bytes + 1)
    assert [more.number(f"{name}.png") for name in "ab"] == [0, 1]


@pytest.mark.parametrize(
    ("key", "ref"),
    [
        ("a/b.jpg", ImageRef("a/b.jpg")),
        ("a.jpg^224", ImageRef("a.jpg", None, 224)),
        ("a.jpg#grey^16", ImageRef("a.jpg", None, 16, True)),
        ("a.jpg@0.0,-1.5,1e+300,2.0", ImageRef("a.jpg", (0.0, -1.5, 1e300, 2.0))),
        ("a^b@c,1.jpg", ImageRef("a^b@c,1.jpg")),
        ("a\nb^1234567", ImageRef("a\nb^1234567")),
    ],
)
def test_a_stored_name_is_the_picture_it_was_made_of(key, ref):
    assert parse_image_key(key) == ref


def test_pictures_are_those_of_the_folder_that_is_named_else_of_the_sweep(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "data_folder", lambda sweep: sweep)
    run = SimpleNamespace(samples={"QD": {}}, data=None, sweep=folder)

    assert picture_folder(run) == folder
    run.sweep = tmp_path / "gone"
    assert picture_folder(run) is None and picture_folder(run, folder) == folder
    run.data = folder
    assert picture_folder(run) == folder
    run.samples = {}
    assert picture_folder(run) is None, "the samples are others"
