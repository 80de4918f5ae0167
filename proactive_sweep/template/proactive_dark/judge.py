"""A judge is a policy, too: the situation holds the model's answer, and the reply is a mark for each accepted answer."""

from actors.engine.backend import Situation
from envs.openended import accepted_answers


def literal_judge(now: Situation, seed: int) -> str:
    """Mark with 1 what the answer says word by word: ``[judge] model = "literal-judge"`` in a sweep with ``oeg``."""
    said = now.answer.lower()
    return str([int(accepted.lower() in said) for accepted in accepted_answers(now.sample)])
