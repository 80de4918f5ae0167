"""Stage 2 of training: the whole model learns to reply; only the replies' tokens count, and the heads of stage 1 stay on."""

from __future__ import annotations

from random import Random

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from actors.embedded.training import text_processor
from actors.embedded.training.model import encode_pictures, head_losses, hidden_states
from actors.embedded.training.pictures import Bank
from actors.embedded.training.training_data import TrainingData, TrainingExample
from actors.embedded.training.vision_stage import Labels

SHORT_BATCH = 48
"""Examples with one picture a step, over the whole group."""
LONG_TOKENS = 4800
"""Tokens a step of examples with several pictures, over the whole group."""
LONG_SHARE = 0.3
"""Share of the steps that teach history and examples."""
HEADS_WEIGHT = 0.5
IGNORED = -100


class LanguageStage:
    """Batches of examples."""

    def __init__(
        self, bank: Bank, tokenizer: Tokenizer, seed: int, rank: int, size: int, weights: dict[str, float] | None = None
    ) -> None:
        self.bank, self.tokenizer, self.seed, self.rank, self.size = bank, tokenizer, seed, rank, size
        self.examples, self.labels = TrainingData(bank, weights=weights), Labels(bank)
        self.image, self.pad = (
            text_processor.token_id(tokenizer, text_processor.IMAGE),
            text_processor.token_id(tokenizer, text_processor.PAD),
        )

    def losses(self, modules: nn.ModuleDict, step: int) -> dict[str, Tensor]:
        """Return the cross entropy of the taught tokens of this step's examples, and the heads' loss on their pictures."""
        long = Random(f"{self.seed}/speaking/{step}").random() < LONG_SHARE
        rng = Random(f"{self.seed}/speaking/{step}/{self.rank}")
        ids, targets, rows = self.batch(rng, long)
        features = encode_pictures(modules["model"], torch.from_numpy(self.bank.pixels[rows]))
        hidden = hidden_states(modules["model"], ids, features, self.image)[:, :-1]
        wanted = targets[:, 1:]
        taught = wanted != IGNORED
        logits = modules["model"].lm_head(hidden[taught]).float()
        replies = nn.functional.cross_entropy(logits, wanted[taught])
        heads = HEADS_WEIGHT * head_losses(modules["heads"], features, self.labels.at(np.array(rows)))
        return {"long" if long else "short": replies, "heads": heads}

    def batch(self, rng: Random, long: bool) -> tuple[Tensor, Tensor, list[int]]:
        """Return token ids and targets [n, length], padded on the right, and the rows of all pictures in order."""
        encodings = list[tuple[list[int], list[bool]]]()
        rows = list[int]()
        for example in self._draw(rng, long):
            encodings.append(text_processor.encode_conversation(self.tokenizer, example.conversation, example.taught))
            rows += example.rows
        length = max(len(ids) for ids, _ in encodings)
        ids = torch.full((len(encodings), length), self.pad)
        targets = torch.full((len(encodings), length), IGNORED)
        for row, (tokens, marks) in enumerate(encodings):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            targets[row, : len(tokens)] = torch.tensor(
                [t if m else IGNORED for t, m in zip(tokens, marks, strict=True)]
            )
        return ids, targets, rows

    def _draw(self, rng: Random, long: bool) -> list[TrainingExample]:
        """Draw a fixed number of short examples, or long ones of alike length up to a number of tokens."""
        if not long:
            return [self.examples.short(rng) for _ in range(SHORT_BATCH // self.size)]
        examples = sorted((self.examples.long(rng) for _ in range(24)), key=lambda example: len(example.rows))
        start = rng.randrange(len(examples))
        room, taken = LONG_TOKENS // self.size, list[TrainingExample]()
        for example in examples[start:]:
            room -= 80 * len(example.rows)
            if taken and room < 0:
                break
            taken.append(example)
        return taken
