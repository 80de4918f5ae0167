"""Lower and upper bounds on requests, tokens and cost of models behind services, before a run.

Lower bound: every episode ends with its first answer, a letter. Upper bound: every episode asks to its turn limit and every
reply reaches its token limit, hidden reasoning included. Text counts one token per four characters (OpenAI's rule of thumb) and
four per message, pictures by the provider's published rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, floor, sqrt
from pathlib import Path
from typing import NamedTuple

from actors.engine.backend import Message, images_of
from actors.engine.image_loader import picture_bounds
from envs.render import Renderer, UnreadablePicture
from envs.types import ImageRef
from orchestrator.inspection.overflow import TOKENS, model_facts, text_tokens
from orchestrator.inspection.prompt_preview import pose_some, shown_messages
from orchestrator.planning.plan import Plan
from sweeps.spec import Cell, ModelSpec, Protocol

MAX_SAMPLES = 30
"""Samples per cell, evenly spaced, on which the bounds are computed."""
LETTER_TOKENS, CALL_TOKENS = 2, 12
"""The shortest reply, a letter and its end, and the shortest function call."""
UNKNOWN_PICTURE = 1_000
"""Tokens of a picture without a published rule: a megapixel with most engines."""


class Usage(NamedTuple):
    """Requests and tokens of one or more episodes."""

    requests: float = 0.0
    prompt: float = 0.0
    reply: float = 0.0

    def plus(self, other: Usage, times: float) -> Usage:
        return Usage(*(own + times * more for own, more in zip(self, other, strict=True)))


class CostEstimate(NamedTuple):
    """The bounds on requests, tokens and cost of one model's pending episodes."""

    model: ModelSpec
    episodes: int
    least: Usage
    most: Usage

    @property
    def costs(self) -> tuple[float, float] | None:
        """Return the bounds on the cost; None if the entry has no prices."""
        prompt, reply = self.model.prices
        low, high = ((usage.prompt * prompt + usage.reply * reply) / 1e6 for usage in (self.least, self.most))
        return (low, high) if prompt or reply else None

    @property
    def line(self) -> str:
        bounds = zip(self.least, self.most, ("requests", "prompt tokens", "reply tokens"), strict=True)
        spans = (f"{low:,.0f} to {high:,.0f} {what}" for low, high, what in bounds)
        text = f"{self.model.name}: {self.episodes:,} episodes, {', '.join(spans)}"
        if self.costs is None:
            return f"{text}; its entry has no prices"
        unknown = "" if picture_tokens(self.model.source, 1, 1) else "; no published rule for its pictures"
        low, high = self.costs
        return f"{text}: {low:,.2f} to {high:,.2f} ({self.model.endpoint.priced or 'its prices'}){unknown}"


def estimates(plan: Plan, pending: Mapping[str, int], data: Path) -> list[CostEstimate]:
    """Return one estimate per model behind a service; ``pending``: cell -> number of episodes to play.

    Pictures that cannot be read in the folder ``data`` count like those without a published rule.
    """
    by_model: dict[str, CostEstimate] = {}
    for cell in plan.cells:
        model, number = cell.model, pending.get(cell.key, 0)
        if model.backend == "openai" and number:
            low, high = _bound_cell(plan, cell, _token_counter(model, data))
            _, episodes, least, most = by_model.get(model.name) or CostEstimate(model, 0, Usage(), Usage())
            new = (episodes + number, least.plus(low, number), most.plus(high, number))
            by_model[model.name] = CostEstimate(model, *new)
    return list(by_model.values())


def lines(estimates: Sequence[CostEstimate], max_cost: float | None) -> Iterator[str]:
    """Yield a sentence per estimate, the sum of the priced ones, and the cost limit."""
    yield from (estimate.line for estimate in estimates)
    priced = [estimate.costs for estimate in estimates if estimate.costs]
    if len(priced) > 1:
        low, high = map(sum, zip(*priced, strict=True))
        yield f"all services: {low:,.2f} to {high:,.2f}"
    if estimates and max_cost is not None:
        yield f"all services stop at max_cost = {max_cost:g}"


def _bound_cell(plan: Plan, cell: Cell, tokens: Callable[[Sequence[Message]], int]) -> tuple[Usage, Usage]:
    """Return the mean bounds of an episode of the cell; functions count as tokens of the prompt."""
    posed = pose_some(plan, cell, MAX_SAMPLES)
    shortest = CALL_TOKENS if cell.protocol is Protocol.TOOLS else LETTER_TOKENS
    replied, longest = cell.sampling.max_tokens, cell.model.reply_limit(cell.sampling)
    least = most = Usage()
    for requests in posed:
        first = len(requests) if cell.condition.rules else 1
        prompts = [tokens(shown_messages(request)) for request in requests]
        answered = sum(message.role == "assistant" for request in requests for message in request.messages)
        low = Usage(first, sum(prompts[:first]), first * shortest)
        high = Usage(len(requests), sum(prompts) + answered * replied, len(requests) * longest)
        least, most = least.plus(low, 1 / len(posed)), most.plus(high, 1 / len(posed))
    return least, most


def _token_counter(model: ModelSpec, data: Path) -> Callable[[Sequence[Message]], int]:
    """Return a function that counts the tokens of a prompt."""
    renderer = Renderer(data, fit=picture_bounds(model))
    default = int(model_facts(model)[1].get("full") or UNKNOWN_PICTURE)

    def picture(ref: ImageRef) -> int:
        try:
            return picture_tokens(model.source, *renderer.size(ref)) or default
        except (UnreadablePicture, ValueError):
            return default

    return lambda messages: text_tokens(messages) + sum(map(picture, images_of(messages)))


def picture_tokens(source: str, width: float, height: float) -> int:
    """Return the tokens of a picture by the rule of OpenAI's model ``source``; 0 for other models.

    Tiles are counted when the picture fits into 2,048 x 2,048 and has a short edge of 768 at most; patches after it is shrunk to
    1,536 of them.
    """
    row = TOKENS.get(re.sub(r"-\d{4}-\d{2}-\d{2}$", "", source), {})
    if "tile" in row:
        for bound, edge in ((2048, max), (768, min)):
            scale = min(1.0, bound / edge(width, height))
            width, height = max(1, round(width * scale)), max(1, round(height * scale))
        return int(row["base"] + row["tile"] * ceil(width / 512) * ceil(height / 512))
    if "patch" not in row:
        return 0
    columns, rows = width / 32, height / 32
    if ceil(columns) * ceil(rows) > 1536:
        scale = sqrt(1536 / (columns * rows))
        scale *= min(max(1, floor(edge * scale)) / (edge * scale) for edge in (columns, rows))
        columns, rows = round(columns * scale, 6), round(rows * scale, 6)
    return ceil(min(1536, ceil(columns) * ceil(rows)) * row["patch"])
