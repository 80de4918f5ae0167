"""The longest prompt of a vLLM engine: never beyond the positions that its rotary embedding has.

vLLM 0.32 computes the rotary embedding of ``max_position_embeddings`` positions, and reads beyond that table, without an
error, if ``max_model_len`` is larger: with ``VLLM_ALLOW_LONG_MAX_MODEL_LEN``, and for dynamic scaling, where it multiplies the
length but not the table by ``factor``. transformers computes any position.
"""

from typing import Any

from sweeps.spec import ModelSpec

LONGEST = 1 << 19
"""Positions of models that may exceed their context: 157 pictures of 3,330 tokens (InternVL, history)."""
AUTOMATIC = -1
"""Value of ``max_model_len``: the positions, or fewer if the cache of keys and values has no room for so many tokens."""
SCALED_AT_ANY_LENGTH = {"alpha", "max_trained_positions"}
"""Parameters with which vLLM's dynamic scaling differs from no scaling also within the table."""
SAME_AT_ANY_LENGTH = {"default", "llama3"}
"""Kinds of scaling whose angles do not depend on the number of positions."""


def context_arguments(model: ModelSpec) -> dict[str, Any]:
    """Return the engine's flags about its context."""
    flags: dict[str, Any] = {"hf_overrides": extend_positions if model.exceeds_context else keep_positions}
    return flags | ({"max_model_len": AUTOMATIC} if model.limited_by_memory else {})


def extend_positions(config: Any) -> Any:
    """Give a configuration ``LONGEST`` positions, unless its scaling depends on their number; return it."""
    text = config.get_text_config()
    if _scaling(text) in SAME_AT_ANY_LENGTH:
        text.max_position_embeddings = max(LONGEST, text.max_position_embeddings)
    return keep_positions(config)


def keep_positions(config: Any) -> Any:
    """Make vLLM refuse prompts beyond the table of a dynamic scaling, which has no effect up to there; return ``config``."""
    text = config.get_text_config()
    if _scaling(text) == "dynamic" and not SCALED_AT_ANY_LENGTH & text.rope_parameters.keys():
        others = {name: value for name, value in text.rope_parameters.items() if name not in ("factor", "type")}
        text.rope_parameters = {**others, "rope_type": "default"}
    return config


def _scaling(text: Any) -> str:
    """Return the kind of a language model's rotary embedding; empty if it has none, or several."""
    parameters = getattr(text, "rope_parameters", None) or {}
    return str(parameters.get("rope_type", ""))
