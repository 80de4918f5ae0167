"""``--json``: what a command tells, for programs; figures that are not known are null."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def show_json(found: Any) -> None:
    """Print as indented JSON in ASCII: a control character of foreign text is an escape, NaN and infinities are null."""
    print(json.dumps(_finite(found), indent=2, allow_nan=False))


def _finite(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {str(name): _finite(value) for name, value in found.items()}
    if isinstance(found, Sequence) and not isinstance(found, str):
        return [_finite(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found
