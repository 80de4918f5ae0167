"""What was drawn today is drawn next year: every stored key and every random-proactive move depends on it."""

import pytest

from envs import SCENARIOS
from envs.chance import chance, episode_seed
from envs.foreign_suggestions import replace_suggestions
from envs.types import Mode, State
from tests.envs.games import ABSTENTION, SAMPLES


def test_a_generator_is_named_by_all_four():
    assert chance(1, "ROD", 3, "x").random() == 0.894516590180766
    others = [(2, "ROD", 3, "x"), (1, "QD", 3, "x"), (1, "ROD", 4, "x"), (1, "ROD", 3, "y"), (1, "ROD", 3, "x")]
    assert len({chance(*name).random() for name in others}) == 5


def test_an_episodes_seed_is_fixed_and_fits_63_bits():
    assert episode_seed(1, "ROD", 3) == episode_seed(1, "ROD", 3, "episode") == 7204206853431935594
    assert episode_seed(1, "ROD", 3, "other") == 3304862636448746087
    seeds = [episode_seed(number, "QD", 0) for number in range(200)]
    assert max(seeds) < 2**63 and max(seeds) >= 2**62 and len(set(seeds)) == 200


@pytest.mark.parametrize(
    ("name", "moves"),
    [
        ("ROD", ["left", "right", "left", "right", "right", "left"]),
        ("CIT", ["wait", "rewind", "rewind", "wait", "rewind", "rewind"]),
        ("IN-C", ["decompress", "deblur", "artifacts", "resolution", "saturation", "denoise"]),
        ("COCO", ["left", "left", "left", "up", "left", "left"]),
    ],
)
def test_a_random_proactive_move_is_drawn_by_seed_sample_and_turn(name, moves):
    game, sample = SCENARIOS[name], SAMPLES[name]
    states = [State(frame=0, turn=turn, mode=Mode.RANDOM, seed=5) for turn in range(len(moves))]

    assert [game.random_move(sample, state) for state in states] == moves
    assert [game.random_move(sample, state._replace(seed=6)) for state in states] != moves


def test_stand_ins_are_drawn_by_seed_and_sample():
    options = {name: replace_suggestions(SAMPLES[name], 4).options for name in ("ROD", "QD", "CIT")}

    assert options == {
        "ROD": (ABSTENTION, "Adjust the brightness.", "Move farther from the object."),
        "QD": ("Move the blocks to the right.", ABSTENTION),
        "CIT": ("Rotate the object.", "Adjust the brightness.", ABSTENTION),
    }
