"""The fuzzy reading chooses the nearest option, agrees with the lenient one, and shows what choosing always costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.lenient import nearest_option, read_leniently
from tests.envs.lenient_score import replies

TEXTS = ("I cannot tell.", "Rewind the video.", "Mug.", "Key.", "A big dog.", "Fish.")


@pytest.mark.parametrize(
    ("reply", "index"),
    [("(C)", 2), ("rewinding the video", 1), ("big dogs", 4), ("a fishy thing", 5), ("REWIND  the\nvideo please", 1),
     ("", None), (" ?!", None)],
)  # fmt: skip
def test_nearest_option(reply, index):
    assert nearest_option(reply, TEXTS) == index


@given(st.text(max_size=200), st.integers(0, 6))
def test_nearest_agrees_with_lenient_reading(reply, count):
    nearest, lenient = nearest_option(reply, TEXTS[:count]), read_leniently(reply, count, TEXTS[:count])

    assert nearest is None or 0 <= nearest < count
    assert lenient is None or nearest == lenient


def test_fuzzy_reading_has_higher_recall_and_lower_precision():
    """The half that no rule was written on: 171 replies, of which some mean nothing that was shown."""
    rows = [row for row in replies() if row["half"] == "unseen"]
    readings = [(nearest_option(row["reply"], row["options"]), row["meant"]) for row in rows]
    right = sum(nearest is not None and nearest == meant for nearest, meant in readings)
    precision = right / sum(nearest is not None for nearest, _ in readings)
    recall = right / sum(meant is not None for _, meant in readings)
    print(f"fuzzy: precision {precision:.3f}, recall {recall:.3f} of {len(rows)} unseen replies")

    assert recall > 0.957 and precision < 0.9


def test_only_the_beginning_of_a_reply_is_compared():
    """Another text after 500 characters changes nothing; before them it does."""
    filler = "?" * 496

    assert (
        nearest_option(f"{filler}fishkey", ("key", "fish")) == 1
        and nearest_option(f"{filler[1:]}key?fish", ("key", "fish")) == 0
    )
    assert (
        nearest_option(f"{filler}??key", ("fish", "key")) == 1
        and nearest_option(f"{filler}???ykey", ("fish", "key")) == 1
    )
    assert (
        nearest_option("zzz", ("ab", "cd")) == 0
        and nearest_option("c", ("ab", "cd")) == 1
        and nearest_option("z", ()) is None
    )
