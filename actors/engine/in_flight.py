"""The number of episodes that a worker plays at once: the entry's, else derived from the requests its engine answers at once.

With fewer episodes than requests, the engine idles; beyond 1.5 episodes per request, episodes only wait and fill the memory.
"""

from collections.abc import Mapping
from typing import NamedTuple

from sweeps.spec import ModelSpec

MAX_NUM_SEQS = 256
"""Sequences of one step of vLLM, unless the entry sets ``options.max_num_seqs``."""
BATCH_ROWS = 16
"""Rows per batch of the transformers backend, unless the entry sets ``options.batch``."""
SERVICE_EPISODES = 64
"""Episodes of a service, whose ``Pace`` allows at most so many requests in flight, and of a policy."""
PROMPT_TOKENS = 3000
"""Tokens of a typical prompt: a picture of 640 x 480 has 400 (Qwen2.5-VL) to 3,300 (InternVL3), its question about 100."""
FEWEST_SEQUENCES = 4
"""Fewest sequences assumed, even if the cache hardly holds one prompt: the next prompts are prepared meanwhile."""
REQUESTS_PER_PREPARED = 2
"""While vLLM answers so many requests, one more is prepared, ready when one of them ends."""


class InFlight(NamedTuple):
    """The number of episodes that a worker plays at once, and the reason for it."""

    episodes: int
    reason: str

    def __str__(self) -> str:
        return f"plays {self.episodes:,} episodes at once ({self.reason})"


class StartReport(NamedTuple):
    lines: list[str]
    """Log lines about its devices, the order of loading, and the episodes it plays at once."""
    in_flight: int = 0
    """Episodes that it plays at once; 0 for policies, which are as fast one by one."""
    weights: Mapping[str, str] = {}
    """Model -> identity of the loaded weights (``weights_identity``); models without weights are left out."""


def choose_in_flight(model: ModelSpec, cache_tokens: int | None = None) -> InFlight:
    """Return the episodes in flight of an engine; ``cache_tokens`` is the size of vLLM's key-value cache.

    Before the worker is ready, that is unknown, and leases follow the entry alone.
    """
    if model.in_flight is not None:
        return InFlight(model.in_flight, "in_flight of its entry")
    if model.backend == "transformers":
        batch = int(model.options.get("batch", BATCH_ROWS))
        return InFlight(2 * batch, "two batches: one is prepared while the other is answered")
    if model.backend != "vllm":
        return InFlight(SERVICE_EPISODES, "a service or a policy")
    sequences = int(model.options.get("max_num_seqs", MAX_NUM_SEQS))
    episodes, reason = with_prepared_ahead(sequences), f"max_num_seqs {sequences} plus requests prepared ahead"
    if cache_tokens is None:
        return InFlight(episodes, reason)
    fitting = max(FEWEST_SEQUENCES, cache_tokens // PROMPT_TOKENS)
    cache = f"a cache of {cache_tokens:,} tokens at {PROMPT_TOKENS:,} a prompt"
    return InFlight(min(episodes, with_prepared_ahead(fitting)), f"{reason}, {cache}")


def with_prepared_ahead(sequences: int) -> int:
    """Return the number of requests that vLLM answers at once plus those prepared meanwhile."""
    return sequences + sequences // REQUESTS_PER_PREPARED
