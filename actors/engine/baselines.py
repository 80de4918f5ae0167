"""Baseline policies without model and pictures: lower and upper bounds of every table.

They answer through the interface of engines, with calls if functions are offered. Only ``oracle`` and, in every second sample,
``malformed-calls`` use the correct answer; ``ask-properly`` knows which suggestion helps. ``rule-judge`` judges other answers.
"""

from collections.abc import Callable
from random import Random

from actors.engine.backend import Backend, Reply, Request, Situation, Unprocessable
from envs import SCENARIOS
from envs.dialogue import plain
from envs.installed import load_function
from envs.rulejudge import judge_answer, judge_turn
from envs.scenario import suggestions
from envs.tool_calls import write_call
from envs.types import Mode

Policy = Callable[[Situation, int], str]
"""(situation, seed of this turn) -> reply."""


def oracle(situation: Situation, seed: int) -> str:
    """Ask until the sample can be answered, then answer: the best that any model could do.

    In random-proactive, asking reveals nothing, so it asks only if the rules require it (ROD's first turn).
    """
    game = SCENARIOS[situation.sample.scenario]
    if situation.state.mode is Mode.RANDOM:
        must_ask = not game.answerable(situation.sample, situation.state)
        return suggestions(situation.view.options)[0] if must_ask else situation.sample.answer
    return game.solve(situation.sample, situation.state)


def always_ask(situation: Situation, seed: int) -> str:
    """Repeat the first suggestion; name the first category if there is none."""
    return next(iter(suggestions(situation.view.options)), situation.view.categories[0])


def abstain(situation: Situation, seed: int) -> str:
    """Reply with the option to abstain; in reference, which has none, reply with an empty text."""
    asks = suggestions(situation.view.options)
    return next((option for option in situation.view.options if option not in asks), "")


def uniform(situation: Situation, seed: int) -> str:
    """Reply with a random option or category, all equally likely: the chance level of a model that follows the format."""
    return Random(seed).choice(situation.view.options + situation.view.categories)


def guess(situation: Situation, seed: int) -> str:
    """Reply with a random category, all equally likely: the chance level of a model that never asks."""
    return Random(seed).choice(situation.view.categories)


def first_option(situation: Situation, seed: int) -> str:
    """Always reply with the letter A: the score of a pure position bias."""
    return "A"


def ask_properly(situation: Situation, seed: int) -> str:
    """Ask in a sentence for the first suggestion that the scenario offers; in multiple choice, choose it.

    If there is no suggestion (the clear picture, the end of a video), decline; in multiple choice, guess.
    """
    sample, state = situation.sample, situation.state
    can_play = state.mode is Mode.PLAY
    asks = SCENARIOS[sample.scenario].askable(sample, state) if can_play else suggestions(situation.view.options)
    if not situation.open_ended:
        return asks[0] if asks else guess(situation, seed)
    if not asks:
        return refuse(situation, seed)
    wish = plain(asks[0])
    return f"I do not see enough yet to be sure. Could you please {wish[:1].lower()}{wish[1:]}? Then I can look again."


def guess_aloud(situation: Situation, seed: int) -> str:
    """Name a random category in a sentence; in multiple choice, reply as ``guess`` does."""
    if not situation.open_ended:
        return guess(situation, seed)
    return f"In this picture I think I see the following: {guess(situation, seed)}"


def refuse(situation: Situation, seed: int) -> str:
    """Decline to answer, without asking for anything; in multiple choice, reply as ``abstain`` does."""
    if not situation.open_ended:
        return abstain(situation, seed)
    return "I am sorry. From this picture alone nobody could tell."


def rule_judge(situation: Situation, seed: int) -> str:
    """Judge by fixed rules (``envs.rulejudge``), which read only the answer."""
    if situation.dialogue:
        return judge_turn(situation.sample, situation.state, situation.answer)
    return judge_answer(situation.sample, situation.answer, reference=situation.state.mode is Mode.REFERENCE)


def malformed_calls(situation: Situation, seed: int) -> str:
    """Reply with the five ``MALFORMED`` calls in turn to samples with an even id; reply to the others as ``oracle`` does."""
    pair, odd = divmod(situation.sample.id, 2)
    return oracle(situation, seed) if odd else MALFORMED[pair % len(MALFORMED)]


MALFORMED = (
    "Let me look at this again.",
    "abstain()\nabstain()",
    '{"name": "answer", "arguments": {"category"',
    "look_behind()",
    'answer(category="none of these")',
)
"""No call, several calls, unreadable JSON, an unknown function, an invalid argument."""

POLICIES: dict[str, Policy] = {
    policy.__name__.replace("_", "-"): policy
    for policy in (
        oracle, always_ask, abstain, uniform, guess, first_option, ask_properly, guess_aloud, refuse, malformed_calls,
        rule_judge,
    )
}  # fmt: skip


SEEDLESS = frozenset({"oracle", "always-ask", "abstain", "first-option"})
"""Policies that reply alike for every seed, so their reply has probability 1."""


class Baseline(Backend):
    def __init__(self, policy: str, identity: str = "") -> None:
        """Raises PackageError if the policy's package is not installed, or has another ``identity``."""
        self.name, self.scores_replies = policy, policy in SEEDLESS
        self.policy: Policy = POLICIES.get(policy) or load_function("policy", policy, identity)

    async def reply(self, request: Request) -> Reply:
        """Answer the request; raises Unprocessable if the policy raises or returns no text, because it would do so again."""
        situation = request.situation
        try:
            reply = self.policy(situation, request.seed)
        except Exception as problem:  # a policy of an installed package may raise anything
            raise Unprocessable(f"the policy {self.name} raised {type(problem).__name__}: {problem}") from problem
        if not isinstance(reply, str):
            raise Unprocessable(f"the policy {self.name} returned a value of type {type(reply).__name__}, not a text")
        return Reply(write_call(situation.calls, reply) if situation.calls else reply)
