"""What a sweep asks, declared before it is played: ``[evidence]`` of a sweep file. Never part of a key."""

from typing import Annotated

from pydantic import Field

from sweeps.values import Frozen

MARGIN = 2.0
"""Points of accuracy up to which a difference counts as none."""


class Evidence(Frozen):
    """The main question, and the difference that would not matter."""

    primary: str = ""
    """The condition whose average accuracy against zero-shot is the primary endpoint, tested apart; empty for none."""
    margin: Annotated[float, Field(gt=0, le=50)] = MARGIN
    """Points of accuracy up to which a difference counts as none in tests of equivalence."""

    def misfit_reason(self, conditions: frozenset[str], baseline: str) -> str:
        """Return why a sweep cannot answer the question; empty if it can."""
        if not self.primary or (self.primary in conditions - {baseline} and baseline in conditions):
            return ""
        return f"primary = {self.primary!r} is compared with {baseline}; name both in conditions"
