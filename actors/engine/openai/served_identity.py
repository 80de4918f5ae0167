"""The identity of a served model: its replies to fixed questions, by which a run notices that the server has other weights."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from sweeps.spec import ModelSpec

MAX_DISTANCE = 0.05
"""Largest distance between the first-token probabilities of equal weights. Measured on SmolLM2-135M in bfloat16: 0.004 if other
requests share the batch, 0.06 if the rotary base is a third."""
PREFIX = "served:"
"""First characters of the identity of a served model; identities of loaded weights begin differently."""


class Probe(NamedTuple):
    """The reply of a served model to one of the questions."""

    prompt_tokens: int
    """Another number means another tokenizer or chat template."""
    first: dict[str, float]
    """First token -> probability; empty if the service returns no probabilities."""
    text: str


_PROBES = TypeAdapter(list[Probe])


def is_checked(model: ModelSpec) -> bool:
    """Return True if the model's identity is checked: its server is self-hosted (vLLM, llama.cpp, or any without a key)."""
    endpoint = model.endpoint
    is_self_hosted = endpoint.base_url and (endpoint.server != "openai" or not endpoint.key_env)
    return bool(is_self_hosted) and endpoint.decoding and not model.batch


def same_model(before: str, now: str) -> bool:
    """Return True if two identities belong to one model: equal ones, or similar ones of a service.

    Replies of a service vary with the batch. If it gives no probabilities, one equal text is enough.
    """
    if before == now:
        return True
    if not (before.startswith(PREFIX) and now.startswith(PREFIX)):
        return False
    try:
        pairs = list(zip(_parse(before), _parse(now), strict=True))
    except (ValidationError, ValueError):
        return False
    if any(old.prompt_tokens != new.prompt_tokens for old, new in pairs):
        return False
    if all(old.first and new.first for old, new in pairs):
        return all(_distance(old.first, new.first) <= MAX_DISTANCE for old, new in pairs)
    return any(old.text == new.text for old, new in pairs)


def to_identity(probes: Sequence[Probe]) -> str:
    """Return the probes as one line, for ``weights.json``."""
    return PREFIX + json.dumps(probes)


def _parse(identity: str) -> list[Probe]:
    return _PROBES.validate_json(identity.removeprefix(PREFIX))


def _distance(old: Mapping[str, float], new: Mapping[str, float]) -> float:
    """Return the total variation distance (0 to 1) of two distributions of first tokens."""
    return sum(abs(old.get(token, 0.0) - new.get(token, 0.0)) for token in old.keys() | new.keys()) / 2


def describe_other_model(model: ModelSpec, earlier: str) -> str:
    """Return why a run cannot go on, and what to do; ``earlier`` is like "this run began with"."""
    return (
        f"under the name {model.source}, {model.endpoint.base_url} serves another model than {earlier}; start the server with"
        " the earlier model and run the same command again, or pass another --output"
    )
