"""The vLLM backend: a dead, hung or unreachable engine fails every request within seconds; other errors fail one request.

Facts behind the choices (vLLM 0.32, from its sources and from measurements on CPU):

- AsyncLLM's default usage context limits batches to 128 sequences and 2,048 tokens on any GPU, so we always set both limits.
- A picture's ``uuid`` is its identity in every cache: it is made of the file's content, crop and size. The renderer gets the
  pixels each time.
- Front end and engine keep two picture caches in step by the order of requests: one thread renders them all, and nothing
  is awaited between rendering and submitting. If the caches still differ, a request ends with reason ``error``, and rendering
  it again fixes it.
- ``check_health`` detects only a dead engine; a utility call with a timeout also detects a hung one.
- Multimodal processors add a start token, which must be turned off if the chat template writes one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import psutil
from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.exceptions import VLLMClientError, VLLMValidationError
from vllm.lora.request import LoRARequest
from vllm.renderers import renderer_from_config
from vllm.renderers.params import ChatParams
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

from actors.engine.backend import Backend, BackendDied, ModelInput, Overflow, Reply, Request, Unprocessable, images_of
from actors.engine.chat_format import Chat, Part, conversation, template_variables
from actors.engine.decoding import decoding
from actors.engine.hf.network import adapter_folder
from actors.engine.image_loader import PictureLoader, thread_count
from actors.engine.in_flight import with_prepared_ahead
from actors.engine.request_pipeline import RequestPipeline
from actors.engine.vllm import parsers
from actors.engine.vllm.model_input import SentPictures, count_pictures, describe_input
from actors.engine.vllm.parameters import engine_arguments, sampling_params, use_all_cores_but_one
from envs.tool_calls import Function
from envs.types import ImageRef
from sweeps.spec import ModelSpec

RESENDS = 4
"""Times a request is rendered again after the engine lost its picture."""
WATCHDOG_INTERVAL_S, WATCHDOG_TIMEOUT_S, WATCHDOG_TIMEOUT_CPU_S = 3.0, 30.0, 120.0
"""Seconds between two health checks of the engine, and to wait for an answer (a CPU has long steps)."""
CLOSE_TIMEOUT_S = 3.0
"""Seconds for the engine to shut down by itself; the driver waits for five."""
REQUEST_TIMEOUT_S, SLOWEST_TOKENS_PER_S = 300.0, 4.0
"""A request is lost after so many seconds, plus the time that ``max_tokens`` take at the slowest rate (tokens per second)."""
REFUSALS = (VLLMClientError, ValueError, TypeError, ArithmeticError)
"""Errors with which renderers and processors refuse an input."""
MakePrompt = Callable[[], Awaitable[Any]]
MakeParams = Callable[[], SamplingParams]


class VLLMBackend(Backend):
    """One engine in child processes for hundreds of concurrent requests, bound to the event loop of the first one."""

    scores_replies = True

    def __init__(self, model: ModelSpec, data: Path, engine: Any = None) -> None:
        """Start an engine, unless ``engine`` is given (by ``open_without_engine``)."""
        self.name, self.penalty, self.faithful = model.name, model.repetition_penalty, model.faithful
        fixed = {"add_generation_prompt": True, "continue_final_message": False, "tokenize": False}
        self.chat = fixed | template_variables(model.chat)
        arguments = engine_arguments(model)
        args = AsyncEngineArgs(**arguments)
        use_all_cores_but_one()
        self.engine = engine or AsyncLLM.from_engine_args(args, True, UsageContext.LLM_CLASS)
        self.children = engine_processes(self.engine)
        self.lora = LoRARequest(model.lora, 1, adapter_folder(model)) if model.lora else None
        renderer = self.engine.renderer
        self.template = ChatParams(chat_template_kwargs=self.chat)
        renderer.warmup(self.template)
        wants_start = not parsers.writes_start_token(renderer, self.template) or model.faithful
        adds_tokens = wants_start and parsers.processor_adds_tokens(renderer)
        self.tokens = renderer.default_chat_tok_params.with_kwargs(add_special_tokens=adds_tokens)
        self.calls = parsers.ToolCalls(model, renderer, self.template) if model.calls_natively else None
        self.thoughts, self.reply_limit = parsers.open_thoughts(model, renderer, self.template), model.reply_limit
        self.shares_pictures = arguments["enable_prefix_caching"] or arguments.get("mm_processor_cache_gb") != 0
        self.checkpoint_decoding = self.engine.model_config.try_get_generation_config()
        """The checkpoint's generation configuration, which the engine itself does not follow."""
        self.pictures = PictureLoader(data, model)
        self.prompts = RequestPipeline(self._open, lambda opened: self.render(*opened), thread_count())
        self.slots = asyncio.Semaphore(with_prepared_ahead(arguments["max_num_seqs"]))
        self.numbers = count()
        self.in_flight: set[asyncio.Timeout] = set()
        """The timeout of each request in flight, which ``_die`` brings forward."""
        self.silence = WATCHDOG_TIMEOUT_S if model.gpus else WATCHDOG_TIMEOUT_CPU_S
        """Seconds without an answer after which the engine counts as hung."""
        self.dead: BackendDied | None = None
        """The error that every further request raises; None while the engine lives."""
        self.watch: asyncio.Task[None] | None = None

    async def reply(self, request: Request) -> Reply:
        """Answer the request; raises Unprocessable, or BackendDied at once if the engine is gone or hung."""
        choices = decoding(request.sampling, self.checkpoint_decoding, self.penalty, self.faithful)
        limit = self.reply_limit(request.sampling)
        calls = self.calls if request.tools else None

        def make_params() -> SamplingParams:
            skip_special = calls.request(request.tools).skip_special_tokens if calls else True
            return sampling_params(choices, limit, request.seed, skip_special and self.thoughts is None)

        output, pictures, seconds = await self.generate(
            lambda: self.prompts.prepare(request), make_params, limit, self.lora
        )
        answer = output.outputs[0]
        thought, text, finish = "", answer.text, answer.finish_reason
        if self.thoughts:
            tokens = answer.token_ids[:-1] if finish == "stop" else answer.token_ids
            thought, text, finish = self.thoughts.read(text, tokens, finish, request.sampling.max_tokens)
        text = calls.read(text, request.tools) if calls else text
        return Reply(
            self.thoughts.clean(text) if self.thoughts else text,
            len(output.prompt_token_ids), len(answer.token_ids), finish, seconds, thought=thought,
            cached_tokens=output.num_cached_tokens, pictures=pictures.pictures, cached_pictures=pictures.cached,
        )  # fmt: skip

    async def generate(
        self, prompt: MakePrompt, make_params: MakeParams, max_tokens: int, lora: LoRARequest | None
    ) -> tuple[Any, SentPictures, float]:
        """Return the finished output, the pictures sent, and the seconds it took; raises as ``reply``.

        ``prompt`` and ``make_params`` are called for each attempt, because the engine may change what they return.
        """
        if self.dead is not None:
            raise self.dead
        if self.watch is None:
            self.watch = asyncio.create_task(self._watch())
        seconds = REQUEST_TIMEOUT_S + max_tokens / SLOWEST_TOKENS_PER_S
        try:
            async with self.slots, asyncio.timeout(seconds) as timeout:
                start = perf_counter()
                self.in_flight.add(timeout)
                try:
                    if self.dead is not None:
                        raise self.dead
                    output, pictures = await self._submit_until_answered(prompt, make_params, lora)
                finally:
                    self.in_flight.remove(timeout)
        except TimeoutError:
            raise self.dead or self._die(f"a request got no answer in {seconds:.0f} s") from None
        return output, pictures, perf_counter() - start

    @property
    def cache_tokens(self) -> int | None:
        """Capacity of the key-value cache in tokens; None if this vLLM does not report it."""
        tokens: int | None = getattr(self.engine.vllm_config.cache_config, "kv_cache_size_tokens", None)
        return tokens

    async def model_input(self, request: Request) -> ModelInput:
        self.engine.renderer.clear_mm_cache()  # a cached picture has no pixels
        prompt = await self.prompts.prepare(request)
        self.engine.renderer.clear_mm_cache()  # the engine never gets this prompt: clear it to keep both caches in step
        choices = decoding(request.sampling, self.checkpoint_decoding, self.penalty, self.faithful)
        parameters = sampling_params(choices, self.reply_limit(request.sampling), request.seed, self.thoughts is None)
        return describe_input(prompt, parameters, self.engine.model_config)

    async def close(self) -> None:
        """Shut the engine down with all its child processes; safe to call twice."""
        self._die("it was closed")
        if self.watch is not None:
            self.watch.cancel()
        if (handler := self.engine.output_handler) is not None:
            handler.cancel()  # else it reports the shutdown as a failure
        self.pictures.close()
        self.prompts.close()
        await asyncio.to_thread(self._end_processes)

    def _open(self, request: Request) -> tuple[Chat, tuple[Function, ...]]:
        keyed = {ref: self.pictures.renderer.keyed_picture(ref) for ref in dict.fromkeys(images_of(request.messages))}

        def part(image: ImageRef) -> Part:
            pixels, key = keyed[image]
            # vLLM stores the processed form of a picture with a uuid, even if both caches are off.
            return {"type": "image_pil", "image_pil": pixels, "uuid": key if self.shares_pictures else None}

        return conversation(request.messages, part), request.tools

    def render(self, chat: Chat, functions: Sequence[Function] = ()) -> Any:
        """Return the prompt: template, tokens and preprocessed pictures; raises what the renderer raises."""
        template = parsers.add_functions(self.template, functions) if functions else self.template
        _, (prompt,) = self.engine.renderer.render_chat([chat], template, self.tokens)
        return prompt

    # -- one request --------------------------------------------------------------------------------------------------
    async def _submit_until_answered(
        self, prompt: MakePrompt, make_params: MakeParams, lora: LoRARequest | None
    ) -> tuple[Any, SentPictures]:
        """Return the finished output and the pictures sent; render again if the engine's cache lost a picture."""
        try:
            for _ in range(1 + RESENDS):
                rendered, number = await prompt(), f"{self.name}-{next(self.numbers)}"
                pictures = count_pictures(rendered)
                stream = self.engine.generate(rendered, make_params(), number, lora_request=lora)
                outputs = [output async for output in stream]
                if not outputs or not outputs[-1].finished:
                    raise self._die("a request ended without an answer")
                if all(reply.finish_reason in ("stop", "length") for reply in outputs[-1].outputs):
                    return outputs[-1], pictures
        except EngineDeadError:
            raise self._die("the engine process died") from None
        except EngineGenerateError as wrapped:
            if isinstance(wrapped.__cause__, REFUSALS):
                raise _refusal_error(self.name, wrapped.__cause__) from None
            raise
        except REFUSALS as refusal:
            raise _refusal_error(self.name, refusal) from None
        raise BackendDied(f"{self.name}: the engine lost the same request {1 + RESENDS} times")

    # -- life and death -----------------------------------------------------------------------------------------------
    async def _watch(self) -> None:
        while self.dead is None:
            try:
                await asyncio.wait_for(self.engine.is_sleeping(), self.silence)
                await asyncio.sleep(WATCHDOG_INTERVAL_S)
            except TimeoutError:
                self._die(f"the engine hangs: no sign of life in {self.silence:.0f} s")
            except Exception as problem:  # a dying engine may raise any error
                self._die(f"the engine process died: {type(problem).__name__}")

    def _die(self, reason: str) -> BackendDied:
        """Mark the engine as dead and end every request in flight; the first reason stays."""
        if self.dead is None:
            self.dead = BackendDied(f"{self.name}: {reason}")
            for timeout in self.in_flight:
                with suppress(RuntimeError):  # it is expiring right now
                    timeout.reschedule(0.0)
        return self.dead

    def _end_processes(self) -> None:
        self.engine.shutdown(timeout=CLOSE_TIMEOUT_S)
        running = [child for child in self.children if child.is_running()]
        for child in running:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(running, timeout=10.0)


def open_without_engine(model: ModelSpec, data: Path) -> VLLMBackend:
    """Return a backend without engine and weights, ready in seconds; ``model_input`` and ``close`` work, ``reply`` does not."""
    config = AsyncEngineArgs(**engine_arguments(model)).create_engine_config(UsageContext.LLM_CLASS)
    renderer = renderer_from_config(config)
    renderer.warmup = lambda template: None  # skipped: it renders the largest pictures to speed up the first request
    resources = SimpleNamespace(engine_manager=SimpleNamespace(processes=()))
    front = SimpleNamespace(
        renderer=renderer, model_config=config.model_config, engine_core=SimpleNamespace(resources=resources),
        output_handler=None, shutdown=lambda timeout: renderer.shutdown(),
    )  # fmt: skip
    return VLLMBackend(model, data, front)


def engine_processes(engine: AsyncLLM) -> list[psutil.Process]:
    """Return the engine's processes and their children, which must all end even if their parent dies first."""
    heads = [psutil.Process(process.pid) for process in engine.engine_core.resources.engine_manager.processes]
    return [*heads, *(child for head in heads for child in head.children(recursive=True))]


def _refusal_error(name: str, refusal: BaseException | None) -> Unprocessable:
    """Return Overflow if a refused input exceeds a limit of the model, else Unprocessable.

    vLLM 0.32 sets ``parameter`` except for a prompt that is too long because of its pictures (``InputProcessor``).
    """
    is_overflow = isinstance(refusal, VLLMValidationError) and (
        refusal.parameter in ("input_tokens", "input_text", "image") or "maximum model length" in str(refusal)
    )
    return (Overflow if is_overflow else Unprocessable)(f"{name}: {refusal}")
