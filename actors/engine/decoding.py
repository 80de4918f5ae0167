"""Decoding of one reply: as the request states, or as the checkpoint's ``generation_config.json`` states.

Both engines use this module, so that a model decodes alike in each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweeps.sampling import Sampling

TEMPERATURE, TOP_P, TOP_K, PENALTY = 1.0, 1.0, 50, 1.0
"""Defaults of transformers' ``generate`` (``GenerationConfig``)."""


@dataclass(frozen=True)
class Decoding:
    """The decoding parameters of one request, named as in transformers."""

    temperature: float
    """0 takes the likeliest token."""
    top_p: float
    top_k: int
    """-1 keeps all tokens."""
    repetition_penalty: float


def decoding(sampling: Sampling, checkpoint: Mapping[str, Any], penalty: float | None = None) -> Decoding:
    """Return the parameters of one request; ``checkpoint`` is the ``to_diff_dict`` of the model's generation configuration.

    The checkpoint's repetition penalty always applies, unless the model's entry sets a ``penalty``. With
    ``sampling.checkpoint``, its ``do_sample``, ``temperature``, ``top_p`` and ``top_k`` apply too.
    """

    def own(name: str, default: float) -> float:
        value = checkpoint.get(name)
        return default if value is None else float(value)

    weight = own("repetition_penalty", PENALTY) if penalty is None else penalty
    if not sampling.checkpoint:
        return Decoding(sampling.temperature, sampling.top_p, sampling.top_k, weight)
    if not (sampling.sampled or checkpoint.get("do_sample")):
        return Decoding(0.0, 1.0, -1, weight)
    return Decoding(own("temperature", TEMPERATURE), own("top_p", TOP_P), int(own("top_k", TOP_K)) or -1, weight)
