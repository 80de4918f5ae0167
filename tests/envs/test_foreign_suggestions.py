"""Random-proactive shows suggestions that mean nothing here, the same for every model."""

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from envs import SCENARIOS
from envs.foreign_suggestions import FOREIGN, folder_suggestions, replace_suggestions
from envs.samples import load_samples, read_samples
from envs.scenario import suggestions
from envs.types import Mode
from tests.envs.games import SAMPLES


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_suggestion_gives_way_and_the_abstention_keeps_its_place(name):
    sample = SAMPLES[name]
    hidden = replace_suggestions(sample, seed=4)

    assert hidden == replace_suggestions(sample, seed=4)
    assert not set(suggestions(hidden.options)) & set(suggestions(sample.options))
    assert len(set(hidden.options)) == len(sample.options)
    for before, after in zip(sample.options, hidden.options, strict=True):
        assert (before == after) == (before not in suggestions(sample.options))
    assert not any(cue in option.lower() for option in suggestions(hidden.options) for cue in SCENARIOS[name].cue)


@pytest.mark.parametrize("name", SCENARIOS)
def test_choosing_a_stand_in_makes_an_admissible_move_and_never_the_one_it_names(name):
    hidden, game = replace_suggestions(SAMPLES[name], seed=1), SCENARIOS[name]
    for ask in suggestions(hidden.options):
        with pytest.raises(KeyError):
            game.move(ask)
        _, turn = game.step(hidden, game.initial(hidden, Mode.RANDOM, seed=5), ask)
        assert turn.move in game.moves(hidden)


def test_stand_ins_are_the_datas_own_suggestions_of_other_scenarios(demo_data):
    read = cache(read_samples)
    pool = folder_suggestions(demo_data, read)
    replacements = {name: Counter() for name in SCENARIOS}
    for name in SCENARIOS:
        for sample in load_samples(demo_data, name, read=read):
            pooled = replace(sample, suggestion_pool=pool)
            replacements[name].update(suggestions(replace_suggestions(pooled, 3).options))
        others = {text: home for home in SCENARIOS if home != name for text in pool[home]}
        assert set(replacements[name]) <= set(others)
        assert len({others[text] for text in replacements[name]}) >= 3, "no scenario crowds out the rest"
    assert read.cache_info().misses == len(SCENARIOS), "each file is parsed once"
    assert any(set(texts) - {t for table in FOREIGN.values() for t in table} for texts in replacements.values())
