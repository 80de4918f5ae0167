"""The stages of training: first the vision encoder learns what a picture shows and how much of it is visible, without text.

Then the whole model learns to reply, with a loss on the replies' tokens and on the heads of stage 1.
"""

from itertools import accumulate
from random import Random

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from envs import SCENARIOS
from proactive_demo.embedded.training import text_processor
from proactive_demo.embedded.training.model import encode_pictures, head_losses, hidden_states
from proactive_demo.embedded.training.pictures import Bank
from proactive_demo.embedded.training.training_data import TrainingData, TrainingExample
from proactive_demo.embedded_135m.assemble import IMAGE

BATCH, BATCH_PARTS = 64, 2
"""Pictures of a step, and the parts of its batch, which are drawn and learned one after the other."""
NAMED_FROM = 0.35
"""Visible share from which the category of a picture must be named."""


class Labels:
    """The labels of every picture of a bank, as arrays over its rows."""

    def __init__(self, bank: Bank) -> None:
        rows = len(bank.pixels)
        self.share = np.zeros(rows, np.float32)
        self.category, self.scenario, self.corruption, self.count = (np.full(rows, -1, np.int64) for _ in range(4))
        names = list(SCENARIOS)
        for play in bank.plays:
            for bank_view in (*play.path, play.reference):
                self.share[bank_view.row] = bank_view.share
                self.scenario[bank_view.row] = names.index(play.sample.scenario)
                self.corruption[bank_view.row] = play.corruption if bank_view.share < 0.9 else -1
                if bank_view.share >= NAMED_FROM:
                    self.category[bank_view.row] = play.category
                    self.count[bank_view.row] = play.count or -1

    def pools(self) -> list[list[np.ndarray]]:
        """Return the rows of each scenario in two arrays: pictures too hidden to be named, and pictures to be named."""
        is_named = self.share >= NAMED_FROM
        return [
            [np.flatnonzero((self.scenario == k) & (is_named == named)) for named in (False, True)]
            for k in range(len(SCENARIOS))
        ]

    def at(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Return the labels of some rows."""
        return {
            name: torch.from_numpy(getattr(self, name)[rows])
            for name in ("share", "category", "scenario", "corruption", "count")
        }


class VisionStage:
    """Batches of pictures from all scenarios equally often; three quarters are clear enough to be named."""

    def __init__(self, bank: Bank, seed: int) -> None:
        self.bank, self.labels, self.seed = bank, Labels(bank), seed
        self.pools = self.labels.pools()

    def losses(self, modules: nn.ModuleDict, step: int, part: int) -> dict[str, Tensor]:
        """Return the heads' loss on the pictures of a part of the step's batch."""
        rng, size = np.random.default_rng((self.seed, 1, step, part)), BATCH // BATCH_PARTS
        scenarios, named = rng.integers(len(self.pools), size=size), rng.random(size) < 0.75
        rows = np.array(
            [rng.choice(self.pools[k][int(is_named)]) for k, is_named in zip(scenarios, named, strict=True)]
        )
        features = encode_pictures(modules["model"], torch.from_numpy(self.bank.pixels[rows]))
        return {"heads": head_losses(modules["heads"], features, self.labels.at(rows))}


@torch.no_grad()
def recognition_accuracy(modules: nn.ModuleDict, bank: Bank, share: float = 0.9) -> dict[str, float]:
    """Return scenario -> share of clear pictures whose category or count the heads name correctly."""
    modules.eval()
    labels = Labels(bank)
    accuracy = {}
    for k, name in enumerate(SCENARIOS):
        rows = np.flatnonzero((labels.scenario == k) & (labels.share >= share))
        features = encode_pictures(modules["model"], torch.from_numpy(bank.pixels[rows]))
        category, _, _, count, _ = (logits.argmax(1) for logits in modules["heads"](features))
        targets = labels.at(rows)
        correct = torch.where(targets["category"] >= 0, category == targets["category"], count == targets["count"])
        accuracy[name] = round(float(correct.float().mean()), 3)
    return accuracy


SHORT_BATCH = 48
"""Examples with one picture per step."""
LONG_TOKENS = 4800
"""Tokens per step of examples with several pictures."""
LONG_SHARE = 0.3
"""Share of the steps that teach history and examples."""
HEADS_WEIGHT = 0.5
IGNORED = -100


class LanguageStage:
    """Batches of examples."""

    def __init__(self, bank: Bank, tokenizer: Tokenizer, seed: int, weights: dict[str, float] | None = None) -> None:
        self.bank, self.tokenizer, self.seed = bank, tokenizer, seed
        self.examples, self.labels = TrainingData(bank, weights=weights), Labels(bank)
        self.image = text_processor.token_id(tokenizer, IMAGE)
        self.pad = text_processor.token_id(tokenizer, text_processor.PAD)

    def losses(self, modules: nn.ModuleDict, step: int, part: int) -> dict[str, Tensor]:
        """Return the cross entropy of the taught tokens of a part of the step's batch, and the heads' loss on its pictures."""
        long = Random(f"{self.seed}/speaking/{step}").random() < LONG_SHARE
        rng = Random(f"{self.seed}/speaking/{step}/{part}")
        ids, targets, rows = self.batch(rng, long)
        features = encode_pictures(modules["model"], torch.from_numpy(self.bank.pixels[rows]))
        hidden = hidden_states(modules["model"], ids, features, self.image)[:, :-1]
        taught = targets[:, 1:] != IGNORED
        logits = modules["model"].lm_head(hidden[taught]).float()
        replies = nn.functional.cross_entropy(logits, targets[:, 1:][taught])
        heads = HEADS_WEIGHT * head_losses(modules["heads"], features, self.labels.at(np.array(rows)))
        return {"long" if long else "short": replies, "heads": heads}

    def batch(self, rng: Random, long: bool) -> tuple[Tensor, Tensor, list[int]]:
        """Return token ids and targets [n, length], padded on the right, and the rows of all pictures in order."""
        examples = self._draw(rng, long)
        ids, targets = list[Tensor](), list[Tensor]()
        for example in examples:
            tokens, taught = text_processor.encode_conversation(self.tokenizer, example.conversation, example.taught)
            ids.append(torch.tensor(tokens))
            targets.append(torch.where(torch.tensor(taught), ids[-1], IGNORED))
        rows = [row for example in examples for row in example.rows]
        return pad_sequence(ids, True, self.pad), pad_sequence(targets, True, IGNORED), rows

    def _draw(self, rng: Random, long: bool) -> list[TrainingExample]:
        """Draw a fixed number of short examples, or long ones of similar length within the token limit."""
        if not long:
            return [self.examples.short(rng) for _ in range(SHORT_BATCH // BATCH_PARTS)]
        examples = sorted((self.examples.long(rng) for _ in range(24)), key=lambda example: len(example.rows))
        start = rng.randrange(len(examples))
        lengths = accumulate(80 * len(example.rows) for example in examples[start:])
        fitting = sum(length <= LONG_TOKENS // BATCH_PARTS for length in lengths)
        return examples[start : start + max(1, fitting)]
