"""The training of the picture model runs from end to end on a tiny language half, and both libraries agree on its input."""

import subprocess
import sys
from random import Random

import pytest

torch = pytest.importorskip("torch", reason="training needs torch (extra `transformers`)")
pytest.importorskip("transformers", reason="training needs transformers (extra `transformers`)")

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402
from transformers import (  # noqa: E402
    AutoModelForImageTextToText,
    AutoProcessor,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from actors.engine.chat_format import conversation  # noqa: E402
from proactive_demo.drawing import draw_sample  # noqa: E402
from proactive_demo.embedded.training.pictures import FIRST_SEED, draw_bank  # noqa: E402
from proactive_demo.embedded_135m.training import __main__ as training  # noqa: E402
from proactive_demo.embedded_135m.training.conversations import ASKING, Conversations  # noqa: E402
from proactive_demo.embedded_135m.training.speaking_stage import encode  # noqa: E402

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    """A random Llama with SmolLM2's special tokens at their ids, and layers that get an adapter."""
    folder = tmp_path_factory.mktemp("language")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([" picture assistant user\n"], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=SPECIAL[2], eos_token=SPECIAL[2])
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(fast), hidden_size=48, intermediate_size=64, num_hidden_layers=9, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=4096, tie_word_embeddings=True, pad_token_id=2, eos_token_id=2,
        bos_token_id=1,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def trained(language, tmp_path_factory):
    """The work folder after one command; a part is repeated, to see that it goes on from its checkpoint."""
    work = tmp_path_factory.mktemp("work")
    sizes = ["--laps", "1", "--speaking-laps", "1", "--lap", "9"]
    steps = [word for stage in ("look", "refine", "speak", "ask", "finish") for word in (f"--{stage}-steps", "2")]
    command = ["--language", str(language), "--work", str(work), "--out", str(work / "out"), *sizes, *steps]
    for parts in (("look", "refine", "speak", "ask", "finish", "save"), ("speak",)):
        training.main([*command, "--only", *parts])
    return work


@pytest.fixture(scope="module")
def processor(trained):
    return AutoProcessor.from_pretrained(trained / "assembled")


def test_one_command_makes_a_folder_that_answers(trained, processor):
    model = AutoModelForImageTextToText.from_pretrained(trained / "assembled", dtype=torch.float32)
    sample = draw_sample("QD", 0, 1)
    picture = sample.picture(next(iter(sample.views)))
    chat = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}]
    text = processor.apply_chat_template(chat, add_generation_prompt=True)
    inputs = processor(text=[text], images=[[picture]], return_tensors="pt")

    assert inputs["input_ids"].tolist()[0].count(model.config.image_token_id) == 4
    assert model.generate(**inputs, max_new_tokens=3).shape[1] > inputs["input_ids"].shape[1]
    assert (trained / "out/trained.safetensors").stat().st_size < 8e6


def test_training_reads_the_tokens_that_the_processor_writes(trained, processor):
    bank = draw_bank(trained / "speaking", 1, FIRST_SEED + 100, 9)
    source, rng = Conversations(bank, 9, [("Who are you?", "A model.")], ASKING), Random(3)
    for _ in range(30):
        example = source.draw(rng)
        ids, taught = encode(processor.tokenizer, example)
        chat = conversation(example.conversation, lambda image: {"type": "image"})
        pictures = [bank.pixels[row] for row in example.rows]
        inputs = processor(text=processor.apply_chat_template(chat), images=[list(pictures)] if pictures else None)
        learned = [number for number, is_taught in zip(ids, taught, strict=True) if is_taught]

        assert ids == list(inputs["input_ids"][0])
        assert processor.tokenizer.decode(learned).endswith(f"{example.conversation[-1].text}<|im_end|>")


def test_the_adapter_is_merged_into_the_assembled_weights(trained, language):
    assembled = AutoModelForImageTextToText.from_pretrained(trained / "assembled", dtype=torch.float32)
    before = LlamaForCausalLM.from_pretrained(language, dtype=torch.float32)
    layers = assembled.model.text_model.layers
    changed = [
        not torch.allclose(new.self_attn.q_proj.weight, old.self_attn.q_proj.weight, atol=1e-5, rtol=1e-2)
        for new, old in zip(layers, before.model.layers, strict=True)
    ]

    assert changed == [False] * 8 + [True]


@pytest.mark.long
def test_the_command_of_the_embedded_model_trains_and_saves_it(tmp_path):
    command = [sys.executable, "-m", "proactive_demo.embedded.training", f"--work={tmp_path}", f"--out={tmp_path}/out"]
    subprocess.run([*command, "--laps=1", "--look-steps=1", "--speak-steps=1", "--polish-steps=1"], check=True)
    tokenizer = AutoProcessor.from_pretrained(tmp_path / "out").tokenizer
    model = AutoModelForImageTextToText.from_pretrained(tmp_path / "out")

    assert model.config.image_token_id == tokenizer.convert_tokens_to_ids("<image>")
