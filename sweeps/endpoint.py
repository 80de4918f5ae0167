"""How an OpenAI-compatible service is asked, and what it costs.

``identity`` holds what changes answers and goes into keys; addresses, prices and deadlines do not.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sweeps.sampling import Whole
from sweeps.values import Frozen


class Endpoint(Frozen):
    """How an OpenAI-compatible service is asked, and what it costs."""

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
    pictures: Literal["png", "jpeg"] = "png"
    """How pictures travel: ``png`` is exact, ``jpeg`` (quality 95) is a fraction of the size."""
    deadline: Annotated[float, Field(gt=0)] = 120.0
    """Seconds one attempt may take."""
    patience: Annotated[float, Field(ge=0)] = 600.0
    """Seconds after which a request that only meets errors counts its service as dead."""
    prompt_price: Annotated[float, Field(ge=0)] = 0.0
    """Per million prompt tokens."""
    reply_price: Annotated[float, Field(ge=0)] = 0.0
    """Per million reply tokens, hidden reasoning included."""
    priced: str = ""
    """Day and currency of the prices, for example ``2026-05-01 USD``."""
    max_cost: Annotated[float, Field(gt=0)] | None = None
    """What one worker may spend on this model; then the model stops, and the rest stays pending."""

    @property
    def identity(self) -> dict[str, Any]:
        """What changes answers, where it differs from the default."""
        return self.model_dump(include={"server", "decoding", "effort", "reserve", "pictures"}, exclude_defaults=True)

    @model_validator(mode="after")
    def _priced(self) -> Endpoint:
        if self.max_cost is not None and not (self.prompt_price or self.reply_price):
            raise ValueError("max_cost needs prompt_price and reply_price, else nothing is ever spent")
        return self
