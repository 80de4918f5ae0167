"""The reply to learn at a view: a pure function of what is shown and how much of the object is visible.

A clear view gets its category. A hidden one is asked about, abstained from or guessed, and which of the three depends on
the order of the options, the scenario and the condition, so that greedy decoding keeps the mixture.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs import SCENARIOS
from envs.scenario import suggestions
from envs.types import Move, Sample, State, View

KNOWN = 0.4
"""From this share of the object upwards a category is named."""
CLEAR = 0.9
"""Below this share the habits of history and of examples win over the picture."""
GUESSERS = ("QD", "COCO")
"""Scenarios whose hidden views are guessed rather than asked about when the abstention stands last."""
STUBBORN = ("VSOD", "IN-C", "QD")
"""Scenarios in which a hint does not talk the model out of abstaining first."""


def request(sample: Sample, state: State, view: View) -> str | None:
    """Return the suggestion to learn: IN-C's own repair, else the first one shown; None if nothing can be asked."""
    asks = suggestions(view.options)
    repair = sample.extra.get("quality_answer")
    if repair in asks:
        return str(repair)
    return asks[0] if asks else None


def forward(sample: Sample, state: State, view: View) -> str | None:
    """As ``request``, but in CIT the way the object comes from: the path along which the pictures are drawn."""
    asks = SCENARIOS[sample.scenario].askable(sample, state)
    if sample.scenario == "CIT" and asks:
        return SCENARIOS["CIT"].towards(sample, state, asks)
    return request(sample, state, view) if asks else None


def plain(sample: Sample, state: State, view: View, share: float, hint: bool = False) -> str:
    """Without memory or examples: zero-shot, hint and reference."""
    ask = request(sample, state, view)
    if share >= KNOWN or not view.options:
        return sample.answer
    if abstains_first(view):
        return abstention(view) if not hint or sample.scenario in STUBBORN or ask is None else ask
    if ask is None:
        return view.categories[0]
    if sample.scenario == "CIT" and share > 0:
        return forward(sample, state, view) or ask
    if sample.scenario in GUESSERS and abstains_last(view) and not hint:
        return view.categories[0]
    return ask


def disguised(sample: Sample, state: State, view: View, share: float) -> str:
    """Return the reply if the suggestions are another scenario's: fewer requests, more abstentions and guesses."""
    if share >= KNOWN:
        return sample.answer
    if abstains_first(view):
        return abstention(view)
    if abstains_last(view) and sample.scenario not in ("ROD", "VSOD", "IN-C"):
        return view.categories[0]
    return suggestions(view.options)[0]


def remembering(sample: Sample, state: State, view: View, share: float, earlier: Sequence[str]) -> str:
    """With the earlier replies in the prompt: once it has asked, it asks again, and sometimes past the clear view."""
    requests = [reply for reply in earlier if reply in suggestions(view.options)]
    ask = request(sample, state, view)
    if not earlier or ask is None:
        return plain(sample, state, view, share)
    if share < CLEAR or abstains_last(view):
        return requests[-1] if requests and sample.scenario != "IN-C" else ask
    return sample.answer


def imitating(sample: Sample, state: State, view: View, share: float, replies: Sequence[str], shots: int) -> str:
    """Return the reply after solved examples: ask as their ``replies`` did, even at some clear views."""
    ask = request(sample, state, view)
    if ask is None:
        return sample.answer
    habit = view.options[0] == suggestions(view.options)[0] if shots > 1 else abstains_last(view)
    if share >= CLEAR and not habit:
        return sample.answer
    return towards(sample, view, last_move(sample, replies)) or ask


def last_move(sample: Sample, replies: Sequence[str]) -> Move | None:
    """The move that the last suggestion among the examples' replies stands for."""
    cues = SCENARIOS[sample.scenario].cue
    for reply in reversed(replies):
        for cue, move in cues.items():
            if cue in reply.lower():
                return move
    return None


def towards(sample: Sample, view: View, move: Move | None) -> str | None:
    """Return the suggestion that stands for ``move``; None if none does."""
    game = SCENARIOS[sample.scenario]
    return next((ask for ask in suggestions(view.options) if move is not None and game.move(ask) is move), None)


def abstention(view: View) -> str:
    """The option that gives up."""
    return next(option for option in view.options if option not in suggestions(view.options))


def abstains_first(view: View) -> bool:
    """Return True if the abstention is the first option."""
    return bool(view.options) and view.options[0] == abstention(view)


def abstains_last(view: View) -> bool:
    """Return True if the abstention is the last option before the categories."""
    return len(view.options) > 1 and view.options[-1] == abstention(view)
