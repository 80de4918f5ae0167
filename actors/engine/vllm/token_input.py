"""A vLLM backend that only renders prompts: its front end without engine and weights, ready in seconds."""

from pathlib import Path
from types import SimpleNamespace

from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.renderers import renderer_from_config
from vllm.usage.usage_lib import UsageContext

from actors.engine.vllm.backend import VLLMBackend
from actors.engine.vllm.parameters import engine_arguments
from sweeps.spec import ModelSpec


def open_without_engine(model: ModelSpec, data: Path) -> VLLMBackend:
    """Return a backend with the renderer of its engine; ``model_input`` and ``close`` work, ``reply`` does not."""
    config = AsyncEngineArgs(**engine_arguments(model)).create_engine_config(UsageContext.LLM_CLASS)
    renderer = renderer_from_config(config)
    renderer.warmup = lambda template: None  # skipped: it renders the largest pictures to speed up the first request
    manager = SimpleNamespace(processes=())
    front = SimpleNamespace(
        renderer=renderer,
        model_config=config.model_config,
        engine_core=SimpleNamespace(resources=SimpleNamespace(engine_manager=manager)),
        output_handler=None,
        shutdown=lambda timeout: renderer.shutdown(),
    )
    return VLLMBackend(model, data, front)
