"""The words of the game that episodes store, and the values that a state begins with."""

import pytest

from envs import regular, types
from envs.errors import UserError
from envs.types import CUT_SHORT, ERRORS, UNSCORED, Action, Ending, ImageRef, Mode, Move, Sample, State, Verdict
from tests.envs.games import SAMPLES

STORED = {
    Verdict: "correct wrong mismatch",
    Action: "suggestion abstention category unparsable",
    Ending: "correct wrong limit overflow truncated unprocessable answered mapped refused failed",
    Mode: "play reference random-proactive",
    Move: "left right rewind wait rotate brightness contrast saturation deblur denoise decompress resolution artifacts"
    " detail up down zoom",
}
"""Class -> its words in stored episodes: another word would make older folders unreadable."""


@pytest.mark.parametrize("words", STORED)
def test_stored_words_stay(words):
    assert " ".join(words) == STORED[words]


def test_groups_of_endings_cover_every_one_without_a_verdict_once():
    assert (ERRORS, CUT_SHORT) == (("unprocessable", "refused", "failed"), ("overflow", "truncated"))
    assert UNSCORED[:3] == ERRORS and UNSCORED[3:] == ("answered", "mapped")


def test_a_state_counts_from_zero_and_a_sample_alone_has_no_more_than_its_line():
    assert State(7) == State(7, 0, None, 0, 0, Mode.PLAY, 0, None)
    line = {name: getattr(SAMPLES["QD"], name) for name in Sample.__slots__[:10]}
    sample = Sample(**line)
    assert (sample.extra, sample.digest, sample.suggestion_pool, sample.swapped) == ({}, "", None, None)


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


def test_a_users_mistake_ends_a_command_with_2():
    assert UserError.exit_code == 2
