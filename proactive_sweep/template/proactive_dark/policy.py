"""A policy is a function: what is going on and the seed of this turn -> the reply. A judge is a policy, too."""

from random import Random

from actors.engine.backend import Situation
from envs.openended import accepted_answers
from envs.scenario import suggestions


def ask_once(now: Situation, seed: int) -> str:
    """Asks on the first turn, then names any category, each as likely."""
    asks = suggestions(now.view.options)
    if asks and now.state.turn == 0:
        return asks[0]
    return Random(seed).choice(now.view.categories)


def literal_judge(now: Situation, seed: int) -> str:
    """Mark each accepted answer, 1 if the model's says it word by word: ``[judge] model = "literal-judge"`` with ``oeg``."""
    said = now.answer.lower()
    return str([int(accepted.lower() in said) for accepted in accepted_answers(now.sample)])
