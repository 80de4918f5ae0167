"""The probability that a model writes exactly a given reply: computed by vLLM and transformers, certain for fixed policies."""

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple

from actors.engine.backend import Reply, Request
from actors.engine.baselines import Baseline


class ReplyScore(NamedTuple):
    """The probability that a model writes exactly this reply and stops, or any of several replies."""

    log_probability: float
    """Natural logarithm, at temperature 1, without top-p, top-k and penalties; ``-inf`` if the probability is zero."""
    greedy: bool
    """True if greedy decoding writes it."""


class ScoredReplies(NamedTuple):
    """The scores of some replies to one request, with the usage of the scoring."""

    scores: tuple[ReplyScore, ...]
    """One per reply, in order."""
    usage: Reply
    """A reply without text that holds tokens, time and cost."""


async def score_replies(backend: Any, request: Request, replies: Sequence[str], thought: str = "") -> ScoredReplies:
    """Return the score of each of these replies, given that the model has written ``thought`` before them.

    Raises as ``Backend.reply``. Only for engines with ``scores_replies``; one of a package has ``option_log_probabilities``.
    """
    if hasattr(backend, "option_log_probabilities"):
        scored: ScoredReplies = await backend.option_log_probabilities(request, replies, thought)
        return scored
    if isinstance(backend, Baseline):
        certain = (await backend.reply(request)).text
        return ScoredReplies(tuple(ReplyScore(0.0 if r == certain else -inf, r == certain) for r in replies), Reply(""))
    if type(backend).__name__ == "VLLMBackend":
        from proactive_operating import vllm_scores

        return await vllm_scores.score_replies(backend, request, replies, thought)
    from proactive_operating.transformers_scores import score_job

    scored = await backend.run(request, partial(score_job, replies=replies, thought=thought))
    return scored
