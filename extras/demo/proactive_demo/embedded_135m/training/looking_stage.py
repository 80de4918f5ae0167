"""Stages 1 and 2: picture tokens learn to equal the language model's word embeddings of what a picture shows.

Stage 1 trains the connector and one new layer on top of the embedded model's tower, stage 2 all layers.
Most names of categories are one token, so a picture token can be trained to equal the embedding of its word, without the
language model in the loop. The four tokens say: what, how visible, where (or which fault), what.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize
from transformers import PreTrainedTokenizerBase
from transformers.models.idefics3.configuration_idefics3 import Idefics3VisionConfig
from transformers.models.idefics3.modeling_idefics3 import Idefics3Connector, Idefics3EncoderLayer

from envs import SCENARIOS
from proactive_demo.embedded.training.pictures import NAMES, Bank
from proactive_demo.embedded.training.stages import NAMED_FROM, Labels
from proactive_demo.embedded.training.target_policy import CLEAR, KNOWN
from proactive_demo.embedded_135m.assemble import SCALE

NOTHING = len(NAMES)
"""Index of the word for a hidden object; the numbers one to four follow it."""
WHAT = (*(f" {name.lower()}" for name in NAMES), " nothing", " one", " two", " three", " four")
VISIBLE = (" hidden", " partly", " clear")
PLACES = (" blocks", " person", " box", " photo", " sketch", " belt", " camera")
"""In the order of the scenarios."""
FAULTS = (" dark", " pale", " grey", " blurred", " noisy", " compressed", " pixelated", " stripes")
"""In the order of the corruptions."""
WEIGHTS = {"ROD": 0.8, "VSOD": 1.8, "MVP-N": 1.3, "IN-C": 1.6, "QD": 1.0, "CIT": 0.6, "COCO": 2.4}
"""How often a scenario is drawn: small and corrupted objects take longest to learn."""
BATCH, NAMED_SHARE, COUNTED_SHARE, SHARPNESS = 64, 0.7, 0.25, 12.0
"""Pictures per step; share clear enough to be named; share then replaced by pictures for counting; scale of similarities."""
MOST_CONFUSION, NOISE = 0.4, 0.3
"""For simulated picture tokens: the largest share of a wrong word, and the deviation of the noise relative to a word's."""


def word_embeddings(tokenizer: PreTrainedTokenizerBase, embeddings: Tensor, words: tuple[str, ...]) -> Tensor:
    """Return the embedding of each word, the mean over its tokens."""
    ids = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
    return torch.stack([embeddings[number].float().mean(0) for number in ids])


@dataclass(frozen=True, slots=True)
class Targets:
    """Word indices of every picture of a bank: [n] each; -100 where a word does not apply."""

    what: Tensor
    visible: Tensor
    place: Tensor

    def slots(self, rows: object = slice(None)) -> tuple[Tensor, ...]:
        """Return the labels of the four picture tokens."""
        return tuple(labels[rows] for labels in (self.what, self.visible, self.place, self.what))

    @classmethod
    def of(cls, labels: Labels) -> Self:
        """Return the words of a bank's labels."""
        share, category, count = (torch.from_numpy(a) for a in (labels.share, labels.category, labels.count))
        scenario, corruption = torch.from_numpy(labels.scenario), torch.from_numpy(labels.corruption)
        unknown = torch.full_like(category, -100)
        number = torch.where((count >= 1) & (count <= 4), NOTHING + count, unknown)
        what = torch.where(share < NAMED_FROM, NOTHING, torch.where(category >= 0, category, number))
        visible = (share >= KNOWN).long() + (share >= CLEAR).long()
        return cls(what, visible, torch.where(corruption >= 0, len(PLACES) + corruption, scenario))


class Words:
    """The embeddings that the four picture tokens are trained towards."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, embeddings: Tensor) -> None:
        what, visible, place = (
            word_embeddings(tokenizer, embeddings, words) for words in (WHAT, VISIBLE, (*PLACES, *FAULTS))
        )
        self.tables = (what, visible, place, what)
        self.scale = what.pow(2).mean()

    def simulate(self, bank: Bank, seed: int) -> Tensor:
        """Return picture tokens [n, 4, width] like those of an uncertain tower: the right word mixed with another, plus noise."""
        generator = torch.Generator().manual_seed(seed)
        slots = list[Tensor]()
        for table, labels in zip(self.tables, Targets.of(Labels(bank)).slots(), strict=True):
            other = table[torch.randint(len(table), labels.shape, generator=generator)]
            right = torch.where((labels >= 0).unsqueeze(1), table[labels.clamp(min=0)], table.mean(0))
            share = torch.rand(len(labels), 1, generator=generator) * MOST_CONFUSION
            noise = torch.randn(right.shape, generator=generator) * NOISE * self.scale.sqrt()
            slots.append(right * (1 - share) + other * share + noise)
        return torch.stack(slots, 1)

    def similarities(self, tokens: Tensor, slot: int) -> Tensor:
        """Return the cosine similarities of picture tokens [n, width] to the words of a slot, after subtracting the mean word."""
        table = self.tables[slot]
        center = table.mean(0)
        return normalize(tokens - center, dim=1) @ normalize(table - center, dim=1).T

    def loss(self, tokens: Tensor, targets: tuple[Tensor, ...]) -> Tensor:
        """Return cross entropy over the words plus squared error to the right word, summed over the slots of [n, 4, width]."""
        total = torch.zeros(())
        for slot, labels in enumerate(targets):
            known = labels >= 0
            if bool(known.any()):
                x, y = tokens[known, slot].float(), labels[known]
                error = (x - self.tables[slot][y]).pow(2).mean() / self.scale
                total = total + cross_entropy(self.similarities(x, slot) * SHARPNESS, y) + 0.5 * error
        return total


class PictureEncoder(nn.Module):
    """The embedded model's tower, one more layer on it, and the projection of the connector.

    The tower recognizes what it was trained on; the new layer carries that to the places of the four picture tokens. The tower,
    ``lower``, is frozen at first.
    """

    def __init__(self, tower: nn.Module, text_width: int, deviation: float) -> None:
        super().__init__()
        config = Idefics3VisionConfig(
            **{**tower.config.to_dict(), "num_hidden_layers": tower.config.num_hidden_layers + 1}
        )
        config._attn_implementation = tower.config._attn_implementation
        self.config, self.lower = config, tower.requires_grad_(False)
        self.norm, tower.post_layernorm = deepcopy(tower.post_layernorm).requires_grad_(True), nn.Identity()
        self.layer = Idefics3EncoderLayer(config)
        inputs = config.hidden_size * SCALE * SCALE
        self.bridge = nn.Linear(inputs, text_width, bias=False)
        for parameter in self.layer.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
        nn.init.normal_(self.bridge.weight, std=deviation / inputs**0.5)

    def forward(self, pixels: Tensor) -> Tensor:
        """Map uint8 pictures [n, SIDE, SIDE, 3] to picture tokens [n, 4, text width], as Idefics3 does."""
        values = pixels.permute(0, 3, 1, 2).float() / 127.5 - 1.0
        states = self.norm(self.layer(self.lower(values).last_hidden_state, None))
        return self.bridge(Idefics3Connector.pixel_shuffle(None, states, SCALE))

    def tower_state(self) -> dict[str, Tensor]:
        """Return the weights by their names in an Idefics3 vision tower of one more layer."""
        number = self.config.num_hidden_layers - 1
        parts = {f"encoder.layers.{number}.": self.layer, "post_layernorm.": self.norm, "": self.lower}
        return {
            f"{prefix}{name}": weight for prefix, part in parts.items() for name, weight in part.state_dict().items()
        }

    @torch.no_grad()
    def encode(self, pixels: np.ndarray) -> Tensor:
        """Return the picture tokens of many pictures."""
        self.eval()
        parts = [self(torch.from_numpy(pixels[k : k + 128].copy())) for k in range(0, len(pixels), 128)]
        return torch.cat(parts).float()


class LookingStage:
    """Batches of pictures: most show an object to name, some show objects to count."""

    def __init__(self, bank: Bank, words: Words, seed: int) -> None:
        self.bank, self.words, self.seed = bank, words, seed
        labels = Labels(bank)
        self.targets, self.pools = Targets.of(labels), labels.pools()
        self.counted = np.flatnonzero(self.targets.what.numpy() > NOTHING)
        weights = np.array([WEIGHTS[name] for name in SCENARIOS])
        self.weights = weights / weights.sum()

    def losses(self, encoder: PictureEncoder, step: int) -> dict[str, Tensor]:
        """Return the loss of the step's pictures."""
        rng = np.random.default_rng((self.seed, 135, step))
        scenarios, named = rng.choice(len(self.pools), BATCH, p=self.weights), rng.random(BATCH) < NAMED_SHARE
        rows = np.array([rng.choice(self.pools[k][int(visible)]) for k, visible in zip(scenarios, named, strict=True)])
        if len(self.counted):
            rows = np.where(rng.random(BATCH) < COUNTED_SHARE, rng.choice(self.counted, BATCH), rows)
        tokens = encoder(torch.from_numpy(self.bank.pixels[rows]))
        return {"words": self.words.loss(tokens, self.targets.slots(rows))}


def word_accuracy(encoder: PictureEncoder, bank: Bank, words: Words) -> dict[str, float]:
    """Return group -> share of the pictures whose first token is nearest to the right word."""
    labels = Labels(bank)
    tokens = encoder.encode(bank.pixels)
    what = Targets.of(labels).what
    nearest = words.similarities(tokens[:, 0], 0).argmax(1)
    clear = torch.from_numpy(labels.share >= CLEAR)
    groups = {"clear": clear & (what >= 0) & (what < NOTHING), "hidden": what == NOTHING, "counts": what > NOTHING}
    groups |= {name: groups["clear"] & torch.from_numpy(labels.scenario == k) for k, name in enumerate(SCENARIOS)}
    return {name: round(float((nearest[rows] == what[rows]).float().mean()), 3) for name, rows in groups.items()}
