"""The address, limits and prices of an OpenAI-compatible service.

``identity`` holds the fields that change answers and are part of keys; addresses, prices and deadlines are not.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from sweeps.sampling import Whole
from sweeps.values import Frozen

PICTURE_LIMIT = 20_000_000
"""Most bytes of one base64 picture for OpenAI (its guide on vision: 20 MB)."""


class Endpoint(Frozen):
    """The settings of one service."""

    base_url: str = ""
    """``http://host:8000/v1`` of any ``vllm serve``; empty is OpenAI's own (or ``OPENAI_BASE_URL``)."""
    key_env: str = "OPENAI_API_KEY"
    """Environment variable with the key (never in a file); empty if the service needs none."""
    server: Literal["openai", "vllm", "llama.cpp"] = "openai"
    """For ``vllm`` and ``llama.cpp``, requests also state top_k, min_p and the repetition penalty, which override defaults."""
    decoding: bool = True
    """False leaves out temperature, top_p and seed, which reasoning models refuse."""
    effort: str = ""
    """``reasoning_effort``, if the model has one; the service refuses what it does not know."""
    reserve: Annotated[Whole, Field(ge=0)] = 0
    """Tokens for hidden reasoning in addition to the reply's limit."""
    picture_limit: Annotated[Whole, Field(ge=4096)] | None = None
    """Most bytes of one encoded picture; a larger one is fitted into 2,048 x 2,048 pixels first, as OpenAI's models do with
    every picture. None is 20 MB for ``server = "openai"`` and no limit for the others."""
    pictures: Literal["png", "jpeg"] = "png"
    """The encoding of pictures: ``png`` is exact, ``jpeg`` (quality 95) is a fraction of the size."""
    deadline: Annotated[float, Field(gt=0)] = 120.0
    """Most seconds of one attempt."""
    patience: Annotated[float, Field(ge=0)] = 600.0
    """A service counts as dead once all its requests have failed for this many seconds."""
    prompt_price: Annotated[float, Field(ge=0)] = 0.0
    """Per million prompt tokens."""
    reply_price: Annotated[float, Field(ge=0)] = 0.0
    """Per million reply tokens, hidden reasoning included."""
    priced: str = ""
    """Day and currency of the prices, for example ``2026-05-01 USD``."""
    price_source: str = ""
    """Address of the price list."""
    max_cost: Annotated[float, Field(gt=0)] | None = None
    """The budget of all workers and attempts of a run folder for this model; once spent, episodes stay pending."""

    @property
    def identity(self) -> dict[str, Any]:
        """Return the fields that change answers and differ from the default."""
        changing = {"server", "decoding", "effort", "reserve", "pictures", "picture_limit"}
        return self.model_dump(include=changing, exclude_defaults=True)

    @property
    def largest_picture(self) -> int | None:
        """Return the most bytes of one encoded picture; None without a limit."""
        return PICTURE_LIMIT if self.picture_limit is None and self.server == "openai" else self.picture_limit

    @property
    def cost_known(self) -> bool:
        """Return True if it has prices, or if the address is not OpenAI's own."""
        return bool(self.prompt_price or self.reply_price or self.base_url)

    @model_validator(mode="after")
    def _check_prices(self) -> Self:
        if self.max_cost is not None and not (self.prompt_price or self.reply_price):
            raise ValueError("max_cost needs prompt_price and reply_price; without them, every request costs nothing")
        return self
