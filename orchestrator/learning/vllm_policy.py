"""A policy whose replies vLLM samples, with the adapter as the last step left it; transformers computes its gradients.

The two programs round differently, and vLLM batches by the moment at which a question arrives: the replies of a seed may differ
from those of ``sampler = "transformers"``, and in rare cases from one run to the next.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

from actors.embedded import resolve_embedded
from actors.engine.backend import BackendDied
from actors.engine.batching import Job
from actors.engine.chat_format import conversation
from orchestrator.learning.policy import Policy, SamplerDied
from orchestrator.learning.run_files import rank_of_vllm
from orchestrator.learning.settings import Train, TrainError
from orchestrator.learning.states import SampledReply

try:
    from actors.engine.vllm.backend import VLLMBackend
    from actors.engine.vllm.rollouts import RolloutSampling, sample_replies
except ModuleNotFoundError:
    raise TrainError("sampler = \"vllm\" needs the package vllm: pip install 'proactive-sweep[vllm]'") from None


SEEDS_APART = 2**20
"""Between the seeds of two questions: vLLM counts on from a question's seed for each further reply to it."""


class VLLMPolicy(Policy):
    """``Policy`` with an engine beside it, in processes of its own."""

    def __init__(self, train: Train) -> None:
        super().__init__(train)
        self.folder = TemporaryDirectory(prefix="adapters-")
        self.loop = asyncio.Runner()
        self.engine = VLLMBackend(served(train), Path(train.data))
        self.saved: tuple[int, Path] | None = None
        """Version of the weights that were saved last, and where."""

    def sampled(
        self, jobs: Sequence[Job], counts: Sequence[int], temperature: float, seed: int
    ) -> list[list[SampledReply]]:
        """As ``Policy.sampled``, raising SamplerDied where the engine is gone; greedy replies are transformers'."""
        if temperature == 0:
            return super().sampled(jobs, counts, temperature, seed)
        try:
            return self.loop.run(self._sampled(jobs, counts, temperature, seed))
        except BackendDied as gone:
            raise SamplerDied(
                f"vLLM's engine is gone: {gone}; the same command goes on from the last checkpoint"
            ) from None

    async def _sampled(
        self, jobs: Sequence[Job], counts: Sequence[int], temperature: float, seed: int
    ) -> list[list[SampledReply]]:
        adapter = self._adapter()
        requests = (
            self._asked(job, count, temperature, seed + SEEDS_APART * folder, adapter)
            for folder, (job, count) in enumerate(zip(jobs, counts, strict=True))
        )
        return list(await asyncio.gather(*requests))

    async def _asked(self, job: Job, count: int, temperature: float, seed: int, adapter: Path) -> list[SampledReply]:
        """``count`` replies to one question."""
        chat = conversation(job.request.messages, lambda image: {"type": "image_pil", "image_pil": job.pictures[image]})
        how = RolloutSampling(count, temperature, seed, self.train.max_tokens)
        replies = []
        for reply in await sample_replies(self.engine, chat, how, adapter):
            tokens = self._ended(reply.tokens)
            replies.append(SampledReply(tokens, sum(reply.logprobs[: len(tokens)])))
        return replies

    def _adapter(self) -> Path:
        """The folder of the adapter as it is now, saved once a step; the engine knows it by its number."""
        version = sum(parameter._version for parameter in self.trained)
        if self.saved is None or self.saved[0] != version:
            number = 1 if self.saved is None else int(self.saved[1].name) + 1
            folder = Path(self.folder.name) / str(number)
            self.network.save_pretrained(folder)
            self.saved = (version, folder)
            rmtree(folder.with_name(str(number - 1)), ignore_errors=True)
        return self.saved[1]

    def close(self) -> None:
        """End the engine and leave nothing behind."""
        try:
            self.loop.run(self.engine.close())
        finally:
            self.loop.close()
            self.folder.cleanup()


def served(train: Train) -> Any:
    """The model's entry as the engine gets it: with room for one adapter, and no answer of it kept from an earlier one."""
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    options = {"enable_lora": True, "max_loras": 1, "max_lora_rank": rank_of_vllm(train.lora.r), **train.model.options}
    return resolve_embedded(train.model).model_copy(update={"options": options})
