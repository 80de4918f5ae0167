"""Lists as parts of a sentence.

No long list, no text of others unescaped.
"""

from __future__ import annotations

from collections.abc import Iterable

from envs import SCENARIOS
from orchestrator.report.html.escape import visible

NAMED = 4
"""Names that a sentence lists before it only counts."""


def listed(names: list[str], most: int = NAMED) -> str:
    """The first names, and how many there are more."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(visible, names[:most])) + more


def ordered(names: Iterable[str], known: Iterable[str] = SCENARIOS) -> list[str]:
    """The paper's names in the paper's order, then the others."""
    found = set(names)
    first = [name for name in known if name in found]
    return first + sorted(found - set(first))
