"""``--json``: output for programs; unknown figures are null."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def print_json(document: Any) -> None:
    """Print indented ASCII JSON: control characters of foreign text are escaped, NaN and infinities are null."""
    print(json.dumps(_finite(document), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _finite(child) for name, child in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(child) for child in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
