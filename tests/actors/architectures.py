"""Tiny random checkpoints of every architecture among the 22 models, built on the spot in seconds; nothing is downloaded.

Structure as published, numbers small: templates, special tokens, start tokens, tilings and weight names are those of the
published checkpoints (recalled from their files); pictures are 56 pixels where theirs are 336 to 448.

``python -m tests.actors.architectures FOLDER [NAME ...]`` writes them. Processors of LLaVA-OneVision, Qwen2.5-VL, InternVL,
Phi-4 and SmolVLM need torchvision (``tests.actors.vision_packages`` has it for machines without CUDA), SmolVLM num2words too.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EDGE, PATCH, WIDTH = 56, 14, 64
"""Pixels of a tile and of a patch; width of every transformer here (two heads of 32, which vLLM on CPU needs)."""
POSITIONS = 16384
"""Longest conversation, in tokens."""
PIXELS = 64 * 28 * 28
"""Most pixels of a picture, of processors that keep its shape."""
PUBLISHED = {
    "llava-1.5": 336, "llava-next-mistral": 336, "llava-next-vicuna": 336, "llava-onevision": 384, "smolvlm": 384,
    "idefics3": 364, "instructblip": 224, "internvl": 448,
}  # fmt: skip
"""Pixels of a tile as published; Phi-4's are so here, too, and Qwen's have no tiles."""
PUBLISHED_PIXELS = 16384 * 28 * 28
SPREAD = 0.2
"""Standard deviation of the weights: large enough that replies depend on what is asked."""
TEMPLATES = Path(__file__).with_name("chat_templates")
WORDING = (
    "user: assistant: What is this? A. Wait for the cup to move. B. Banana. C. Fork. D. I cannot tell.",
    "USER ASSISTANT [INST] [/INST] Choose from the following options. Options: Rotate the object. Answer with the letter.",
    "Please only return one of the options without any other text. The quick brown fox jumps over the lazy dog 0123456789",
)


@dataclass(frozen=True)
class Architecture:
    """One kind of model, as its ``config.json`` and its files have it."""

    kind: str
    """The class that ``architectures`` names."""
    models: tuple[str, ...]
    """The shipped entries (sweeps/models.toml, newer_models.toml) of this kind."""
    build: Callable[[], tuple[Any, Any]]
    """Makes the network and its processor; torch's seed decides the weights."""
    vllm: bool = True
    """Whether vLLM 0.32 serves such a checkpoint."""
    vllm_on_cpu: bool = True
    """Whether vLLM answers in float32 on a CPU."""
    pictures: int = 10
    """Pictures a conversation may hold."""
    renamed: Mapping[str, str] | None = None
    """Prefix of a weight as transformers 5 writes it -> as the published files have it, and vLLM expects it."""
    finish: Callable[[Path], None] = lambda folder: None
    """Writes further files of the published repository."""
    transposed: str = ""
    """Part of the names of weights whose two last dimensions transformers 5 swaps when it reads the published files."""
    lora: str = ""
    """Folder in the checkpoint with the adapter that pictures need."""
    starts_twice: bool = False
    """Whether template and tokenizer both write the start token: the package's prompt has two, ours only if ``faithful``."""


def write(name: str, folder: Path, seed: int = 0) -> Path:
    """Write the checkpoint of ``ARCHITECTURES[name]``; the same seed gives the same weights."""
    return write_checkpoint(ARCHITECTURES[name], folder, seed)


def write_checkpoint(kind: Architecture, folder: Path, seed: int = 0) -> Path:
    """Write a checkpoint of an architecture."""
    import torch
    from transformers import GenerationConfig

    torch.manual_seed(seed)
    network, processor = kind.build()
    stop = processor.tokenizer.eos_token_id
    network.generation_config = GenerationConfig(eos_token_id=stop, pad_token_id=processor.tokenizer.pad_token_id)
    network.save_pretrained(folder)
    processor.save_pretrained(folder)
    _rename(folder / "model.safetensors", kind.renamed or {}, kind.transposed)
    if kind.lora:
        _adapter(network, folder / kind.lora)
    kind.finish(folder)
    return folder


@contextmanager
def published_sizes(name: str) -> Iterator[None]:
    """Within the block, ``write`` gives this architecture's processor and picture network the published sizes."""
    here = globals()
    before = {key: here[key] for key in ("EDGE", "PIXELS")}
    here.update(EDGE=PUBLISHED.get(name, EDGE), PIXELS=PUBLISHED_PIXELS)
    try:
        yield
    finally:
        here.update(before)


def _adapter(network: Any, folder: Path) -> None:
    """Write a random adapter of the language model's layers, which changes what the network says."""
    from peft import LoraConfig, get_peft_model

    layers = r"model\.layers\.\d+\.(self_attn|mlp)\.(qkv|o|gate_up|down)_proj"
    config = LoraConfig(r=8, lora_alpha=16, target_modules=layers, init_lora_weights=False, task_type="CAUSAL_LM")
    get_peft_model(network, config).save_pretrained(folder)


def _rename(weights: Path, names: Mapping[str, str], transposed: str) -> None:
    """Give the weights the names and shapes of the published files."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(weights, "pt") as checkpoint_file:
        tensors = {key: checkpoint_file.get_tensor(key).clone() for key in checkpoint_file.keys()}  # noqa: SIM118  # it is no mapping
    for old, new in names.items():
        tensors = {key.replace(old, new, 1) if key.startswith(old) else key: value for key, value in tensors.items()}
    swapped = {key: value.mT.contiguous() for key, value in tensors.items() if transposed and transposed in key}
    save_file(tensors | swapped, weights, {"format": "pt"})


# -- tokenizers --------------------------------------------------------------------------------------------------------
def build_tokenizer(
    special: Sequence[str],
    start: str = "",
    end: str = "</s>",
    pad: str = "<pad>",
    roles: Mapping[str, str] | None = None,
) -> Any:
    """Byte-level BPE over a few sentences; ``start`` is put before every text, as by LLaMA's tokenizers.

    ``roles`` are tokens that a processor looks up by name, for example ``image_token``.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    every = list(dict.fromkeys([pad, end, *([start] if start else []), *special, *(roles or {}).values()]))
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=448, special_tokens=every, initial_alphabet=letters, show_progress=False)
    inner.train_from_iterator(WORDING, trainer)
    options: dict[str, Any] = {"bos_token": start, "add_bos_token": True} if start else {}
    if roles:
        options["extra_special_tokens"] = dict(roles)
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=end, pad_token=pad, **options)


def template(name: str) -> str:
    """A chat template as the published processors have it."""
    return (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")


# -- networks ----------------------------------------------------------------------------------------------------------
def layer_sizes(**more: Any) -> dict[str, Any]:
    wide = {"hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2}
    return {**wide, "initializer_range": SPREAD, **more}


def text_settings(kind: str, tokenizer: Any, **more: Any) -> dict[str, Any]:
    return layer_sizes(
        model_type=kind, vocab_size=len(tokenizer), num_key_value_heads=2, max_position_embeddings=POSITIONS,
        pad_token_id=tokenizer.pad_token_id, bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=False, **more,
    )  # fmt: skip


def _clip() -> dict[str, Any]:
    return layer_sizes(model_type="clip_vision_model", image_size=EDGE, patch_size=PATCH, projection_dim=WIDTH)


def _grid(tiles: int) -> list[list[int]]:
    return [[EDGE * high, EDGE * wide] for high in range(1, tiles + 1) for wide in range(1, tiles + 1)]


def _llava() -> tuple[Any, Any]:
    from transformers import LlavaConfig, LlavaForConditionalGeneration, LlavaProcessor
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    tokenizer = build_tokenizer(["<image>"], start="<s>")
    pictures = CLIPImageProcessorPil(size={"shortest_edge": EDGE}, crop_size={"height": EDGE, "width": EDGE})
    processor = LlavaProcessor(
        pictures, tokenizer, patch_size=PATCH, vision_feature_select_strategy="default",
        num_additional_image_tokens=1, chat_template=template("llava"),
    )  # fmt: skip
    config = LlavaConfig(
        vision_config=_clip(), text_config=text_settings("llama", tokenizer), image_token_index=processor.image_token_id,
        vision_feature_select_strategy="default", vision_feature_layer=-2, image_seq_length=(EDGE // PATCH) ** 2,
    )  # fmt: skip
    return LlavaForConditionalGeneration(config), processor


def _llava_next(words: str, kind: str) -> tuple[Any, Any]:
    from transformers import LlavaNextConfig, LlavaNextForConditionalGeneration, LlavaNextProcessor
    from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

    grid = [[EDGE, 2 * EDGE], [2 * EDGE, EDGE], [2 * EDGE, 2 * EDGE], [3 * EDGE, EDGE], [EDGE, 3 * EDGE]]
    tokenizer = build_tokenizer(["<image>"], start="<s>")
    pictures = LlavaNextImageProcessorPil(
        size={"shortest_edge": EDGE}, crop_size={"height": EDGE, "width": EDGE}, image_grid_pinpoints=grid
    )
    processor = LlavaNextProcessor(
        pictures, tokenizer, patch_size=PATCH, vision_feature_select_strategy="default",
        num_additional_image_tokens=1, chat_template=template(words),
    )  # fmt: skip
    config = LlavaNextConfig(
        vision_config=_clip(), text_config=text_settings(kind, tokenizer), image_token_index=processor.image_token_id,
        vision_feature_select_strategy="default", vision_feature_layer=-2, image_grid_pinpoints=grid,
    )  # fmt: skip
    return LlavaNextForConditionalGeneration(config), processor


def _llava_onevision() -> tuple[Any, Any]:
    from transformers import (
        LlavaOnevisionConfig,
        LlavaOnevisionForConditionalGeneration,
        LlavaOnevisionImageProcessor,
        LlavaOnevisionProcessor,
        LlavaOnevisionVideoProcessor,
    )

    size, grid = {"height": EDGE, "width": EDGE}, _grid(6)
    tokenizer = build_tokenizer(["<|im_start|>", "<image>", "<video>"], end="<|im_end|>", pad="<|endoftext|>")
    processor = LlavaOnevisionProcessor(
        LlavaOnevisionImageProcessor(size=size, image_grid_pinpoints=grid), tokenizer,
        LlavaOnevisionVideoProcessor(size=size), num_image_tokens=(EDGE // PATCH) ** 2,
        vision_feature_select_strategy="full", chat_template=template("llava_onevision"),
    )  # fmt: skip
    vision = layer_sizes(model_type="siglip_vision_model", image_size=EDGE, patch_size=PATCH, vision_use_head=False)
    config = LlavaOnevisionConfig(
        vision_config=vision, text_config=text_settings("qwen2", tokenizer), image_token_index=processor.image_token_id,
        video_token_index=processor.video_token_id, image_grid_pinpoints=grid,
    )  # fmt: skip
    return LlavaOnevisionForConditionalGeneration(config), processor


def _tiled(start: str, idefics: bool) -> tuple[Any, Any]:
    """Idefics3 and SmolVLM: tiles with row and column, pixel shuffle; they differ in vocabulary and in their processors."""
    import transformers
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    rows = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    special = ["<fake_token_around_image>", "<global-img>", "<image>", *rows]
    options: dict[str, Any] = {"start": start} if idefics else {}
    tokenizer = build_tokenizer(
        [*special, start, *([] if idefics else ["<video>"])], end="<end_of_utterance>", **options
    )
    sizes = {"size": {"longest_edge": 4 * EDGE}, "max_image_size": {"longest_edge": EDGE}}
    shared = {
        "image_seq_len": (EDGE // PATCH // 2) ** 2,
        "chat_template": template("idefics3" if idefics else "smolvlm"),
    }
    if idefics:
        processor = transformers.Idefics3Processor(Idefics3ImageProcessorPil(**sizes), tokenizer, **shared)
    else:
        films = transformers.SmolVLMVideoProcessor(**sizes)
        pictures = transformers.SmolVLMImageProcessor(**sizes)
        processor = transformers.SmolVLMProcessor(pictures, tokenizer, films, **shared)
    name = "Idefics3" if idefics else "SmolVLM"
    config = getattr(transformers, f"{name}Config")(
        vision_config=layer_sizes(image_size=EDGE, patch_size=PATCH), text_config=text_settings("llama", tokenizer),
        scale_factor=2, image_token_id=processor.image_token_id, pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=False,
    )  # fmt: skip
    return getattr(transformers, f"{name}ForConditionalGeneration")(config), processor


def _instructblip() -> tuple[Any, Any]:
    from transformers import InstructBlipConfig, InstructBlipForConditionalGeneration, InstructBlipProcessor
    from transformers.models.blip.image_processing_pil_blip import BlipImageProcessorPil

    tokenizer, asker = build_tokenizer(["<image>"], start="<s>"), build_tokenizer([], start="[CLS]", end="[SEP]")
    pictures = BlipImageProcessorPil(size={"height": EDGE, "width": EDGE})
    processor = InstructBlipProcessor(pictures, tokenizer, asker, num_query_tokens=4)
    config = InstructBlipConfig(
        vision_config=layer_sizes(image_size=EDGE, patch_size=PATCH),
        qformer_config=layer_sizes(vocab_size=len(asker), encoder_hidden_size=WIDTH),
        text_config=text_settings("llama", processor.tokenizer),
        num_query_tokens=4,
        image_token_index=processor.tokenizer.convert_tokens_to_ids("<image>"),
    )
    return InstructBlipForConditionalGeneration(config), processor


def _qwen() -> tuple[Any, Any]:
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor,
        Qwen2VLVideoProcessor,
    )

    special = ["<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer = build_tokenizer(special, end="<|im_end|>", pad="<|endoftext|>")
    bounds = {"min_pixels": 4 * 28 * 28, "max_pixels": PIXELS}
    processor = Qwen2_5_VLProcessor(
        Qwen2VLImageProcessor(**bounds), tokenizer, Qwen2VLVideoProcessor(**bounds), template("qwen2_5_vl")
    )
    vision = {
        "depth": 2,
        "num_heads": 2,
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "out_hidden_size": WIDTH,
    }
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [4, 6, 6]}
    config = Qwen2_5_VLConfig(
        vision_config={**vision, "fullatt_block_indexes": [1], "initializer_range": SPREAD},
        text_config=text_settings("qwen2_5_vl_text", tokenizer, rope_parameters=rope),
        tie_word_embeddings=False,
        **{f"{name}_token_id": tokenizer.convert_tokens_to_ids(f"<|{name}_pad|>") for name in ("image", "video")},
        **{
            f"vision_{name}_token_id": tokenizer.convert_tokens_to_ids(f"<|vision_{name}|>")
            for name in ("start", "end")
        },
    )
    return Qwen2_5_VLForConditionalGeneration(config), processor


def internvl(language: str = "qwen2", **more: Any) -> tuple[Any, Any]:
    from transformers import (
        GotOcr2ImageProcessor,
        InternVLConfig,
        InternVLForConditionalGeneration,
        InternVLProcessor,
        InternVLVideoProcessor,
    )

    roles = {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>"}
    tokenizer = build_tokenizer(
        ["<|im_start|>"], end="<|im_end|>", pad="<|endoftext|>", roles={**roles, "video_token": "<video>"}
    )
    size = {"height": EDGE, "width": EDGE}
    processor = InternVLProcessor(
        GotOcr2ImageProcessor(size=size, crop_to_patches=True, max_patches=12), tokenizer,
        InternVLVideoProcessor(size=size), image_seq_length=(EDGE // PATCH // 2) ** 2, chat_template=template("internvl"),
    )  # fmt: skip
    config = InternVLConfig(
        vision_config=layer_sizes(image_size=[EDGE, EDGE], patch_size=[PATCH, PATCH], layer_scale_init_value=1.0),
        text_config=text_settings(language, tokenizer, **more), image_token_id=tokenizer.context_image_token_id,
        image_seq_length=(EDGE // PATCH // 2) ** 2, downsample_ratio=0.5, tie_word_embeddings=False,
    )  # fmt: skip
    return InternVLForConditionalGeneration(config), processor


def _phi4() -> tuple[Any, Any]:
    """Pictures of 448 pixels, as published: its processor counts their 256 tokens by a constant."""
    from transformers import (
        Phi4MultimodalConfig,
        Phi4MultimodalFeatureExtractor,
        Phi4MultimodalForCausalLM,
        Phi4MultimodalImageProcessor,
        Phi4MultimodalProcessor,
    )

    roles = {"image_token": "<|image|>", "audio_token": "<|audio|>"}
    special = ["<|user|>", "<|assistant|>", "<|system|>", "<|end|>"]
    tokenizer = build_tokenizer(special, end="<|endoftext|>", pad="<|endoftext|>", roles=roles)
    words = template("phi4_multimodal")
    processor = Phi4MultimodalProcessor(
        Phi4MultimodalImageProcessor(), Phi4MultimodalFeatureExtractor(), tokenizer, chat_template=words
    )
    audio = {
        "num_blocks": 1, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 32, "ext_pw_out_channel": 32,
        "depthwise_separable_out_channel": 32, "nemo_conv_channels": 8, "audio_token_id": tokenizer.audio_token_id,
    }  # fmt: skip
    text = text_settings("phi4_multimodal", tokenizer)
    del text["model_type"]
    config = Phi4MultimodalConfig(
        vision_config={**layer_sizes(), "image_token_id": tokenizer.image_token_id, "num_hidden_layers": 3},
        audio_config=audio, original_max_position_embeddings=POSITIONS, **text,
    )  # fmt: skip
    return Phi4MultimodalForCausalLM(config), processor


LLAVA_NEXT = "LlavaNextForConditionalGeneration"
VISION_MODEL = {"vision_tower.": "vision_tower.vision_model."}
ARCHITECTURES = {
    "llava-1.5": Architecture("LlavaForConditionalGeneration", ("llava-1.5-7b",), _llava, renamed=VISION_MODEL),
    "llava-next-mistral": Architecture(
        LLAVA_NEXT,
        ("llava-next-mistral-7b",),
        lambda: _llava_next("llava_next_mistral", "mistral"),
        renamed=VISION_MODEL,
    ),
    "llava-next-vicuna": Architecture(
        LLAVA_NEXT, ("llava-next-vicuna-7b",), lambda: _llava_next("llava_next_vicuna", "llama"), renamed=VISION_MODEL
    ),
    "llava-onevision": Architecture(
        "LlavaOnevisionForConditionalGeneration",
        ("llava-ov-0.5b", "llava-ov-7b", "llava-ov-72b"),
        _llava_onevision,
        renamed=VISION_MODEL,
    ),
    "smolvlm": Architecture(
        "SmolVLMForConditionalGeneration",
        ("smolvlm2-2.2b", "smolvlm2-256m", "smolvlm2-500m"),
        lambda: _tiled("<|im_start|>", idefics=False),
    ),
    "idefics3": Architecture(
        "Idefics3ForConditionalGeneration",
        ("idefics3-8b",),
        lambda: _tiled("<|begin_of_text|>", idefics=True),
        starts_twice=True,
    ),
    "instructblip": Architecture(
        "InstructBlipForConditionalGeneration", ("instructblip-7b",), _instructblip, vllm=False, pictures=1
    ),
    "qwen2.5-vl": Architecture(
        "Qwen2_5_VLForConditionalGeneration",
        ("qwen2.5-vl-3b", "qwen2.5-vl-7b", "qwen2.5-vl-32b", "qwen2.5-vl-72b", "mimo-vl-7b"),
        _qwen,
    ),
    "internvl": Architecture(
        "InternVLForConditionalGeneration",
        ("internvl3-1b", "internvl3-2b", "internvl3-8b", "internvl3-38b", "internvl3-78b"),
        internvl,
    ),
    "phi-4": Architecture("Phi4MultimodalForCausalLM", ("phi-4-multimodal",), _phi4, vllm=False, lora="vision-lora"),
}
"""Every architecture that transformers 5 runs from its own classes, by a short name."""


if __name__ == "__main__":
    for wanted in sys.argv[2:] or ARCHITECTURES:
        print(write(wanted, Path(sys.argv[1], wanted)), flush=True)
