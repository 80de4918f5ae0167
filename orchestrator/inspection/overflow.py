"""A forecast, before a run, of the episodes whose prompts exceed the limits of their model.

The tokens of a picture follow from the size of its file: by the model's own processor if it can be built here, else by a table.
Text counts by the processor's tokenizer, else one token per four characters. The first prompt of an episode is known; the
longest one is an upper bound: the last prompt of a model that asks at every turn.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from actors.engine.image_loader import picture_bounds
from envs import SCENARIOS
from envs.render import Fit, Renderer, UnreadablePicture
from envs.types import ImageRef, Mode
from orchestrator.inspection.model_config import context_length
from orchestrator.inspection.prompt_preview import build_prompt
from orchestrator.planning.plan import Plan
from sweeps.checkpoint import Checkpoint, read_checkpoint
from sweeps.package_models import resolve_source
from sweeps.spec import Cell, ModelSpec

if TYPE_CHECKING:
    from actors.engine.hf.template import TokenCounter

CHARACTERS_PER_TOKEN, MESSAGE_TOKENS = 4, 4
"""Estimates: characters of text per token without a tokenizer, and tokens of the chat template around a message."""
REPLY_TOKENS = 20
"""A short reply in the history, and the template around it."""
QUESTION = (
    "Which object is behind the blocks? Choose from the following options. Options:\nA. I cannot answer this question.\n"
    "B. Move the blocks to the left.\nC. Banana.\nD. Fork.\nPlease only return one of the options without any other words."
)
"""A text on which the tokens per character are measured."""
SIZES = {"small": (224, 298), "full": (480, 640), "large": (960, 1280), "photo": (3024, 4032)}
"""Height and width in pixels of the table's columns."""
Size = tuple[int, int]
"""Height and width in pixels."""


@dataclass(frozen=True, slots=True)
class Risk:
    """A cell with episodes that may overflow."""

    cell: str
    first: int
    """Episodes whose first prompt exceeds a limit."""
    episodes: int
    """Episodes in which any prompt may exceed a limit, an upper bound; includes ``first``."""
    planned: int
    reason: str
    """The limit that the longest prompt exceeds."""

    def __str__(self) -> str:
        later = self.episodes - self.first
        shares = [
            f"{count:,} of {self.planned:,} episodes ({count / self.planned:.0%}) {when}"
            for count, when in ((self.first, "at turn 0"), (later, "at a later turn if they ask on"))
            if count
        ]
        return f"{self.cell}: {' and '.join(shares)}, {self.reason}"


class PromptShape(NamedTuple):
    """The contents of an episode's prompts, without pixels."""

    pictures: tuple[ImageRef, ...]
    """Pictures of the first prompt; the question's own comes last."""
    characters: int
    """Characters of the first prompt."""
    messages: int
    question: int
    """Characters of its question."""
    turns: int
    """Turns whose questions the longest prompt holds."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one prompt of a model, and how its tokens are counted."""

    pictures: int | None
    tokens: int | None
    """Context length; None if unknown or unlimited."""
    row: Mapping[str, int]
    """Tokens of a picture by the column of ``SIZES``; empty if unknown."""
    counter: TokenCounter | None = None
    """Counts tokens with the model's processor; None to count by the table."""

    @property
    def source(self) -> str:
        return "table" if self.counter is None else "processor"

    def picture_tokens(self, sizes: Sequence[Size]) -> list[int]:
        """Return the tokens of a picture of each size, 0 if unknown."""
        counts = self.counter.pictures(sizes) if self.counter and sizes else None
        return counts or [self._by_table(*size) for size in sizes]

    def tokens_per_character(self) -> float:
        """Return the tokens of a question per character."""
        return 1 / CHARACTERS_PER_TOKEN if self.counter is None else self.counter.text(QUESTION) / len(QUESTION)

    def _by_table(self, height: int, width: int) -> int:
        """Return the table's tokens for its smallest size with at least as many pixels, else for its largest."""
        columns = (name for name, size in SIZES.items() if size[0] * size[1] >= height * width)
        return self.row.get(next(columns, "photo"), 0)


def risks(plan: Plan, data: Path, by_processor: bool = True) -> list[Risk]:
    """Return the cells with episodes that may overflow, in the plan's order.

    ``by_processor`` counts with the processors of models on this disk, which takes seconds each; else by the table.
    """
    shapes: dict[tuple[object, ...], list[PromptShape]] = {}
    forecasts: dict[str, _Forecast] = {}
    headers: dict[Fit | None, PictureSizes] = {}
    exceeding = []
    for cell in (cell for cell in plan.cells if cell.model.backend not in ("builtin", "human")):
        model = cell.model
        if model.name not in forecasts:
            fit = picture_bounds(model)
            sizes = headers.setdefault(fit, PictureSizes(Renderer(data, fit=fit)))
            forecasts[model.name] = _Forecast(bounds(model, by_processor), sizes)
        forecast = forecasts[model.name]
        if forecast.bounds.pictures is None and not forecast.bounds.tokens:
            continue
        kind = (cell.scenario, cell.condition, cell.protocol, model.small_examples, model.calls_natively)
        if kind not in shapes:
            shapes[kind] = _shapes(plan, cell)
        if (risk := forecast.risk(cell, shapes[kind])) is not None:
            exceeding.append(risk)
    return exceeding


def lines(risks: Sequence[Risk], limit: int = 12) -> list[str]:
    """Describe the first ``limit`` risks, a line each, and count the others."""
    others = [f"{len(risks) - limit} more cells"] if len(risks) > limit else []
    return [f"may overflow: {text}" for text in (*map(str, risks[:limit]), *others)]


def _shapes(plan: Plan, cell: Cell) -> list[PromptShape]:
    """Return the shape of each of a cell's episodes; empty if a prompt cannot be built, which `run` reports."""
    pool, condition, game = plan.pools.get(cell.scenario, ()), cell.condition, SCENARIOS[cell.scenario]
    shapes = []
    for sample in plan.cell_samples(cell):
        try:
            prompt = build_prompt(sample, pool, cell, plan.seed)
        except ValueError:
            return []
        grows = condition.history and condition.mode is not Mode.REFERENCE
        turns = min(game.limit(sample), (condition.history_turns or game.limit(sample)) + 1) if grows else 1
        question = next((message for message in reversed(prompt) if message.role == "user"), prompt[-1])
        characters = sum(len(message.text) for message in prompt)
        pictures = tuple(image for message in prompt for image in message.images)
        shapes.append(PromptShape(pictures, characters, len(prompt), len(question.text), turns))
    return shapes


class PictureSizes:
    """The sizes of pictures as models of one ``fit`` see them; each file's header is read once."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self.sizes: dict[ImageRef, Size] = {}

    def size(self, ref: ImageRef) -> Size:
        """Return height and width; a common size if the file is missing or unreadable."""
        if ref not in self.sizes:
            try:
                self.sizes[ref] = self.renderer.size(ref)[::-1]
            except (UnreadablePicture, ValueError):
                self.sizes[ref] = SIZES["small" if ref.short_edge else "full"]
        return self.sizes[ref]


class _Forecast:
    """The forecast of one model's cells; the tokens of each picture size are computed once."""

    def __init__(self, bounds: Bounds, sizes: PictureSizes) -> None:
        self.bounds, self.sizes = bounds, sizes
        self.tokens: dict[Size, int] = {}
        self.per_character = bounds.tokens_per_character()

    def risk(self, cell: Cell, shapes: Sequence[PromptShape]) -> Risk | None:
        refs = dict.fromkeys(ref for shape in shapes for ref in shape.pictures) if self.bounds.tokens else {}
        new = sorted(set(map(self.sizes.size, refs)) - self.tokens.keys())
        self.tokens |= zip(new, self.bounds.picture_tokens(new), strict=True)
        first = [self._exceeds(*self._first(shape)) for shape in shapes]
        longest = [self._longest(shape) for shape in shapes]
        exceeding = [self._exceeds(*prompt) for prompt in longest]
        if not any(exceeding):
            return None
        reason = self._reason(max(longest), max(longest, key=lambda prompt: prompt[1]))
        return Risk(cell.key, sum(first), sum(exceeding), len(shapes), reason)

    def _picture(self, ref: ImageRef) -> int:
        return self.tokens.get(self.sizes.size(ref), 0) if self.tokens else 0

    def _first(self, shape: PromptShape) -> tuple[int, int]:
        """Return pictures and tokens of the first prompt."""
        text = ceil(shape.characters * self.per_character) + shape.messages * MESSAGE_TOKENS
        return len(shape.pictures), text + sum(map(self._picture, shape.pictures))

    def _longest(self, shape: PromptShape) -> tuple[int, int]:
        """Return pictures and tokens of the longest prompt, as if each turn showed a picture of the first one's size."""
        pictures, tokens = self._first(shape)
        shown = shape.pictures[-1:]
        each = (
            ceil(shape.question * self.per_character) + MESSAGE_TOKENS + REPLY_TOKENS + sum(map(self._picture, shown))
        )
        return pictures + (shape.turns - 1) * len(shown), tokens + (shape.turns - 1) * each

    def _exceeds(self, pictures: int, tokens: int) -> bool:
        limit, context = self.bounds.pictures, self.bounds.tokens
        return (limit is not None and pictures > limit) or bool(context and self.tokens_known and tokens >= context)

    @property
    def tokens_known(self) -> bool:
        """Return False if the tokens of pictures are unknown: text alone must not decide."""
        return any(self.tokens.values()) or not self.tokens

    def _reason(self, most: tuple[int, int], longest: tuple[int, int]) -> str:
        reason, bound = f"up to {most[0]:,} pictures", self.bounds
        if bound.tokens and self.tokens_known and longest[1] >= bound.tokens:
            reason += f" and about {longest[1]:,} tokens (by {bound.source}) in a context of {bound.tokens:,}"
        if bound.pictures is not None and most[0] > bound.pictures:
            reason += f", the entry allows {bound.pictures} (max_images)"
        return reason


def bounds(model: ModelSpec, by_processor: bool = True) -> Bounds:
    """Return the limits of one prompt: from the model's entry, its local files, or else the table."""
    entry = _table().get(model.source)
    row = entry or _table().get(model.architecture, {})
    local = resolve_source(model)
    checkpoint = read_checkpoint(local)
    if checkpoint and not row:
        row = _table().get(checkpoint.architecture, {})
    context = context_length(local, checkpoint or Checkpoint({})) or row.get("context")
    counter = _open_counter(local) if by_processor and checkpoint and entry is None else None
    return Bounds(model.max_images, None if model.limited_by_memory else context, row, counter)


def _open_counter(model: ModelSpec) -> TokenCounter | None:
    """Return a counter by the model's processor; None if it cannot be loaded or takes no pictures."""
    try:
        from actors.engine.hf.template import token_counter
    except ImportError:
        return None
    counter = token_counter(model)
    return counter if counter and counter.pictures([SIZES["full"]]) else None


@cache
def _table() -> Mapping[str, Mapping[str, int]]:
    return tomllib.loads(Path(__file__).with_name("picture_tokens.toml").read_text(encoding="utf-8"))
