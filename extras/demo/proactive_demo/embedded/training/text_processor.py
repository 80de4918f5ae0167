"""Tokenizer, chat template and processor of the embedded model: equal tokens in training, in transformers and in vLLM.

The constant sentences of the benchmark and the letter marks are one token each; all other text is byte-level BPE.
"""

from collections.abc import Iterable, Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Idefics3Processor, PreTrainedTokenizerFast

from actors.engine.backend import Message
from envs.stimulus import PROMPTS
from proactive_demo.embedded_135m.assemble import FRAME, IMAGE, WHOLE, build_processor

PAD, END = "<pad>", "<end_of_utterance>"
SPEAKERS = {"user": "User:", "assistant": "Assistant:", "system": "System:"}
MARKS = tuple(f"\n{chr(65 + index)}. " for index in range(12))
SENTENCES = (
    PROMPTS["OPTIONS_FOLLOW"].rstrip("\n"), "\n" + PROMPTS["ONE_OPTION_ONLY"],
    *(PROMPTS[name] for name in PROMPTS if name not in ("OPTIONS_FOLLOW", "ONE_OPTION_ONLY", "ROD_REFERENCE")),
)  # fmt: skip
VOCABULARY = 1024
"""Tokens of the BPE alphabet and merges, without the constant sentences."""
PICTURE_TOKENS = 16
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] | capitalize }}:"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<end_of_utterance>{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Train a byte-level BPE tokenizer on ``texts`` with the constant tokens added."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [PAD, END, IMAGE, FRAME, WHOLE, *SPEAKERS.values()]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in (*SENTENCES, *MARKS)])
    return tokenizer


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """Return the id of a token."""
    number: int | None = tokenizer.token_to_id(token)
    assert number is not None, f"the tokenizer has no token {token}"
    return number


def processor(tokenizer: Tokenizer) -> Idefics3Processor:
    """Return the processor that is saved with the weights; it needs no torchvision."""
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, clean_up_tokenization_spaces=False,
        padding_side="left", model_max_length=4096,
    )  # fmt: skip
    return build_processor(fast, PICTURE_TOKENS, TEMPLATE)


def render_message(message: Message) -> str:
    """Render one message as the chat template and the processor do, with its picture tokens."""
    picture = FRAME + WHOLE + IMAGE * PICTURE_TOKENS + FRAME
    return f"{SPEAKERS[message.role]}{picture * len(message.images)}{message.text}{END}"


def encode_conversation(
    tokenizer: Tokenizer, conversation: Sequence[Message], taught: Sequence[bool]
) -> tuple[list[int], list[bool]]:
    """Return the ids of a conversation, and True for those to learn: messages marked in ``taught``, with their end tokens."""
    ids, targets = list[int](), list[bool]()
    for message, is_taught in zip(conversation, taught, strict=True):
        piece = tokenizer.encode(render_message(message)).ids
        ids += piece
        targets += [is_taught and index > 0 for index in range(len(piece))]
    return ids, targets
