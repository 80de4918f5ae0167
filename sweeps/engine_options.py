"""The engine options and packages that an entry may name, by whether they can change an answer or run code.

Engines accept names of classes, kernels and repositories in many options, and run what they name: an entry with an option
outside ``SAFE`` must say ``unsafe_options = true``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

VLLM_SPEED = frozenset((
    "async_scheduling", "block_size", "compilation_config", "cpu_offload_gb", "disable_custom_all_reduce",
    "disable_log_stats", "distributed_executor_backend", "download_dir", "enable_chunked_prefill", "enable_lora",
    "enable_prefix_caching", "enforce_eager", "gpu_memory_utilization", "limit_mm_per_prompt", "load_format",
    "max_lora_rank", "max_loras", "max_model_len", "max_num_batched_tokens", "max_num_seqs", "max_parallel_loading_workers",
    "mm_processor_cache_gb", "num_gpu_blocks_override", "scheduling_policy", "seed", "tensor_parallel_size",
))  # fmt: skip
TRANSFORMERS_SPEED = frozenset(("attn_implementation", "batch", "device_map", "low_cpu_mem_usage"))
SPEED_ONLY = VLLM_SPEED | TRANSFORMERS_SPEED | {"swap_space"}
"""Options that only change speed, memory, and what fits; any other may change answers and is part of the key."""
SAFE = {
    "vllm": VLLM_SPEED | {
        "attention_backend", "batch_invariant", "config_format", "cudagraph_capture_sizes", "disable_cascade_attn",
        "enable_expert_parallel", "kv_cache_dtype", "long_prefill_token_threshold", "max_logprobs", "mm_encoder_tp_mode",
        "quantization", "skip_mm_profiling", "tokenizer_mode",
    },
    "transformers": TRANSFORMERS_SPEED | {"max_memory", "offload_folder", "tp_plan", "use_safetensors"},
}  # fmt: skip
"""Backend -> options that cannot run code, with the values of ``CHOICES``."""
CHOICES: dict[str, frozenset[Any]] = {
    "attention_backend": frozenset(
        ("FLASH_ATTN", "FLASHINFER", "FLEX_ATTENTION", "TORCH_SDPA", "TRITON_ATTN", "XFORMERS")
    ),
    "attn_implementation": frozenset(("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")),
    "compilation_config": frozenset((0, 1, 2, 3)),
    "config_format": frozenset(("auto", "hf", "mistral")),
    "distributed_executor_backend": frozenset(("mp", "uni")),
    "load_format": frozenset(("auto", "safetensors", "fastsafetensors", "dummy", "mistral", "bitsandbytes", "gguf")),
    "tokenizer_mode": frozenset(("auto", "hf", "slow", "mistral")),
}
"""Option -> its safe values; any other value may name a class, a kernel or a repository."""


def unsafe_options(backend: str, options: Mapping[str, Any], processor: Mapping[str, Any]) -> list[str]:
    """Return the keys, as in a sweep file, of a model's options that could run unchecked code."""
    if backend not in SAFE:
        return []
    engine = [f"options.{name}" for name, value in options.items() if not _is_safe(name, value, SAFE[backend])]
    return engine + [f"processor.{name}" for name, value in processor.items() if not _is_number(name, value)]


def _is_safe(name: str, value: Any, safe: frozenset[str]) -> bool:
    return name in safe and (name not in CHOICES or (isinstance(value, str | int) and value in CHOICES[name]))


def _is_number(name: str, value: Any) -> bool:
    """Return True for numbers, and tables or lists of them: a processor needs nothing else, and text may name code."""
    if isinstance(value, Mapping):
        return all(_is_number(key, inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(_is_number("", inner) for inner in value)
    return name != "trust_remote_code" and isinstance(value, int | float)


# -- packages in versions of its own --------------------------------------------------------------------------------------
SHARED = frozenset({"ray", "proactive-sweep"})
"""Packages that workers must have in the driver's version, because the driver sends them objects of these packages."""


def wrong_requirement(requirements: Sequence[str], unsafe: bool) -> str:
    """Return why a model cannot have these requirements; empty if it can. ``unsafe`` admits direct addresses."""
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            return (
                f'requirements: {text!r} is no requirement such as "transformers==5.18.0"; options, files and paths are not read'
                " (PIP_INDEX_URL and PIP_FIND_LINKS name other indexes)"
            )
        if requirement.url and not unsafe:
            remedy = "name a release, or write unsafe_options = true"
            return f"requirements: {text!r} is installed from an address that nobody checked; {remedy}"
        if canonicalize_name(requirement.name) in SHARED:
            return f"requirements: {text!r} must have the same version on driver and workers; leave it out"
    return ""


def requirement_names(requirements: Sequence[str]) -> tuple[str, ...]:
    """Return the names of valid requirements."""
    return tuple(canonicalize_name(Requirement(text).name) for text in requirements)
