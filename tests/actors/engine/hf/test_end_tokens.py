"""A reply ends at the end tokens of every configuration; one that follows the checkpoint, where the package ends it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")

from actors.engine.backend import Reply
from actors.engine.registry import open_engine
from envs.types import ImageRef
from sweeps.spec import ModelSpec
from tests.actors.asking import make_request, paint_pictures, user
from tests.actors.package_network import PackageNetwork
from tests.actors.test_beyond_context import shown
from tests.actors.tiny import checkpoint

LENGTH = 12
QUESTION = user("What is this?", ImageRef("0.png"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ends")
    checkpoint(folder / "model")
    paint_pictures(folder, ["0.png"])
    return folder


def test_text_config_and_tokenizer_end_no_reply_that_follows_the_checkpoint(folder: Path) -> None:
    """Of the tokens of an endless reply, the third ends it for the text config, the sixth for generation_config.json."""
    endless = reply_tokens(folder)
    third, sixth = endless[2], endless[5]
    assert endless.index(third) == 2 and endless.index(sixth) == 5, "each occurs for the first time"
    say(folder, {"eos_token_id": [sixth]}, text_end=third)

    assert reply(folder).reply_tokens == 3
    followed = reply(folder, checkpoint=True)
    assert (followed.reply_tokens, followed.finish) == (6, "stop")
    package = PackageNetwork(entry(folder)).reply((QUESTION,), shown(folder, QUESTION), LENGTH)
    assert followed.text == package.rstrip("\ufffd")


def say(folder: Path, generation: dict[str, Any], text_end: int | None = None) -> None:
    """Write the generation configuration and the end token of the text model."""
    (folder / "model/generation_config.json").write_text(json.dumps({"pad_token_id": 0, **generation}))
    path = folder / "model/config.json"
    config = json.loads(path.read_text())
    config["text_config"]["eos_token_id"] = text_end
    path.write_text(json.dumps(config))


def reply(folder: Path, **sampling: Any) -> Reply:
    backend = open_engine(entry(folder), folder)
    try:
        return asyncio.run(backend.reply(make_request(QUESTION, max_tokens=LENGTH, **sampling)))
    finally:
        asyncio.run(backend.close())


def reply_tokens(folder: Path) -> list[int]:
    """Return the tokens of a greedy reply that nothing ends."""
    say(folder, {})
    call = PackageNetwork(entry(folder))
    call.reply((QUESTION,), shown(folder, QUESTION), 1)
    inputs = call._inputs((QUESTION,), shown(folder, QUESTION))
    output = call.network.generate(**inputs, max_new_tokens=LENGTH, do_sample=False, pad_token_id=0)
    tokens: list[int] = output[0][inputs["input_ids"].shape[1] :].tolist()
    return tokens


def entry(folder: Path) -> ModelSpec:
    source = str(folder / "model")
    return ModelSpec(name="tiny", source=source, backend="transformers", gpus=0, dtype="float32")
