"""The cells whose prompts may exceed a limit of their model, before a run.

No picture is opened: the pictures and turns of a prompt follow from the rules, their tokens from a table by architecture, and
text counts one token per four characters. The bound is the last prompt of a model that asks at every turn.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from envs import SCENARIOS
from envs.types import Mode, Sample
from orchestrator.inspection.model_config import context_length
from orchestrator.inspection.prompt_preview import build_prompt
from orchestrator.planning.plan import Plan
from sweeps.checkpoint import Checkpoint, read_checkpoint
from sweeps.package_models import resolve_source
from sweeps.spec import Cell, ModelSpec

CHARACTERS_PER_TOKEN, MESSAGE_TOKENS, REPLY_TOKENS = 4, 4, 20
"""Characters of text per token, tokens of the chat template around a message, and a short reply of the history."""
MAX_SAMPLES = 8
"""Samples of a cell whose prompts are built."""
MAX_LINES = 12


class Longest(NamedTuple):
    """The longest prompt of a cell."""

    pictures: int
    small_pictures: int
    """Pictures among them that history shrinks to 224 pixels."""
    characters: int
    messages: int


def lines(plan: Plan) -> list[str]:
    """Return a line per cell whose prompts may exceed a limit."""
    prompts: dict[tuple[object, ...], Longest] = {}
    texts = []
    for cell in plan.cells:
        model = cell.model
        if model.backend in ("builtin", "human") or (model.max_images is None and not context(model)):
            continue
        kind = (cell.scenario, cell.condition, cell.protocol, model.small_examples, model.calls_natively)
        if kind not in prompts:
            prompts[kind] = _longest_prompt(plan, cell)
        if reason := _describe(model, prompts[kind]):
            texts.append(f"may overflow: {cell.key}: {reason}")
    return texts[:MAX_LINES] + (
        [f"may overflow: {len(texts) - MAX_LINES} more cells"] if len(texts) > MAX_LINES else []
    )


def _longest_prompt(plan: Plan, cell: Cell) -> Longest:
    """Return the largest numbers among a few samples; zeros if a prompt cannot be built, which ``run`` reports."""
    samples = plan.cell_samples(cell)
    try:
        shapes = [_shape(plan, cell, sample) for sample in samples[:: max(1, len(samples) // MAX_SAMPLES)]]
    except ValueError:
        shapes = []
    return Longest(*(max(numbers) for numbers in zip(*shapes, strict=True))) if shapes else Longest(0, 0, 0, 0)


def _shape(plan: Plan, cell: Cell, sample: Sample) -> Longest:
    condition, limit = cell.condition, SCENARIOS[cell.scenario].limit(sample)
    prompt = build_prompt(sample, plan.pools.get(cell.scenario, ()), cell, plan.seed)
    grows = condition.history and condition.mode is not Mode.REFERENCE
    later = min(limit, (condition.history_turns or limit) + 1) - 1 if grows else 0
    images = [image for message in prompt for image in message.images]
    pictures_a_turn = len(prompt[-1].images)
    small = sum(bool(image.short_edge) for image in images) + later * pictures_a_turn * (grows and condition.resized)
    text = sum(len(message.text) for message in prompt) + later * (
        len(prompt[-1].text) + CHARACTERS_PER_TOKEN * REPLY_TOKENS
    )
    return Longest(len(images) + later * pictures_a_turn, small, text, len(prompt) + later)


def _describe(model: ModelSpec, prompt: Longest) -> str:
    """Return which limit the longest prompt exceeds; empty if none."""
    limit, room, row = model.max_images, context(model), token_row(model)
    by_picture = (
        row.get("full", 0) * (prompt.pictures - prompt.small_pictures) + row.get("small", 0) * prompt.small_pictures
    )
    tokens = prompt.characters // CHARACTERS_PER_TOKEN + prompt.messages * MESSAGE_TOKENS + by_picture
    exceeds_room = bool(room) and tokens >= room and (bool(row) or not prompt.pictures)
    if not exceeds_room and (limit is None or prompt.pictures <= limit):
        return ""
    reason = f"if it asks at every turn, up to {prompt.pictures:,} pictures"
    reason += f" and about {tokens:,} tokens in a context of {room:,}" if exceeds_room else ""
    return reason + (
        f", the entry allows {limit} (max_images)" if limit is not None and prompt.pictures > limit else ""
    )


def context(model: ModelSpec) -> int:
    """Return the tokens of a model's context: from its entry, its files, or else the table; 0 if unknown or unlimited."""
    if model.limited_by_memory:
        return 0
    local = resolve_source(model)
    return context_length(local, read_checkpoint(local) or Checkpoint({})) or token_row(model).get("context", 0)


def token_row(model: ModelSpec) -> Mapping[str, int]:
    """Return the tokens of a ``small`` and a ``full`` picture and the context, by the model's source or architecture."""
    if row := _table().get(model.source) or _table().get(model.architecture):
        return row
    checkpoint = read_checkpoint(resolve_source(model))
    return _table().get(checkpoint.architecture, {}) if checkpoint else {}


@cache
def _table() -> Mapping[str, Mapping[str, int]]:
    return tomllib.loads(Path(__file__).with_name("picture_tokens.toml").read_text(encoding="utf-8"))
