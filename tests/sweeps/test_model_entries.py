"""A model's entry: what follows from its fields, what is part of its key, and mistakes in sentences."""

import pytest
from pydantic import ValidationError

from sweeps.model import SPEED_ONLY, STAGES, ModelSpec, wrong_options


def entry(**fields):
    return ModelSpec(**{"name": "m", "source": "org/m", "architecture": "OtherForConditionalGeneration", **fields})


def test_an_entry_left_to_its_defaults_runs_on_one_gpu_of_vllm():
    model = entry()

    assert (model.backend, model.gpus, model.dtype, model.accelerator, model.tools) == (
        "vllm",
        1,
        "auto",
        "",
        "",
    )
    assert (model.stages, model.is_local, model.calls_natively, model.fits_pictures, model.is_over_nodes) == (
        1,
        True,
        False,
        False,
        False,
    )
    assert model.identity == {"source": "org/m", "revision": "", "dtype": "auto"} and model.input_version == 1
    assert not model.exceeds_context and not model.limited_by_memory and model.prices == (0.0, 0.0)


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
        *(({"gpus": gpus}, "write a whole number from 0 to 8, or 0.5 or 0.25 for a GPU that engines share; more only in pipeline")
          for gpus in (-1, 1.5, 0.75, True, "2", 100_000)),
        ({"backend": "openai", "requirements": ["x==1"]},
         'only backend = "vllm" and "transformers" can have packages of their own; leave it out'),
        *(({"chat": {"today": today}}, f'today = {today!r} is no date; write it as "2026-11-01"')
          for today in ("yesterday", 3, "2026-13-01")),
        ({"backend": "transformers", "tools": "hermes"},
         'write "text", or leave it out; only backend = "vllm" has tool parsers by name'),
        ({"max_images": 0}, "greater than or equal to 1"),
        ({"in_flight": 0}, "greater than or equal to 1"),
        ({"in_flight": 4097}, "less than or equal to 4096"),
        ({"repetition_penalty": 0}, "greater than 0"),
        ({"repetition_penalty": 2.1}, "less than or equal to 2"),
        ({"gpus": 0.5, "options": {"gpu_memory_utilization": 0.6}},
         "gpu_memory_utilization is a share of the whole GPU; with gpus = 0.5, write at most 0.5"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_a_sentence(fields, reason):
    with pytest.raises(ValidationError) as error:
        entry(**fields)
    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("options", "backend", "gpus", "reason"),
    [
        ({"gpu_memory_utilization": 0.5}, "vllm", 0.5, ""),
        ({"gpu_memory_utilization": 0.9}, "vllm", 1, ""),
        ({"gpu_memory_utilization": "all"}, "vllm", 0.5, ""),
        ({"batch_invariant": True}, "vllm", 1, ""),
        ({"batch_invariant": True}, "transformers", 1,
         "batch_invariant is a mode of vLLM, and backend is transformers; leave it out"),
        ({"batch_invariant": False}, "vllm", 1, "batch_invariant = False is no choice; write true, or leave it out"),
        ({"batch_invariant": 1}, "vllm", 1, "batch_invariant = 1 is no choice; write true, or leave it out"),
    ],
)  # fmt: skip
def test_options_of_engines(options, backend, gpus, reason):
    assert wrong_options(options, backend, gpus) == reason


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


ARCHITECTURES = {
    "": (2, True), "InstructBlipForConditionalGeneration": (1, False), "InternVLForConditionalGeneration": (1, False),
    "LlavaForConditionalGeneration": (2, False), "LlavaNextForConditionalGeneration": (2, False),
    "LlavaOnevisionForConditionalGeneration": (2, False), "Phi4MultimodalForCausalLM": (1, False),
    "Qwen2_5_VLForConditionalGeneration": (2, False), "SmolVLMForConditionalGeneration": (1, False),
    "Idefics3ForConditionalGeneration": (1, True),
}  # fmt: skip
