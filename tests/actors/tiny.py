"""A random picture model built on the spot, small enough for every test machine; transformers and vLLM both load it.

Idefics3: 64-pixel pictures become 4 tokens, and its picture processor needs no torchvision.
"""

from collections.abc import Sequence
from pathlib import Path

TEMPLATE = (
    "<|im_start|>{% for message in messages %}{{ message['role'] }}:"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ '<image>' }}{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)
WORDING = [
    "user: assistant: What is this? A. Wait for the cup to move. B. Banana. C. Fork. D. I cannot tell.",
    "Rotate the object. Answer with the letter of one option only. The quick brown fox jumps over the lazy dog 01234",
]
EDGE, PATCH, SHUFFLE, WIDTH = 64, 16, 2, 64
SPECIAL = ["<pad>", "<|im_start|>", "<end_of_utterance>", "<image>", "<fake_token_around_image>", "<global-img>"]


def checkpoint(folder: Path, seed: int = 0, start: str = "template") -> Path:
    """Write the model; the same seed gives the same weights.

    ``start`` says who puts the start token first: the ``template``, the ``tokenizer`` (LLaVA-1.5), or ``both`` (Idefics3).
    """
    import torch
    from transformers import (
        GenerationConfig,
        Idefics3Config,
        Idefics3ForConditionalGeneration,
        Idefics3ImageProcessorPil,
        Idefics3Processor,
    )

    tokenizer = _tokenizer(adds_start=start != "template")
    pictures = Idefics3ImageProcessorPil(
        do_image_splitting=False,
        size={"longest_edge": EDGE},
        max_image_size={"longest_edge": EDGE},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    processor = Idefics3Processor(
        pictures,
        tokenizer,
        image_seq_len=(EDGE // PATCH // SHUFFLE) ** 2,
        chat_template=TEMPLATE.removeprefix("<|im_start|>") if start == "tokenizer" else TEMPLATE,
    )
    layers = {"num_hidden_layers": 2, "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_attention_heads": 2}
    special = dict(zip(("pad_token_id", "bos_token_id", "eos_token_id", "image_token_id"), range(4), strict=True))
    text = {
        "model_type": "llama", "vocab_size": len(tokenizer), "num_key_value_heads": 2, "max_position_embeddings": 1024,
        "initializer_range": 0.2, "tie_word_embeddings": True, **layers, **special,
    }  # fmt: skip
    vision = {"image_size": EDGE, "patch_size": PATCH, "initializer_range": 0.2, **layers}
    config = Idefics3Config(
        vision_config=vision, text_config=text, scale_factor=SHUFFLE, tie_word_embeddings=True, **special
    )
    torch.manual_seed(seed)
    model = Idefics3ForConditionalGeneration(config)
    # A trap on purpose: greedy must stay greedy although these defaults say otherwise.
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=0.7, top_p=0.5, top_k=3, repetition_penalty=1.3, pad_token_id=0, eos_token_id=2
    )
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


TEXT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}:"
    "{% if message['content'] is string %}{{ message['content'] }}{% endif %}"
    "<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant:"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}{% endif %}"
)
"""Drops content that is no string, and knows thinking, as the template of Qwen3 does."""


def text_only(folder: Path, seed: int = 0) -> Path:
    """Write a random language model without vision, as judges use."""
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    tokenizer = _tokenizer()
    tokenizer.chat_template = TEXT_TEMPLATE
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=4096, initializer_range=0.2,
        tie_word_embeddings=True, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=0.7, top_k=3, repetition_penalty=1.3, pad_token_id=0, eos_token_id=2
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def thinker(folder: Path, reply: Sequence[str], opened: bool = False) -> Path:
    """Write a language model that gives this reply to every question: each token always leads to the next.

    ``opened``: its chat template opens the thought. A reply that repeats a token never ends.
    """
    import torch
    from transformers import AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

    tokenizer = _tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<think>", "</think>"]})
    tokenizer.chat_template = TEXT_TEMPLATE + ("{% if add_generation_prompt %}<think>{% endif %}" if opened else "")
    tokenizer.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=256, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=4096, initializer_range=0.2, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    for name, weights in model.named_parameters():
        if "layers" in name and weights.dim() == 2:
            torch.nn.init.zeros_(weights)
    model.lm_head.weight.data.zero_()
    question = [{"role": "user", "content": "?"}]
    before = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_dict=True)["input_ids"][-1]
    ends = len(set(reply)) == len(reply)
    for token in tokenizer.convert_tokens_to_ids([*reply, *(["<end_of_utterance>"] if ends else [])]):
        model.lm_head.weight.data[token] += model.model.embed_tokens.weight.data[before]
        before = token
    model.generation_config = GenerationConfig(do_sample=False, pad_token_id=0, eos_token_id=2)
    model.save_pretrained(folder)
    return folder


def _tokenizer(adds_start: bool = False):  # type: ignore[no-untyped-def]
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        WORDING, trainers.BpeTrainer(vocab_size=384, special_tokens=SPECIAL, initial_alphabet=alphabet)
    )
    if adds_start:
        inner.post_processor = processors.TemplateProcessing("<|im_start|> $A", special_tokens=[("<|im_start|>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<|im_start|>", eos_token="<end_of_utterance>", pad_token="<pad>"
    )
