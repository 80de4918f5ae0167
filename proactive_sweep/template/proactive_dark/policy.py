"""A policy is a function: what is going on and the seed of this turn -> the reply."""

from random import Random

from actors.engine.backend import Situation
from envs.scenario import suggestions


def ask_once(now: Situation, seed: int) -> str:
    """Asks on the first turn, then names any category, each as likely."""
    asks = suggestions(now.view.options)
    if asks and now.state.turn == 0:
        return asks[0]
    return Random(seed).choice(now.view.categories)
