"""The transformers backend: each row of a batch is answered as if it were alone (left padding, its own seeded noise).

It serves models that vLLM does not, and machines without vLLM. The waiting requests, at most one batch, are answered in a
thread; later requests join the next batch, so no episode waits for the slowest one. If enough requests for a full batch wait,
that batch is prepared during generation. Runs on one GPU, on several (``device_map``), or on the CPU.
"""

import asyncio
import gc
from collections.abc import Callable, Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from transformers import AutoProcessor

from actors.engine.backend import (
    Backend,
    BackendDied,
    Message,
    ModelInput,
    Overflow,
    Reply,
    Request,
    Unprocessable,
    images_of,
)
from actors.engine.batching import Job, PreparedBatch, similar_jobs
from actors.engine.chat_format import has_start_token
from actors.engine.decoding import Decoding, decoding
from actors.engine.hf.input_hashes import IDS, dtype_name, hash_tensors
from actors.engine.hf.network import all_end_tokens, forget_defaults, is_out_of_memory, load_network, pad_token
from actors.engine.hf.picture_cache import keep_processed_pictures
from actors.engine.hf.sampling import logits_processors
from actors.engine.hf.template import prompt_text
from actors.engine.image_loader import PictureLoader
from actors.engine.in_flight import BATCH_ROWS
from actors.engine.thoughts import ThoughtReader
from sweeps.spec import ModelSpec

REFUSALS = (Overflow, ValueError, TypeError, ArithmeticError)
"""Errors with which processors refuse a picture or a text."""
CLOSE_TIMEOUT_S = 30.0
"""Seconds that closing waits for the running batch."""


class TransformersBackend(Backend):
    """One model in this process that answers batch by batch."""

    scores_replies = True

    def __init__(self, model: ModelSpec, data: Path) -> None:
        self.model = ModelAndProcessor(model)
        self.name = model.name
        self.size = int(model.options.get("batch", BATCH_ROWS))
        """Rows per batch; halved for good when the device runs out of memory."""
        self.pictures = PictureLoader(data, model)
        self.waiting: list[Job] = []
        self.ended: BackendDied | None = None
        """The error that every further request raises; None while the model answers."""
        self.preparer = ThreadPoolExecutor(1, thread_name_prefix="prepare")
        self.generator = ThreadPoolExecutor(1, thread_name_prefix=f"generate-{model.name}")
        self.task: asyncio.Task[None] | None = None
        """Answers the waiting requests, and ends when none is left."""

    async def reply(self, request: Request) -> Reply:
        """Answer the request; raises Unprocessable, or BackendDied if the device is lost."""
        reply: Reply = await self.run(request)
        return reply

    async def run(self, request: Request, work: Callable[..., Any] | None = None) -> Any:
        """Return the reply, or ``work(ModelAndProcessor, PreparedBatch)`` of this request alone; raises as ``reply``."""
        if self.ended is not None:
            raise self.ended
        answer = asyncio.get_running_loop().create_future()
        job = Job(request, await self.pictures.load(request.messages), work, answer)
        if self.ended is not None:
            raise self.ended
        self.waiting.append(job)
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._work())
        return await answer

    async def model_input(self, request: Request) -> ModelInput:
        tensors = await asyncio.to_thread(self.model.inputs, [Job(request, await self.pictures.load(request.messages))])
        dtype, choices = self.model.network.dtype, self.model.decoding(request)
        stops = sorted(self.model.stops if choices.stops is None else choices.stops)
        received = {**asdict(choices), "stops": stops, "max_tokens": self.model.model.reply_limit(request.sampling)}
        return ModelInput(tuple(tensors[IDS][0].tolist()), hash_tensors(tensors, dtype), received, dtype_name(dtype))

    async def close(self) -> None:
        """End after the running batch and free the device; safe to call twice."""
        self._end(BackendDied(f"{self.name} is closed"))
        if self.task is not None and not self.task.done():
            await asyncio.wait({self.task}, timeout=CLOSE_TIMEOUT_S)
        for threads in (self.preparer, self.generator):
            threads.shutdown(wait=False, cancel_futures=True)
        self.pictures.close()
        self.model.release()

    # -- batches ------------------------------------------------------------------------------------------------------
    async def _work(self) -> None:
        """Answer batch by batch until no request waits; a full batch is prepared while another is answered."""
        upcoming: asyncio.Task[list[PreparedBatch]] | None = None
        while self.waiting or upcoming:
            batches = await (upcoming or self._prepare(self._take()))
            is_full = len(similar_jobs(self.waiting, self.size)) == self.size
            upcoming = asyncio.create_task(self._prepare(self._take())) if is_full else None
            for batch in batches:
                await self._answer(batch)

    def _take(self) -> list[Job]:
        """Take the oldest job and similar ones, at most one batch, without those of cancelled callers."""
        self.waiting = [job for job in self.waiting if job.open_answer]
        batch = similar_jobs(self.waiting, self.size)
        self.waiting = [job for job in self.waiting if job not in batch]
        return batch

    async def _prepare(self, jobs: list[Job]) -> list[PreparedBatch]:
        """Return a batch of the jobs, or one per job if the processor refuses them together; a job refused alone fails."""
        jobs, loop = [job for job in jobs if job.open_answer], asyncio.get_running_loop()
        if not jobs:
            return []
        try:
            return [PreparedBatch(jobs, await loop.run_in_executor(self.preparer, self.model.inputs, jobs))]
        except REFUSALS as refusal:
            if len(jobs) > 1:
                return [batch for job in jobs for batch in await self._prepare([job])]
            kind = Overflow if isinstance(refusal, Overflow) else Unprocessable
            self._fail(jobs, kind(f"{self.name}: {refusal}"))
        except Exception as bug:
            self._fail(jobs, bug)
        return []

    async def _answer(self, batch: PreparedBatch) -> None:
        jobs, work = batch.jobs, batch.jobs[0].work
        answer = partial(work, self.model) if work else self.model.replies
        try:
            answers = await asyncio.get_running_loop().run_in_executor(self.generator, answer, batch)
        except Exception as error:
            if not is_out_of_memory(error):
                self._fail(jobs, error)
                return
        else:
            for job, value in zip(jobs, [answers] if work else answers, strict=True):
                if waiting := job.open_answer:
                    waiting.set_result(value)
            return
        await self._answer_in_halves(jobs)  # outside the except block, whose traceback holds the tensors

    async def _answer_in_halves(self, jobs: list[Job]) -> None:
        """Answer in smaller batches: the device had no room for these jobs at once."""
        await asyncio.sleep(0)  # until then this task's wake-up holds the error, and the error the tensors
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if len(jobs) == 1:
            self._fail(jobs, Overflow(f"{self.name}: the device has no room for this request alone"))
            return
        half = (len(jobs) + 1) // 2
        self.size = min(self.size, half)
        for part in (jobs[:half], jobs[half:]):
            for batch in await self._prepare(part):
                await self._answer(batch)

    def _end(self, reason: BackendDied) -> None:
        """Refuse further requests and fail the waiting ones; the first reason stays."""
        self.ended = self.ended or reason
        waiting, self.waiting = self.waiting, []
        self._fail(waiting, self.ended)

    def _fail(self, jobs: Sequence[Job], error: Exception) -> None:
        """Raise the error in the callers of these jobs; end the backend if the device is lost."""
        if isinstance(error, torch.AcceleratorError):
            error = BackendDied(f"{self.name}: the device failed: {str(error).splitlines()[0]}")
            self._end(error)
        for job in jobs:
            if waiting := job.open_answer:
                waiting.set_exception(error)


class ModelAndProcessor:
    """Processor and network: conversations in, replies out; ``inputs`` may run in another thread than ``replies``."""

    def __init__(self, model: ModelSpec) -> None:
        self.model = model
        source = {"revision": model.revision or None, "trust_remote_code": model.trust_remote_code}
        self.processor = AutoProcessor.from_pretrained(model.source, **source, **model.processor)
        self.tokenizer = getattr(self.processor, "tokenizer", self.processor)
        self.tokenizer.padding_side = "left"
        self.decoder = deepcopy(self.tokenizer)  # a tokenizer must not decode while it encodes in another thread
        self.device = "cuda" if model.gpus and torch.cuda.is_available() else "cpu"
        if 0 < model.gpus < 1 and self.device == "cuda":
            torch.cuda.set_per_process_memory_fraction(model.gpus)
        self.network: Any = load_network(model, self.device, source)
        self.caching_processor = keep_processed_pictures(self.processor)
        self.stops = all_end_tokens(self.network, self.tokenizer)
        self.checkpoint_decoding = self.network.generation_config.to_diff_dict()
        """The checkpoint's generation configuration, before it is replaced."""
        forget_defaults(self.network, self.stops, pad_token(self.tokenizer))
        self.thoughts = ThoughtReader(self.decoder, self._question(), model.thinking) if model.thinking else None
        text = self.network.config.get_text_config()
        self.max_context: int | None = getattr(text, "max_position_embeddings", None)

    def _question(self) -> str:
        """Return a prompt of the chat template; empty without one."""
        with suppress(ValueError):
            return prompt_text(self.processor, [Message("user", "?")], self.model.chat)
        return ""

    def inputs(self, jobs: Sequence[Job]) -> Any:
        """Return padded tensors on the CPU; raises ``REFUSALS`` for a prompt that the model cannot take."""
        texts = [prompt_text(self.processor, job.request.messages, self.model.chat) for job in jobs]
        arguments: dict[str, Any] = {"text": texts, "padding": True, "return_tensors": "pt"}
        if not self.model.faithful and all(has_start_token(text, self.tokenizer) for text in texts):
            arguments["add_special_tokens"] = False
        pictures = [[job.pictures[ref] for ref in images_of(job.request.messages)] for job in jobs]
        if any(pictures):  # one flat list, as in the package: LLaVA-OneVision does not tile pictures of nested lists
            arguments["images"] = [picture for own in pictures for picture in own]
        try:
            tensors = self.caching_processor(**arguments)
        except ValueError:
            if len(jobs) == 1 or not any(pictures):
                raise
            tensors = self.caching_processor(**arguments | {"images": pictures})  # Gemma 3 and SmolVLM take batches so
        needed = int(tensors["attention_mask"].sum(dim=1).max())
        if self.max_context is not None and needed >= self.max_context and not self.model.exceeds_context:
            raise Overflow(f"the prompt has {needed} tokens, the model takes {self.max_context}")
        return tensors

    @torch.inference_mode()
    def replies(self, batch: PreparedBatch) -> list[Reply]:
        """Return one reply per job, in order."""
        inputs = self.on_device(batch.inputs)
        choices = self.decoding(batch.jobs[0].request)
        stops = self.stops if choices.stops is None else frozenset(choices.stops)
        seeds = [job.request.seed for job in batch.jobs]
        output = self.network.generate(
            **inputs,
            max_new_tokens=self.model.reply_limit(batch.jobs[0].request.sampling),
            eos_token_id=sorted(stops),
            logits_processor=logits_processors(choices, seeds, self.device, inputs["attention_mask"]),
        )
        if self.network.config.is_encoder_decoder:
            output = output[:, 1:]  # its start token, which for some is an end token, too
        new = _without_prompt(output, inputs["input_ids"]).tolist()
        prompts = inputs["attention_mask"].sum(dim=1).tolist()
        return [self._reply(job, stops, *row) for job, *row in zip(batch.jobs, new, prompts, strict=True)]

    def on_device(self, tensors: Any) -> dict[str, Any]:
        """Return the tensors on the device, with floats in the network's type."""
        inputs = tensors.to(self.device)
        return {k: v.to(self.network.dtype) if torch.is_floating_point(v) else v for k, v in inputs.items()}

    def decoding(self, request: Request) -> Decoding:
        """Return the decoding parameters of a request; raises Unprocessable."""
        model = self.model
        return decoding(request.sampling, self.checkpoint_decoding, model.repetition_penalty, model.faithful)

    def _reply(self, job: Job, stops: Container[int], tokens: list[int], prompt: int) -> Reply:
        """Return the reply up to its first end token, which counts as one of its tokens."""
        end = next((index for index, token in enumerate(tokens) if token in stops), None)
        length, finish = (len(tokens), "length") if end is None else (end + 1, "stop")
        text, thought, seconds = self.decode(tokens[:end]), "", perf_counter() - job.created
        if self.thoughts is not None:
            limit = job.request.sampling.max_tokens
            thought, answer, finish = self.thoughts.read(text, tokens[:end], finish, limit)
            text = self.thoughts.clean(answer)
        return Reply(text, prompt, length, finish, seconds, cached_tokens=0, thought=thought)

    def decode(self, tokens: list[int]) -> str:
        """Return the text of tokens, without an incomplete character at its end, which vLLM omits too."""
        skip = self.thoughts is None
        text: str = self.decoder.decode(tokens, skip_special_tokens=skip, clean_up_tokenization_spaces=True)
        return text.rstrip("\ufffd")

    def release(self) -> None:
        """Free the device; safe to call twice."""
        self.network = None
        gc.collect()  # on several devices, its hooks refer to it
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _without_prompt(output: torch.Tensor, prompt: torch.Tensor) -> torch.Tensor:
    """Return the new tokens; most models repeat the prompt before them, some do not."""
    length = prompt.shape[1]
    repeated = output.shape[1] >= length and torch.equal(output[:, :length], prompt)
    return output[:, length:] if repeated else output
