"""Steps of decision maps by hand."""

from types import SimpleNamespace

import polars as pl
import pytest

from proactive_operating.decision_map import EPISODE, SAMPLE, Decisions, _episode_row, _sample_row, decisions_by_cell

MOVES = SimpleNamespace(
    neighbors={"a": (), "b": ()}, counts=lambda turn: turn > 0, knows=lambda image, pictures: image in pictures,
    moves_to_known=lambda image, turn, pictures: 7 if pictures else None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("images", "actions", "pictures", "decision"),
    [
        # asked knowing, answered unknowing, late, early
        ("ab", ("suggestion", "category"), "b", (False, False, 0, None)),
        ("abb", ("suggestion", "suggestion", "suggestion"), "b", (True, False, 2, None)),
        ("ab", ("suggestion", "category"), "a", (False, True, 0, 7)),
        ("ab", ("suggestion", "category"), "", (False, True, 0, None)),
        ("a", ("category",), "a", (False, True, 0, 7)),
        ("ab", ("suggestion", "abstention"), "", (False, False, 0, None)),
        ("", (), "a", (False, False, 0, None)),
    ],
)
def test_decisions_are_compared_with_what_the_model_knows_where_a_category_counts(images, actions, pictures, decision):
    """At the first turn no category counts, so asking there is never too much and answering always too early."""
    row = ("k", "m", "QD", "hint", 3, "m/QD/hint", list(images), list(actions))

    assert _episode_row(MOVES, row, frozenset(pictures)) == ("k", "m/QD/hint", "m", "QD", "hint", 3, *decision)


def test_a_sample_is_known_at_its_first_picture_or_some_moves_later():
    names = (("m", "QD", 3), "m/QD/map", "map")

    assert _sample_row(MOVES, *names, frozenset("a")) == ("m/QD/map", "m", "QD", "map", 3, True, 7)
    assert _sample_row(MOVES, *names, frozenset()) == ("m/QD/map", "m", "QD", "map", 3, False, None)


def test_means_of_decisions_are_over_samples_and_episodes():
    names = ("model", "QD", "hint")
    samples = [("map", *names, 1, True, 0), ("map", *names, 2, False, 4), ("map", *names, 3, False, None)]
    episodes = [("k", "cell", *names, 1, True, False, 2, None), ("l", "cell", *names, 2, False, True, 0, 1)]
    planted = Decisions(
        pl.DataFrame(samples, schema=SAMPLE, orient="row"), pl.DataFrame(episodes, schema=EPISODE, orient="row")
    )
    played, mapped = decisions_by_cell(planted).rows()

    assert played == ("cell", False, 2, None, None, None, 50.0, 50.0, 1.5, 1.0, 0.5)
    assert mapped == ("map", True, 3, pytest.approx(100 / 3), pytest.approx(200 / 3), 2.0, *[None] * 5)
