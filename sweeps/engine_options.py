"""An entry's engine flags (``options``): which change no answer, and which cannot be.

What is not harmless is part of the key of every episode of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PARTS = (0.5, 0.25)
"""Of one GPU, for models whose engines share it; powers of two, so that parts add up to a whole."""
HARMLESS = frozenset((
    "async_scheduling", "attn_implementation", "batch", "block_size", "compilation_config", "cpu_offload_gb", "device_map",
    "disable_custom_all_reduce", "disable_log_stats", "distributed_executor_backend", "download_dir",
    "enable_chunked_prefill", "enable_lora", "enable_prefix_caching", "enforce_eager", "gpu_memory_utilization",
    "limit_mm_per_prompt", "load_format", "low_cpu_mem_usage", "max_lora_rank", "max_loras", "max_model_len",
    "max_num_batched_tokens", "max_num_seqs", "max_parallel_loading_workers", "mm_processor_cache_gb",
    "num_gpu_blocks_override", "pipeline_parallel_size", "scheduling_policy", "seed", "swap_space", "tensor_parallel_size",
))  # fmt: skip
"""The engine flags that change speed, memory, and what fits at all; any other may change answers, and is part of the key."""


def wrong_options(options: Mapping[str, Any], backend: str, gpus: int | float) -> str:
    """Why a model with so many GPUs cannot have these options; empty where it can."""
    share, invariant = options.get("gpu_memory_utilization", 0), options.get("batch_invariant")
    if gpus in PARTS and isinstance(share, int | float) and share > gpus:
        return f"gpu_memory_utilization is of the whole GPU, so with gpus = {gpus} it is at most {gpus}"
    if invariant is not None and backend != "vllm":
        return f"batch_invariant is a mode of vLLM, and backend is {backend}; leave it out"
    if invariant is not None and invariant is not True:
        return f"batch_invariant = {invariant!r} is no choice; write true, or leave it out"
    return ""
