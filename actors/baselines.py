"""Baseline policies, which need no model and see no picture: lower and upper bounds of every table.

They answer through the same seam as an engine; where functions are to be called, by calls. Only ``oracle`` looks at the answer,
and ``malformed-calls``, which is it in every second sample; the others see what a model sees,
but that ``ask-properly`` knows which suggestion helps. ``rule-judge`` reads the answers of others.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from actors.backend import Reply, Request, Situation
from envs import SCENARIOS
from envs.dialogue import rule_reply
from envs.installed import function
from envs.openended import rule_verdict
from envs.scenario import suggestions
from envs.tool_calls import written
from envs.types import Mode

Policy = Callable[[Situation, int], str]
"""(what is going on, seed of this turn) -> reply."""


def oracle(now: Situation, seed: int) -> str:
    """Asks until the answer can be known, then answers: the best any model could do.

    In random-proactive asking shows nothing new, so it asks only where the rules make it (ROD's first turn).
    """
    game = SCENARIOS[now.sample.scenario]
    if now.state.mode is Mode.RANDOM:
        must_ask = not game.answerable(now.sample, now.state)
        return suggestions(now.view.options)[0] if must_ask else now.sample.answer
    return game.solve(now.sample, now.state)


def always_ask(now: Situation, seed: int) -> str:
    """The first suggestion shown, for ever; the first category where nothing can be asked."""
    return next(iter(suggestions(now.view.options)), now.view.categories[0])


def abstain(now: Situation, seed: int) -> str:
    """Never tries: the abstention, or in reference the empty reply."""
    asks = suggestions(now.view.options)
    return next((option for option in now.view.options if option not in asks), "")


def uniform(now: Situation, seed: int) -> str:
    """Any option shown, each as likely: the chance level of a model that obeys the format and nothing else."""
    options = now.view.options + now.view.categories
    return options[_below(seed, len(options))]


def guess(now: Situation, seed: int) -> str:
    """Any category, each as likely: the chance level of a model that never asks."""
    return now.view.categories[_below(seed, len(now.view.categories))]


def first_option(now: Situation, seed: int) -> str:
    """Always the letter A: what a position bias alone would score."""
    return "A"


def ask_properly(now: Situation, seed: int) -> str:
    """Asks, in words of its own, for what the scenario offers; in multiple choice it chooses that suggestion.

    Where nothing can be asked (the clear picture, the end of a video) it says so, or guesses where it must choose.
    """
    game = SCENARIOS[now.sample.scenario]
    asks = game.askable(now.sample, now.state) if now.state.mode is Mode.PLAY else suggestions(now.view.options)
    if not now.open_ended:
        return asks[0] if asks else guess(now, seed)
    if not asks:
        return refuse(now, seed)
    wish = asks[0].rstrip(". ")
    return f"I do not see enough yet to be sure. Could you please {wish[:1].lower()}{wish[1:]}? Then I can look again."


def guess_aloud(now: Situation, seed: int) -> str:
    """Names any category in a sentence, each as likely; in multiple choice it is ``guess``."""
    if not now.open_ended:
        return guess(now, seed)
    return f"In this picture I think I see the following: {guess(now, seed)}"


def refuse(now: Situation, seed: int) -> str:
    """Says that it cannot tell, and offers nothing; in multiple choice it is ``abstain``."""
    return "I am sorry. From this picture alone nobody could tell." if now.open_ended else abstain(now, seed)


def rule_judge(now: Situation, seed: int) -> str:
    """A judge's reply by fixed rules (``envs.rulejudge``); it reads the answer itself and no instruction."""
    if now.dialogue:
        return rule_reply(now.sample, now.state, now.answer)
    return rule_verdict(now.sample, now.answer, reference=now.state.mode is Mode.REFERENCE)


def malformed_calls(now: Situation, seed: int) -> str:
    """Every second sample, by id, is answered with a malformed call, the five kinds in turn; the others as by ``oracle``."""
    pair, odd = divmod(now.sample.id, 2)
    return oracle(now, seed) if odd else MALFORMED[pair % len(MALFORMED)]


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


class Baseline:
    """A policy behind the seam."""

    def __init__(self, policy: str, identity: str = "") -> None:
        """Raises PackageError where an installed package's policy is not here, or is of another ``identity``."""
        self.policy: Policy = POLICIES.get(policy) or function("policy", policy, identity)

    async def reply(self, request: Request) -> Reply:
        now = request.situation
        said = self.policy(now, request.seed)
        return Reply(written(now.calls, said) if now.calls else said)

    async def close(self) -> None:
        return None


def _below(seed: int, bound: int) -> int:
    return Random(seed).randrange(bound)
