"""The flags of a vLLM engine and the decoding parameters of a request, all explicit so that no default applies.

Prompts must fit the table of the rotary embedding. vLLM 0.32 computes it for ``max_position_embeddings`` positions; if
``max_model_len`` is larger, vLLM reads past its end without an error. That happens with ``VLLM_ALLOW_LONG_MAX_MODEL_LEN``, and
with dynamic scaling, whose ``factor`` enlarges the length and not the table.
"""

import os
from typing import Any

import psutil
from vllm import SamplingParams
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind

from actors.engine.decoding import Decoding
from actors.engine.in_flight import MAX_NUM_SEQS
from actors.node.gpu_check import DEFAULT_GPU_SHARE
from sweeps.spec import ModelSpec

EXTENDED_POSITIONS = 1 << 19
"""Positions of models that may exceed their context: 157 pictures of 3,330 tokens (InternVL, history)."""
AUTOMATIC = -1
"""Value of ``max_model_len`` that means: all positions, or as many as the key-value cache has room for."""
SCALED_AT_ANY_LENGTH = {"alpha", "max_trained_positions"}
"""Parameters that make vLLM's dynamic scaling change positions within the table, too."""
SAME_AT_ANY_LENGTH = {"default", "llama3"}
"""Kinds of scaling whose angles do not depend on the number of positions."""
MAX_NUM_BATCHED_TOKENS = 16384
"""Tokens of one step, unless the entry's options say otherwise."""
MAX_IMAGES = 512
"""Pictures per prompt unless the entry sets a limit: more than in the longest sample (VSOD has about 230 frames)."""
UNUSED_MODALITIES = {"video": 0, "audio": 0}
"""Modalities that no scenario uses: without these limits, a video model reserves its encoder's cache for the longest video
(Qwen2.5-VL: 114,688 tokens instead of 16,384) and loads its audio parts. vLLM 0.32 ignores limits of modalities that a model
does not have (``allowed_mm_limits`` of ``vllm.multimodal.processing``)."""
MIN_TEMPERATURE = 0.01
"""The smallest temperature above 0 that vLLM takes (``_MAX_TEMP`` of ``vllm.sampling_params``)."""

BAN_BIAS = -100.0
"""Bias of a banned token: the lowest that vLLM takes."""
BIND, THREADS = "VLLM_CPU_OMP_THREADS_BIND", "OMP_NUM_THREADS"
"""Environment variables: the first binds threads of vLLM's separate model process to cores, the second is OpenMP's."""
MEMORY_SHARE = 0.4
"""Share of a machine's memory for an engine unless its options say otherwise, so that a model and its judge fit. vLLM
would take 0.92; Ray ends workers when 0.95 are in use."""
IN_ONE_PROCESS = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
"""vLLM's executor without a separate model process, by its full name: on a CPU, vLLM replaces the short name ``uni``."""


def engine_arguments(model: ModelSpec) -> dict[str, Any]:
    """Return the engine's flags: ours, overridden by the model's entry."""
    flags: dict[str, Any] = {
        "model": model.source,
        "revision": model.revision or None,
        "tokenizer_revision": model.revision or None,
        "trust_remote_code": model.trust_remote_code,
        "dtype": model.dtype,
        "tensor_parallel_size": max(1, int(model.gpus)),
        "max_num_seqs": MAX_NUM_SEQS,
        "max_num_batched_tokens": MAX_NUM_BATCHED_TOKENS,
        "enable_prefix_caching": True,
        # Without a chat template, vLLM 0.32 would leave its own mark ``<##IMAGE##>`` in the text (PaliGemma).
        "interleave_mm_strings": "no chat template" not in model.limits,
        "limit_mm_per_prompt": {"image": model.max_images or MAX_IMAGES, **UNUSED_MODALITIES},
        "disable_log_stats": True,
        **one_process_flags(),
        "hf_overrides": extend_positions if model.exceeds_context else keep_positions,
    }
    if model.limited_by_memory:
        flags["max_model_len"] = AUTOMATIC
    if model.gpus > 1:
        # By default, vLLM sees Ray's placement group and would reserve the GPUs a second time.
        flags["distributed_executor_backend"] = "mp"
    if not model.gpus:
        flags["gpu_memory_utilization"] = MEMORY_SHARE
    if 0 < model.gpus < 1:  # vLLM ignores other engines, so two engines on one GPU must not both take 0.92
        flags["gpu_memory_utilization"] = DEFAULT_GPU_SHARE * model.gpus
    if model.processor:
        flags["mm_processor_kwargs"] = model.processor
    if model.lora:
        flags["enable_lora"] = True
    not_for_vllm = {"batch_invariant", *(("max_model_len",) if model.limited_by_memory else ())}
    return {**flags, **{name: value for name, value in model.options.items() if name not in not_for_vllm}}


def sampling_params(decoding: Decoding, max_tokens: int, seed: int, skip_special: bool = True) -> SamplingParams:
    """Return vLLM's parameters for one reply; ``skip_special`` drops special tokens from its text."""
    greedy = decoding.temperature < MIN_TEMPERATURE  # to which vLLM would raise it (Qwen2.5-VL's file has 1e-6)
    return SamplingParams(
        n=1,
        temperature=0.0 if greedy else decoding.temperature,
        top_p=1.0 if greedy else decoding.top_p,
        top_k=-1 if greedy else decoding.top_k,
        seed=None if greedy else seed,
        min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0, repetition_penalty=decoding.repetition_penalty,
        stop=None, stop_token_ids=None if decoding.stops is None else list(decoding.stops),
        ignore_eos=decoding.stops is not None,  # else vLLM adds the tokenizer's end token
        max_tokens=max_tokens, min_tokens=0, skip_special_tokens=skip_special,
        logit_bias=dict.fromkeys(decoding.banned, BAN_BIAS) or None,
        output_kind=RequestOutputKind.FINAL_ONLY,
        skip_clone=True,  # a shallow copy is enough
    )  # fmt: skip


def extend_positions(config: Any) -> Any:
    """Give a configuration ``EXTENDED_POSITIONS`` positions, unless its scaling depends on their number; return it."""
    text = config.get_text_config()
    if _scaling(text) in SAME_AT_ANY_LENGTH:
        text.max_position_embeddings = max(EXTENDED_POSITIONS, text.max_position_embeddings)
    return keep_positions(config)


def keep_positions(config: Any) -> Any:
    """Remove a dynamic scaling that has no effect within the table, so that vLLM refuses longer prompts; return ``config``."""
    text = config.get_text_config()
    if _scaling(text) == "dynamic" and not SCALED_AT_ANY_LENGTH & text.rope_parameters.keys():
        others = {name: value for name, value in text.rope_parameters.items() if name not in ("factor", "type")}
        text.rope_parameters = {**others, "rope_type": "default"}
    return config


def _scaling(text: Any) -> str:
    """Return the kind of a language model's rotary embedding; empty if it has none, or several."""
    parameters = getattr(text, "rope_parameters", None) or {}
    return str(parameters.get("rope_type", ""))


def one_process_flags() -> dict[str, str]:
    """Return the engine's flags for one process; none with a GPU, or if the user binds the model's threads to cores.

    By default, vLLM 0.32 runs the model of a CPU in its own process (``check_and_update_config`` of ``vllm.platforms.cpu``), and
    the scheduler polls it without sleeping (``SpinCondition`` of ``vllm.distributed.device_communicators.shm_broadcast``), which
    takes a core from the front end. docs/performance.md has figures.
    """
    is_free = current_platform.is_cpu() and BIND not in os.environ
    return {"distributed_executor_backend": IN_ONE_PROCESS} if is_free else {}


def use_all_cores_but_one() -> None:
    """On a CPU, let processes that start later use all cores but one; Ray would limit them to one thread."""
    count = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else count
    if one_process_flags():
        os.environ[THREADS] = str(max(1, min(count, usable) - 1))
