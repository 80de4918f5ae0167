"""A model that encodes the question and decodes its answer, such as Florence-2, answers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")

from actors.engine.registry import open_engine
from envs.types import ImageRef
from sweeps.spec import ModelSpec
from tests.actors.architectures import WIDTH, Architecture, build_tokenizer, write_checkpoint
from tests.actors.asking import make_request, paint_pictures, user


def build_florence() -> tuple[Any, Any]:
    from transformers import Florence2Config, Florence2ForConditionalGeneration, Florence2Processor
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    tokenizer = build_tokenizer([], start="<s>", roles={"image_token": "<image>"})
    size = {"height": 64, "width": 64}
    pictures = CLIPImageProcessorPil(size=size, crop_size=size, do_center_crop=False)
    pictures.image_seq_length = 5
    layers = {"d_model": WIDTH, "max_position_embeddings": 2048, "vocab_size": len(tokenizer)}
    for part in ("encoder", "decoder"):
        layers |= {f"{part}_layers": 1, f"{part}_attention_heads": 2, f"{part}_ffn_dim": WIDTH}
    ids = {
        name: tokenizer.convert_tokens_to_ids(text)
        for name, text in (("bos", "<s>"), ("eos", "</s>"), ("pad", "<pad>"))
    }
    tower = {name: [2, 2, 2, 2] for name in ("num_heads", "num_groups")} | {
        "depths": [1] * 4,
        "embed_dim": [16, 16, 16, 32],
    }
    config = Florence2Config(
        vision_config={**tower, "projection_dim": WIDTH, "window_size": 2}, image_token_id=tokenizer.image_token_id,
        text_config={"model_type": "bart", **layers, **{f"{name}_token_id": token for name, token in ids.items()}},
    )  # fmt: skip
    return Florence2ForConditionalGeneration(config), Florence2Processor(pictures, tokenizer)


@pytest.mark.parametrize("place", ["generation_config.json", "text_config"])
def test_answer_begins_with_the_start_token_that_the_checkpoint_states(tmp_path: Path, place: str) -> None:
    folder = write_checkpoint(Architecture("Florence2ForConditionalGeneration", (), build_florence), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    stated = config["text_config"] if place == "text_config" else json.loads((folder / place).read_text())
    stated["decoder_start_token_id"] = config["text_config"]["eos_token_id"]
    changed = {"config.json": config} | ({} if place == "text_config" else {place: stated})
    for name, content in changed.items():
        (folder / name).write_text(json.dumps(content))
    paint_pictures(tmp_path, ["0.png"])

    model = ModelSpec(name="florence", source=str(folder), backend="transformers", gpus=0)
    engine = open_engine(model, tmp_path)
    try:
        reply = asyncio.run(engine.reply(make_request(user("What is this?", ImageRef("0.png")), max_tokens=3)))
    finally:
        asyncio.run(engine.close())
    assert 1 <= reply.reply_tokens <= 3
