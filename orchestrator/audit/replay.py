"""Replays recorded replies in our game."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from actors.playing.prompts import open_view, turn_view
from envs import SCENARIOS, dialogue
from envs.lenient import repair_reply
from envs.openended import read_marks
from envs.tool_calls import called_option, offered_calls
from envs.types import Sample, State, Turn, View
from sweeps.conditions import Condition
from sweeps.spec import Protocol


class Replayed(NamedTuple):
    """One turn of a replay."""

    view: View
    """What the model saw."""
    plain: View
    """What it would see without the condition's changes, as in the package."""
    option: str | None
    """The option that the reply was read as; None if it was unreadable."""
    state: State
    turn: Turn


def replay(
    sample: Sample,
    condition: Condition,
    replies: Iterable[str | None],
    protocol: Protocol = Protocol.MCQA,
    seed: int = 0,
) -> Iterator[Replayed]:
    """Yield the turns of these replies, up to the end of the episode; those of ``oeg-multi`` are the judge's."""
    game, is_dialogue = SCENARIOS[sample.scenario], protocol is Protocol.OEG_MULTI
    state = game.initial(sample, condition.mode, seed)
    for reply in replies:
        if state.ending is not None:
            return
        view = (open_view if is_dialogue else turn_view)(sample, state, condition)
        plain = game.view(sample, state, condition.hint and not is_dialogue)
        option: str | None = reply or ""  # a judge that failed has no reply
        if is_dialogue:
            marks = read_marks(reply or "", len(dialogue.turn_choices(sample, state).lines))
            option = None if marks is None else dialogue.option_from_marks(sample, state, marks)
        elif protocol is Protocol.TOOLS:
            option = called_option(view, offered_calls(sample, state, view), reply or "")
        elif condition.lenient:
            option = repair_reply(sample, state, reply or "")
        state, turn = game.step(sample, state, option or "")
        yield Replayed(view, plain, option, state, turn)
