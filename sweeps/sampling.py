"""The decoding of replies: by numbers in the sweep file, or by each checkpoint's ``generation_config.json``.

``identity`` holds the fields that change answers and are part of keys.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator, model_validator

from sweeps.values import Frozen

Whole = Annotated[int, Field(strict=True)]
"""A whole number; rejects true and "5"."""


class Sampling(Frozen):
    """The decoding of a reply; greedy by default, for repeatability. ``sampling = "checkpoint"`` is what the package does."""

    checkpoint: bool = False
    """True takes sampling, temperature, top_p and top_k from the checkpoint's ``generation_config.json``."""
    sampled: bool = False
    """True always samples, only with ``checkpoint`` (the package's open-ended example passes ``do_sample=True``)."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[Whole, Field(ge=-1)] = -1
    """-1 keeps all tokens."""
    max_tokens: Annotated[Whole, Field(ge=1, le=131072)] = 50
    """Most new tokens of a reply."""

    @model_validator(mode="before")
    @classmethod
    def _expand_name(cls, fields: Any) -> Any:
        return {"checkpoint": True} if fields == "checkpoint" else fields

    def _faults(self) -> Iterator[str]:
        if self.checkpoint and (self.temperature, self.top_p, self.top_k) != (0.0, 1.0, -1):
            yield "temperature, top_p and top_k are the checkpoint's own here; leave them out"
        if self.sampled and not self.checkpoint:
            yield "sampled needs checkpoint = true; without it, write a temperature above 0"

    @property
    def identity(self) -> dict[str, Any]:
        """Return the fields that change answers; newer fields only if they are set, so that old keys stay valid."""
        newer = {"checkpoint", "sampled"}
        identity = self.model_dump(mode="json", exclude=newer)
        return identity | self.model_dump(mode="json", include=newer, exclude_defaults=True)

    @property
    def description(self) -> str:
        """Describe the decoding for tables and reports."""
        if self.checkpoint:
            forced = ", always sampled" if self.sampled else ""
            return f"as each checkpoint's generation_config says{forced}"
        return "greedy" if self.temperature == 0 else f"sampled at temperature {self.temperature:g}"


AS_THE_PACKAGE = Sampling(checkpoint=True, sampled=True, max_tokens=2**15)
"""Decoding of answers and verdicts in the package's open-ended example."""


class Thinking(Frozen):
    """The thoughts of a model that thinks before it answers (``thinking`` of its entry)."""

    budget: Annotated[Whole, Field(ge=1, le=131072)] = 2048
    """Most tokens of a reply's thoughts, in addition to those of its answer."""
    parser: str = "auto"
    """``auto`` finds the marks of thoughts in replies and in the chat template; on vLLM also the name of one of its parsers."""


class Completed(Frozen):
    """A table whose nested tables keep its defaults for keys that you leave out; with ``checkpoint``, ``AS_THE_PACKAGE``'s."""

    @field_validator("*", mode="before")
    @classmethod
    def _complete(cls, table: Any, field: ValidationInfo) -> Any:
        default = cls.model_fields[str(field.field_name)].default
        if isinstance(default, Sampling) and table == "checkpoint":
            return AS_THE_PACKAGE
        if not isinstance(default, Frozen) or not isinstance(table, Mapping):
            return table
        if isinstance(default, Sampling) and table.get("checkpoint"):
            default = AS_THE_PACKAGE
        return {**default.model_dump(), **table}
