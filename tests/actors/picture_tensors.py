"""The tensors that each engine's front end and a package-style call make of one picture file, compared bit by bit.

A task of ``tests.actors.rehearsal``, whose process has torchvision and qwen_vl_utils on its path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from actors.engine.backend import Message
from actors.engine.batching import Job
from actors.engine.hf.input_hashes import join_slices
from actors.engine.hf.package_call import PackageCall
from actors.engine.registry import open_without_weights
from envs.types import ImageRef
from tests.actors.asking import make_request, user
from tests.actors.newer_architectures import EVERY
from tests.actors.rehearsal_prompts import QUESTION, entry
from tests.envs.picture_zoo import draw_zoo

FILES = (
    "exif-6.jpg", "xmp-6.png", "cmyk.jpg", "palette-transparent.png", "palette-alpha.png", "I16.png", "LA.png", "1.png",
    "RGBA.png", "profile.jpg", "animated.gif", "1x1.png", "1x90.png", "90x1.png", "57x91.png",
)  # fmt: skip
"""One file for each way in which pictures differ; the remaining zoo differs from these only before the RGB conversion."""
CROP, EDGE = (9.5, 19.4, 50.6, 70.0), 40
"""A crop that pillow rounds and fills beyond the picture, and a short edge in pixels."""
VIEWS = {
    f"{file} {title}": ImageRef(file, **part)
    for file in ("exif-6.jpg", "palette-alpha.png")
    for title, part in (
        ("cropped", {"crop": CROP}),
        ("resized", {"short_edge": EDGE}),
        ("both", {"crop": CROP, "short_edge": EDGE}),
    )
}
PICTURES = {**{file: ImageRef(file) for file in FILES}, **VIEWS}
"""Title of a prompt -> its one picture."""
REFUSED = "refused by both"
TOGETHER = "together"
"""Title of the prompt that holds every file but ``LONG`` ones, for models that take several pictures."""
LONG = ("1x90.png", "90x1.png")
"""Files that Phi-4's processor refuses."""
Tensors = Mapping[str, torch.Tensor]


async def compare_tensors(name: str, folder: Path, data: Path) -> dict[str, Any]:
    """Return file -> engine -> the difference from the package's tensors, empty if nothing differs.

    The picture zoo is drawn into the folder ``zoo`` of ``data``.
    """
    data = data / "zoo"
    if not data.is_dir():
        data.mkdir()
        draw_zoo(data)
    kinds = ("transformers", "vllm") if EVERY[name].vllm else ("transformers",)
    package = PackageCall(entry(name, "transformers", folder))
    prompts = {title: user(QUESTION, picture) for title, picture in PICTURES.items()}
    if EVERY[name].pictures > 1:
        prompts[TOGETHER] = user(QUESTION, *(ImageRef(file) for file in FILES if file not in LONG))
    expected = {title: package_tensors(package, message, data, name) for title, message in prompts.items()}
    differences: dict[str, dict[str, str]] = {title: {} for title in prompts}
    for kind in kinds:
        model = entry(name, kind, folder, faithful=True)
        facts = {"architecture": EVERY[name].kind, "fit_pictures": True if name.startswith("qwen") else None}
        backend = open_without_weights(model.model_copy(update=facts), data)
        try:
            for title, message in prompts.items():
                got = await (transformers_tensors if kind == "transformers" else vllm_tensors)(backend, message)
                differences[title][kind] = describe_difference(got, expected[title], kind == "vllm")
        finally:
            await backend.close()
    return differences


def package_tensors(package: PackageCall, message: Message, data: Path, name: str) -> Tensors | str:
    """Return every tensor of the package's call, or the name of its error."""
    try:
        pictures = {image: view_as_package(image, data, name) for image in message.images}
        return dict(package._inputs((message,), pictures))
    except Exception as refusal:
        return type(refusal).__name__


def view_as_package(image: ImageRef, data: Path, name: str) -> Image.Image:
    """Return a picture as the package's scenarios crop and resize it."""
    picture = open_as_package(data / image.path, name)
    picture = picture.crop(image.crop) if image.crop else picture
    if image.short_edge is None:
        return picture
    scale = image.short_edge / min(picture.size)
    return picture.resize((int(picture.width * scale), int(picture.height * scale)))


def open_as_package(path: Path, name: str) -> Image.Image:
    """Return a picture as the package opens it, with its metadata; Qwen's by the real ``qwen_vl_utils``."""
    if name.startswith("qwen"):
        from qwen_vl_utils import fetch_image

        picture: Image.Image = fetch_image({"image": str(path)})
        return picture
    return Image.open(path).convert("RGB")


async def transformers_tensors(backend: Any, message: Message) -> Tensors | str:
    try:
        pictures = await backend.pictures.load((message,))
        return dict(backend.model.inputs([Job(make_request(message), pictures)]))
    except Exception as refusal:
        return type(refusal).__name__


async def vllm_tensors(backend: Any, message: Message) -> Tensors | str:
    """Return the ids and what the picture processor made of each picture, joined."""
    from actors.engine.vllm.model_input import SLICED

    backend.engine.renderer.clear_mm_cache()
    try:
        prompt = await backend.prompts.prepare(make_request(message))
    except Exception as refusal:
        return type(refusal).__name__
    parts: dict[str, list[Any]] = {}
    for picture in prompt["mm_kwargs"]["image"]:
        for key, value in picture.get_data().items():
            parts.setdefault(key, []).append(value)
    if backend.engine.model_config.hf_config.model_type in SLICED:
        parts = {key: [value] for key, value in join_slices(parts).items()}
    flat = {
        key: [part for value in values for part in flatten(normalize(value, backend))] for key, values in parts.items()
    }
    joined = {key: torch.cat(tensors) for key, tensors in flat.items() if tensors}
    return {"input_ids": torch.tensor(prompt["prompt_token_ids"])[None], **joined}


def normalize(value: Any, backend: Any) -> Any:
    """Return raw pixels as the network gets them in bfloat16: vLLM normalizes those of some models on the device."""
    if not isinstance(value, torch.Tensor) or value.dtype != torch.uint8:
        return value
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.model_executor.layers.fusion.mm_input_norm import build_mm_input_norm

    patches = (
        value if value.ndim == 2 else value.reshape(-1, value.shape[-3:].numel())
    )  # a picture: colors, rows, columns
    with set_current_vllm_config(VllmConfig()):
        return build_mm_input_norm(backend.engine.model_config).forward_native(patches, torch.bfloat16)


def flatten(value: Any) -> Sequence[torch.Tensor]:
    """Return a tensor, or those of a list, as vectors."""
    tensors = [value] if isinstance(value, torch.Tensor) else [each for each in value if isinstance(each, torch.Tensor)]
    return [tensor.flatten() for tensor in tensors]


def describe_difference(got: Tensors | str, expected: Tensors | str, floats_alone: bool) -> str:
    """Return which tensors differ; with ``floats_alone`` ids and float tensors count, whatever their shape.

    Tensors that are float32 in both are compared in float32, those that vLLM normalized in bfloat16.
    """
    if isinstance(got, str) or isinstance(expected, str):
        return REFUSED if isinstance(got, str) and isinstance(expected, str) else f"{kind_of(got)}, {kind_of(expected)}"
    wrong = [] if any(map(torch.is_floating_point, expected.values())) else ["no float tensor"]
    for name, tensor in expected.items():
        if floats_alone and name != "input_ids" and not torch.is_floating_point(tensor):
            continue
        if name not in got:
            wrong.append(f"{name} is absent")
        elif floats_alone and name != "input_ids":
            if not torch.equal(got[name], without_padding(tensor, expected.get("image_sizes")).to(got[name].dtype)):
                wrong.append(f"{name}: {tuple(got[name].shape)} {tuple(tensor.shape)}")
        elif got[name].dtype != tensor.dtype or not torch.equal(got[name], tensor):
            wrong.append(f"{name}: {tuple(got[name].shape)} {tuple(tensor.shape)}")
    return "; ".join(wrong)


def without_padding(pictures: torch.Tensor, sizes: torch.Tensor | None) -> torch.Tensor:
    """Return the pixels of Pixtral's pictures, which its processor pads to the largest of a prompt; all of any other's."""
    if sizes is None or pictures.ndim != 4:
        return pictures.flatten()
    views = zip(pictures, sizes.tolist(), strict=True)
    return torch.cat([picture[:, :height, :width].flatten() for picture, (height, width) in views])


def kind_of(result: Tensors | str) -> str:
    return f"refused ({result})" if isinstance(result, str) else "taken"
