"""The Ray actor owns its engines from start to end; Ray never replays its streams (that would lose and double episodes)."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import ray

from actors.crew import Book, Crew
from actors.engines import engine
from sweeps.spec import ModelSpec

log = logging.getLogger(__name__)


@ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)
class Worker:
    """Plays leases of one group of models on the devices Ray gave it."""

    def __init__(self, book: Book, models: Sequence[ModelSpec], data: str) -> None:
        self.backends = {model.name: engine(model, Path(data)) for model in models}
        self.crew = Crew(book, self.backends, in_flight=max(model.in_flight for model in models))

    async def ready(self) -> dict[str, Any]:
        """Answers once the engines are loaded: where this worker lives and which devices it sees."""
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "node": ray.get_runtime_context().get_node_id(),
            "devices": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        }

    async def play(self, ordinals: Sequence[int]) -> AsyncIterator[dict[str, Any]]:
        """Stream of blocks (see ``actors.rows.Block.content``) until every leased episode is out."""
        async for block in self.crew.play(ordinals):
            yield block.content()

    async def close(self) -> None:
        """Release every engine; the driver kills the actor afterwards."""
        for backend in self.backends.values():
            await backend.close()
