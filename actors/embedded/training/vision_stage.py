"""Stage 1 of training: the vision encoder learns what a picture shows and how much of it is visible, without text."""

import numpy as np
import torch
from torch import Tensor, nn

from actors.embedded.training.model import encode_pictures, head_losses
from actors.embedded.training.pictures import Bank
from envs import SCENARIOS

BATCH = 64
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

    def at(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Return the labels of some rows."""
        return {
            name: torch.from_numpy(getattr(self, name)[rows])
            for name in ("share", "category", "scenario", "corruption", "count")
        }


class VisionStage:
    """Batches of pictures, three quarters of them to be named, every scenario as likely."""

    def __init__(self, bank: Bank, seed: int, rank: int, size: int) -> None:
        self.bank, self.labels, self.seed, self.rank, self.batch = bank, Labels(bank), seed, rank, BATCH // size
        is_named = self.labels.share >= NAMED_FROM
        self.pools = [
            [np.flatnonzero((self.labels.scenario == k) & (is_named == named)) for named in (False, True)]
            for k in range(len(SCENARIOS))
        ]

    def losses(self, modules: nn.ModuleDict, step: int) -> dict[str, Tensor]:
        """Return the heads' loss on the step's pictures."""
        rng = np.random.default_rng((self.seed, 1, step, self.rank))
        scenarios, named = rng.integers(len(self.pools), size=self.batch), rng.random(self.batch) < 0.75
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
