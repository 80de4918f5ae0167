"""The vLLM backend: an engine that is gone, hung or out of reach fails every request in seconds; others fail alone.

Facts behind the choices (vLLM 0.32, read in its sources and measured on CPU):

- The default context of AsyncLLM batches 128 sequences and 2,048 tokens on any GPU, so both limits are always stated.
- A picture's ``uuid`` is its identity in every cache, as it stands: it names folder, file, crop and size, and the
  pixels go along each time.
- Front end and engine keep two picture caches in step by the order of requests: one thread renders them all, and nothing
  is awaited between rendering and handing over. When they still drift apart, a request ends with reason ``error``;
  rendered again, it is fine.
- ``check_health`` sees a dead engine only. A timed utility call sees a hung one.
- Multimodal processors add a second start token unless they are told that the chat template has written it; a template
  that writes none needs theirs.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import psutil
from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.exceptions import VLLMClientError, VLLMValidationError
from vllm.lora.request import LoRARequest
from vllm.renderers.params import ChatParams
from vllm.sampling_params import RequestOutputKind
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

from actors.backend import BackendDied, Overflow, Reply, Request, Unprocessable
from actors.chat_format import Chat, Part, conversation, has_start_token
from actors.decoding import Decoding, decoding
from actors.gpu_check import DEFAULT_GPU_SHARE
from actors.hf_adapter import adapter
from actors.image_loader import Pictures, threads
from actors.in_flight import MAX_NUM_SEQS, with_ahead
from actors.request_pipeline import RequestPipeline
from actors.vllm_on_cpu import one_process, threads_of_engine
from actors.vllm_tools import ToolCalls, takes_functions, with_functions
from envs.tool_calls import Function
from envs.types import ImageRef
from sweeps.spec import ModelSpec

MAX_NUM_BATCHED_TOKENS = 16384
"""Tokens of one step, unless the entry's options say otherwise."""
MAX_IMAGES = 512
"""Pictures of a prompt where the entry names no bound: more than the longest sample can show (VSOD has about 230 frames)."""
UNUSED = {"video": 0, "audio": 0}
"""What no scenario shows: else a model that takes films reserves its encoder's cache for the longest (Qwen2.5-VL: 114,688 tokens
instead of 16,384), and loads what hears. vLLM 0.32 reads the limits of those modalities alone that a model's processor names
(``allowed_mm_limits`` of ``vllm.multimodal.processing``), and no others."""
RESENDS = 4
"""Times a request is rendered anew after the engine lost its picture."""
WATCHDOG_INTERVAL_S, WATCHDOG_TIMEOUT_S, WATCHDOG_TIMEOUT_CPU_S = 3.0, 30.0, 120.0
"""Seconds between two calls that ask whether the engine lives, and that an answer may take (a CPU has long steps)."""
CLOSE_TIMEOUT_S = 3.0
"""Seconds that the engine gets to shut down by itself: the driver waits for five."""
REQUEST_TIMEOUT_S, SLOWEST = 300.0, 4.0
"""A request is lost after so many seconds, and one more for each ``SLOWEST`` tokens it may have."""
COLDEST = 0.01
"""The smallest temperature above 0 that vLLM takes (``_MAX_TEMP`` of ``vllm.sampling_params``)."""
REFUSALS = (VLLMClientError, ValueError, TypeError, ArithmeticError)
"""What renderers and processors raise for an input that they cannot take."""


class Sent(NamedTuple):
    """The pictures of one prompt."""

    pictures: int
    cached: int
    """Those that the engine's process has from an earlier request: they are neither preprocessed nor sent again."""


class VLLMBackend:
    """One engine in child processes, asked by hundreds of episodes at once. Lives in the event loop that asks first."""

    def __init__(self, model: ModelSpec, data: Path, engine: Any = None) -> None:
        """``engine`` stands for one that is started, as ``actors.vllm_input`` does."""
        self.name = model.name
        self.chat = {"add_generation_prompt": True, "continue_final_message": False, "tokenize": False, **model.chat}
        arguments = engine_arguments(model)
        if model.beyond_context:
            os.environ["VLLM_ALLOW_LONG_MAX_MODEL_LEN"] = "1"
        args = AsyncEngineArgs(**arguments)
        with threads_of_engine():
            self.engine = engine or AsyncLLM.from_engine_args(args, True, UsageContext.LLM_CLASS)
        self.children = family(self.engine)
        self.lora = LoRARequest(model.lora, 1, adapter(model)) if model.lora else None
        renderer = self.engine.renderer
        self.template = ChatParams(chat_template_kwargs=self.chat)
        renderer.warmup(self.template)
        self.tokens = renderer.default_chat_tok_params.with_kwargs(
            add_special_tokens=not writes_start_token(self.engine, self.template)
        )
        self.calls = ToolCalls(model.tools, renderer.get_tokenizer()) if model.calls_natively else None
        if self.calls and not takes_functions(renderer, self.template):
            raise ValueError(
                f'the chat template of {model.source} takes no functions: write tools = "text" for {model.name}'
            )
        self.penalty = model.repetition_penalty
        self.choices = lru_cache(maxsize=64)(parameters)
        """vLLM copies what it gets before it writes into it (``InputProcessor.process_inputs``)."""
        self.own = self.engine.model_config.try_get_generation_config()
        """The checkpoint's generation configuration, which the engine itself does not follow."""
        self.pictures = Pictures(data, model)
        self.prompts = RequestPipeline(self._opened, self._with_functions, threads())
        self.room = asyncio.Semaphore(with_ahead(arguments["max_num_seqs"]))
        self.numbers = count()
        self.in_flight: dict[asyncio.Timeout, tuple[float, float]] = {}
        """What ends each request in flight when the engine dies -> when it is lost (``perf_counter``), after how many seconds."""
        self.silence = WATCHDOG_TIMEOUT_S if model.gpus else WATCHDOG_TIMEOUT_CPU_S
        self.dead: BackendDied | None = None
        self.watch: asyncio.Task[None] | None = None

    async def reply(self, request: Request) -> Reply:
        """Answer; raises Unprocessable, or BackendDied at once when the engine is gone or hung."""
        return await self.replied(request, lambda: self.prompts.prepared(request))

    async def replied(self, request: Request, prompt: Callable[[], Awaitable[Any]]) -> Reply:
        """As ``reply``; ``prompt`` gives what the request was rendered to."""
        how, sampling = decoding(request.sampling, self.own, self.penalty), request.sampling
        seed = 0 if is_greedy(how) else request.seed
        output, pictures, seconds = await self.generated(
            prompt,
            lambda: self.choices(how, sampling.max_tokens, seed, self._skips_special(request)),
            sampling.max_tokens,
            self.lora,
        )
        reply = _reply(output, pictures, seconds)
        if self.calls and request.tools:
            reply = replace(reply, text=self.calls.read(reply.text, request.tools))
        return reply

    def _skips_special(self, request: Request) -> bool:
        return self.calls.skips_special_tokens(request.tools) if self.calls and request.tools else True

    async def generated(
        self,
        prompt: Callable[[], Awaitable[Any]],
        choices: Callable[[], SamplingParams],
        max_tokens: int,
        lora: LoRARequest | None,
    ) -> tuple[Any, Sent, float]:
        """The engine's finished output, the pictures that were sent, and the seconds that it took; raises as ``reply``.

        Both functions are called once an attempt: the engine may write into what they give.
        """
        if self.dead is not None:
            raise self.dead
        if self.watch is None:
            self.watch = asyncio.create_task(self._watch())
        seconds = REQUEST_TIMEOUT_S + max_tokens / SLOWEST
        try:
            async with self.room, asyncio.timeout(None) as end:  # rescheduled by ``_die``
                began = perf_counter()
                self.in_flight[end] = (began + seconds, seconds)
                try:
                    if self.dead is not None:
                        raise self.dead
                    output, pictures = await self._insist(prompt, choices, lora)
                finally:
                    del self.in_flight[end]
        except TimeoutError:
            raise self.dead or self._die("a request got no answer") from None
        return output, pictures, perf_counter() - began

    @property
    def cache_tokens(self) -> int | None:
        """Tokens that the key-value cache holds; None where the engine does not tell."""
        found: int | None = getattr(self.engine.vllm_config.cache_config, "kv_cache_size_tokens", None)
        return found

    async def token_ids(self, request: Request) -> list[int]:
        """What the model reads, pictures expanded; raises what the renderer raises for a prompt that it refuses."""
        return list((await self.prompts.prepared(request))["prompt_token_ids"])

    async def forget(self) -> None:
        """Empty every cache of pictures and prompts; to be called while no request is in flight."""
        await self.engine.reset_mm_cache()
        await self.engine.reset_prefix_cache()
        await self.engine.reset_encoder_cache()

    async def close(self) -> None:
        """Shut the engine down and leave no child of it behind; safe to call twice."""
        self._die("it was closed")
        if self.watch is not None:
            self.watch.cancel()
        if (handler := self.engine.output_handler) is not None:
            handler.cancel()  # else it reports the end of its engine as a failure
        self.pictures.close()
        self.prompts.close()
        await asyncio.to_thread(self._end)

    def _opened(self, request: Request) -> tuple[Chat, tuple[Function, ...]]:
        pictures = self.pictures.opened(request.messages)
        return conversation(request.messages, lambda image: self._part(image, pictures[image])), request.tools

    def _with_functions(self, opened: tuple[Chat, tuple[Function, ...]]) -> Any:
        return self.rendered(*opened)

    def rendered(self, chat: Chat, functions: Sequence[Function] = ()) -> Any:
        """The prompt: template, tokens and preprocessed pictures; raises what the renderer raises."""
        template = with_functions(self.template, functions) if functions else self.template
        _, (prompt,) = self.engine.renderer.render_chat([chat], template, self.tokens)
        return prompt

    def _part(self, image: ImageRef, pixels: Any) -> Part:
        return {"type": "image_pil", "image_pil": pixels, "uuid": self.pictures.name(image)}

    # -- one request --------------------------------------------------------------------------------------------------
    async def _insist(
        self, prompt: Callable[[], Awaitable[Any]], choices: Callable[[], SamplingParams], lora: LoRARequest | None
    ) -> tuple[Any, Sent]:
        """The finished output, and what was sent; rendered anew when the engine's picture cache had lost a picture."""
        for _ in range(1 + RESENDS):
            output, pictures = await self._attempt(prompt, choices(), lora)
            if all(one.finish_reason in ("stop", "length") for one in output.outputs):
                return output, pictures
        raise BackendDied(f"{self.name}: the engine lost the same request {1 + RESENDS} times")

    async def _attempt(
        self, prompt: Callable[[], Awaitable[Any]], choices: SamplingParams, lora: LoRARequest | None
    ) -> tuple[Any, Sent]:
        try:
            ready = await prompt()
            pictures = sent(ready)
            number = f"{self.name}-{next(self.numbers)}"
            async for output in self.engine.generate(ready, choices, number, lora_request=lora):
                if output.finished:
                    return output, pictures
        except EngineDeadError:
            raise self._die("the engine process died") from None
        except EngineGenerateError as wrapped:
            if isinstance(wrapped.__cause__, REFUSALS):
                raise _refused(self.name, wrapped.__cause__) from None
            raise
        except REFUSALS as refusal:
            raise _refused(self.name, refusal) from None
        raise self._die("a request ended without an answer")

    # -- life and death -----------------------------------------------------------------------------------------------
    async def _watch(self) -> None:
        """Ask the engine for a sign of life every few seconds."""
        while self.dead is None:
            try:
                await asyncio.wait_for(self.engine.is_sleeping(), self.silence)
                self._end_if_lost()
                await asyncio.sleep(WATCHDOG_INTERVAL_S)
            except TimeoutError:
                self._die(f"the engine hangs: no sign of life in {self.silence:.0f} s")
            except Exception as problem:  # whatever a dying engine raises here, it cannot answer any more
                self._die(f"the engine process died: {type(problem).__name__}")

    def _end_if_lost(self) -> None:
        """An engine that lives and leaves a request without an answer for too long is dead too."""
        now = perf_counter()
        late = (seconds for when, seconds in self.in_flight.values() if when < now)
        if (seconds := next(late, None)) is not None:
            self._die(f"a request got no answer in {seconds:.0f} s")

    def _die(self, reason: str) -> BackendDied:
        """Nobody is answered any more; every request in flight is called in. The first reason stays."""
        if self.dead is None:
            self.dead = BackendDied(f"{self.name}: {reason}")
            for end in self.in_flight:
                with suppress(RuntimeError):  # it expires at this very moment
                    end.reschedule(0.0)
        return self.dead

    def _end(self) -> None:
        self.engine.shutdown(timeout=CLOSE_TIMEOUT_S)
        left = [child for child in self.children if child.is_running()]
        for child in left:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(left, timeout=10.0)


def engine_arguments(model: ModelSpec) -> dict[str, Any]:
    """The engine's flags: ours, then what the model's entry says."""
    flags: dict[str, Any] = {
        "model": model.source,
        "revision": model.revision or None,
        "tokenizer_revision": model.revision or None,
        "trust_remote_code": model.trust_remote_code,
        "dtype": model.dtype,
        "tensor_parallel_size": max(1, int(model.gpus)),
        "max_num_seqs": MAX_NUM_SEQS,
        "max_num_batched_tokens": MAX_NUM_BATCHED_TOKENS,
        "enable_prefix_caching": True,
        "interleave_mm_strings": True,
        "limit_mm_per_prompt": {"image": model.max_images or MAX_IMAGES, **UNUSED},
        "disable_log_stats": True,
        **one_process(),
    }
    if model.gpus > 1:
        # Left to itself, vLLM sees Ray's placement group and would reserve the GPUs a second time.
        flags["distributed_executor_backend"] = "mp"
    if 0 < model.gpus < 1:  # vLLM counts its own share alone, so two engines on one GPU must not both take 0.92
        flags["gpu_memory_utilization"] = DEFAULT_GPU_SHARE * model.gpus
    if model.processor:
        flags["mm_processor_kwargs"] = model.processor
    if model.lora:
        flags["enable_lora"] = True
    return {**flags, **{name: value for name, value in model.options.items() if name != "batch_invariant"}}


def writes_start_token(engine: AsyncLLM, template: ChatParams) -> bool:
    """Whether the model's chat template begins every conversation with the start token itself."""
    chat = [{"role": "user", "content": [{"type": "text", "text": "?"}]}]
    _, prompt = engine.renderer.render_messages(chat, template)
    return "prompt" not in prompt or has_start_token(prompt["prompt"], engine.renderer.get_tokenizer())


def is_greedy(how: Decoding) -> bool:
    """Whether the likeliest token is taken; below ``COLDEST``, too: vLLM would raise such a temperature to it (Qwen2.5-VL's
    file says 1e-6)."""
    return how.temperature < COLDEST


def parameters(how: Decoding, max_tokens: int, seed: int, skip_special: bool = True) -> SamplingParams:
    """Every decoding choice, so that no default of the engine can differ between models."""
    greedy = is_greedy(how)
    return SamplingParams(
        n=1,
        temperature=0.0 if greedy else how.temperature,
        top_p=1.0 if greedy else how.top_p,
        top_k=-1 if greedy else how.top_k,
        min_p=0.0,
        presence_penalty=0.0,
        frequency_penalty=0.0,
        repetition_penalty=how.repetition_penalty,
        seed=None if greedy else seed,
        stop=None,
        ignore_eos=False,
        max_tokens=max_tokens,
        min_tokens=0,
        skip_special_tokens=skip_special,
        output_kind=RequestOutputKind.FINAL_ONLY,
        skip_clone=True,  # a shallow copy is enough
    )


def family(engine: AsyncLLM) -> list[psutil.Process]:
    """The engine's processes and theirs: what must be gone in the end, even when their parent died before them."""
    heads = [psutil.Process(process.pid) for process in engine.engine_core.resources.engine_manager.processes]
    return [*heads, *(child for head in heads for child in head.children(recursive=True))]


def _refused(name: str, refusal: BaseException | None) -> Unprocessable:
    """What an input that vLLM does not take means: it outgrew the model, or it can never be answered.

    vLLM 0.32 names what is too much by ``parameter``, but for a prompt that pictures made too long (``InputProcessor``).
    """
    outgrown = isinstance(refusal, VLLMValidationError) and (
        refusal.parameter in ("input_tokens", "input_text", "image") or "maximum model length" in str(refusal)
    )
    return (Overflow if outgrown else Unprocessable)(f"{name}: {refusal}")


def sent(prompt: Any) -> Sent:
    """What a rendered prompt shows; of a picture that the engine has, its name alone goes along."""
    pictures = prompt.get("mm_kwargs", {}).get("image", ())
    return Sent(len(pictures), sum(picture is None for picture in pictures))


def _reply(output: Any, pictures: Sent, seconds: float) -> Reply:
    said, asked = output.outputs[0], len(output.prompt_token_ids)
    return Reply(
        said.text, asked, len(said.token_ids), said.finish_reason, seconds,
        cached_tokens=output.num_cached_tokens, pictures=pictures.pictures, cached_pictures=pictures.cached,
    )  # fmt: skip
