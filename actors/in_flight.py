"""How many episodes a worker plays at once: what the entry says, else what its engine can answer at once.

Fewer leave an engine half empty; more than half as many again only wait in front of it, with their pictures in memory.
"""

from __future__ import annotations

from typing import NamedTuple

from sweeps.spec import ModelSpec

MAX_NUM_SEQS = 256
"""Sequences of one step of vLLM, unless the entry's ``options.max_num_seqs`` says otherwise."""
BATCH = 16
"""Rows of a batch of transformers, unless the entry's ``options.batch`` says otherwise."""
SERVICE = 64
"""Requests to a service, which paces itself below that; and episodes of a policy, which answers at once."""
BATCHED = 50_000
"""Episodes whose requests go through a service's Batch API: as many as one of its files takes."""
PROMPT_TOKENS = 3000
"""Of a typical prompt: one picture has 400 (Qwen2.5-VL) to 3,300 tokens (InternVL3) at 640 x 480, its question about 100."""
FEWEST = 4
"""Where a cache holds hardly a prompt: the next ones are prepared while it is answered."""
AHEAD = 2
"""One request more is prepared for each so many that an engine of vLLM answers at once: they are there when others end."""


class InFlight(NamedTuple):
    """What a worker plays at once, and why."""

    episodes: int
    reason: str

    def __str__(self) -> str:
        return f"plays {self.episodes:,} episodes at once ({self.reason})"


class Ready(NamedTuple):
    """What a worker says when it is ready."""

    lines: list[str]
    """About its devices, the order of loading, and how much it plays at once: for the log."""
    in_flight: int = 0
    """Episodes that it plays at once; 0 for policies, which need no company."""


def expected(model: ModelSpec) -> int:
    """What a worker of the model will play at once, as far as its entry tells: what leases are cut for before it is ready."""
    if model.in_flight is not None:
        return model.in_flight
    if model.backend == "vllm":
        return with_ahead(_sequences(model))
    if model.backend == "transformers":
        return 2 * int(model.options.get("batch", BATCH))
    return BATCHED if model.batch else SERVICE


def chosen(model: ModelSpec, cache_tokens: int | None = None) -> InFlight:
    """What a worker whose engine is loaded plays at once; ``cache_tokens``: what vLLM's key-value cache holds."""
    most = expected(model)
    if model.in_flight is not None:
        return InFlight(most, "in_flight of its entry")
    if model.backend == "transformers":
        return InFlight(most, "two batches: one is prepared while the other is answered")
    if model.backend != "vllm":
        return InFlight(most, "as many as a batch takes" if model.batch else "a service or a policy")
    reason = f"max_num_seqs {_sequences(model)} and those prepared ahead"
    if cache_tokens is None:
        return InFlight(most, reason)
    fitting = max(FEWEST, cache_tokens // PROMPT_TOKENS)
    cache = f"a cache of {cache_tokens:,} tokens at {PROMPT_TOKENS:,} a prompt"
    return InFlight(min(most, with_ahead(fitting)), f"{reason}, {cache}")


def with_ahead(sequences: int) -> int:
    """Requests that an engine of vLLM answers at once, and those that are prepared meanwhile."""
    return sequences + sequences // AHEAD


def _sequences(model: ModelSpec) -> int:
    return int(model.options.get("max_num_seqs", MAX_NUM_SEQS))
