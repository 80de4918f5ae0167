"""The precision at which a cell stops: ``[precision]`` of a sweep file. Never part of a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sweeps.protocol import ZERO_SHOT
from sweeps.values import Frozen

Points = Annotated[float, Field(ge=0.1, le=25, strict=True)]


class Precision(Frozen):
    """Half-widths of 95% intervals, in points; multiple choice stops once it reaches all of them."""

    half_width: Points | None = None
    """Half-width of accuracy."""
    per: Literal["average", "cell"] = "average"
    """What ``half_width`` refers to: a model's average over scenarios, or each cell."""
    ranking: Annotated[bool, Field(strict=True)] = False
    """True if a model's average also stops once its rank among the models of its condition is certain."""
    difference: Points | None = None
    """Half-width of the paired difference in the average over scenarios between each condition and zero-shot."""

    @model_validator(mode="after")
    def _check(self) -> Precision:
        if self.half_width is None and self.difference is None:
            raise ValueError("give half_width or difference, in points")
        if self.half_width is None and self.per == "cell":
            raise ValueError('per = "cell" is of half_width; give that too, or leave per out')
        if self.ranking and (self.half_width is None or self.per == "cell"):
            raise ValueError("ranking stops averages before they are +-half_width; give half_width, and leave per out")
        return self

    def misfit_reason(self, multiple_choice: bool, repeated: bool, conditions: Sequence[str], models: int) -> str:
        """Return why a sweep cannot stop by this rule; empty if it can."""
        if not multiple_choice:
            return "stops multiple choice, which is not played here; leave it out"
        if repeated:
            return "stops cells early, and replicates repeat whole cells; leave one of the two out"
        if self.ranking and models < 2:
            return "ranking compares models; name two or more, or leave it out"
        if self.difference is not None and (ZERO_SHOT not in conditions or len(conditions) < 2):
            return f"difference compares conditions with {ZERO_SHOT}; name {ZERO_SHOT} and another in conditions"
        return ""

    @property
    def description(self) -> str:
        """Return the rule in words: ``+-1 points on the average over scenarios``."""
        parts = []
        if self.half_width is not None:
            scope = "in every cell" if self.per == "cell" else "on the average over scenarios"
            parts.append(f"+-{self.half_width:g} points {scope}{' or a certain rank' if self.ranking else ''}")
        if self.difference is not None:
            parts.append(f"+-{self.difference:g} points between conditions")
        return " and ".join(parts)
