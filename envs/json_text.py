"""Parses untrusted JSON; every failure is a ValueError."""

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Parse JSON text; raises ValueError if it is not JSON, not UTF-8, or nested too deeply for Python's parser."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
