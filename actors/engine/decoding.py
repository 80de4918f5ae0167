"""Decoding of one reply: as the request states, or as the checkpoint's ``generation_config.json`` states.

Both engines use this module, so that a model decodes alike in each.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from actors.engine.backend import Unprocessable
from sweeps.sampling import Sampling

TEMPERATURE, TOP_P, TOP_K, PENALTY = 1.0, 1.0, 50, 1.0
"""Defaults of transformers' ``generate`` (``GenerationConfig``)."""
FIELDS = tomllib.loads(Path(__file__).with_name("decoding.toml").read_text("utf-8"))
UNSUPPORTED, UNSUPPORTED_SAMPLING = frozenset(FIELDS["always"]), frozenset(FIELDS["only_sampled"])
"""Fields that change greedy replies too, and those that change only sampled ones."""
REFUSED: dict[str, Callable[[Any], bool]] = {
    "cache_implementation": lambda value: value == "quantized",
    "repetition_penalty": lambda value: value <= 0,
}
"""Fields that engines follow or may ignore -> exceptional values: with these, ``generate`` raises or replies differently."""
REFUSED_SAMPLING: dict[str, Callable[[Any], bool]] = {
    "temperature": lambda value: value <= 0,
    "top_k": lambda value: value < 0,
    "top_p": lambda value: value < 0,
}
"""The same for fields that only sampled replies use; ``generate`` raises for these values."""


@dataclass(frozen=True)
class Decoding:
    """The decoding parameters of one request, named as in transformers."""

    temperature: float
    """0 takes the likeliest token."""
    top_p: float
    top_k: int
    """-1 keeps all tokens."""
    repetition_penalty: float
    banned: tuple[int, ...] = ()
    """Tokens that are never generated."""
    stops: tuple[int, ...] | None = None
    """Tokens that end a reply, as in ``generate``; None stands for every end token of configuration and tokenizer."""


def decoding(
    sampling: Sampling, checkpoint: Mapping[str, Any], penalty: float | None = None, faithful: bool = False
) -> Decoding:
    """Return the parameters of one request; ``checkpoint`` is the ``to_diff_dict`` of the model's generation configuration.

    The checkpoint's repetition penalty always applies, unless the model's entry sets a ``penalty``. With
    ``sampling.checkpoint``, its ``do_sample``, ``temperature``, ``top_p`` and ``top_k`` apply too. With that or ``faithful``,
    only the checkpoint's own end tokens end a reply.

    Raises:
        Unprocessable: With ``sampling.checkpoint``, if the checkpoint sets a field that ``generate`` follows and no engine does.
    """

    def own(name: str, default: float) -> float:
        value = checkpoint.get(name)
        return default if value is None else float(value)

    repetition = own("repetition_penalty", PENALTY) if penalty is None else penalty
    if not sampling.checkpoint:
        stops = end_tokens(checkpoint.get("eos_token_id")) if faithful else None
        return Decoding(sampling.temperature, sampling.top_p, sampling.top_k, repetition, stops=stops)
    sampled = bool(sampling.sampled or checkpoint.get("do_sample"))
    if unfollowed := unfollowed_fields(checkpoint, sampled):
        raise Unprocessable(
            f'sampling = "checkpoint" cannot follow {", ".join(unfollowed)} of generation_config.json; '
            "state the sampling in the sweep"
        )
    words, stops = checkpoint.get("bad_words_ids") or (), end_tokens(checkpoint.get("eos_token_id"))
    banned = tuple(sorted({*(checkpoint.get("suppress_tokens") or ()), *chain(*words)}))  # each word is one token
    if not sampled:
        return Decoding(0.0, 1.0, -1, repetition, banned, stops)
    top_k = int(own("top_k", TOP_K)) or -1
    return Decoding(own("temperature", TEMPERATURE), own("top_p", TOP_P), top_k, repetition, banned, stops)


def unfollowed_fields(checkpoint: Mapping[str, Any], sampled: bool) -> list[str]:
    """Return the checkpoint's fields, with their values, that would change replies and cannot be followed."""
    fields = UNSUPPORTED | (UNSUPPORTED_SAMPLING if sampled else frozenset())
    stated = {name: checkpoint[name] for name in sorted(fields & checkpoint.keys())}
    unfollowed = [
        f"{name} = {value!r}"
        for name, value in stated.items()
        if value not in (None, 0, [], {}, "") and not (value == 1 and name in FIELDS["no_effect_at_one"])
    ]
    if any(len(word) > 1 for word in checkpoint.get("bad_words_ids") or ()):
        unfollowed.append("bad_words_ids of several tokens")
    for name, is_refused in (REFUSED | (REFUSED_SAMPLING if sampled else {})).items():
        if (value := checkpoint.get(name)) is not None and is_refused(value):
            unfollowed.append(f"{name} = {value!r}")
    return unfollowed


def end_tokens(*stated: Any) -> tuple[int, ...]:
    """Return the end tokens of several configurations; each states one token, several, or None.

    If all state None, only ``max_tokens`` ends a reply, as in ``generate``.
    """
    lists = (ends if isinstance(ends, list | tuple) else [ends] for ends in stated if ends is not None)
    return tuple(token for tokens in lists for token in tokens)
