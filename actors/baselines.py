"""Policies that need no model and never look at a picture: they bound every table from below and from above.

They answer through the same seam as an engine. Only ``oracle`` looks at the answer; the others see what a model sees.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from actors.backend import Reply, Request, Situation
from envs import SCENARIOS
from envs.scenario import suggestions
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


POLICIES: dict[str, Policy] = {
    "oracle": oracle,
    "always-ask": always_ask,
    "abstain": abstain,
    "uniform": uniform,
    "guess": guess,
    "first-option": first_option,
}


class Baseline:
    """A policy behind the seam."""

    def __init__(self, policy: str) -> None:
        self.policy = POLICIES[policy]

    async def reply(self, request: Request) -> Reply:
        return Reply(self.policy(request.situation, request.seed))

    async def close(self) -> None:
        return None


def _below(seed: int, bound: int) -> int:
    return Random(seed).randrange(bound)
