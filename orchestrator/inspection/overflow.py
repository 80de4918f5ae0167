"""The cells whose prompts may exceed a limit of their model, before a run.

No picture is opened: the loop poses the prompts, a table by architecture has the tokens of a picture, and text counts one token
per four characters. The bound is the last prompt of a model that asks at every turn.
"""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from actors.engine.backend import Message
from orchestrator.inspection.prompt_preview import pose
from orchestrator.planning.plan import Plan
from sweeps.checkpoint import Checkpoint, read_checkpoint
from sweeps.package_models import resolve_source
from sweeps.spec import Cell, ModelSpec

CHARACTERS_PER_TOKEN, MESSAGE_TOKENS = 4, 4
"""Characters of text per token, and tokens of the chat template around a message."""
MAX_SAMPLES = 8
"""Samples of a cell whose prompts are posed."""
MAX_LINES = 12


class Size(NamedTuple):
    """The size of a prompt."""

    pictures: int = 0
    small_pictures: int = 0
    """Pictures among them that are shrunk, as history does."""
    text_tokens: int = 0


def lines(plan: Plan) -> list[str]:
    """Return a line per cell whose prompts may exceed a limit."""
    prompts: dict[tuple[object, ...], Size] = {}
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
    more = [f"may overflow: {len(texts) - MAX_LINES} more cells"] if len(texts) > MAX_LINES else []
    return texts[:MAX_LINES] + more


def _longest_prompt(plan: Plan, cell: Cell) -> Size:
    """Return the largest numbers among a few samples; zeros if a prompt cannot be posed, which ``run`` reports."""
    samples = plan.cell_samples(cell)
    try:
        chosen = samples[:: max(1, len(samples) // MAX_SAMPLES)]
        posed = [pose(sample, plan.pools.get(cell.scenario, ()), cell, plan.seed).model for sample in chosen]
    except ValueError:
        return Size()
    sizes = [measure(request.messages) for requests in posed for request in requests[-1:]]
    return Size(*map(max, zip(*sizes, strict=True))) if sizes else Size()


def measure(messages: Sequence[Message]) -> Size:
    """Return the size of a prompt."""
    images = [image for message in messages for image in message.images]
    text = sum(MESSAGE_TOKENS + -(-len(message.text) // CHARACTERS_PER_TOKEN) for message in messages)
    return Size(len(images), sum(bool(image.short_edge) for image in images), text)


def _describe(model: ModelSpec, prompt: Size) -> str:
    """Return which limit the longest prompt exceeds; empty if none."""
    limit, room, row = model.max_images, context(model), token_row(model)
    full = prompt.pictures - prompt.small_pictures
    tokens = int(prompt.text_tokens + row.get("full", 0) * full + row.get("small", 0) * prompt.small_pictures)
    too_long = bool(room) and tokens >= room and (bool(row) or not prompt.pictures)
    too_many = limit is not None and prompt.pictures > limit
    if not (too_long or too_many):
        return ""
    reason = f"if it asks at every turn, up to {prompt.pictures:,} pictures"
    reason += f" and about {tokens:,} tokens in a context of {room:,}" if too_long else ""
    return reason + (f", the entry allows {limit} (max_images)" if too_many else "")


def context(model: ModelSpec) -> int:
    """Return the tokens of a model's context: from its entry, its files, or else the table; 0 if unknown or unlimited."""
    if model.limited_by_memory:
        return 0
    checkpoint = read_checkpoint(resolve_source(model)) or Checkpoint({})
    return context_length(model, checkpoint) or int(token_row(model).get("context", 0))


def context_length(model: ModelSpec, checkpoint: Checkpoint) -> int:
    """Return the tokens of prompt and reply together, by the entry or the checkpoint's configuration; 0 if unknown."""
    own = model.options.get("max_model_len")
    return own if isinstance(own, int) else checkpoint.context


def token_row(model: ModelSpec) -> Mapping[str, float]:
    """Return the tokens of a ``small`` and a ``full`` picture and the context, by the model's source or architecture."""
    if row := token_table().get(model.source) or token_table().get(model.architecture):
        return row
    checkpoint = read_checkpoint(resolve_source(model))
    return token_table().get(checkpoint.architecture, {}) if checkpoint else {}


@cache
def token_table() -> Mapping[str, Mapping[str, float]]:
    """Return model or architecture -> what is known of the tokens of its pictures."""
    return tomllib.loads(Path(__file__).with_name("picture_tokens.toml").read_text(encoding="utf-8"))
