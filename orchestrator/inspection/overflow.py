"""The cells whose prompts may exceed a limit of their model, before a run.

No picture is opened: the loop poses the prompts, a table by architecture has the tokens of a picture, and text counts one token
per four characters. The bound is the last prompt of a model that asks at every turn.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from actors.engine.backend import Message, images_of
from orchestrator.inspection.prompt_preview import pose_some
from orchestrator.planning.plan import Plan
from sweeps.checkpoint import Checkpoint, read_checkpoint
from sweeps.packages import resolve_source
from sweeps.spec import Cell, ModelSpec

CHARACTERS_PER_TOKEN, MESSAGE_TOKENS = 4, 4
"""Characters of text per token, and tokens of the chat template around a message."""
MAX_SAMPLES = 8
"""Samples of a cell whose prompts are posed."""
MAX_LINES = 12

TOKENS: Mapping[str, Mapping[str, float]] = tomllib.loads(
    Path(__file__).with_name("picture_tokens.toml").read_text("utf-8")
)
"""Model or architecture -> the tokens of a ``small`` and of a ``full`` picture, and of the context."""
Prompts = Sequence[Sequence[Message]]


def lines(plan: Plan) -> list[str]:
    """Return a line per cell whose prompts may exceed a limit."""
    posed, texts = dict[tuple[object, ...], Prompts](), list[str]()
    for cell in plan.cells:
        model = cell.model
        if model.backend in ("builtin", "human"):
            continue
        room, row = model_facts(model)
        if model.max_images is None and not room:
            continue
        kind = (cell.scenario, cell.condition, cell.protocol, model.small_examples, model.calls_natively)
        if kind not in posed:
            posed[kind] = _longest_prompts(plan, cell)
        if reason := _describe(model, room, row, posed[kind]):
            texts.append(f"may overflow: {cell.key}: {reason}")
    more = [f"may overflow: {len(texts) - MAX_LINES} more cells"] if len(texts) > MAX_LINES else []
    return texts[:MAX_LINES] + more


def _longest_prompts(plan: Plan, cell: Cell) -> Prompts:
    """Return the last prompts of a few samples; none if a prompt cannot be posed, which ``run`` reports."""
    try:
        return [requests[-1].messages for requests in pose_some(plan, cell, MAX_SAMPLES) if requests]
    except ValueError:
        return []


def text_tokens(messages: Sequence[Message]) -> int:
    """Return the tokens of a prompt's text."""
    return sum(MESSAGE_TOKENS + -(-len(message.text) // CHARACTERS_PER_TOKEN) for message in messages)


def _describe(model: ModelSpec, room: int, row: Mapping[str, float], prompts: Prompts) -> str:
    """Return which limit the longest of some prompts exceeds; empty if none."""
    shown = [images_of(messages) for messages in prompts]
    sizes = [sum(row.get("small" if image.short_edge else "full", 0) for image in images) for images in shown]
    pictures = max(map(len, shown), default=0)
    most = int(max((text_tokens(messages) + size for messages, size in zip(prompts, sizes, strict=True)), default=0))
    limits = []
    if room and most >= room and (row or not pictures):
        limits.append(f" and about {most:,} tokens in a context of {room:,}")
    if model.max_images is not None and pictures > model.max_images:
        limits.append(f", the entry allows {model.max_images} (max_images)")
    return f"if it asks at every turn, up to {pictures:,} pictures{''.join(limits)}" if limits else ""


def model_facts(model: ModelSpec) -> tuple[int, Mapping[str, float]]:
    """Return the tokens of a model's context, and its row of ``TOKENS`` by source or architecture.

    The context is that of its entry, its files, or else the table; 0 if unknown or unlimited.
    """
    checkpoint = read_checkpoint(resolve_source(model)) or Checkpoint({})
    names = (model.source, model.architecture, checkpoint.architecture)
    row = next((TOKENS[name] for name in names if name in TOKENS), {})
    limited = 0 if model.limited_by_memory else context_length(model, checkpoint) or int(row.get("context", 0))
    return limited, row


def context_length(model: ModelSpec, checkpoint: Checkpoint) -> int:
    """Return the tokens of prompt and reply together, by the entry or the checkpoint's configuration; 0 if unknown."""
    own = model.options.get("max_model_len")
    return own if isinstance(own, int) else checkpoint.context
