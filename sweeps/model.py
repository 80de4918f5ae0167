"""One model: what it is, which is part of every key, and how it is run, which is part of none.

No model is loaded here and no file is touched.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from sweeps.endpoint import Endpoint, wrong_effort
from sweeps.engine_options import HARMLESS, PARTS, wrong_options
from sweeps.sampling import Whole
from sweeps.values import NAME, Frozen

INPUT_VERSIONS = {
    "": 2,
    "LlavaForConditionalGeneration": 2,
    "LlavaNextForConditionalGeneration": 2,
    "LlavaOnevisionForConditionalGeneration": 2,
    "Qwen2_5_VLForConditionalGeneration": 2,
}
"""Architecture -> version of what an engine gives it (docs/decisions/0008), 1 where none is named; part of every key."""


class ModelSpec(Frozen):
    """One model: what it is (part of every key) and how it is run (never part of a key)."""

    name: Annotated[str, Field(pattern=NAME)]
    source: str
    """A Hub id, a local folder, an endpoint's model name, ``builtin:<policy>``, or ``human:<name>``."""
    revision: str = ""
    backend: Literal["builtin", "vllm", "transformers", "openai", "human"] = "vllm"
    parameters: float | None = None
    """Billions, where published."""
    gpus: int | float = 1
    """GPUs of one replica (tensor parallel inside one actor): a whole number up to 8, or 0.5 or 0.25 of one that others share."""
    accelerator: str = ""
    """The kind of GPU it must have, as Ray names it (``H200``); empty takes any."""
    max_images: Annotated[Whole, Field(ge=1)] | None = None
    """Pictures one prompt may hold; None: as many as an episode can show. 1 refuses history and examples."""
    beyond_context: bool = False
    """True if vLLM may go past the context that the checkpoint names, up to ``options.max_model_len``: as ``generate`` does."""
    in_flight: Annotated[Whole, Field(ge=1, le=4096)] | None = None
    """Episodes that one worker plays at once; None: as many as its engine can answer at once (``actors.engine.in_flight``)."""
    trust_remote_code: bool = False
    dtype: str = "auto"
    options: dict[str, Any] = Field(default_factory=dict)
    """Engine flags, handed through as they stand; ``batch_invariant`` is ours (``actors.engine.vllm.batch_invariance``)."""
    processor: dict[str, Any] = Field(default_factory=dict)
    """Options of the model's own processor, for example ``max_pixels``."""
    chat: dict[str, Any] = Field(default_factory=dict)
    """Variables of the chat template, for example ``enable_thinking``."""
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None
    """None takes what the checkpoint's ``generation_config.json`` says, as the package's ``generate`` does; 1 is none."""
    lora: str = ""
    """Adapter that every request uses: a folder, or a folder inside ``source``."""
    endpoint: Endpoint = Endpoint()
    """Only for backend ``openai``."""
    tools: str = ""
    """Format of function calls (protocol ``tools``): ``text`` in prompt and reply; a tool parser of vLLM by name (``hermes``),
    for a model whose chat template takes functions; empty by a service's own tool calling, and as text elsewhere."""
    batch: bool = False
    """Only for backend ``openai``: whether requests go through the service's Batch API, turn by turn: at half the price, up to
    24 hours a turn. The requests are the same, so it is in no key (docs/decisions/0013)."""
    architecture: str = ""
    """Class that its ``config.json`` names, where known: checked against the backend's own registry by a test."""
    paper: str = ""
    """The row of the paper's tables that this model is; empty for models the paper does not have."""
    fit_pictures: bool | None = None
    """True if files fit multiples of 28 pixels before COCO's crop; None does so where the source says Qwen (package)."""
    small_examples: bool = False
    """Solved examples as the paper gave them to Phi-4 alone: ROD's pictures at 512 pixels, MVP-N's three with two steps each."""
    in_history: bool = False
    """True if the paper ran history and in-context examples on it (ten models)."""
    inferred: bool = False
    """True if ``source`` is inferred from the paper's name; false where the published code names it."""
    note: str = ""

    @field_validator("gpus", mode="before")
    @classmethod
    def _whole_or_shared(cls, value: Any) -> Any:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not (value in PARTS or (value == int(value) and 0 <= value <= 8)):
            raise ValueError("write a whole number from 0 to 8, or 0.5 or 0.25 for a GPU that engines share")
        return value if value in PARTS else int(value)

    @field_validator("options")
    @classmethod
    def _possible(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if reason := wrong_options(value, str(info.data.get("backend", "")), info.data.get("gpus", 1)):
            raise ValueError(reason)
        return value

    @field_validator("endpoint")
    @classmethod
    def _reasons(cls, value: Endpoint, info: ValidationInfo) -> Endpoint:
        if reason := wrong_effort(str(info.data.get("source", "")), value):
            raise ValueError(reason)
        return value

    @model_validator(mode="before")
    @classmethod
    def _implied(cls, fields: Any) -> Any:
        """An address means the backend ``openai``; a service and a policy need no GPU of this cluster."""
        if not isinstance(fields, dict):
            return fields
        endpoint = fields.get("endpoint")
        address = endpoint.get("base_url") if isinstance(endpoint, dict) else getattr(endpoint, "base_url", "")
        whole = {"backend": "openai", **fields} if address else fields
        return {"gpus": 0, **whole} if whole.get("backend") in ("openai", "builtin", "human") else whole

    @model_validator(mode="after")
    def _batched(self) -> ModelSpec:
        if self.batch and self.backend != "openai":
            raise ValueError(f'batch = true is of services, and {self.name} has backend = "{self.backend}"')
        if self.batch and self.endpoint.server == "vllm":
            raise ValueError(f"batch = true needs a service with a Batch API, which `vllm serve` ({self.name}) has not")
        return self

    @property
    def prices(self) -> tuple[float, float]:
        """Of a service, per million prompt tokens and per million reply tokens."""
        return self.endpoint.prices(self.batch)

    @field_validator("tools")
    @classmethod
    def _callable(cls, value: str, info: ValidationInfo) -> str:
        if value not in ("", "text") and info.data.get("backend") != "vllm":
            raise ValueError('write "text", or leave it out; only backend = "vllm" has tool parsers by name')
        return value

    @property
    def calls_natively(self) -> bool:
        """Return True if functions travel beside the prompt, and calls beside the reply; else both are text."""
        return self.tools != "text" and (self.backend == "openai" or bool(self.tools))

    @property
    def fits_pictures(self) -> bool:
        """Return True if pictures pass ``qwen_vl_utils`` in the package, which asks for ``"Qwen" in model_name``."""
        named = "Qwen" in self.source or self.architecture == "Qwen2_5_VLForConditionalGeneration"
        return named if self.fit_pictures is None else self.fit_pictures

    @property
    def input_version(self) -> int:
        """Version of the tokens and pixels that an engine makes of a conversation; 1 for services, policies and our own model."""
        ours = self.backend in ("builtin", "openai", "human") or self.source.startswith("builtin:")
        return 1 if ours else INPUT_VERSIONS.get(self.architecture, 1)

    @property
    def identity(self) -> dict[str, Any]:
        """Return the fields that change this model's answers."""
        special = {
            "options": {k: v for k, v in self.options.items() if k not in HARMLESS or self.backend == "openai"},
            "processor": self.processor,
            "chat": self.chat,
            "lora": self.lora,
            "repetition_penalty": self.repetition_penalty,
            "endpoint": self.endpoint.identity,
            "input": self.input_version if self.input_version > 1 else None,
        }
        stated = {} if self.fit_pictures is None else {"fit_pictures": self.fit_pictures}
        return {
            "source": self.source,
            "revision": self.revision,
            "dtype": self.dtype,
            **stated,
            **{name: value for name, value in special.items() if value},
        }
