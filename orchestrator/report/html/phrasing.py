"""Numbers and lists as parts of a sentence.

No false 0% or 100%, no long list, no text of others unescaped.
"""

from __future__ import annotations

from collections.abc import Iterable

from envs import SCENARIOS
from orchestrator.report.html.escape import visible

NAMED = 4
"""Names that a sentence lists before it only counts."""


def share(part: int, whole: int) -> str:
    """Percent without a false 0 or 100."""
    if not whole:
        return "0%"
    value = 100 * part / whole
    if 0 < value < 0.1:
        return "<0.1%"
    return f"{min(value, 99.9):.1f}%" if part < whole else "100%"


def signed(value: float) -> str:
    """A difference in points, with its sign as a sign."""
    return f"{value:+.1f}".replace("-", "−") if abs(value) >= 0.05 else "0.0"


def listed(names: list[str], most: int = NAMED) -> str:
    """The first names, and how many there are more."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(visible, names[:most])) + more


def ordered(names: Iterable[str], known: Iterable[str] = SCENARIOS) -> list[str]:
    """The paper's names in the paper's order, then the others."""
    found = set(names)
    first = [name for name in known if name in found]
    return first + sorted(found - set(first))
