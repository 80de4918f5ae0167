"""A model's entry: what follows from its fields, what is part of its key, and mistakes in sentences."""

import pytest
from pydantic import ValidationError

from sweeps.model import SPEED_ONLY, STAGES, ModelSpec


def entry(**fields):
    return ModelSpec(**{"name": "m", "source": "org/m", "architecture": "OtherForConditionalGeneration", **fields})


@pytest.mark.parametrize("backend", ["openai", "builtin", "human"])
def test_services_policies_and_people_have_no_gpu_and_no_input_of_ours(backend):
    model = entry(backend=backend)

    assert (model.gpus, model.is_local, model.input_version) == (0, False, 1)
    assert entry(backend=backend, gpus=1).gpus == 1 and "faithful" not in entry(backend=backend, faithful=True).identity


def test_an_address_means_a_service():
    model = entry(endpoint={"base_url": "http://h/v1"})

    assert (model.backend, model.gpus) == ("openai", 0)
    assert entry(endpoint={"base_url": "http://h/v1"}, backend="vllm").backend == "vllm"


@pytest.mark.parametrize(("gpus", "kept"), [(0, 0), (8, 8), (2.0, 2), (0.5, 0.5), (0.25, 0.25)])
def test_gpus_are_whole_or_a_share(gpus, kept):
    assert entry(gpus=gpus).gpus == kept and type(entry(gpus=gpus).gpus) is type(kept)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        *(({"gpus": gpus}, "write a whole number, at most 64") for gpus in (-1, 1.5, 0.75, True, "2", 100_000, float("inf"))),
        *(({"chat": {"today": today}}, f"today = {today!r} is no date") for today in ("yesterday", 3, "2026-13-01")),
        *(({"parameters": count}, "parameters") for count in (-1, 0, float("nan"))),
        ({"backend": "transformers", "tools": "hermes"}, 'write "text", or leave it out'),
        ({"gpus": 0.5, "options": {"gpu_memory_utilization": 0.6}}, "write at most 0.5"),
        ({"backend": "transformers", "options": {"batch_invariant": True}}, "is a mode of vLLM on GPUs"),
        ({"options": {"batch_invariant": False}}, "write true there, or leave it out"),
        ({"options": {"pipeline_parallel_size": 2}}, "serve the model with its own vLLM and play it as an endpoint"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_a_sentence(fields, reason):
    with pytest.raises(ValidationError) as error:
        entry(**fields)
    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"options": {"quantization": "fp8"}}, {"options": {"quantization": "fp8"}}),
        ({"options": {name: 1 for name in SPEED_ONLY if name != STAGES}}, {}),
        ({"backend": "openai", "options": {"max_num_seqs": 1}}, {"options": {"max_num_seqs": 1}}),
        ({"processor": {"max_pixels": 5}}, {"processor": {"max_pixels": 5}}),
        ({"chat": {"enable_thinking": False}}, {"chat": {"enable_thinking": False}}),
        ({"lora": "adapter"}, {"lora": "adapter"}),
        ({"repetition_penalty": 1}, {"repetition_penalty": 1}),
        ({"backend": "openai", "endpoint": {"effort": "low"}}, {"endpoint": {"effort": "low"}}),
        ({"fit_pictures": False}, {"fit_pictures": False}),
        ({"limits": ["no chat template"]}, {"input": 2}),
        ({"backend": "transformers", "limits": ["no chat template"]}, {}),
        ({"faithful": True}, {"faithful": True}),
        *(({name: value}, {}) for name, value in {
            "gpus": 2, "accelerator": "H200", "in_flight": 5, "note": "x", "paper": "x", "max_images": 3, "parameters": 7.0,
            "trust_remote_code": True, "inferred": True, "in_history": True, "tools": "hermes", "beyond_context": True,
        }.items()),
    ],
)  # fmt: skip
def test_only_what_changes_answers_is_in_the_key(fields, part):
    assert entry(**fields).identity == {"source": "org/m", "revision": "", "dtype": "auto", **part}
