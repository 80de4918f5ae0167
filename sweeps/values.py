"""Building blocks of a sweep file's tables: immutable values, names that are safe in paths, short hashes; tables that ship."""

import re
import tomllib
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

FOLDER = Path(__file__).parent
NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"
"""Names become path segments and MLflow tags: letters, digits, dot, dash, plus, underscore."""


def split_names(value: Any) -> Any:
    """Return the names that a text joins by commas; any other value unchanged."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(split_names)]
"""A list of names, or a text that joins them by commas."""


class Frozen(BaseModel):
    """An immutable table of a file that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        if fault := next(filter(None, self._faults()), ""):
            raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        """Yield what is wrong with the table as a whole, key first; empty texts for what is right."""
        return iter(())


def read_table(name: str) -> dict[str, Any]:
    """Return the table of a TOML file that ships in this folder."""
    return tomllib.loads((FOLDER / name).read_text(encoding="utf-8"))


def slug(text: str, default: str = "checkpoint") -> str:
    """Return a text as a name that is safe in paths; ``default`` if nothing of it is."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).lstrip(".-_+") or default


def host_of(address: str) -> str:
    """Return the host that an address names; empty if it names none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:  # half an IPv6 address
        return ""


def digest(text: str, size: int = 8) -> str:
    """Return a short stable hash of ``2 * size`` hex digits."""
    return blake2b(text.encode(), digest_size=size).hexdigest()


def format_gpus(number: float) -> str:
    """Return ``1 GPU``, ``8 GPUs`` or ``0.5 GPUs``."""
    return f"{number:g} GPU{'' if number == 1 else 's'}"
