"""The words of the game that episodes store, and the values that a state begins with."""

import pytest

from envs import regular, types
from envs.types import Action, Ending, ImageRef, Mode, Move, Verdict

STORED = {
    Verdict: "correct wrong mismatch",
    Action: "suggestion abstention category unparsable",
    Ending: "correct wrong limit overflow truncated thoughts_cut unprocessable answered mapped refused failed",
    Mode: "play reference random-proactive",
    Move: "left right rewind wait rotate brightness contrast saturation deblur denoise decompress resolution artifacts"
    " detail up down zoom",
}
"""Class -> its words in stored episodes: another word would make older folders unreadable."""


@pytest.mark.parametrize("words", STORED)
def test_stored_words_stay(words):
    assert " ".join(words) == STORED[words]


@pytest.mark.parametrize(
    ("image", "key"),
    [
        (types.NO_PICTURE, ""),
        (ImageRef("a.png"), "a.png"),
        (ImageRef("a.png", (1.0, 2.5, 30.0, 40.0)), "a.png@1.0,2.5,30.0,40.0"),
        (ImageRef("a.png", None, 224), "a.png^224"),
        (ImageRef("a.png", (1.0, 2.0, 3.0, 4.0), 224, True), "a.png@1.0,2.0,3.0,4.0#grey^224"),
    ],
)
def test_a_picture_has_a_key_of_its_pixels(image, key):
    assert image.key == key


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1_200)

    assert regular.read_bytes(path, 1_200) == b"x" * 1_200
    with pytest.raises(OSError, match="it is larger than 1,199 bytes"):
        regular.read_bytes(path, 1_199)
    with pytest.raises(OSError, match="it is a folder, a pipe or a device, not a file"):
        regular.read_bytes(tmp_path, 10)
    with pytest.raises(OSError, match="null byte"):
        regular.open_file(tmp_path / "a\0b")
