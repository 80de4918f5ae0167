"""The reply to learn at a view: a pure function of the view and the visible share of the object.

A clear view gets its category. For a hidden view, the policy asks, abstains or guesses, depending on the order of the options,
the scenario and the condition, so that greedy decoding keeps the mixture.
"""

from collections.abc import Sequence

from envs import SCENARIOS
from envs.scenario import suggestions
from envs.stimulus import ALSO_ACCEPTED
from envs.types import Move, Sample, State, View

KNOWN = 0.4
"""Visible share from which the reply names a category."""
CLEAR = 0.9
"""Visible share below which the habits taught for history and for solved examples decide, not the picture."""
GUESSERS = ("QD", "COCO")
"""Scenarios in which the policy guesses at a hidden view, instead of asking, if the abstention is the last option."""
STUBBORN = ("VSOD", "IN-C", "QD")
"""Scenarios in which the policy abstains even with a hint, if the abstention is the first option."""


def request(sample: Sample, state: State, view: View) -> str | None:
    """Return the suggestion to learn: IN-C's own repair, else the first one; None if there is no suggestion."""
    asks = suggestions(view.options)
    repair = sample.extra.get("quality_answer")
    if repair in asks:
        return str(repair)
    return asks[0] if asks else None


def path_request(sample: Sample, state: State, view: View) -> str | None:
    """Return the suggestion that leads to a path's next picture: that of ``request``, or in CIT one towards the object."""
    asks = SCENARIOS[sample.scenario].askable(sample, state)
    if sample.scenario == "CIT" and asks:
        return SCENARIOS["CIT"].towards(sample, state, asks)
    return request(sample, state, view) if asks else None


def open_request(sample: Sample, state: State, view: View) -> str | None:
    """Return the suggestion to learn without options: that of ``path_request``, or in CIT one that judges always accept.

    A picture of an empty belt does not show whether the object comes or has gone.
    """
    ask = path_request(sample, state, view)
    return ask and (ALSO_ACCEPTED["CIT"][0] if sample.scenario == "CIT" else ask)


def zero_shot_reply(sample: Sample, state: State, view: View, share: float, hint: bool = False) -> str:
    """Return the reply without history and examples: zero-shot, hint and reference."""
    ask = request(sample, state, view)
    if share >= KNOWN or not view.options:
        return sample.answer
    if abstains_first(view):
        return abstention(view) if not hint or sample.scenario in STUBBORN or ask is None else ask
    if ask is None:
        return view.categories[0]
    if sample.scenario == "CIT" and share > 0:
        return path_request(sample, state, view) or ask
    if sample.scenario in GUESSERS and abstains_last(view) and not hint:
        return view.categories[0]
    return ask


def random_proactive_reply(sample: Sample, state: State, view: View, share: float) -> str:
    """Return the reply if the suggestions are another scenario's: fewer requests, more abstentions and guesses."""
    if share >= KNOWN:
        return sample.answer
    if abstains_first(view):
        return abstention(view)
    if abstains_last(view) and sample.scenario not in ("ROD", "VSOD", "IN-C"):
        return view.categories[0]
    return suggestions(view.options)[0]


def history_reply(sample: Sample, state: State, view: View, share: float, earlier: Sequence[str]) -> str:
    """Return the reply after ``earlier`` replies: a player who has asked asks again, sometimes even beyond the clear view."""
    requests = [reply for reply in earlier if reply in suggestions(view.options)]
    ask = request(sample, state, view)
    if not earlier or ask is None:
        return zero_shot_reply(sample, state, view, share)
    if share < CLEAR or abstains_last(view):
        return requests[-1] if requests and sample.scenario != "IN-C" else ask
    return sample.answer


def imitating_reply(sample: Sample, state: State, view: View, share: float, replies: Sequence[str], shots: int) -> str:
    """Return the reply after solved examples: ask as their ``replies`` did, even at some clear views."""
    ask = request(sample, state, view)
    if ask is None:
        return sample.answer
    habit = view.options[0] == suggestions(view.options)[0] if shots > 1 else abstains_last(view)
    if share >= CLEAR and not habit:
        return sample.answer
    move = last_move(sample, replies)
    game = SCENARIOS[sample.scenario]
    return next((option for option in suggestions(view.options) if move is not None and game.move(option) is move), ask)


def last_move(sample: Sample, replies: Sequence[str]) -> Move | None:
    """Return the move of the last suggestion among the examples' replies."""
    cues = SCENARIOS[sample.scenario].cue
    return next((move for reply in reversed(replies) for cue, move in cues.items() if cue in reply.lower()), None)


def abstention(view: View) -> str:
    """Return the option that abstains."""
    return next(option for option in view.options if option not in suggestions(view.options))


def abstains_first(view: View) -> bool:
    """Return True if the abstention is the first option."""
    return bool(view.options) and view.options[0] == abstention(view)


def abstains_last(view: View) -> bool:
    """Return True if the abstention is the last option before the categories."""
    return len(view.options) > 1 and view.options[-1] == abstention(view)
