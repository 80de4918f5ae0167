"""Estimates requests to services and their price: requests, tokens and cost of each model, from the least to the most.

Least: every episode ends with its first answer, a letter. Most: every episode goes on to its turn limit, every reply to its
token limit, hidden reasoning included. Text counts as a token for four characters (OpenAI's own rule of thumb) and four
tokens a message; pictures by the provider's published rule (``service_pictures``). Up to 30 samples of a cell are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import NamedTuple

from actors.engine.backend import Message
from actors.engine.image_loader import picture_bounds
from actors.engine.openai.picture_tokens import token_rule
from actors.playing.prompts import apply_condition, examples, exchange, messages, open_question, open_view, turn_view
from actors.playing.tool_prompts import tool_messages
from envs import SCENARIOS
from envs.frames import decision_states
from envs.render import Renderer, UnreadablePicture
from envs.tool_calls import functions, offered_calls
from envs.types import Mode, Sample
from orchestrator.inspection.overflow import bounds
from orchestrator.planning.plan import Plan
from sweeps.spec import Cell, ModelSpec, Protocol

LOOKED_AT = 30
"""Samples of a cell that stand for all of it."""
CHARACTERS, MARKS = 4, 4
"""Characters a token, and tokens that a message has beside its text."""
LETTER = 2
"""Tokens of the shortest reply: a letter and its end."""
CALL = 12
"""Tokens of the shortest function call."""
UNKNOWN_PICTURE = 1_000
"""Tokens of a picture where no rule is known: as many as a megapixel has with most engines."""
ENOUGH = 20
"""Stored episodes from which on a model's own mean is told beside the bounds."""
MILLION = 1e6


class Asked(NamedTuple):
    """Of one episode, or of many: what is sent and what comes back."""

    requests: float = 0.0
    prompt: float = 0.0
    """Tokens, as ``reply``."""
    reply: float = 0.0

    def plus(self, other: Asked, times: float) -> Asked:
        """The sum with ``times`` the other."""
        return Asked(*(one + times * more for one, more in zip(self, other, strict=True)))

    def cost(self, model: ModelSpec) -> float:
        """In the currency of the model's prices."""
        asked, said = model.prices
        return (self.prompt * asked + self.reply * said) / MILLION


@dataclass(frozen=True)
class Estimate:
    """The pending work of one model."""

    model: ModelSpec
    episodes: int
    least: Asked
    most: Asked
    played: float | None
    """Mean cost of its stored episodes, where there are enough."""
    turns: int = 0
    """Of the longest episode that was looked at."""

    @property
    def line(self) -> str:
        """The estimate as a sentence."""
        spans = (
            f"{_number(low)} to {_number(high)} {what}"
            for low, high, what in zip(
                self.least, self.most, ("requests", "prompt tokens", "reply tokens"), strict=True
            )
        )
        text = f"{self.model.name}: {self.episodes:,} episodes, {', '.join(spans)}"
        end = self.model.endpoint
        if not (end.prompt_price or end.reply_price):
            return f"{text}; no prices are in its entry{self._batched}"
        known = "" if token_rule(self.model.source) else "; pictures by no published rule"
        text += f": {self.least.cost(self.model):,.2f} to {self.most.cost(self.model):,.2f} ({end.priced or 'its prices'}){known}"
        return (
            f"{text}{self._batched}"
            if self.played is None
            else f"{text}; {self.played * self.episodes:,.2f} at what its stored episodes cost{self._batched}"
        )

    @property
    def _batched(self) -> str:
        """Return a line on the Batch API's price and delay; empty if nothing uses it."""
        if not self.model.batch:
            return ""
        end = self.model.endpoint
        own = end.batch_prompt_price is not None or end.batch_reply_price is not None
        price = "its entry's batch prices" if own else "half the listed price"
        days = f"{self.turns} turns in the longest episodes" if self.turns > 1 else "one turn"
        return f"; through the Batch API, at {price}: up to 24 hours a turn, {days}"


def estimates(plan: Plan, pending: Mapping[str, int], data: Path, folder: Path) -> list[Estimate]:
    """One estimate a model that a service answers for; ``pending``: cell -> episodes to play.

    ``data`` is the benchmark's folder on this machine; a picture that cannot be read there counts as one of no known rule.
    ``folder`` is the run's.
    """
    models = {cell.model.name: cell.model for cell in plan.cells if cell.model.backend == "openai"}
    played = _played(folder)
    found = []
    for model in models.values():
        least = most = Asked()
        count = turns = 0
        tokens = _picture_tokens(model, data)
        for cell in plan.cells:
            if cell.model is model and (number := pending.get(cell.key, 0)):
                low, high, longest = _cell(plan, cell, tokens)
                turns = max(turns, longest)
                least, most, count = least.plus(low, number), most.plus(high, number), count + number
        if count:
            found.append(Estimate(model, count, least, most, played.get(model.name), turns))
    return found


def lines(found: Sequence[Estimate], max_cost: float | None) -> Iterator[str]:
    """The estimates as sentences, the sum of priced ones, and where the sweep stops."""
    yield from (one.line for one in found)
    priced = [one for one in found if one.model.endpoint.prompt_price or one.model.endpoint.reply_price]
    if len(priced) > 1:
        low, high = (sum(getattr(one, end).cost(one.model) for one in priced) for end in ("least", "most"))
        yield f"all services: {low:,.2f} to {high:,.2f}"
    if found and max_cost is not None:
        yield f"all services stop at max_cost = {max_cost:g}"


def _cell(plan: Plan, cell: Cell, tokens: Callable[[Message], int]) -> tuple[Asked, Asked, int]:
    """Least and most of an episode of the cell, means over samples that lie evenly in it; and turns of the longest of them."""
    samples = plan.cell_samples(cell)
    chosen = samples[:: max(1, ceil(len(samples) / LOOKED_AT))]
    low = high = Asked()
    longest = 0
    for sample in chosen:
        one, other = _episode(plan, cell, apply_condition(sample, cell.condition, plan.seed), tokens)
        low, high = low.plus(one, 1 / len(chosen)), high.plus(other, 1 / len(chosen))
        longest = max(longest, int(other.requests))
    return low, high, longest


def _episode(plan: Plan, cell: Cell, sample: Sample, tokens: Callable[[Message], int]) -> tuple[Asked, Asked]:
    condition, game = cell.condition, SCENARIOS[sample.scenario]
    state = game.initial(sample, condition.mode, 0)
    longest = cell.sampling.max_tokens + cell.model.endpoint.reserve
    if cell.protocol.is_open_ended:
        first = tokens(open_question(open_view(sample, state, condition)))
        turns = game.limit(sample) if cell.protocol is Protocol.OEG_MULTI else 1
        return Asked(1, first, LETTER), Asked(turns, turns * first, turns * longest)
    view = turn_view(sample, state, condition)
    if cell.protocol is Protocol.TOOLS:  # functions beside the prompt are tokens of it, too
        known = functions(offered_calls(sample, state, view))
        first = sum(map(tokens, tool_messages(view, known, condition, native=False)))
        turns = 1 if condition.mode is Mode.REFERENCE else game.limit(sample)
        return Asked(1, first, CALL), Asked(turns, turns * first, turns * longest)
    shots = examples(sample, plan.pools[sample.scenario], condition, plan.seed, cell.model.small_examples)
    first = sum(map(tokens, messages(sample, view, condition, (), shots)))
    turns = 1 if condition.mode is Mode.REFERENCE else game.limit(sample)
    before = 0
    if condition.every_frame:
        turns = len(decision_states(sample))
        return Asked(turns, turns * first, turns * LETTER), Asked(turns, turns * first, turns * longest)
    if condition.history:
        edge = game.history_edge if condition.resized else None
        earlier = sum(map(tokens, exchange(view, "", edge, condition.template))) + cell.sampling.max_tokens
        before = sum(min(turn, condition.history_turns or turn) for turn in range(turns)) * earlier
    return Asked(1, first, LETTER), Asked(turns, turns * first + before, turns * longest)


def _picture_tokens(model: ModelSpec, data: Path) -> Callable[[Message], int]:
    """Return the counter of a message's tokens for the model."""
    counted, renderer = token_rule(model.source), Renderer(data, cache_bytes=0, fit=picture_bounds(model))
    usual = bounds(model).full or UNKNOWN_PICTURE

    def picture(message: Message) -> Iterator[int]:
        for ref in message.images:
            try:
                yield usual if counted is None else counted(*renderer.size(ref))
            except (UnreadablePicture, ValueError):
                yield usual

    return lambda message: MARKS + ceil(len(message.text) / CHARACTERS) + sum(picture(message))


def _played(folder: Path) -> dict[str, float]:
    """Model -> mean cost of its stored episodes, where there are enough of them."""
    if not (folder / "episodes").is_dir():
        return {}
    import polars as pl

    from orchestrator.storage.episode_store import episodes

    rows = episodes(folder).group_by("model").agg(pl.col("cost").mean(), pl.len()).filter(pl.col("len") >= ENOUGH)
    return dict(rows.select("model", "cost").collect().iter_rows())


def _number(value: float) -> str:
    return f"{value:,.0f}" if value < MILLION else f"{value / MILLION:,.1f} M"
