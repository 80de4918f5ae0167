"""The address, limits and prices of an OpenAI-compatible service.

``identity`` holds what changes answers and goes into keys; addresses, prices and deadlines do not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sweeps.sampling import Whole
from sweeps.values import Frozen

PICTURE_LIMIT = 20_000_000
"""Bytes of one picture that OpenAI takes (its guide on vision: 20 MB); measured on what is sent, which is base64."""

EFFORTS: Mapping[str, tuple[str, ...]] = {
    "gpt-4.1": (),
    "gpt-4o": (),
    "o1": ("low", "medium", "high"),
    "o3": ("low", "medium", "high"),
    "o4-mini": ("low", "medium", "high"),
    "gpt-5": ("minimal", "low", "medium", "high"),
    "gpt-5.1": ("none", "low", "medium", "high"),
    "gpt-5.2": ("none", "low", "medium", "high", "xhigh"),
}
"""OpenAI's model, or family before ``-mini`` and ``-nano`` -> values of ``reasoning_effort`` that it takes (OpenAI's API
reference, "reasoning_effort"); a model that is not named is sent what its entry says."""


class Endpoint(Frozen):
    """The address, limits and prices of an OpenAI-compatible service."""

    base_url: str = ""
    """``http://host:8000/v1`` of any ``vllm serve``; empty is OpenAI's own (or ``OPENAI_BASE_URL``)."""
    key_env: str = "OPENAI_API_KEY"
    """Environment variable that holds the key (never in a file); empty where the service wants none."""
    server: Literal["openai", "vllm"] = "openai"
    """``vllm`` states top_k and min_p too: that server has a model's own defaults for them."""
    decoding: bool = True
    """False leaves out temperature, top_p and seed, which reasoning models refuse."""
    effort: str = ""
    """``reasoning_effort``, where the model has one."""
    reserve: Annotated[Whole, Field(ge=0)] = 0
    """Tokens added to the reply's limit for hidden reasoning, which counts against it."""
    picture_limit: Annotated[Whole, Field(ge=4096)] | None = None
    """Bytes of one picture as it is sent; a larger one is fitted into 2,048 x 2,048 pixels first, as OpenAI's models do with
    every picture. None is 20 MB for ``server = "openai"`` and no limit for ``"vllm"``."""
    pictures: Literal["png", "jpeg"] = "png"
    """The encoding of pictures: ``png`` is exact, ``jpeg`` (quality 95) is a fraction of the size."""
    deadline: Annotated[float, Field(gt=0)] = 120.0
    """Seconds one attempt may take."""
    patience: Annotated[float, Field(ge=0)] = 600.0
    """Seconds after which a request that only meets errors counts its service as dead."""
    prompt_price: Annotated[float, Field(ge=0)] = 0.0
    """Per million prompt tokens."""
    reply_price: Annotated[float, Field(ge=0)] = 0.0
    """Per million reply tokens, hidden reasoning included."""
    batch_prompt_price: Annotated[float, Field(ge=0)] | None = None
    """Per million prompt tokens that go through the Batch API; None is half of ``prompt_price``, as OpenAI bills them."""
    batch_reply_price: Annotated[float, Field(ge=0)] | None = None
    """The same of reply tokens."""
    priced: str = ""
    """Day and currency of the prices, for example ``2026-05-01 USD``."""
    price_source: str = ""
    """Where the prices were read."""
    max_cost: Annotated[float, Field(gt=0)] | None = None
    """The budget of all workers and attempts of a run folder for this model; beyond it, episodes stay pending."""

    @property
    def identity(self) -> dict[str, Any]:
        """Return the fields that change answers and differ from the default."""
        changing = {"server", "decoding", "effort", "reserve", "pictures", "picture_limit"}
        return self.model_dump(include=changing, exclude_defaults=True)

    @property
    def largest_picture(self) -> int | None:
        """Bytes that one picture may have as it is sent; None where any size goes."""
        return PICTURE_LIMIT if self.picture_limit is None and self.server == "openai" else self.picture_limit

    def prices(self, batch: bool) -> tuple[float, float]:
        """Per million prompt tokens and per million reply tokens, through the Batch API or one by one."""
        listed = (self.prompt_price, self.reply_price)
        if not batch:
            return listed
        own = (self.batch_prompt_price, self.batch_reply_price)
        return tuple(one / 2 if price is None else price for one, price in zip(listed, own, strict=True))  # type: ignore[return-value]

    @property
    def cost_known(self) -> bool:
        """Return True if what it costs is known: by its prices, or because the address is not a provider's own."""
        return bool(self.prompt_price or self.reply_price or self.base_url)

    @model_validator(mode="after")
    def _priced(self) -> Endpoint:
        if self.max_cost is not None and not (self.prompt_price or self.reply_price):
            raise ValueError("max_cost needs prompt_price and reply_price, else nothing is ever spent")
        return self


def wrong_effort(source: str, endpoint: Endpoint) -> str:
    """Why OpenAI's own model ``source`` does not take this ``effort``; empty where it does, or where that is not known."""
    name = re.sub(r"-\d{4}-\d{2}-\d{2}$", "", source)
    known = EFFORTS.get(name, EFFORTS.get(re.sub(r"-(mini|nano)$", "", name)))
    if endpoint.base_url or not endpoint.effort or known is None or endpoint.effort in known:
        return ""
    if not known:
        return f"{source} does not reason, so it takes no effort; leave effort = {endpoint.effort!r} out"
    return f"{source} takes no effort {endpoint.effort!r}; write {', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
