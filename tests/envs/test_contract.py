"""The contract that every scenario keeps (``envs.contract``): the seven scenarios pass it, and broken ones fail it."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs import SCENARIOS, contract
from envs.contract import walk
from envs.scenarios import QuickDraw
from envs.types import UNSCORED, Action, Mode, State
from tests.envs.games import SAMPLES


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_keeps_the_contract(name):
    contract.check_scenario(SCENARIOS[name], SAMPLES[name])


@pytest.mark.parametrize("name", ["MVP-N", "IN-C", "QD"])
def test_a_sample_of_one_frame_keeps_the_contract(name):
    """Its only frame is the last one, on which no suggestion counts."""
    sample = replace(SAMPLES[name], frames=1)

    assert SCENARIOS[name].askable(sample, SCENARIOS[name].initial(sample)) == ()
    contract.check_scenario(SCENARIOS[name], sample)


class NeverEnds(QuickDraw):
    def _next_state(self, sample, state, turn):
        return super()._next_state(sample, state, turn)._replace(ending=None)


class Forgets(QuickDraw):
    def step(self, sample, state, reply, move=None):
        after, turn = super().step(sample, state, reply, move)
        return after, turn._replace(reply="")


class Shows(QuickDraw):
    def view(self, sample, state, hint=False):
        return super().view(sample, state._replace(mode=Mode.PLAY), hint)


BROKEN = {
    NeverEnds: "any other reply ends it wrong",
    Forgets: "a turn must keep the reply",
    Shows: "reference offers no suggestion",
}


@pytest.mark.parametrize("game", BROKEN, ids=lambda game: game.__name__)
def test_broken_contract_is_reported_by_its_promise(game):
    with pytest.raises(AssertionError, match=BROKEN[game]):
        contract.check_scenario(game(), SAMPLES["QD"])


@settings(max_examples=50)
@given(name=st.sampled_from(list(SCENARIOS)), mode=st.sampled_from(list(Mode)), data=st.data())
def test_any_text_leaves_a_valid_state(name, mode, data):
    steps = walk(
        SCENARIOS[name],
        SAMPLES[name],
        mode,
        lambda view, n: data.draw(st.one_of(st.sampled_from(view.options + view.categories), st.text())),
        turns=12,
    )
    for view, turn, next_state in steps:
        assert isinstance(next_state, State)
        assert 0 <= next_state.turn <= SCENARIOS[name].limit(SAMPLES[name])
        assert turn.action in Action
        assert next_state.ending not in UNSCORED, "errors and open answers are not the game's to give"
        assert set(view.options) <= set(SAMPLES[name].options)
