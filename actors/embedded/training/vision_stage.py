"""Stage 1 of training: the vision encoder learns what a picture shows and how much of it is visible, without text."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from actors.embedded.training.model import encode_pictures, head_losses
from actors.embedded.training.pictures import Bank
from envs import SCENARIOS

BATCH = 64
TELLING = 0.35
"""From this share of the object upwards a picture must be named."""


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
                if bank_view.share >= TELLING:
                    self.category[bank_view.row] = play.category
                    self.count[bank_view.row] = play.count or -1

    def at(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Return the labels of some rows."""
        return {
            name: torch.from_numpy(getattr(self, name)[rows])
            for name in ("share", "category", "scenario", "corruption", "count")
        }


class VisionStage:
    """Batches of pictures, three in four of them telling, the scenarios alike."""

    def __init__(self, bank: Bank, seed: int, rank: int, size: int) -> None:
        self.bank, self.labels, self.seed, self.rank, self.batch = bank, Labels(bank), seed, rank, BATCH // size
        telling_rows = self.labels.share >= TELLING
        self.pools = [
            [np.flatnonzero((self.labels.scenario == k) & (telling_rows == telling)) for telling in (False, True)]
            for k in range(len(SCENARIOS))
        ]

    def losses(self, modules: nn.ModuleDict, step: int) -> dict[str, Tensor]:
        """Return the heads' loss on the step's pictures."""
        rng = np.random.default_rng((self.seed, 1, step, self.rank))
        kinds, telling = rng.integers(len(self.pools), size=self.batch), rng.random(self.batch) < 0.75
        rows = np.array([rng.choice(self.pools[k][int(t)]) for k, t in zip(kinds, telling, strict=True)])
        pixels = torch.from_numpy(self.bank.pixels[rows])
        features = encode_pictures(modules["model"], pixels)
        return {"heads": head_losses(modules["heads"], features, self.labels.at(rows))}


@torch.no_grad()
def recognition_accuracy(modules: nn.ModuleDict, bank: Bank, share: float = 0.9) -> dict[str, float]:
    """Return scenario -> share of clear pictures whose category or count the heads name correctly."""
    modules.eval()
    labels = Labels(bank)
    accuracy = {}
    for k, name in enumerate(SCENARIOS):
        rows = np.flatnonzero((labels.scenario == k) & (labels.share >= share))
        category, _, _, count, _ = modules["heads"](
            encode_pictures(modules["model"], torch.from_numpy(bank.pixels[rows]))
        )
        wanted = labels.at(rows)
        named = torch.where(
            wanted["category"] >= 0, category.argmax(1) == wanted["category"], count.argmax(1) == wanted["count"]
        )
        accuracy[name] = round(float(named.float().mean()), 3)
    return accuracy
