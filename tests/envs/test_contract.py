"""The contract that every scenario keeps, whatever is answered: invariants as sentences."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs import SCENARIOS
from envs.answers import letter
from envs.scenario import suggestions
from envs.types import UNSCORED, Action, Ending, Mode, State, Verdict
from tests.envs.games import SAMPLES

MODES = (Mode.PLAY, Mode.REFERENCE, Mode.RANDOM)
ODD = ("", " ", "#", "(A)", "**B**", "Answer: C", "Z", "a", "A.", "A) Banana.", "banana", "BANANA.", "C. Banana.\nand more",
       "I would rather not.", "\u212a", "\u0130", "x" * 5000, "A. B. C.", "\n", "Banana")  # fmt: skip


def replies(view):
    """Every kind of reply to a view: each option as text, as letter and as both, then nonsense."""
    shown = view.options + view.categories
    for index, option in enumerate(shown):
        yield from (
            option,
            letter(index),
            f"{letter(index)}.",
            f"{letter(index)}. {option}",
            option.upper(),
            f" {option} ",
        )
    yield from ODD


def walk(scenario, mode, pick, hint=False, turns=200):
    """Play one episode; ``pick(view, number)`` chooses the reply."""
    game, sample = SCENARIOS[scenario], SAMPLES[scenario]
    state, steps = game.initial(sample, mode, seed=5), []
    while state.ending is None and len(steps) < turns:
        view = game.view(sample, state, hint)
        after, turn = game.step(sample, state, pick(view, len(steps)))
        steps.append((state, view, turn, after))
        state = after
    return steps


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_reply_gets_exactly_one_verdict_a_side_and_moves_the_game_on(name, mode):
    game, sample = SCENARIOS[name], SAMPLES[name]
    state = game.initial(sample, mode, seed=5)
    for reply in replies(game.view(sample, state)):
        after, turn = game.step(sample, state, reply)

        assert after.turn == state.turn + 1, "step() must count one turn"
        assert turn.reply == reply, "a turn must keep the reply as it came"
        assert (turn.move is None) or turn.option is Verdict.CORRECT, "only a right suggestion makes a move"
        assert (after.ending is Ending.CORRECT) == (turn.category is Verdict.CORRECT), (
            "a right category ends the episode"
        )
        if turn.option is not Verdict.CORRECT and turn.category is not Verdict.CORRECT:
            asked_to_the_limit = turn.action is Action.SUGGESTION and after.turn == game.limit(sample)
            assert after.ending is (Ending.LIMIT if asked_to_the_limit else Ending.WRONG), "anything else ends it wrong"
        if turn.category is Verdict.CORRECT:
            assert turn.action is Action.CATEGORY, "what counts is what is told"
        if turn.action is Action.UNPARSABLE:
            assert (turn.option, turn.category) == (Verdict.MISMATCH, Verdict.MISMATCH)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "COCO"])
def test_whoever_does_nothing_but_ask_ends_at_the_limit(name):
    """The paper's infinite loop; on the last frame of MVP-N, IN-C and QD a suggestion is shown, though it counts no more.

    In COCO a diagonal offers nothing more to ask before its limit.
    """
    game, sample = SCENARIOS[name], SAMPLES[name]
    state, turns = game.initial(sample), 0
    while state.ending is None:
        asks = game.askable(sample, state) or suggestions(game.view(sample, state).options)
        state, turn = game.step(sample, state, asks[0])
        turns += 1
        assert turn.action is Action.SUGGESTION

    assert (state.ending, turns) == (Ending.LIMIT, game.limit(sample))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_an_episode_ends_within_its_limit_and_then_takes_no_reply(name, mode):
    game, sample = SCENARIOS[name], SAMPLES[name]
    steps = walk(name, mode, lambda view, n: next(iter(suggestions(view.options)), view.categories[0]))

    last = steps[-1][3]
    assert last.ending is not None, "asking for ever must end"
    assert len(steps) <= game.limit(sample)
    with pytest.raises(ValueError, match="has ended"):
        game.step(sample, last, "A")


@pytest.mark.parametrize("name", SCENARIOS)
def test_playing_twice_gives_the_same_value_and_every_value_pickles(name):
    def play():
        return walk(name, Mode.RANDOM, lambda view, n: suggestions(view.options)[n % len(suggestions(view.options))])

    first = play()
    assert first == play()
    assert pickle.loads(pickle.dumps(first)) == first
    assert pickle.loads(pickle.dumps(SAMPLES[name])) == SAMPLES[name]


@pytest.mark.parametrize("mode", (Mode.PLAY, Mode.REFERENCE))
@pytest.mark.parametrize("name", SCENARIOS)
def test_solve_reaches_the_right_category(name, mode):
    game, sample = SCENARIOS[name], SAMPLES[name]
    state = game.initial(sample, mode)
    while state.ending is None:
        state, _ = game.step(sample, state, game.solve(sample, state))

    assert state.ending is Ending.CORRECT


@pytest.mark.parametrize("name", SCENARIOS)
def test_reference_shows_categories_only_and_lasts_one_turn(name):
    game, sample = SCENARIOS[name], SAMPLES[name]
    state = game.initial(sample, Mode.REFERENCE)
    view = game.view(sample, state)

    assert view.options == ()
    assert view.image.crop is None, "the clear picture is whole"
    for reply in replies(view):
        after, turn = game.step(sample, state, reply)
        assert after.ending in (Ending.CORRECT, Ending.WRONG)
        assert turn.option is Verdict.MISMATCH, "nothing can be asked of the clear image"


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_hint_changes_the_question_and_nothing_else(name):
    game, sample = SCENARIOS[name], SAMPLES[name]
    state = game.initial(sample)
    bare, hinted = game.view(sample, state), game.view(sample, state, hint=True)

    assert hinted.prompt == f"{bare.prompt} {game.hint_for(sample)}"
    assert (hinted.image, hinted.options, hinted.categories) == (bare.image, bare.options, bare.categories)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_action_is_what_the_game_acts_on_where_letter_and_text_disagree(name):
    """The letter of a right suggestion with the text of a wrong category moves the game on: it is a suggestion."""
    game, sample = SCENARIOS[name], SAMPLES[name]
    first = game.initial(sample)
    state, _ = game.step(sample, first, game.askable(sample, first)[0])
    view = game.view(sample, state)
    for index, option in enumerate(view.options):
        for category in view.categories:
            _, turn = game.step(sample, state, f"{letter(index)}. {category}")
            asked = option in game.askable(sample, state) and category != sample.answer
            assert turn.action is (Action.SUGGESTION if asked else Action.CATEGORY)
            assert (turn.move is not None) == asked


def test_on_rods_first_turn_no_category_counts_not_even_the_right_one():
    after, turn = SCENARIOS["ROD"].step(SAMPLES["ROD"], SCENARIOS["ROD"].initial(SAMPLES["ROD"]), "Banana.")

    assert turn.category is Verdict.WRONG
    assert after.ending is Ending.WRONG


@given(name=st.sampled_from(list(SCENARIOS)), mode=st.sampled_from(MODES), data=st.data())
def test_any_text_leaves_a_state_that_the_game_knows(name, mode, data):
    said = walk(
        name,
        mode,
        lambda view, n: data.draw(st.one_of(st.sampled_from(view.options + view.categories), st.text())),
        turns=12,
    )
    for _, view, turn, after in said:
        assert isinstance(after, State)
        assert 0 <= after.turn <= SCENARIOS[name].limit(SAMPLES[name])
        assert turn.action in Action
        assert after.ending not in UNSCORED, "errors and open answers are not the game's to give"
        assert set(view.options) <= set(SAMPLES[name].options)
