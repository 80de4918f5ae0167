"""Tiny random checkpoints of the architectures in sweeps/newer_models.toml, built as those in ``tests.actors.architectures``.

Structure, special tokens, start tokens and tilings follow the documentation and the processors of transformers 5; numbers are
small. The chat templates keep what questions with pictures use of the published ones. Every processor needs torchvision.
"""

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.actors import architectures as base
from tests.actors.architectures import (
    PATCH,
    SPREAD,
    VISION_MODEL,
    WIDTH,
    Architecture,
    build_tokenizer,
    layer_sizes,
    template,
    text_settings,
)

EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 3 * WIDTH // 2}
HEAD = WIDTH // 2
CHATML = ["<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
GLM = [
    "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|image|>", "<|video|>", "<|begin_of_image|>",
    "<|end_of_image|>", "<|begin_of_video|>", "<|end_of_video|>", "<think>", "</think>",
]  # fmt: skip
LLAMA_4 = [
    "<|header_start|>", "<|header_end|>", "<|eot|>", "<|image|>", "<|image_start|>", "<|image_end|>", "<|patch|>",
    "<|tile_x_separator|>", "<|tile_y_separator|>",
]  # fmt: skip
MISTRAL = ["[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[IMG]", "[IMG_BREAK]", "[IMG_END]"]


def _bounds(factor: int) -> dict[str, Any]:
    """Return the sizes of a processor that keeps the picture's shape; ``factor`` is pixels per token and edge."""
    return {"size": {"shortest_edge": 4 * factor**2, "longest_edge": base.PIXELS}}


def _tower(patch: int) -> dict[str, Any]:
    return {
        "depth": 2, "num_heads": 2, "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "out_hidden_size": WIDTH,
        "patch_size": patch, "initializer_range": SPREAD,
    }  # fmt: skip


def _ids(words: Any, **names: str) -> dict[str, int]:
    return {f"{name}_token_id": words.convert_tokens_to_ids(token) for name, token in names.items()}


def _qwen3_vl(experts: bool) -> tuple[Any, Any]:
    import transformers

    words = build_tokenizer(CHATML, end="<|im_end|>", pad="<|endoftext|>")
    processor = transformers.Qwen3VLProcessor(
        transformers.Qwen2VLImageProcessor(patch_size=16, **_bounds(32)), words,
        transformers.Qwen3VLVideoProcessor(**_bounds(32)), template("qwen3_vl"),
    )  # fmt: skip
    name = "Qwen3VLMoe" if experts else "Qwen3VL"
    more: dict[str, Any] = {**EXPERTS, "num_experts": 4, "norm_topk_prob": True} if experts else {}
    rope = {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [6, 5, 5], "mrope_interleaved": True}
    kind = "qwen3_vl_moe_text" if experts else "qwen3_vl_text"
    config = getattr(transformers, f"{name}Config")(
        vision_config={**_tower(16), "deepstack_visual_indexes": [0], "num_position_embeddings": 16},
        text_config=text_settings(kind, words, head_dim=HEAD, rope_parameters=rope, **more), tie_word_embeddings=False,
        **_ids(words, image="<|image_pad|>", video="<|video_pad|>"),
        **_ids(words, vision_start="<|vision_start|>", vision_end="<|vision_end|>"),
    )  # fmt: skip
    return getattr(transformers, f"{name}ForConditionalGeneration")(config), processor


def _gemma3() -> tuple[Any, Any]:
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3ImageProcessor, Gemma3Processor

    roles = {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}
    turns = ["<start_of_turn>", "<end_of_turn>"]
    words = build_tokenizer(turns, start="<bos>", end="<eos>", pad="<pad>", roles=roles)
    words.add_tokens(["\n" * count for count in (1, 2, 3, 4)])  # vLLM looks these tokens of Gemma's vocabulary up
    tokens = (base.EDGE // PATCH // 2) ** 2
    pictures = Gemma3ImageProcessor(size={"height": base.EDGE, "width": base.EDGE})
    processor = Gemma3Processor(pictures, words, chat_template=template("gemma3"), image_seq_length=tokens)
    config = Gemma3Config(
        vision_config=layer_sizes(
            model_type="siglip_vision_model", image_size=base.EDGE, patch_size=PATCH, vision_use_head=False
        ),
        text_config={**text_settings("gemma3_text", words, head_dim=HEAD, sliding_window=512), "tie_word_embeddings": True},
        mm_tokens_per_image=tokens, image_token_index=words.image_token_id, boi_token_index=words.boi_token_id,
        eoi_token_index=words.eoi_token_id,
    )  # fmt: skip
    network = Gemma3ForConditionalGeneration(config)
    network.get_input_embeddings().weight.data.mul_(0.05)  # tied to the output: else every reply repeats the last token
    return network, processor


def _minicpm() -> tuple[Any, Any]:
    """MiniCPM-V 4.6: slices of a picture, their ids in the text, and a language model with linear attention."""
    import transformers

    roles = {"image_token": "<|image_pad|>", "video_token": "<|video_pad|>"}
    for name, tag in {"image": "image", "slice": "slice", "image_id": "image_id"}.items():
        roles |= {f"{name}_start_token": f"<{tag}>", f"{name}_end_token": f"</{tag}>"}
    words = build_tokenizer(["<|im_start|>", "<think>", "</think>"], end="<|im_end|>", pad="<|endoftext|>", roles=roles)
    sizes = {"scale_resolution": 2 * base.EDGE, "max_slice_nums": 9, "patch_size": PATCH}
    processor = transformers.MiniCPMV4_6Processor(
        transformers.MiniCPMV4_6ImageProcessor(**sizes), transformers.MiniCPMV4_6VideoProcessor(**sizes), words,
        chat_template=template("minicpm_v_4_6"),
    )  # fmt: skip
    rope = {
        "rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.5, "mrope_section": [4, 2, 2],
        "mrope_interleaved": True,
    }  # fmt: skip
    heads = {f"linear_{name}_head_dim": HEAD for name in ("key", "value")} | {
        f"linear_num_{name}_heads": 2 for name in ("key", "value")
    }
    language = text_settings(
        "qwen3_5_text",
        words,
        head_dim=HEAD,
        rope_parameters=rope,
        layer_types=["linear_attention", "full_attention"],
        **heads,
    )
    config = transformers.MiniCPMV4_6Config(
        vision_config=layer_sizes(image_size=4 * base.EDGE, patch_size=PATCH), text_config=language, insert_layer_id=0,
        image_size=2 * base.EDGE, tie_word_embeddings=False, **_ids(words, image="<|image_pad|>", video="<|video_pad|>"),
    )  # fmt: skip
    return transformers.MiniCPMV4_6ForConditionalGeneration(config), processor


def _glm(name: str) -> tuple[Any, Any]:
    """GLM-4.1V, 4.5V, 4.6V and 4.6V-Flash, which differ in template, processor and language model (dense or experts)."""
    import transformers

    words = build_tokenizer(GLM, end="<|endoftext|>", pad="<|endoftext|>")
    kind = "Glm46V" if name.startswith("glm-4.6v") else "Glm4v"
    processor = getattr(transformers, f"{kind}Processor")(
        getattr(transformers, f"{kind}ImageProcessor")(**_bounds(28)), words,
        getattr(transformers, f"{kind}VideoProcessor")(**_bounds(28)), template("glm4_1v" if name == "glm-4.1v" else "glm4_5v"),
    )  # fmt: skip
    experts = {
        **EXPERTS, "n_routed_experts": 4, "first_k_dense_replace": 1, "n_shared_experts": 1, "attention_bias": True,
        "head_dim": HEAD, "use_qk_norm": False,
    }  # fmt: skip
    is_mixed = name in ("glm-4.5v", "glm-4.6v")
    rope = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_section": [2, 3, 3]}
    config = getattr(transformers, "Glm4vMoeConfig" if is_mixed else "Glm4vConfig")(
        vision_config={**_tower(PATCH), "image_size": base.EDGE, **({"head_dim": HEAD} if is_mixed else {})},
        text_config=text_settings(
            "glm4v_moe_text" if is_mixed else "glm4v_text", words, rope_parameters=rope, **(experts if is_mixed else {})
        ),
        tie_word_embeddings=False,
        **_ids(words, image="<|image|>", video="<|video|>"),
        **_ids(words, image_start="<|begin_of_image|>", image_end="<|end_of_image|>"),
        **_ids(words, video_start="<|begin_of_video|>", video_end="<|end_of_video|>"),
    )  # fmt: skip
    family = transformers.Glm4vMoeForConditionalGeneration if is_mixed else transformers.Glm4vForConditionalGeneration
    return family(config), processor


def _llama4() -> tuple[Any, Any]:
    from transformers import Llama4Config, Llama4ForConditionalGeneration, Llama4ImageProcessor, Llama4Processor

    words = build_tokenizer(LLAMA_4, start="<|begin_of_text|>", end="<|end_of_text|>", pad="<|finetune_right_pad|>")
    pictures = Llama4ImageProcessor(size={"height": base.EDGE, "width": base.EDGE}, max_patches=16)
    processor = Llama4Processor(pictures, words, patch_size=PATCH)  # its own chat template is the published one
    vision = layer_sizes(
        model_type="llama4_vision_model", image_size=base.EDGE, patch_size=PATCH, vision_output_dim=WIDTH,
        projector_input_dim=WIDTH, projector_output_dim=WIDTH,
    )  # fmt: skip
    vision["intermediate_size"] = 4 * WIDTH  # as published, the pixel shuffle's width
    config = Llama4Config(
        vision_config=vision,
        text_config=text_settings(
            "llama4_text", words, head_dim=HEAD, intermediate_size_mlp=2 * WIDTH, num_local_experts=4, num_experts_per_tok=1,
            attention_chunk_size=512,
        ),
        image_token_index=words.convert_tokens_to_ids("<|patch|>"),
        boi_token_index=words.convert_tokens_to_ids("<|image_start|>"),
        eoi_token_index=words.convert_tokens_to_ids("<|image_end|>"),
    )  # fmt: skip
    return Llama4ForConditionalGeneration(config), processor


def _pixtral(name: str) -> tuple[Any, Any]:
    """Pixtral 12B in the format of transformers (a LLaVA), and Mistral Small 3, which merges patches."""
    import transformers

    words = build_tokenizer(MISTRAL, start="<s>", end="</s>", pad="<pad>")
    is_small = name == "mistral-small"
    patch, merge = (PATCH, 2) if is_small else (16, 1)
    processor = transformers.PixtralProcessor(
        transformers.PixtralImageProcessor(size={"longest_edge": 4 * base.EDGE}, patch_size={"height": patch, "width": patch}),
        words, patch_size=patch, spatial_merge_size=merge, chat_template=template("mistral_small" if is_small else "pixtral"),
    )  # fmt: skip
    vision = layer_sizes(model_type="pixtral", image_size=4 * base.EDGE, patch_size=patch, head_dim=HEAD)
    shared: dict[str, Any] = {
        "vision_config": vision, "text_config": text_settings("mistral", words, head_dim=HEAD), "vision_feature_layer": -1,
        "image_token_index": processor.image_token_id, "tie_word_embeddings": False,
    }  # fmt: skip
    if is_small:
        config = transformers.Mistral3Config(spatial_merge_size=merge, **shared)
        return transformers.Mistral3ForConditionalGeneration(config), processor
    config = transformers.LlavaConfig(vision_feature_select_strategy="full", image_seq_length=1, **shared)
    return transformers.LlavaForConditionalGeneration(config), processor


def _add_mistral_format(folder: Path) -> None:
    """Add the files of Mistral's own format, which vLLM prefers unless the entry says otherwise."""
    if find_spec("mistral_common") is None:
        return
    import mistral_common

    shutil.copy(Path(mistral_common.__file__).parent / "data" / "tekken_240911.json", folder / "tekken.json")
    shutil.copy(folder / "model.safetensors", folder / "consolidated.safetensors")
    (folder / "params.json").write_text("{}")


def _paligemma() -> tuple[Any, Any]:
    """PaliGemma 2, which has no chat template: one question with one picture."""
    from transformers import (
        PaliGemmaConfig,
        PaliGemmaForConditionalGeneration,
        PaliGemmaProcessor,
        SiglipImageProcessor,
    )

    words = build_tokenizer(["<image>"], start="<bos>", end="<eos>", pad="<pad>")
    words.add_bos_token = False  # its processor writes it, after the picture
    words.add_tokens(["\n", "\n\n"])
    pictures = SiglipImageProcessor(size={"height": base.EDGE, "width": base.EDGE})
    pictures.image_seq_length = (base.EDGE // PATCH) ** 2
    processor = PaliGemmaProcessor(pictures, words)
    vision = layer_sizes(
        model_type="siglip_vision_model", image_size=base.EDGE, patch_size=PATCH, vision_use_head=False,
        projection_dim=WIDTH,
    )  # fmt: skip
    config = PaliGemmaConfig(
        vision_config=vision, text_config=text_settings("gemma2", words, head_dim=HEAD, sliding_window=512),
        image_token_index=processor.image_token_id, projection_dim=WIDTH, hidden_size=WIDTH,
    )  # fmt: skip
    return PaliGemmaForConditionalGeneration(config), processor


def _internvl3_5() -> tuple[Any, Any]:
    return base.internvl("qwen3", head_dim=HEAD)


QWEN3_VL = tuple(f"qwen3-vl-{size}{kind}" for kind in ("", "-thinking") for size in ("2b", "4b", "8b", "32b"))
NEWER = {
    "qwen3-vl": Architecture("Qwen3VLForConditionalGeneration", QWEN3_VL, lambda: _qwen3_vl(experts=False)),
    "qwen3-vl-moe": Architecture(
        "Qwen3VLMoeForConditionalGeneration",
        ("qwen3-vl-30b-a3b", "qwen3-vl-30b-a3b-thinking"),
        lambda: _qwen3_vl(experts=True),
        transposed="mlp.experts.",
    ),
    "internvl3.5": Architecture(
        "InternVLForConditionalGeneration",
        tuple(f"internvl3.5-{size}" for size in ("1b", "2b", "4b", "8b", "14b", "38b")),
        _internvl3_5,
    ),
    "gemma3": Architecture(
        "Gemma3ForConditionalGeneration",
        ("gemma3-4b", "gemma3-12b", "gemma3-27b"),
        _gemma3,
        renamed=VISION_MODEL,
        starts_twice=True,
    ),
    "glm-4.1v": Architecture("Glm4vForConditionalGeneration", ("glm-4.1v-9b-thinking",), lambda: _glm("glm-4.1v")),
    "glm-4.5v": Architecture(
        "Glm4vMoeForConditionalGeneration", ("glm-4.5v", "glm-4.5v-thinking"), lambda: _glm("glm-4.5v")
    ),
    "glm-4.6v": Architecture("Glm4vMoeForConditionalGeneration", ("glm-4.6v",), lambda: _glm("glm-4.6v")),
    "glm-4.6v-flash": Architecture(
        "Glm4vForConditionalGeneration", ("glm-4.6v-flash", "glm-4.6v-flash-thinking"), lambda: _glm("glm-4.6v-flash")
    ),
    "llama-4": Architecture("Llama4ForConditionalGeneration", ("llama-4-scout",), _llama4, starts_twice=True),
    "mistral-small": Architecture(
        "Mistral3ForConditionalGeneration",
        ("mistral-small-3.1",),
        lambda: _pixtral("mistral-small"),
        starts_twice=True,
        finish=_add_mistral_format,
    ),
    "pixtral": Architecture(
        "LlavaForConditionalGeneration", ("pixtral-12b",), lambda: _pixtral("pixtral"), starts_twice=True
    ),
    "minicpm-v-4.6": Architecture(
        "MiniCPMV4_6ForConditionalGeneration", ("minicpm-v-4.6", "minicpm-v-4.6-thinking"), _minicpm, vllm_on_cpu=False
    ),
    "paligemma-2": Architecture("PaliGemmaForConditionalGeneration", (), _paligemma, vllm_on_cpu=False, pictures=1),
}
"""Architectures of the newer models that transformers 5 runs from its own classes, by a short name; PaliGemma has no entry."""
EVERY = {**base.ARCHITECTURES, **NEWER}
