"""Estimates which episodes may outgrow their model before anything is played.

An episode may overflow where its longest possible prompt, at the turn limit, has more pictures or tokens than the model
takes; whether it does depends on how long the model goes on asking, so the counts are upper bounds.
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
from orchestrator.inspection.model_check import config_on_disk, context_length
from orchestrator.planning.plan import Plan
from sweeps.spec import Cell, ModelSpec

TURN_TOKENS = 120
"""Tokens of one turn beside its pictures: question, options, the template's marks and a short reply."""
SIZES = {"small": (224, 298), "full": (480, 640)}
"""Height and width of the pictures that a processor on disk is asked about."""


@dataclass(frozen=True, slots=True)
class Risk:
    """A cell in which episodes may outgrow the model."""

    cell: str
    episodes: int
    """That may overflow, at most."""
    planned: int
    why: str
    """The bound that the longest one breaks, as a person reads it."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one prompt of a model."""

    pictures: int | None
    tokens: int | None
    """Its context, with the reply; None where it is not known."""
    small: int
    full: int
    """Tokens of a picture of history's size, and of a whole one; 0 where it is not known."""
    source: str
    """Where the tokens are from: ``processor`` or ``table``."""


def risks(plan: Plan) -> list[Risk]:
    """The cells of a plan in which episodes may overflow, in the plan's order."""
    cells = [cell for cell in plan.cells if cell.model.backend != "builtin"]
    known = {name: bounds(model) for name, model in {cell.model.name: cell.model for cell in cells}.items()}
    found = (_risk(plan, cell, known[cell.model.name]) for cell in cells)
    return [risk for risk in found if risk is not None]


def lines(found: Sequence[Risk], most: int = 12) -> list[str]:
    """The risks as sentences, the first ``most`` of them."""
    told = [
        f"may overflow: {risk.cell}: {risk.episodes:,} of {risk.planned:,} episodes, {risk.why}"
        for risk in found[:most]
    ]
    return [*told, *([f"may overflow: {len(found) - most} cells more"] if len(found) > most else [])]


def _risk(plan: Plan, cell: Cell, bound: Bounds) -> Risk | None:
    samples = plan.cell_samples(cell)
    pool = plan.pools.get(cell.scenario, ())
    longest = [_longest(sample, cell, pool, plan.seed) for sample in samples]
    size = bound.small if cell.condition.history and _shrinks(cell) else bound.full
    tokens = [pictures * size + turns * TURN_TOKENS + cell.sampling.max_tokens for pictures, turns in longest]
    many = [bound.pictures is not None and pictures > bound.pictures for pictures, _ in longest]
    long = [bool(size and bound.tokens) and needed > (bound.tokens or 0) for needed in tokens]
    over = sum(one or other for one, other in zip(many, long, strict=True))
    if not over:
        return None
    worst = max(range(len(samples)), key=lambda number: tokens[number])
    told = f"up to {longest[worst][0]:,} pictures"
    if any(long):
        told += f" and about {tokens[worst]:,} tokens ({size:,} a picture, by {bound.source}) in a context of {bound.tokens:,}"
    if any(many):
        told += f", the entry allows {bound.pictures} (max_images)"
    return Risk(cell.key, over, len(samples), told)


def _longest(sample: Sample, cell: Cell, pool: Sequence[Sample], seed: int) -> tuple[int, int]:
    """Pictures and turns of the longest prompt that an episode can come to."""
    condition, game = cell.condition, SCENARIOS[sample.scenario]
    turns = game.limit(sample) if condition.history and condition.mode is not Mode.REFERENCE else 1
    shown = examples(sample, pool, condition, seed, cell.model.small_examples)
    return turns + sum(len(message.images) for message in shown), turns + len(shown) // 2


def _shrinks(cell: Cell) -> bool:
    return cell.condition.resized and SCENARIOS[cell.scenario].history_edge is not None


def bounds(model: ModelSpec) -> Bounds:
    """Return the limits of one prompt: from the model's entry, its local files, or else the table."""
    own = _table().get(model.source)
    row = own or _table().get(model.architecture, {})
    local = resolve_embedded(model)
    config = config_on_disk(local)
    context = context_length(local, config or {}) or row.get("context")
    tokens, source = _counted(local) if config is not None and own is None else None, "processor"
    if tokens is None:
        tokens, source = {size: row.get(size, 0) for size in SIZES}, "table"
    past = model.beyond_context and "max_model_len" not in model.options
    return Bounds(model.max_images, None if past else context, tokens["small"], tokens["full"], source)


def _counted(model: ModelSpec) -> dict[str, int] | None:
    """Tokens of a picture of each size by the model's own processor; None where it cannot be asked."""
    try:
        from actors.engine.hf.template import picture_tokens
    except ImportError:
        return None
    counts = picture_tokens(model, list(SIZES.values()))
    return None if counts is None else dict(zip(SIZES, counts, strict=True))


@cache
def _table() -> Mapping[str, Mapping[str, int]]:
    return tomllib.loads(Path(__file__).with_name("picture_tokens.toml").read_text(encoding="utf-8"))
