"""Stages 3 to 5: an adapter on the language half learns to answer.

``speak`` takes picture tokens simulated from what the pictures show; it needs no tower, so it can run beside stages 1 and 2.
``ask`` continues with the tokens of the trained tower, on pictures new to the tower, and ``finish`` with another mixture.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from actors.engine.backend import Message
from proactive_demo.embedded.training.pictures import Bank
from proactive_demo.embedded.training.training_data import TrainingExample
from proactive_demo.embedded_135m.assemble import ADAPTED, ALPHA, FIRST_LAYER, FRAME, IMAGE, PICTURE_TOKENS, RANK, WHOLE
from proactive_demo.embedded_135m.training.conversations import TRAINING_QUESTIONS, Conversations, Mixture

TOKENS, DRAWN = 900, 60
"""Tokens of a step, and examples drawn at once to find some of similar length."""
END = 2
"""Id of the token that ends a message, also used for padding."""
ANSWER_TOKENS = 30
EncodeRows = Callable[[list[int]], Tensor]


def render(message: Message) -> str:
    """Render a message as the chat template and the processor do, without its end."""
    picture = FRAME + WHOLE + IMAGE * PICTURE_TOKENS + FRAME
    return picture * len(message.images) + message.text


def encode(tokenizer: PreTrainedTokenizerBase, example: TrainingExample) -> tuple[list[int], list[bool]]:
    """Return the token ids of an example, and True for those to learn."""
    ids, taught = list[int](), list[bool]()
    for message, is_taught in zip(example.conversation, example.taught, strict=True):
        pieces = (f"<|im_start|>{message.role}\n", f"{render(message)}<|im_end|>", "\n")
        for number, piece in enumerate(pieces):
            tokens = tokenizer(piece, add_special_tokens=False)["input_ids"]
            ids += tokens
            taught += [is_taught and number == 1] * len(tokens)
    return ids, taught


class SpeakingStage:
    """Batches of examples of similar length; ``encode_rows`` gives the tokens [n, 4, width] of pictures of the bank."""

    def __init__(
        self, bank: Bank, lap: int, encode_rows: EncodeRows, model: nn.Module,
        tokenizer: PreTrainedTokenizerBase, work: Path, mixture: Mixture, seed: str,
    ) -> None:  # fmt: skip
        self.encode_rows, self.model, self.tokenizer, self.seed = encode_rows, model, tokenizer, seed
        self.image: int = tokenizer.convert_tokens_to_ids(IMAGE)
        self.conversations = Conversations(bank, lap, self.frozen_answers(work / "answers.json"), mixture)

    def frozen_answers(self, path: Path) -> Sequence[tuple[str, str]]:
        """Return questions with the answers of the model before it learns; they are made once."""
        if not path.exists():
            answers = generate_answers(self.model, self.tokenizer, TRAINING_QUESTIONS)
            path.write_text(json.dumps(dict(zip(TRAINING_QUESTIONS, answers, strict=True)), indent=1), "utf-8")
        return list(json.loads(path.read_text("utf-8")).items())

    def losses(self, step: int) -> dict[str, Tensor]:
        """Return the cross entropy of the replies of the step's examples; every example counts alike."""
        ids, taught, mask, pictures = self.batch(Random(f"{self.seed}/{step}"))
        embedded = self.model.get_input_embeddings()(ids)
        embedded = embedded.masked_scatter((ids == self.image).unsqueeze(-1), pictures)
        hidden = self.model.model(inputs_embeds=embedded, attention_mask=mask, use_cache=False).last_hidden_state
        targets = taught[:, 1:]
        losses = cross_entropy(self.model.lm_head(hidden[:, :-1][targets]), ids[:, 1:][targets], reduction="none")
        owner = targets.nonzero()[:, 0]
        sums = torch.zeros(len(ids)).index_add(0, owner, losses)
        return {"replies": (sums / targets.sum(1)).mean()}

    def batch(self, rng: Random) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return ids, marks of tokens to learn and attention mask, padded on the right, and the pictures' tokens in order."""
        drawn = [self.conversations.draw(rng) for _ in range(DRAWN)]
        encoded = sorted(((*encode(self.tokenizer, e), e.rows) for e in drawn), key=lambda item: len(item[0]))
        batch = self._choose_batch(encoded, rng)
        ids = pad_sequence([torch.tensor(item[0]) for item in batch], True, END)
        taught = pad_sequence([torch.tensor(item[1]) for item in batch], True, False)
        mask = pad_sequence([torch.ones(len(item[0]), dtype=torch.long) for item in batch], True, 0)
        rows = [row for item in batch for row in item[2]]
        width = self.model.get_input_embeddings().weight.shape[1]
        pictures = self.encode_rows(rows).reshape(-1, width) if rows else torch.zeros(0, width)
        return ids, taught, mask, pictures

    def _choose_batch(self, encoded: Sequence[tuple[list[int], list[bool], tuple[int, ...]]], rng: Random) -> list[
        tuple[list[int], list[bool], tuple[int, ...]]
    ]:  # fmt: skip
        """Return neighbors in the list, which is sorted by length, from a random start on, with at most TOKENS tokens."""
        start = rng.randrange(len(encoded))
        batch = [encoded[start]]
        for item in encoded[start + 1 :]:
            if (len(batch) + 1) * len(item[0]) > TOKENS:
                break
            batch.append(item)
        return batch


@torch.no_grad()
def generate_answers(
    model: nn.Module, tokenizer: PreTrainedTokenizerBase, questions: Sequence[str], size: int = 90
) -> list[str]:
    """Return greedy answers to questions without pictures, cut after the last complete sentence."""
    answers = list[str]()
    for start in range(0, len(questions), size):
        texts = [f"<|im_start|>user\n{q}<|im_end|>\n<|im_start|>assistant\n" for q in questions[start : start + size]]
        inputs = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
        output = model.generate(**inputs, max_new_tokens=ANSWER_TOKENS, do_sample=False, pad_token_id=END)
        replies = tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        answers += [cut_sentence(reply.strip()) for reply in replies]
    return answers


def cut_sentence(text: str) -> str:
    """Return the text up to the end of its last complete sentence, or all of it if there is none."""
    end = max(text.rfind(mark) for mark in ".!?")
    return text[: end + 1] if end > 0 else text


class Adapted(nn.Module):
    """A frozen linear layer plus the adapter's low-rank product, for the attention of the later layers."""

    def __init__(self, linear: nn.Linear, down: nn.Parameter, up: nn.Parameter) -> None:
        super().__init__()
        self.linear, self.down, self.up = linear, down, up

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output plus the adapter's."""
        return self.linear(x) + (x @ self.down.T) @ self.up.T * (ALPHA / RANK)


def add_adapter(model: nn.Module, seed: int) -> nn.ParameterDict:
    """Freeze the model, put adapted layers into it, and return their parameters by the name of the layer they belong to."""
    model.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    parameters = nn.ParameterDict()
    for number, layer in enumerate(model.model.layers):
        for name in ADAPTED if number >= FIRST_LAYER else ():
            linear: nn.Linear = getattr(layer.self_attn, name)
            bound = linear.in_features**-0.5
            down = nn.Parameter((torch.rand(RANK, linear.in_features, generator=generator) * 2 - 1) * bound)
            up = nn.Parameter(torch.zeros(linear.out_features, RANK))
            setattr(layer.self_attn, name, Adapted(linear, down, up))
            path = f"model/layers/{number}/self_attn/{name}"
            parameters[f"{path}/A"], parameters[f"{path}/B"] = down, up
    return parameters
