"""Lower and upper bounds on requests, tokens and cost of models behind services, before a run.

Lower bound: every episode ends with its first answer, a letter. Upper bound: every episode reaches its turn limit and every
reply its token limit, hidden reasoning included. Text counts one token per four characters (OpenAI's rule of thumb) and four
per message, pictures by the provider's published rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import NamedTuple

from actors.engine.backend import Message
from actors.engine.image_loader import picture_bounds
from envs import SCENARIOS
from envs.render import Renderer, UnreadablePicture
from envs.types import Mode, Sample
from orchestrator.inspection.overflow import CHARACTERS_PER_TOKEN, MESSAGE_TOKENS, token_row
from orchestrator.inspection.picture_tokens import token_rule
from orchestrator.inspection.prompt_preview import build_prompt
from orchestrator.planning.plan import Plan
from sweeps.conditions import find_rules
from sweeps.spec import Cell, ModelSpec, Protocol

MAX_SAMPLES = 30
"""Samples per cell, evenly spaced, on which the bounds are computed."""
LETTER_TOKENS = 2
"""The shortest reply: a letter and its end."""
CALL_TOKENS = 12
"""The shortest function call."""
UNKNOWN_PICTURE = 1_000
"""Tokens of a picture without a published rule: a megapixel with most engines."""
MIN_STORED_EPISODES = 20
"""Fewest stored episodes of a model with which its estimate includes their mean cost."""
MILLION = 1e6


class Usage(NamedTuple):
    """Requests and tokens of one or more episodes."""

    requests: float = 0.0
    prompt: float = 0.0
    """Tokens."""
    reply: float = 0.0
    """Tokens."""

    def plus(self, other: Usage, times: float) -> Usage:
        """Return the sum of this and ``times`` the other."""
        return Usage(*(own + times * more for own, more in zip(self, other, strict=True)))

    def cost(self, model: ModelSpec) -> float:
        """Return the cost in the currency of the model's prices."""
        prompt_price, reply_price = model.prices
        return (self.prompt * prompt_price + self.reply * reply_price) / MILLION


@dataclass(frozen=True)
class CostEstimate:
    """The bounds on requests, tokens and cost of one model's pending episodes."""

    model: ModelSpec
    episodes: int
    least: Usage
    most: Usage
    stored_mean: float | None
    """Mean cost of its stored episodes; None if they are too few."""

    @property
    def line(self) -> str:
        """Return the estimate as a sentence."""
        spans = (
            f"{_number(low)} to {_number(high)} {what}"
            for low, high, what in zip(
                self.least, self.most, ("requests", "prompt tokens", "reply tokens"), strict=True
            )
        )
        text = f"{self.model.name}: {self.episodes:,} episodes, {', '.join(spans)}"
        endpoint = self.model.endpoint
        if not (endpoint.prompt_price or endpoint.reply_price):
            return f"{text}; its entry has no prices"
        unknown = "" if token_rule(self.model.source) else "; no published rule for its pictures"
        low, high = self.least.cost(self.model), self.most.cost(self.model)
        text += f": {low:,.2f} to {high:,.2f} ({endpoint.priced or 'its prices'}){unknown}"
        if self.stored_mean is not None:
            text += f"; {self.stored_mean * self.episodes:,.2f} at the mean cost of its stored episodes"
        return text


def estimates(plan: Plan, pending: Mapping[str, int], data: Path, folder: Path) -> list[CostEstimate]:
    """Return one estimate per model behind a service.

    Args:
        pending: Cell -> number of episodes to play.
        data: The benchmark's folder; unreadable pictures count like those without a published rule.
        folder: The run folder, for the mean cost of stored episodes.
    """
    models = {cell.model.name: cell.model for cell in plan.cells if cell.model.backend == "openai"}
    stored_means = _stored_means(folder)
    estimates = []
    for model in models.values():
        least = most = Usage()
        count = 0
        tokens = _token_counter(model, data)
        for cell in plan.cells:
            if cell.model is model and (number := pending.get(cell.key, 0)):
                low, high = _bound_cell(plan, cell, tokens)
                least, most, count = least.plus(low, number), most.plus(high, number), count + number
        if count:
            estimates.append(CostEstimate(model, count, least, most, stored_means.get(model.name)))
    return estimates


def lines(estimates: Sequence[CostEstimate], max_cost: float | None) -> Iterator[str]:
    """Yield a sentence per estimate, the sum of the priced ones, and the cost limit."""
    yield from (estimate.line for estimate in estimates)
    priced = [e for e in estimates if e.model.endpoint.prompt_price or e.model.endpoint.reply_price]
    if len(priced) > 1:
        low, high = (sum(getattr(e, bound).cost(e.model) for e in priced) for bound in ("least", "most"))
        yield f"all services: {low:,.2f} to {high:,.2f}"
    if estimates and max_cost is not None:
        yield f"all services stop at max_cost = {max_cost:g}"


def _bound_cell(plan: Plan, cell: Cell, tokens: Callable[[Message], int]) -> tuple[Usage, Usage]:
    """Return the mean lower and upper bound of an episode of the cell."""
    samples = plan.cell_samples(cell)
    chosen = samples[:: max(1, ceil(len(samples) / MAX_SAMPLES))]
    low = high = Usage()
    for sample in chosen:
        least, most = _bound_episode(plan, cell, sample, tokens)
        low, high = low.plus(least, 1 / len(chosen)), high.plus(most, 1 / len(chosen))
    return low, high


def _bound_episode(plan: Plan, cell: Cell, sample: Sample, tokens: Callable[[Message], int]) -> tuple[Usage, Usage]:
    """Return the lower and the upper bound of one episode; functions count as tokens of the prompt."""
    condition, limit = cell.condition, SCENARIOS[sample.scenario].limit(sample)
    prompt = build_prompt(sample, plan.pools.get(cell.scenario, ()), cell, plan.seed)
    first, is_single = sum(map(tokens, prompt)), condition.mode is Mode.REFERENCE or cell.protocol is Protocol.OEG
    fewest, most = 1, 1 if is_single else limit
    if condition.rules:
        fewest = most = find_rules(condition).load()(sample, condition, 0).requests
    turns = [min(turn, condition.history_turns or turn) for turn in range(most)] if condition.history else []
    earlier = sum(turns) * (tokens(prompt[-1]) + cell.sampling.max_tokens)
    shortest = CALL_TOKENS if cell.protocol is Protocol.TOOLS else LETTER_TOKENS
    longest = cell.sampling.max_tokens + cell.model.endpoint.reserve
    return Usage(fewest, fewest * first, fewest * shortest), Usage(most, most * first + earlier, most * longest)


def _token_counter(model: ModelSpec, data: Path) -> Callable[[Message], int]:
    """Return a function that counts the tokens of a message."""
    rule, renderer = token_rule(model.source), Renderer(data, fit=picture_bounds(model))
    default = token_row(model).get("full") or UNKNOWN_PICTURE

    def picture_counts(message: Message) -> Iterator[int]:
        for ref in message.images:
            try:
                yield default if rule is None else rule(*renderer.size(ref))
            except (UnreadablePicture, ValueError):
                yield default

    return lambda message: (
        MESSAGE_TOKENS + ceil(len(message.text) / CHARACTERS_PER_TOKEN) + sum(picture_counts(message))
    )


def _stored_means(folder: Path) -> dict[str, float]:
    """Return model -> mean cost of its stored episodes, for models with at least ``MIN_STORED_EPISODES`` of them."""
    if not (folder / "episodes").is_dir():
        return {}
    import polars as pl

    from orchestrator.storage.episode_store import episodes

    rows = (
        episodes(folder)
        .group_by("model")
        .agg(pl.col("cost").mean(), pl.len())
        .filter(pl.col("len") >= MIN_STORED_EPISODES)
    )
    return dict(rows.select("model", "cost").collect().iter_rows())


def _number(value: float) -> str:
    return f"{value:,.0f}" if value < MILLION else f"{value / MILLION:,.1f} M"
