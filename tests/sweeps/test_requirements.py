"""``requirements`` of a model's entry: what is accepted, what is refused and with which sentence, and what it is part of."""

import pytest

from sweeps.load import build
from sweeps.sweep_file import SweepError

ENTRY = {"name": "m", "source": "some/model", "backend": "transformers"}
OTHER = "transformers==5.18.0"
REFUSED = [
    (["--index-url https://evil.example"], "is no requirement such as"),
    (["./wheels/transformers.whl"], "is no requirement such as"),
    ([OTHER, "transformers @ https://evil.example/t.whl"], "from an address that nobody checked; .*unsafe_options"),
    (["Ray>=2"], "must have the same version on driver and workers"),
    ([5], "string"),
    (OTHER, "must be a list"),
]


def sweep(**fields):
    return build({"data": "d", "model": [{**ENTRY, **fields}], "conditions": ["zero-shot"]}, "mine.toml")


@pytest.mark.parametrize(("requirements", "reason"), REFUSED)
def test_refusal_names_file_key_and_reason(requirements, reason):
    with pytest.raises(SweepError, match=f"(?s)mine.toml: model 1: requirements.*{reason}"):
        sweep(requirements=requirements)


def test_releases_extras_markers_and_checked_addresses_are_accepted():
    accepted = (OTHER, "vllm>=0.30,<0.31", "qwen-vl-utils[decord]; python_version >= '3.11'")
    assert sweep(requirements=list(accepted)).models[0].requirements == accepted
    address = "m @ https://example.org/m.whl"
    assert sweep(requirements=[address], unsafe_options=True).models[0].requirements == (address,)


@pytest.mark.parametrize("backend", ["builtin", "openai"])
def test_models_without_an_engine_of_ours_have_none(backend):
    with pytest.raises(SweepError, match="can have packages of their own; leave it out"):
        sweep(backend=backend, source="builtin:uniform" if backend == "builtin" else "m", requirements=[OTHER])
