"""A policy that samples with vLLM, with the adapter of the last step; transformers computes its gradients.

vLLM rounds differently and batches by arrival time: the replies of a seed may differ from those of
``sampler = "transformers"``, and in rare cases from one run to the next.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

from actors.engine.backend import BackendDied
from actors.engine.batching import Job
from actors.engine.chat_format import conversation
from orchestrator.learning.policy import Policy, SamplerDied
from orchestrator.learning.run_files import vllm_lora_rank
from orchestrator.learning.settings import Train, TrainError
from orchestrator.learning.states import SampledReply
from sweeps.package_models import resolve_source

try:
    from actors.engine.vllm.backend import VLLMBackend
    from actors.engine.vllm.rollouts import RolloutSampling, sample_replies
except ModuleNotFoundError:
    raise TrainError("sampler = \"vllm\" needs the package vllm: pip install 'proactive-sweep[vllm]'") from None


SEED_STEP = 2**20
"""Distance between the seeds of two questions: vLLM adds 1 for each further reply to a question."""


class VLLMPolicy(Policy):
    """A policy with a vLLM engine in processes of its own."""

    def __init__(self, train: Train) -> None:
        super().__init__(train)
        self.folder = TemporaryDirectory(prefix="adapters-")
        self.loop = asyncio.Runner()
        self.engine = VLLMBackend(engine_spec(train), Path(train.data))
        self.saved: tuple[int, Path] | None = None
        """Version and folder of the weights that were saved last."""

    def sample(
        self, jobs: Sequence[Job], counts: Sequence[int], temperature: float, seed: int
    ) -> list[list[SampledReply]]:
        """Sample with vLLM, greedy replies with transformers; raise SamplerDied if the engine died."""
        if temperature == 0:
            return super().sample(jobs, counts, temperature, seed)
        try:
            return self.loop.run(self._sample_all(jobs, counts, temperature, seed))
        except BackendDied as error:
            raise SamplerDied(
                f"vLLM's engine died: {error}; rerun the same command to resume from the last checkpoint"
            ) from None

    async def _sample_all(
        self, jobs: Sequence[Job], counts: Sequence[int], temperature: float, seed: int
    ) -> list[list[SampledReply]]:
        adapter = self._save_adapter()
        requests = (
            self._sample_one(job, count, temperature, seed + SEED_STEP * index, adapter)
            for index, (job, count) in enumerate(zip(jobs, counts, strict=True))
        )
        return list(await asyncio.gather(*requests))

    async def _sample_one(
        self, job: Job, count: int, temperature: float, seed: int, adapter: Path
    ) -> list[SampledReply]:
        """Sample ``count`` replies to one question."""
        chat = conversation(job.request.messages, lambda image: {"type": "image_pil", "image_pil": job.pictures[image]})
        sampling = RolloutSampling(count, temperature, seed, self.train.max_tokens)
        replies = []
        for reply in await sample_replies(self.engine, chat, sampling, adapter):
            tokens = self._cut(reply.tokens)
            replies.append(SampledReply(tokens, sum(reply.logprobs[: len(tokens)])))
        return replies

    def _save_adapter(self) -> Path:
        """Save the adapter once per step and return its folder, whose number identifies it to the engine."""
        version = sum(parameter._version for parameter in self.trained)
        if self.saved is None or self.saved[0] != version:
            number = 1 if self.saved is None else int(self.saved[1].name) + 1
            folder = Path(self.folder.name) / str(number)
            self.network.save_pretrained(folder)
            self.saved = (version, folder)
            rmtree(folder.with_name(str(number - 1)), ignore_errors=True)
        return self.saved[1]

    def close(self) -> None:
        """Close the engine and remove the adapters."""
        try:
            self.loop.run(self.engine.close())
        finally:
            self.loop.close()
            self.folder.cleanup()


def engine_spec(train: Train) -> Any:
    """Return the model's entry for the engine, with room for one adapter."""
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    options = {
        "enable_lora": True,
        "max_loras": 1,
        "max_lora_rank": vllm_lora_rank(train.lora.r),
        **train.model.options,
    }
    return resolve_source(train.model).model_copy(update={"options": options})
