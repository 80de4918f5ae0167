"""JSON from outside: one function that fails in one way."""

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Parse JSON text.

    Raises:
        ValueError: the text is not JSON, not UTF-8, or nested deeper than Python's parser can follow.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
