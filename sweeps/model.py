"""One model: its identity, which is part of every key, and how it runs, which is part of no key."""

from collections.abc import Iterator
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from sweeps.engine_options import SPEED_ONLY, wrong_requirement
from sweeps.sampling import Sampling, Thinking, Whole
from sweeps.values import NAME, Frozen, read_table

FACTS = read_table("checkpoints.toml")
"""Facts about the classes of ``config.json`` and the files beside it."""
INPUT_VERSIONS: dict[str, int] = FACTS["input_versions"]
SINGLE_START_TOKEN = frozenset(FACTS["classes"]["single_start_token"])
PICTURE_LIMIT = 20_000_000
"""Most bytes of one base64 picture for OpenAI (its guide on vision: 20 MB)."""
GPU_SHARES = (0.5, 0.25)
"""Shares of one GPU, for engines that use it together; powers of two, so that they add up to one."""
LOCAL = ("vllm", "transformers")
"""Backends that load a checkpoint on the worker's machine."""
STAGES = "pipeline_parallel_size"
"""An option of vLLM that is refused."""
Limit = Literal["no pictures", "no chat template", "no functions"]
"""What a checkpoint cannot take (``sweeps.checkpoint``, ``sweeps.protocol``)."""


class Endpoint(Frozen):
    """The address, limits and prices of an OpenAI-compatible service."""

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

    def _faults(self) -> Iterator[str]:
        if self.max_cost is not None and not (self.prompt_price or self.reply_price):
            yield "max_cost needs prompt_price and reply_price; without them, every request costs nothing"


class ModelSpec(Frozen):
    """One model: its identity (part of every key) and how it runs (never part of a key)."""

    name: Annotated[str, Field(pattern=NAME)]
    source: str
    """A Hub id, a local folder, an endpoint's model name, ``builtin:<policy>``, or ``human:<name>``."""
    revision: str = ""
    backend: Literal["builtin", "vllm", "transformers", "openai", "human"] = "vllm"
    parameters: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Billions, where published."""
    gpus: int | float = 1
    """GPUs of one replica, all of one node (tensor parallel), or 0.5 or 0.25 of a shared one."""
    accelerator: str = ""
    """The kind of GPU, as Ray names it (``H200``); empty takes any."""
    max_images: Annotated[Whole, Field(ge=1)] | None = None
    """Most pictures of a prompt; None: as many as an episode can show. 1 excludes conditions with history or examples."""
    limits: tuple[Limit, ...] = ()
    """What the model cannot take; read from its checkpoint's files if these are on this disk and the entry states none."""
    beyond_context: bool = False
    """True if prompts may exceed the checkpoint's context, on vLLM up to ``options.max_model_len``, as ``generate`` does."""
    faithful: bool = False
    """True gives the package's input and end tokens where the default differs (``ls differences``); see ``Sweep.faithful``."""
    in_flight: Annotated[Whole, Field(ge=1, le=4096)] | None = None
    """Episodes that one worker plays at once; None: as many as its engine can answer (``actors.engine.in_flight``)."""
    trust_remote_code: bool = False
    unsafe_options: bool = False
    """True if ``options`` and ``processor`` may hold any key, also those that can run code (``sweeps.engine_options``)."""
    requirements: tuple[str, ...] = ()
    """Packages that it needs in other versions than the installed ones (``["transformers==5.18.0"]``); not for services."""
    dtype: str = "auto"
    options: dict[str, Any] = Field(default_factory=dict)
    """Engine flags, passed unchanged; ``batch_invariant`` is ours (``actors.engine.registry``)."""
    processor: dict[str, Any] = Field(default_factory=dict)
    """Options of the model's processor, for example ``max_pixels``."""
    chat: dict[str, Any] = Field(default_factory=dict)
    """Variables of the chat template, for example ``enable_thinking``; ``today`` fixes the date that a template writes."""
    thinking: Thinking | None = None
    """For a model that thinks: the tokens of its thoughts, which are stored apart from its answer; None reads replies whole."""
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None
    """None uses the checkpoint's ``generation_config.json``, as the package's ``generate`` does; 1 applies no penalty."""
    lora: str = ""
    """Adapter that every request uses: a folder, or a folder inside ``source``."""
    endpoint: Endpoint = Endpoint()
    """Only for backend ``openai``."""
    tools: str = ""
    """Format of function calls (protocol ``tools``): ``text`` in prompt and reply; a tool parser of vLLM by name (``hermes``),
    for a model whose chat template takes functions; empty for a service's tool calling, and for text elsewhere."""
    architecture: str = ""
    """Name of the class in its ``config.json``; empty if unknown."""
    paper: str = ""
    """Its row in the paper's tables; empty for other models."""
    fit_pictures: bool | None = None
    """True fits files to multiples of 28 pixels before COCO's crop; None does so if the source contains Qwen (package)."""
    small_examples: bool = False
    """True shrinks solved examples as the paper does for Phi-4: ROD's pictures to 512 pixels, MVP-N's three to two steps each."""
    in_history: bool = False
    """True if the paper ran history and in-context examples on it (ten models)."""
    inferred: bool = False
    """True if ``source`` is inferred from the name in the paper; False if the published code states it."""
    note: str = ""

    @field_validator("gpus", mode="before")
    @classmethod
    def _check_gpus(cls, value: Any) -> Any:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not (value in GPU_SHARES or (0 <= value <= 64 and value == int(value))):
            raise ValueError("write a whole number, at most 64, or 0.5 or 0.25 for a GPU that engines share")
        return value if value in GPU_SHARES else int(value)

    @model_validator(mode="before")
    @classmethod
    def _fill_implied(cls, fields: Any) -> Any:
        """Fill in the backend ``openai`` if there is an address, and ``gpus = 0`` for services, policies and people."""
        if not isinstance(fields, dict):
            return fields
        endpoint = fields.get("endpoint")
        address = endpoint.get("base_url") if isinstance(endpoint, dict) else getattr(endpoint, "base_url", "")
        filled = {"backend": "openai", **fields} if address else fields
        return {"gpus": 0, **filled} if filled.get("backend") in ("openai", "builtin", "human") else filled

    def _faults(self) -> Iterator[str]:
        options, gpus, today = self.options, self.gpus, self.chat.get("today", "2026-11-01")
        share = options.get("gpu_memory_utilization", 0)
        if self.requirements and not self.is_local:
            yield 'requirements: only backend = "vllm" and "transformers" can have packages of their own; leave it out'
        yield wrong_requirement(self.requirements, self.unsafe_options)
        if gpus in GPU_SHARES and isinstance(share, int | float) and share > gpus:
            yield f"options.gpu_memory_utilization is a share of the whole GPU; with gpus = {gpus}, write at most {gpus}"
        invariant = options.get("batch_invariant")
        if "batch_invariant" in options and (invariant is not True or self.backend != "vllm" or not gpus):
            yield "options.batch_invariant is a mode of vLLM on GPUs; write true there, or leave it out"
        if self.thinking and self.backend in ("builtin", "human"):
            yield f"thinking: backend {self.backend} writes no thoughts; leave it out"
        if self.thinking and self.thinking.parser != "auto" and self.backend != "vllm":
            yield 'thinking.parser: write "auto", or leave it out; only backend = "vllm" has reasoning parsers by name'
        if self.tools not in ("", "text") and self.backend != "vllm":
            yield 'tools: write "text", or leave it out; only backend = "vllm" has tool parsers by name'
        try:
            date.fromisoformat(today)
        except (TypeError, ValueError):
            yield f'chat.today = {today!r} is no date; write it as "2026-11-01"'
        if STAGES in options:
            yield f"options.{STAGES} is gone (last in 0.2.0); serve the model with its own vLLM and play it as an endpoint"

    @property
    def prices(self) -> tuple[float, float]:
        """Return a service's prices per million prompt tokens and per million reply tokens."""
        return self.endpoint.prompt_price, self.endpoint.reply_price

    @property
    def calls_natively(self) -> bool:
        """Return True if functions and calls are sent separately from prompt and reply; otherwise both are text."""
        return self.tools != "text" and (self.backend == "openai" or bool(self.tools))

    @property
    def fits_pictures(self) -> bool:
        """Return True if the package resizes pictures by ``qwen_vl_utils``, as it does if ``"Qwen" in model_name``."""
        is_qwen = "Qwen" in self.source or self.architecture == "Qwen2_5_VLForConditionalGeneration"
        return is_qwen if self.fit_pictures is None else self.fit_pictures

    @property
    def is_local(self) -> bool:
        """Return True if vLLM or transformers runs it here; for services, people and policies we build no model input."""
        return self.backend in LOCAL

    @property
    def exceeds_context(self) -> bool:
        """Return True if its prompts may be longer than the checkpoint's context."""
        return self.beyond_context or self.faithful

    @property
    def limited_by_memory(self) -> bool:
        """Return True if neither the checkpoint's context nor ``options.max_model_len`` limits its prompts."""
        return self.exceeds_context and not (self.beyond_context and "max_model_len" in self.options)

    def reply_limit(self, sampling: Sampling) -> int:
        """Return the most tokens of a reply, thoughts included."""
        return sampling.max_tokens + self.endpoint.reserve + (self.thinking.budget if self.thinking else 0)

    @property
    def input_version(self) -> int:
        """Return the version of an engine's tokens and pixels for a conversation; 1 without such an engine."""
        no_engine = self.backend in ("builtin", "openai", "human") or self.source.startswith("builtin:")
        # the version before left vLLM's own mark of a picture in the text
        unmarked = self.backend == "vllm" and "no chat template" in self.limits
        return 1 if no_engine else INPUT_VERSIONS.get(self.architecture, 1) + unmarked

    @property
    def identity(self) -> dict[str, Any]:
        """Return the fields that change this model's answers."""
        special = {
            "options": {k: v for k, v in self.options.items() if k not in SPEED_ONLY or self.backend == "openai"},
            "processor": self.processor,
            "chat": self.chat,
            "thinking": None if self.thinking is None else self.thinking.model_dump(),
            "lora": self.lora,
            "repetition_penalty": self.repetition_penalty,
            "endpoint": self.endpoint.identity,
            "input": self.input_version if self.input_version > 1 else None,
            "faithful": self.faithful and self.is_local and self.architecture not in SINGLE_START_TOKEN,
        }
        identity: dict[str, Any] = {"source": self.source, "revision": self.revision, "dtype": self.dtype}
        if self.fit_pictures is not None:
            identity["fit_pictures"] = self.fit_pictures
        return identity | {name: value for name, value in special.items() if value}
