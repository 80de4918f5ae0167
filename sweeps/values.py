"""Building blocks of every table of a sweep file: values that never change, names that are safe in a path, short hashes."""

from __future__ import annotations

from hashlib import blake2b

from pydantic import BaseModel, ConfigDict

NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"
"""Names become path segments and MLflow tags: letters, digits, dot, dash, plus, underscore."""


class Frozen(BaseModel):
    """A value from a file: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


def digest(text: str, size: int = 8) -> str:
    """A short stable hash: ``2 * size`` hex digits."""
    return blake2b(text.encode(), digest_size=size).hexdigest()


def format_gpus(number: float) -> str:
    """``1 GPU``, ``8 GPUs``, ``0.5 GPUs``, as a person reads them."""
    return f"{number:g} GPU{'' if number == 1 else 's'}"
