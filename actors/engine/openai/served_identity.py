"""The identity of the model behind a service's name: its replies to fixed questions, as the server's weights give them."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from sweeps.spec import ModelSpec

MOST_MOVED = 0.05
"""Probability that the same weights may move between first tokens. Measured on SmolLM2-135M in bfloat16: 0.004 by other
requests in the batch, 0.06 by a third of its rotary base."""
PREFIX = "served:"


class Probe(NamedTuple):
    """The reply of a served model to one of the questions."""

    prompt_tokens: int
    """Differ for another tokenizer or chat template."""
    first: dict[str, float]
    """First token -> probability; empty if the service gives none."""
    text: str


_PROBES = TypeAdapter(list[Probe])


def is_checked(model: ModelSpec) -> bool:
    """Return True for a service of one's own: the server of vLLM or llama.cpp, or an address that needs no key."""
    endpoint = model.endpoint
    own = endpoint.base_url and (endpoint.server != "openai" or not endpoint.key_env)
    return bool(own) and endpoint.decoding and not model.batch


def same_model(before: str, now: str) -> bool:
    """Return False if two identities are of different models; other weights have unequal identities, services similar ones."""
    if before == now:
        return True
    if not (before.startswith(PREFIX) and now.startswith(PREFIX)):
        return False
    try:
        pairs = list(zip(_parse(before), _parse(now), strict=True))
    except (ValidationError, ValueError):
        return False
    return all(old.prompt_tokens == new.prompt_tokens for old, new in pairs) and (
        all(_moved(old.first, new.first) <= MOST_MOVED for old, new in pairs)
        if all(old.first and new.first for old, new in pairs)
        else any(old.text == new.text for old, new in pairs)
    )


def to_identity(probes: Sequence[Probe]) -> str:
    """Return the probes as one line, for the record of a run."""
    return PREFIX + json.dumps(probes)


def _parse(identity: str) -> list[Probe]:
    return _PROBES.validate_json(identity.removeprefix(PREFIX))


def _moved(old: Mapping[str, float], new: Mapping[str, float]) -> float:
    """Return the probability that has moved between the tokens that either model begins with."""
    return sum(abs(old.get(token, 0.0) - new.get(token, 0.0)) for token in old.keys() | new.keys()) / 2


def describe_other_model(model: ModelSpec, first: str) -> str:
    """Return why a run cannot go on; ``first`` ends "another model than ..."."""
    return (
        f"{model.endpoint.base_url} serves another model as {model.source} than {first}; start the server with that one and"
        " run the same command again, or pass another --output"
    )
