"""The probability of each option of a question, summed over all replies that the game reads as this option.

A service is asked ``SAMPLES`` times; the shares of its replies estimate the model's own point, but no curve. A model that thinks
first is scored after each of several sampled thoughts; the means over these thoughts estimate its curve.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log

from actors.engine.backend import Backend, ModelStopped, Reply, Request
from actors.playing.judge import derive_seed
from envs.thoughts import CLOSING, OPENING
from envs.types import Sample
from proactive_operating.reply_scores import ReplyScore, score_replies
from proactive_operating.state_graph import Question, read_option, reply_forms
from sweeps.conditions import Condition

SAMPLES = 10
"""Replies that are sampled per question if the engine gives no probabilities."""


@dataclass(frozen=True, slots=True)
class ScoredReply(Reply):
    """The most probable option as a reply, with the scores of all options."""

    options: tuple[ReplyScore, ...] = ()
    """One per option in the order shown, of all replies that name it; the last is the residual, of those that name none."""
    samples: int | None = None
    """Number of sampled replies if the scores are shares of these; None if the engine computed them."""
    thoughts: int | None = None
    """Number of sampled thoughts if the scores are means over these; None if the model did not think."""


async def score_options(backend: Backend, request: Request, condition: Condition) -> ScoredReply:
    """Ask for the probabilities of the options of a posed question; raises the errors of ``Backend.reply``."""
    situation = request.situation
    question = Question(situation.state, situation.view)
    if not backend.scores_replies:
        return await _sample_options(backend, request, question, condition)
    drawn = await draw_replies(backend, request, condition.thoughts)
    if any(reply.thought for reply in drawn):
        raise ModelStopped("every-state samples thoughts itself; remove thinking from the model's entry")
    if not any(split_thought(reply.text) for reply in drawn):
        computed = await _compute_options(backend, request, question, condition)
        return _as_reply(question, add_usage([computed, *drawn]), computed.options)
    parts = [await _options_after(backend, request, question, condition, reply) for reply in drawn]
    options = mean_options([part.options for part in parts])
    return replace(_as_reply(question, add_usage([*drawn, *parts]), options), thoughts=len(parts))


async def _options_after(
    backend: Backend, request: Request, question: Question, condition: Condition, reply: Reply
) -> ScoredReply:
    """Score the options after a reply's thought; without a finished thought, the reply itself counts as the only sample."""
    if thought := split_thought(reply.text):
        return await _compute_options(backend, request, question, condition, thought)
    return _as_reply(question, Reply(""), _count_shares(request, question, condition, [reply]))


async def _compute_options(
    backend: Backend, request: Request, question: Question, condition: Condition, thought: str = ""
) -> ScoredReply:
    """Score the options by the probabilities that the engine computes after a thought."""
    readable = readable_forms(question, request.situation.sample, condition)
    scored = await score_replies(backend, request, [form for form, _ in readable], thought)
    options = sum_scores(len(question.options), [number for _, number in readable], scored.scores)
    return _as_reply(question, scored.usage, options)


def split_thought(text: str) -> str:
    """Return what precedes a reply's answer, the thought and white space; empty without a thought or if it is unfinished."""
    answer = text[max((tag.end() for tag in CLOSING.finditer(text)), default=0) :]
    closed = len(answer) < len(text) and not OPENING.search(answer)
    return text.removesuffix(answer.lstrip()) if closed else ""


def mean_options(parts: Sequence[tuple[ReplyScore, ...]]) -> tuple[ReplyScore, ...]:
    """Return the mean probability of each option and of the residual; ``greedy`` is False, since it is unknown."""
    shares = [[exp(score.log_probability) for score in scores] for scores in zip(*parts, strict=True)]
    return _as_options([sum(column) / len(parts) for column in shares])


def readable_forms(question: Question, sample: Sample, condition: Condition) -> list[tuple[str, int]]:
    """Return the replies to score, each with the option that the game reads in it."""
    numbers = range(len(question.options))
    forms = dict.fromkeys(form for number in numbers for form in reply_forms(question, number))
    named = [(form, read_option(sample, question.state, condition, form)) for form in forms]
    return [(form, number) for form, number in named if number >= 0]


def sum_scores(count: int, option_numbers: Sequence[int], scores: Sequence[ReplyScore]) -> tuple[ReplyScore, ...]:
    """Return the scores of ``count`` options and of the residual; each scored reply names one of ``option_numbers``."""
    logs_by_option: list[list[float]] = [[] for _ in range(count)]
    for number, score in zip(option_numbers, scores, strict=True):
        logs_by_option[number].append(score.log_probability)
    greedy = {number for number, score in zip(option_numbers, scores, strict=True) if score.greedy}
    options = [ReplyScore(log_sum(logs), number in greedy) for number, logs in enumerate(logs_by_option)]
    residual = max(0.0, 1.0 - sum(exp(option.log_probability) for option in options))
    return (*options, ReplyScore(log(residual) if residual else -inf, not greedy))


def log_sum(logs: Sequence[float]) -> float:
    """Return the logarithm of the sum of the exponentials of ``logs``; ``-inf`` if there are none."""
    largest = max(logs, default=-inf)
    return largest if largest == -inf else largest + log(sum(exp(each - largest) for each in logs))


async def _sample_options(backend: Backend, request: Request, question: Question, condition: Condition) -> ScoredReply:
    replies = await draw_replies(backend, request, SAMPLES)
    options = _count_shares(request, question, condition, replies)
    return replace(_as_reply(question, add_usage(replies), options), samples=SAMPLES)


async def draw_replies(backend: Backend, request: Request, count: int) -> list[Reply]:
    """Return ``count`` replies, sampled at temperature 1."""
    sampling = request.sampling.model_copy(update={"temperature": 1.0, "checkpoint": False, "sampled": False})
    replies = []
    for number in range(count):
        seed, key = derive_seed(request.seed, number), f"{request.key}/{number}"
        sampled = request._replace(sampling=sampling, seed=seed, key=key)
        replies.append(await backend.reply(sampled))
    return replies


def _count_shares(
    request: Request, question: Question, condition: Condition, replies: Sequence[Reply]
) -> tuple[ReplyScore, ...]:
    """Return per option the share of replies that name it, and last the share of those that name none."""
    sample, state = request.situation.sample, request.situation.state
    named = Counter(read_option(sample, state, condition, reply.text) for reply in replies)
    return _as_options([named[number] / len(replies) for number in (*range(len(question.options)), -1)])


def _as_options(shares: Sequence[float]) -> tuple[ReplyScore, ...]:
    return tuple(ReplyScore(log(share) if share else -inf, False) for share in shares)


def add_usage(replies: Sequence[Reply]) -> Reply:
    """Return the first reply with the tokens, time and cost of all."""
    return replace(
        replies[0],
        prompt_tokens=sum(reply.prompt_tokens for reply in replies),
        reply_tokens=sum(reply.reply_tokens for reply in replies),
        seconds=sum(reply.seconds for reply in replies),
        cost=sum(reply.cost for reply in replies),
    )


def _as_reply(question: Question, usage: Reply, options: tuple[ReplyScore, ...]) -> ScoredReply:
    """Return the most probable option as a reply; an empty reply if the residual is more probable than each option."""
    best = max(range(len(options)), key=lambda number: options[number].log_probability)
    text = (*question.options, "")[best]
    return ScoredReply(
        text, usage.prompt_tokens, usage.reply_tokens, "stop", usage.seconds, usage.cost, usage.cached_tokens,
        options=options,
    )  # fmt: skip
