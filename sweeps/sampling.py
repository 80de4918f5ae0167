"""The decoding of replies, as a sweep file states it: by numbers of its own, or as each checkpoint's own file says.

``identity`` holds what changes answers and goes into keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from sweeps.values import Frozen

Whole = Annotated[int, Field(strict=True)]
"""A whole number; true and "5" are none."""
LONGEST_REPLY = 32_768
"""New tokens that the package leaves an open-ended answer and its judge (``max_new_tokens=2**15``)."""


class Sampling(Frozen):
    """The decoding of a reply; greedy by default, for repeatability. ``sampling = "checkpoint"`` is what the package does."""

    checkpoint: bool = False
    """True to take sampling, temperature, top_p and top_k from the checkpoint's ``generation_config.json``."""
    sampled: bool = False
    """With ``checkpoint``: sample even where it would not (the package's open-ended example passes ``do_sample=True``)."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[Whole, Field(ge=-1)] = -1
    """-1 keeps all tokens."""
    max_tokens: Annotated[Whole, Field(ge=1, le=131072)] = 50
    """New tokens a reply may have."""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, fields: Any) -> Any:
        return {"checkpoint": True} if fields == "checkpoint" else fields

    @model_validator(mode="after")
    def _one_source(self) -> Sampling:
        if self.checkpoint and (self.temperature, self.top_p, self.top_k) != (0.0, 1.0, -1):
            raise ValueError("temperature, top_p and top_k are the checkpoint's own here; leave them out")
        if self.sampled and not self.checkpoint:
            raise ValueError("sampled goes with checkpoint = true; else a temperature above 0 says it")
        return self

    @property
    def identity(self) -> dict[str, Any]:
        """Return the fields that change answers; the checkpoint's own decoding counts only if used, so old keys hold."""
        since = {"checkpoint", "sampled"}
        whole = self.model_dump(mode="json", exclude=since)
        return whole | self.model_dump(mode="json", include=since, exclude_defaults=True)

    @property
    def description(self) -> str:
        """In words, for tables and reports."""
        if self.checkpoint:
            forced = ", always sampled" if self.sampled else ""
            return f"as each checkpoint's generation_config says{forced}"
        return "greedy" if self.temperature == 0 else f"sampled at temperature {self.temperature:g}"


AS_THE_PACKAGE = Sampling(checkpoint=True, sampled=True, max_tokens=LONGEST_REPLY)
"""Decoding of answers and verdicts in the package's open-ended example."""


class Completed(Frozen):
    """A table that names some keys of an inner one changes those alone: the others keep the defaults given here."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        inner = {name: info.default for name, info in cls.model_fields.items() if isinstance(info.default, Frozen)}
        if fields.get("sampling") == "checkpoint":
            fields = {**fields, "sampling": {"checkpoint": True}}
        named = {name: fields[name] for name in inner if isinstance(fields.get(name), Mapping)}
        follows = {
            name: AS_THE_PACKAGE for name, part in named.items() if name == "sampling" and part.get("checkpoint")
        }
        return {**fields, **{name: {**(inner | follows)[name].model_dump(), **part} for name, part in named.items()}}
