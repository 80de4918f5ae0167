"""An estimate, before a run, of the episodes that may exceed the limits of their model.

An episode may overflow if its prompt at the turn limit has more pictures or tokens than the model takes. Most models ask fewer
times, so the counts are upper bounds.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from actors.embedded import resolve_embedded
from actors.playing.prompts import examples
from envs import SCENARIOS
from envs.types import Mode, Sample
from orchestrator.inspection.model_config import config_on_disk, context_length
from orchestrator.planning.plan import Plan
from sweeps.spec import Cell, ModelSpec

TURN_TOKENS = 120
"""Tokens of one turn without pictures: question, options, template and a short reply."""
SIZES = {"small": (224, 298), "full": (480, 640)}
"""Height and width of pictures in the history and of full pictures, in pixels."""


@dataclass(frozen=True, slots=True)
class Risk:
    """A cell with episodes that may overflow."""

    cell: str
    episodes: int
    """Upper bound."""
    planned: int
    reason: str
    """The limit that the longest episode exceeds."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one prompt of a model."""

    pictures: int | None
    tokens: int | None
    """Context length, reply included; None if unknown."""
    small: int
    full: int
    """Tokens of a picture in the history and of a full one; 0 if unknown."""
    source: str
    """Source of the picture tokens: ``processor`` or ``table``."""


def risks(plan: Plan) -> list[Risk]:
    """Return the cells with episodes that may overflow, in the plan's order."""
    cells = [cell for cell in plan.cells if cell.model.backend != "builtin"]
    limits = {name: bounds(model) for name, model in {cell.model.name: cell.model for cell in cells}.items()}
    return [risk for cell in cells if (risk := _risk(plan, cell, limits[cell.model.name])) is not None]


def lines(risks: Sequence[Risk], limit: int = 12) -> list[str]:
    """Describe the first ``limit`` risks, a line each, and count the others."""
    described = [
        f"{risk.cell}: {risk.episodes:,} of {risk.planned:,} episodes, {risk.reason}" for risk in risks[:limit]
    ]
    others = [f"{len(risks) - limit} more cells"] if len(risks) > limit else []
    return [f"may overflow: {text}" for text in (*described, *others)]


def _risk(plan: Plan, cell: Cell, bound: Bounds) -> Risk | None:
    samples = plan.cell_samples(cell)
    pool = plan.pools.get(cell.scenario, ())
    longest = [_longest(sample, cell, pool, plan.seed) for sample in samples]
    size = bound.small if cell.condition.history and _shrinks(cell) else bound.full
    tokens = [pictures * size + turns * TURN_TOKENS + cell.sampling.max_tokens for pictures, turns in longest]
    too_many = [bound.pictures is not None and pictures > bound.pictures for pictures, _ in longest]
    too_long = [bool(size and bound.tokens) and length > (bound.tokens or 0) for length in tokens]
    count = sum(map(max, too_many, too_long))
    if not count:
        return None
    worst = max(range(len(samples)), key=lambda number: tokens[number])
    reason = f"up to {longest[worst][0]:,} pictures"
    if any(too_long):
        per_picture = f"{size:,} per picture, by {bound.source}"
        reason += f" and about {tokens[worst]:,} tokens ({per_picture}) in a context of {bound.tokens:,}"
    if any(too_many):
        reason += f", the entry allows {bound.pictures} (max_images)"
    return Risk(cell.key, count, len(samples), reason)


def _longest(sample: Sample, cell: Cell, pool: Sequence[Sample], seed: int) -> tuple[int, int]:
    """Return pictures and turns of the longest prompt that an episode can have."""
    condition, game = cell.condition, SCENARIOS[sample.scenario]
    turns = game.limit(sample) if condition.history and condition.mode is not Mode.REFERENCE else 1
    shown = examples(sample, pool, condition, seed, cell.model.small_examples)
    return turns + sum(len(message.images) for message in shown), turns + len(shown) // 2


def _shrinks(cell: Cell) -> bool:
    return cell.condition.resized and SCENARIOS[cell.scenario].history_edge is not None


def bounds(model: ModelSpec) -> Bounds:
    """Return the limits of one prompt: from the model's entry, its local files, or else the table."""
    entry = _table().get(model.source)
    row = entry or _table().get(model.architecture, {})
    local = resolve_embedded(model)
    config = config_on_disk(local)
    context = context_length(local, config or {}) or row.get("context")
    tokens, source = _count_by_processor(local) if config is not None and entry is None else None, "processor"
    if tokens is None:
        tokens, source = {size: row.get(size, 0) for size in SIZES}, "table"
    unlimited = model.beyond_context and "max_model_len" not in model.options
    return Bounds(model.max_images, None if unlimited else context, tokens["small"], tokens["full"], source)


def _count_by_processor(model: ModelSpec) -> dict[str, int] | None:
    """Return tokens per size by the model's processor; None if it cannot be loaded."""
    try:
        from actors.engine.hf.template import picture_tokens
    except ImportError:
        return None
    counts = picture_tokens(model, list(SIZES.values()))
    return None if counts is None else dict(zip(SIZES, counts, strict=True))


@cache
def _table() -> Mapping[str, Mapping[str, int]]:
    return tomllib.loads(Path(__file__).with_name("picture_tokens.toml").read_text(encoding="utf-8"))
