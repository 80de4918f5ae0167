"""Baseline policies, which need no model and see no picture: lower and upper bounds of every table.

They answer through the interface of engines, by calls where functions are offered. Only ``oracle`` reads the answer, and
``malformed-calls``, which copies it in every second sample; the others see what a model sees, except that ``ask-properly``
knows which suggestion helps. ``rule-judge`` judges the answers of others.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from actors.engine.backend import Backend, Reply, Request, Situation
from envs import SCENARIOS
from envs.dialogue import rule_reply
from envs.installed import load_function
from envs.openended import rule_verdict
from envs.scenario import suggestions
from envs.tool_calls import write_call
from envs.types import Mode

Policy = Callable[[Situation, int], str]
"""(situation, seed of this turn) -> reply."""


def oracle(situation: Situation, seed: int) -> str:
    """Ask until the answer can be known, then answer: the best any model could do.

    In random-proactive asking shows nothing new, so it asks only where the rules make it (ROD's first turn).
    """
    game = SCENARIOS[situation.sample.scenario]
    if situation.state.mode is Mode.RANDOM:
        must_ask = not game.answerable(situation.sample, situation.state)
        return suggestions(situation.view.options)[0] if must_ask else situation.sample.answer
    return game.solve(situation.sample, situation.state)


def always_ask(situation: Situation, seed: int) -> str:
    """Repeat the first suggestion forever; name the first category if nothing can be asked."""
    return next(iter(suggestions(situation.view.options)), situation.view.categories[0])


def abstain(situation: Situation, seed: int) -> str:
    """Never try: reply the abstention, or nothing in reference."""
    asks = suggestions(situation.view.options)
    return next((option for option in situation.view.options if option not in asks), "")


def uniform(situation: Situation, seed: int) -> str:
    """Reply any option, each as likely: the chance level of a model that obeys the format and nothing else."""
    options = situation.view.options + situation.view.categories
    return options[_below(seed, len(options))]


def guess(situation: Situation, seed: int) -> str:
    """Reply any category, each as likely: the chance level of a model that never asks."""
    return situation.view.categories[_below(seed, len(situation.view.categories))]


def first_option(situation: Situation, seed: int) -> str:
    """Always reply the letter A: the score of a position bias alone."""
    return "A"


def ask_properly(situation: Situation, seed: int) -> str:
    """Ask in own words for what the scenario offers; in multiple choice, choose that suggestion.

    If nothing can be asked (the clear picture, the end of a video), say so, or guess if it must choose.
    """
    game = SCENARIOS[situation.sample.scenario]
    asks = (
        game.askable(situation.sample, situation.state)
        if situation.state.mode is Mode.PLAY
        else suggestions(situation.view.options)
    )
    if not situation.open_ended:
        return asks[0] if asks else guess(situation, seed)
    if not asks:
        return refuse(situation, seed)
    wish = asks[0].rstrip(". ")
    return f"I do not see enough yet to be sure. Could you please {wish[:1].lower()}{wish[1:]}? Then I can look again."


def guess_aloud(situation: Situation, seed: int) -> str:
    """Name any category in a sentence, each as likely; in multiple choice as ``guess``."""
    if not situation.open_ended:
        return guess(situation, seed)
    return f"In this picture I think I see the following: {guess(situation, seed)}"


def refuse(situation: Situation, seed: int) -> str:
    """Decline to answer, and offer nothing; in multiple choice as ``abstain``."""
    return (
        "I am sorry. From this picture alone nobody could tell." if situation.open_ended else abstain(situation, seed)
    )


def rule_judge(situation: Situation, seed: int) -> str:
    """Judge by fixed rules (``envs.rulejudge``): reads the answer itself and no instruction."""
    if situation.dialogue:
        return rule_reply(situation.sample, situation.state, situation.answer)
    return rule_verdict(situation.sample, situation.answer, reference=situation.state.mode is Mode.REFERENCE)


def malformed_calls(situation: Situation, seed: int) -> str:
    """Answer every second sample, by id, with a malformed call of the five kinds in turn; the others as ``oracle``."""
    pair, odd = divmod(situation.sample.id, 2)
    return oracle(situation, seed) if odd else MALFORMED[pair % len(MALFORMED)]


MALFORMED = (
    "Let me look at this again.",
    "abstain()\nabstain()",
    '{"name": "answer", "arguments": {"category"',
    "look_behind()",
    'answer(category="none of these")',
)
"""No call, several, unreadable JSON, an unknown function, an argument that is none."""

POLICIES: dict[str, Policy] = {
    "oracle": oracle,
    "always-ask": always_ask,
    "abstain": abstain,
    "uniform": uniform,
    "guess": guess,
    "first-option": first_option,
    "ask-properly": ask_properly,
    "guess-aloud": guess_aloud,
    "refuse": refuse,
    "malformed-calls": malformed_calls,
    "rule-judge": rule_judge,
}


class Baseline(Backend):
    """A policy as a backend."""

    def __init__(self, policy: str, identity: str = "") -> None:
        """Raises PackageError if an installed package's policy is missing, or has another ``identity``."""
        self.policy: Policy = POLICIES.get(policy) or load_function("policy", policy, identity)

    async def reply(self, request: Request) -> Reply:
        situation = request.situation
        reply = self.policy(situation, request.seed)
        return Reply(write_call(situation.calls, reply) if situation.calls else reply)


def _below(seed: int, bound: int) -> int:
    return Random(seed).randrange(bound)
