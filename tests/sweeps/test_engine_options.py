"""Options that can run code need ``unsafe_options = true`` in the model's entry."""

from __future__ import annotations

from typing import Any

import pytest

from sweeps.engine_options import SAFE, unsafe_options
from sweeps.load import build
from sweeps.model import ModelSpec
from sweeps.registry import judges, registry
from sweeps.sweep_file import SweepError

ATTEMPTS = [
    ("vllm", "options", {"trust_remote_code": True}),
    ("vllm", "options", {"model": "evil/model"}),
    ("vllm", "options", {"worker_extension_cls": "evil.Worker"}),
    ("vllm", "options", {"hf_overrides": {"auto_map": {"AutoModel": "evil.Model"}}}),
    ("vllm", "options", {"distributed_executor_backend": "evil.Executor"}),
    ("vllm", "options", {"compilation_config": {"backend": "evil.compile"}}),
    ("vllm", "options", {"load_format": "pt"}),
    ("transformers", "options", {"attn_implementation": "evil/kernel"}),
    ("transformers", "options", {"trust_remote_code": True}),
    ("transformers", "options", {"quantization_config": {"quant_method": "evil"}}),
    ("transformers", "processor", {"trust_remote_code": True}),
    ("vllm", "processor", {"image_processor_type": "Evil"}),
    ("vllm", "processor", {"size": {"auto_map": "evil.Processor"}}),
]


def sweep(**entry: Any) -> Any:
    return build({"model": [{"name": "m", "source": "org/m", **entry}], "data": "data"}, "mine.toml")


def unsafe_keys(model: ModelSpec) -> list[str]:
    return unsafe_options(model.backend, model.options, model.processor)


@pytest.mark.parametrize(("backend", "table", "attempt"), ATTEMPTS)
def test_an_option_that_can_run_code_is_refused_by_its_key(backend: str, table: str, attempt: dict[str, Any]) -> None:
    key = f"{table}.{next(iter(attempt))}"
    with pytest.raises(SweepError, match=f"{key} of m can run code that nobody checked; .*unsafe_options = true"):
        sweep(backend=backend, **{table: attempt})

    (model,) = sweep(backend=backend, unsafe_options=True, **{table: attempt}).models
    assert getattr(model, table) == attempt and unsafe_keys(model) == [key]


def test_ordinary_options_and_every_shipped_model_pass() -> None:
    options = {"max_model_len": 4096, "load_format": "safetensors", "limit_mm_per_prompt": {"image": 3}}
    (model,) = sweep(options=options, processor={"max_pixels": 9, "size": {"longest_edge": 512}}).models

    assert not unsafe_keys(model)
    assert not [name for name, entry in {**registry(), **judges()}.items() if unsafe_keys(entry)]


@pytest.mark.slow
@pytest.mark.long
def test_every_safe_option_is_one_of_the_engine() -> None:
    """A misspelled name in the list would refuse what a user needs."""
    arguments = pytest.importorskip("vllm.engine.arg_utils", reason="the extra 'vllm' is not installed").AsyncEngineArgs
    engine = set(arguments.__dataclass_fields__)

    assert SAFE["vllm"] - engine - {"batch_invariant"} == set()
    assert ModelSpec(name="m", source="m").unsafe_options is False
