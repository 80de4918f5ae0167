"""The transformers backend: each row of a batch is answered as if it were alone (left padding, seeded noise of its own).

For what vLLM does not serve, and for machines without it. A thread takes whatever waits, at most a batch, and
generates; requests that come meanwhile join the next batch, so nobody waits for the slowest episode. While a full batch
waits, it is prepared beside the generation. Runs on one GPU, on several (``device_map``), or on the CPU.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoProcessor,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from actors.backend import BackendDied, Message, Overflow, Reply, Request, Unprocessable
from actors.batching import Job, Waiting
from actors.chat_format import Chat, conversation, has_start_token, marked
from actors.decoding import Decoding, decoding
from actors.hf_adapter import adapter
from actors.image_loader import Pictures
from actors.in_flight import BATCH
from envs.types import ImageRef
from sweeps.spec import ModelSpec

REFUSALS = (Overflow, ValueError, TypeError, ArithmeticError)
"""What processors raise for a picture or a text that they cannot take."""
CLOSE_TIMEOUT_S = 30.0
"""Seconds that closing waits for the running batch."""


@dataclass(frozen=True)
class Batch:
    """Jobs and the tensors that ask them."""

    jobs: list[Job]
    inputs: Any


class TransformersBackend:
    """One model in this process, asked batch by batch."""

    def __init__(self, model: ModelSpec, data: Path) -> None:
        self.mind = ModelAndProcessor(model)
        self.name = model.name
        self.size = int(model.options.get("batch", BATCH))
        """Rows of a batch; halves for good when the device has no room."""
        self.pictures = Pictures(data, model)
        self.waiting = Waiting()
        self.ahead = ThreadPoolExecutor(1, thread_name_prefix="prepare")
        self.thread = Thread(target=self._work, name=f"generate-{model.name}", daemon=True)
        self.thread.start()

    async def reply(self, request: Request) -> Reply:
        """Answer; raises Unprocessable, or BackendDied when the device is lost."""
        self.waiting.check()
        job = Job(request, await self.pictures.shown(request.messages))
        self.waiting.put(job)
        return await asyncio.wrap_future(job.answer)

    async def token_ids(self, request: Request) -> list[int]:
        """What the model reads, pictures expanded; raises what the processor raises for a prompt that it refuses."""
        job = Job(request, await self.pictures.shown(request.messages))
        tensors = await asyncio.to_thread(self.mind.inputs, [job])
        ids: list[int] = tensors["input_ids"][0].tolist()
        return ids

    async def close(self) -> None:
        """End the thread after its batch and free the device; safe to call twice."""
        self.waiting.close(BackendDied(f"{self.name} is closed"))
        await asyncio.to_thread(self.thread.join, CLOSE_TIMEOUT_S)
        self.ahead.shutdown(wait=False, cancel_futures=True)
        self.pictures.close()
        self.mind.forget()

    # -- the thread ---------------------------------------------------------------------------------------------------
    def _work(self) -> None:
        upcoming: Future[Batch | None] | None = None
        while True:
            batch = upcoming.result() if upcoming else self._prepared(self.waiting.take(self.size))
            upcoming = None
            if self.waiting.full(self.size):
                upcoming = self.ahead.submit(self._prepared, self.waiting.take(self.size))
            if batch is not None:
                self._answer(batch)
            elif upcoming is None and self.waiting.closed is not None:
                return

    def _prepared(self, jobs: list[Job]) -> Batch | None:
        """Tensors for those jobs that the processor takes; the others are answered with Unprocessable or Overflow."""
        jobs = [job for job in jobs if not job.answer.done()]
        try:
            return Batch(jobs, self.mind.inputs(jobs)) if jobs else None
        except REFUSALS as refusal:
            if len(jobs) == 1:
                kind = Overflow if isinstance(refusal, Overflow) else Unprocessable
                jobs[0].answer.set_exception(kind(f"{self.name}: {refusal}"))
                return None
        except Exception as bug:
            self._failed(jobs, bug)
            return None
        return self._apart(jobs)

    def _apart(self, jobs: list[Job]) -> Batch | None:
        """The processor refused these jobs together: without those that it refuses alone, or one at a time from now on."""
        alone = [batch for job in jobs if (batch := self._prepared([job])) is not None]
        good = [job for batch in alone for job in batch.jobs]
        if len(good) < len(jobs):
            return self._prepared(good)
        self.size = 1
        self.waiting.give_back(good[1:])
        return alone[0]

    def _answer(self, batch: Batch) -> None:
        try:
            replies = self.mind.replies(batch)
        except Exception as error:
            if not no_room(error):
                self._failed(batch.jobs, error)
                return
        else:
            for job, reply in zip(batch.jobs, replies, strict=True):
                job.answer.set_result(reply)
            return
        self._in_halves(batch.jobs)  # outside of the except block: its traceback would hold the tensors

    def _in_halves(self, jobs: list[Job]) -> None:
        """The device had no room for these jobs at once."""
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if len(jobs) == 1:
            jobs[0].answer.set_exception(Overflow(f"{self.name}: the device has no room for this request alone"))
            return
        half = (len(jobs) + 1) // 2
        self.size = min(self.size, half)
        for part in (jobs[:half], jobs[half:]):
            if (batch := self._prepared(part)) is not None:
                self._answer(batch)

    def _failed(self, jobs: Sequence[Job], error: Exception) -> None:
        """A bug travels up to its callers; a lost device ends the backend."""
        if isinstance(error, torch.AcceleratorError):
            error = BackendDied(f"{self.name}: the device failed: {str(error).splitlines()[0]}")
            self.waiting.close(error)
        for job in jobs:
            if not job.answer.done():
                job.answer.set_exception(error)


class ModelAndProcessor:
    """Processor and network: conversations in, replies out; ``inputs`` may run in another thread than ``replies``."""

    def __init__(self, model: ModelSpec) -> None:
        self.model = model
        source = {"revision": model.revision or None, "trust_remote_code": model.trust_remote_code}
        self.processor = AutoProcessor.from_pretrained(model.source, **source, **model.processor)
        self.tokenizer = getattr(self.processor, "tokenizer", self.processor)
        self.tokenizer.padding_side = "left"
        self.writer = deepcopy(self.tokenizer)  # a tokenizer must not write while it reads in another thread
        self.device = "cuda" if model.gpus and torch.cuda.is_available() else "cpu"
        if 0 < model.gpus < 1 and self.device == "cuda":
            torch.cuda.set_per_process_memory_fraction(model.gpus)
        self.network: Any = _network(model, self.device, source)
        self.stops = _stops(self.network, self.tokenizer)
        self.own = self.network.generation_config.to_diff_dict()
        """The checkpoint's generation configuration, before it is put aside."""
        _forget_defaults(self.network, self.stops, _pad(self.tokenizer))
        text = self.network.config.get_text_config()
        self.longest: int | None = getattr(text, "max_position_embeddings", None)

    def inputs(self, jobs: Sequence[Job]) -> Any:
        """Padded tensors on the CPU; raises ValueError, TypeError or ArithmeticError for what the model cannot take."""
        texts = [prompt_text(self.processor, job.request.messages, self.model.chat) for job in jobs]
        given: dict[str, Any] = {"text": texts, "padding": True, "return_tensors": "pt"}
        if all(has_start_token(text, self.tokenizer) for text in texts):
            given["add_special_tokens"] = False
        shown = [job.pictures[ref] for job in jobs for message in job.request.messages for ref in message.images]
        if shown:  # flat, as in the package: LLaVA-OneVision tiles no picture of a list in a list
            given["images"] = shown
        tensors = self.processor(**given)
        needed = int(tensors["attention_mask"].sum(dim=1).max())
        if self.longest is not None and needed >= self.longest and not self.model.beyond_context:
            raise Overflow(f"the prompt has {needed} tokens, the model takes {self.longest}")
        return tensors

    @torch.inference_mode()
    def replies(self, batch: Batch) -> list[Reply]:
        """One reply a job, in order."""
        inputs = batch.inputs.to(self.device)
        floats = {k: v.to(self.network.dtype) for k, v in inputs.items() if torch.is_floating_point(v)}
        sampling = batch.jobs[0].request.sampling
        made = self.network.generate(
            **{**inputs, **floats},
            max_new_tokens=sampling.max_tokens,
            logits_processor=steps(
                decoding(sampling, self.own, self.model.repetition_penalty),
                [job.request.seed for job in batch.jobs],
                self.device,
                inputs["attention_mask"],
            ),
        )
        new = _without_prompt(made, inputs["input_ids"]).tolist()
        prompts = inputs["attention_mask"].sum(dim=1).tolist()
        return [self._reply(job, *row) for job, *row in zip(batch.jobs, new, prompts, strict=True)]

    def _reply(self, job: Job, tokens: list[int], prompt: int) -> Reply:
        """Everything up to the first end token, which is counted and not written."""
        end = next((place for place, token in enumerate(tokens) if token in self.stops), None)
        text = self.writer.decode(tokens[:end], skip_special_tokens=True, clean_up_tokenization_spaces=True)
        text = text.rstrip("\ufffd")  # half a character at the end: vLLM holds it back, so this door does too
        counted = len(tokens) if end is None else end + 1
        finish = "length" if end is None else "stop"
        return Reply(text, prompt, counted, finish, perf_counter() - job.asked, cached_tokens=0)

    def forget(self) -> None:
        """Free the device; safe to call twice."""
        self.network = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def prompt_text(processor: Any, messages: Sequence[Message], chat: Mapping[str, Any]) -> str:
    """What the model reads, before pictures become tokens: the processor's own chat template applied.

    A model without template (InstructBLIP) takes one question and one picture, as they stand; ValueError for more.
    """
    tokenizer = getattr(processor, "tokenizer", processor)
    if not (tokenizer.chat_template or getattr(processor, "chat_template", None)):
        if len(messages) != 1 or len(messages[0].images) != 1:
            raise ValueError("a model without chat template takes one question with one picture")
        return messages[0].text

    def part(image: ImageRef) -> dict[str, Any]:
        return {"type": "image"}

    def rendered(chatted: Chat) -> str:
        holder = processor if getattr(processor, "chat_template", None) else tokenizer
        text: str = holder.apply_chat_template(chatted, tokenize=False, add_generation_prompt=True, **chat)
        return text

    try:
        return rendered(conversation(messages, part, plain=processor is tokenizer))
    except TypeError:  # a template that joins strings, as Phi-4's does, cannot join a list to them
        if (mark := getattr(processor, "image_token", None)) is None:
            raise
        return rendered(marked(messages, mark))


class Drawn(LogitsProcessor):
    """Adds Gumbel noise from each row's own generator: the largest score is then an exact draw of that row.

    So a batch can be sampled greedily, and a request's seed alone decides, whoever shares its batch.
    """

    def __init__(self, seeds: Sequence[int], device: str) -> None:
        self.chances = [torch.Generator(device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        noise = torch.empty_like(scores, dtype=torch.float32)
        for row, chance in zip(noise, self.chances, strict=True):
            row.exponential_(generator=chance)
        return scores.float() - noise.clamp_min_(1e-30).log_()


class Penalised(LogitsProcessor):
    """The repetition penalty, over prompt and reply (Keskar et al. 2019); what pads a row in a batch is no part of either."""

    def __init__(self, penalty: float, mask: torch.Tensor) -> None:
        self.penalty, self.width, self.padding = penalty, mask.shape[1], (mask == 0).sum(dim=1).tolist()

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.clone()
        prompted = input_ids.shape[1] >= self.width  # some models give the reply alone
        for row, ids, padding in zip(scores, input_ids, self.padding, strict=True):
            seen = ids[padding if prompted else 0 :].unique()
            row[seen] = torch.where(row[seen] < 0, row[seen] * self.penalty, row[seen] / self.penalty)
        return scores


def steps(how: Decoding, seeds: Sequence[int], device: str, mask: torch.Tensor) -> LogitsProcessorList:
    """What is done to the scores before the largest wins: the penalty alone when greedy. ``mask`` is 0 where rows are padded."""
    found: list[Any] = [] if how.repetition_penalty == 1.0 else [Penalised(how.repetition_penalty, mask)]
    if how.temperature > 0:
        found.append(TemperatureLogitsWarper(how.temperature))
        if how.top_k > 0:
            found.append(TopKLogitsWarper(how.top_k))
        if how.top_p < 1:
            found.append(TopPLogitsWarper(how.top_p))
        found.append(Drawn(seeds, device))
    return LogitsProcessorList(found)


def no_room(error: Exception) -> bool:
    """Whether a device, or the machine, ran out of memory."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def _network(model: ModelSpec, device: str, source: Mapping[str, Any]) -> Any:
    config = AutoConfig.from_pretrained(model.source, **source)
    pictured = type(config) in AutoModelForImageTextToText._model_mapping
    family = AutoModelForImageTextToText if pictured else AutoModelForCausalLM
    options = {name: value for name, value in model.options.items() if name != "batch"}
    if model.gpus > 1 and device == "cuda":
        options.setdefault("device_map", "auto")
    network = family.from_pretrained(model.source, dtype=model.dtype, **source, **options)
    if model.lora and options.get("device_map") != "meta":
        network.load_adapter(adapter(model), adapter_name="sweep")
        network.set_adapter("sweep")
    return (network if "device_map" in options else network.to(device)).eval()


def _stops(network: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a reply, whoever names it."""
    named = [
        getattr(holder, "eos_token_id", None)
        for holder in (network.generation_config, network.config.get_text_config(), tokenizer)
    ]
    return frozenset(t for one in named if one is not None for t in (one if isinstance(one, list | tuple) else [one]))


def _forget_defaults(network: Any, stops: frozenset[int], pad: int) -> None:
    """Drop the checkpoint's own sampling defaults, also those of an inner language model: greedy means greedy."""
    for module in network.modules():
        if getattr(module, "generation_config", None) is not None:
            module.generation_config = GenerationConfig(
                do_sample=False, num_beams=1, repetition_penalty=1.0, eos_token_id=sorted(stops), pad_token_id=pad
            )


def _pad(tokenizer: Any) -> int:
    """The padding token; models without one pad with the end token, which the mask hides."""
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return int(tokenizer.pad_token_id)


def _without_prompt(made: torch.Tensor, prompt: torch.Tensor) -> torch.Tensor:
    """The new tokens; most models give the prompt back before them, some do not."""
    length = prompt.shape[1]
    repeated = made.shape[1] >= length and torch.equal(made[:, :length], prompt)
    return made[:, length:] if repeated else made
