"""What a training must show, measured: episodes before and after on held-out samples, and controls that must not pass.

Held-out samples are drawn from seeds from 900000 up, training samples from 5000 up; the embedded model was made from neither
(``actors.embedded.training``: 1000 to 1044, and 950000).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from envs import SCENARIOS
from envs.demo import draw
from orchestrator.learning import run_files, settings, trainer
from orchestrator.learning.evaluation import ScenarioEvaluation, evaluate
from orchestrator.learning.policy import Policy
from orchestrator.learning.settings import Training
from orchestrator.learning.update import PolicyOptimizer
from orchestrator.report.statistics.intervals import score_interval, stratum_from_values

DEMO = Path(__file__).parents[3] / "sweeps" / "demo-learning.toml"
TRAINED = ("QD", "COCO")
UNSEEN = tuple(name for name in SCENARIOS if name not in TRAINED)
FIRST_TEST, FIRST_TRAIN = 900_000, 5_000
A_FOLDER = 34
"""Samples a scenario in one folder of held-out samples: VSOD has ids for 42."""
CONTROLS: dict[str, tuple[str, ...]] = {
    "shuffled": ("train.shuffle_rewards=true",),
    "no-exploration": ("train.exploration.hint=0",),
    "cloning": ("train.steps=0", "train.exploration.clone=20", "train.exploration.hint=0"),
}
"""Name -> settings that take away what is to be learnt from. Cloning is shown the right replies instead, and gains points by
that; it does not pass because it asks on at clear views that it named before."""


@dataclass(frozen=True)
class Gain:
    """Points gained over some scenarios, each weighing the same, on the same samples; with the paired 95% interval."""

    points: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.points:+.1f} [{self.low:.1f}, {self.high:.1f}]"


@dataclass(frozen=True)
class Verdict:
    """What one training came to."""

    trained: Gain
    unseen: Gain
    clear_asks: float
    """Percent of clear views, suggestions being offered there, at which the model still asks."""
    clear_right: float
    """Points gained in naming clear views."""

    def passes(self, trained: float, unseen: float) -> bool:
        """Whether it shows learning by so many points in the trained scenarios and in the unseen ones."""
        learnt = (
            self.trained.points >= trained
            and self.unseen.points >= unseen
            and min(self.trained.low, self.unseen.low) > 0
        )
        return learnt and self.clear_asks < 5 and self.clear_right >= -5

    def __str__(self) -> str:
        return (
            f"trained {self.trained}, unseen {self.unseen}, asks on clear views {self.clear_asks:.1f}%, "
            f"clear views named {self.clear_right:+.1f}"
        )


def held_out(folder: Path, number: int, samples: int = A_FOLDER) -> list[Path]:
    """``number`` folders of ``samples`` held-out samples a scenario."""
    places = [folder / f"test-{k}" for k in range(number)]
    for k, place in enumerate(places):
        if not place.exists():
            draw(place, samples * len(SCENARIOS), FIRST_TEST + k)
    return places


def to_learn_from(folder: Path, seed: int, samples: int = 320) -> Path:
    """A folder of training samples of the two scenarios."""
    place = folder / f"train-{seed}"
    if not place.exists():
        draw(place, samples, FIRST_TRAIN + 1000 * seed, TRAINED)
    return place


def training(test: Path, learnt: Path, seed: int, more: Iterable[str] = ()) -> Training:
    """The demo's training on other folders."""
    own = (f"data={test}", f"train.data={learnt}", f"train.seed={seed}", "tracking.uri=none")
    return settings.load(DEMO, [*own, *more])


def examined(policy: Policy, folders: Sequence[Path], samples: int = A_FOLDER) -> list[dict[str, ScenarioEvaluation]]:
    """For each folder: scenario -> what the policy does on its samples."""
    return [evaluate(policy, folder, list(SCENARIOS), samples, 0) for folder in folders]


def merged(found: Sequence[Mapping[str, ScenarioEvaluation]]) -> dict[str, ScenarioEvaluation]:
    """Scenario -> what was done on the samples of all folders."""
    return {
        name: ScenarioEvaluation(
            *(sum((getattr(part[name], field) for part in found), ()) for field in ScenarioEvaluation.__slots__)
        )
        for name in SCENARIOS
    }


def taught(made: Training, folder: Path) -> Policy:
    """The policy after the training, read back from what was stored."""
    done = trainer.train(made, folder, lambda line: None)
    assert done.model is not None
    policy = Policy(made.train)
    assert run_files.load_checkpoint(folder, policy, PolicyOptimizer(policy).adamw) == made.train.steps
    return policy


def judged(before: Mapping[str, ScenarioEvaluation], after: Mapping[str, ScenarioEvaluation]) -> Verdict:
    """Before and after on the same samples."""
    asks = [float(np.mean(after[name].clear_asks)) for name in SCENARIOS if after[name].clear_asks]
    named = [float(np.mean(after[n].clear_right)) - float(np.mean(before[n].clear_right)) for n in SCENARIOS]
    return Verdict(
        gain(before, after, TRAINED),
        gain(before, after, UNSEEN),
        100 * float(np.mean(asks)),
        100 * float(np.mean(named)),
    )


def gain(
    before: Mapping[str, ScenarioEvaluation], after: Mapping[str, ScenarioEvaluation], names: Sequence[str]
) -> Gain:
    """Score interval of the mean of paired differences, scenarios as strata (``orchestrator.report.statistics.intervals``)."""
    strata = []
    for name in names:
        pairs = zip(after[name].right, before[name].right, strict=True)
        strata.append(stratum_from_values(np.array([100 * (int(a) - int(b)) for a, b in pairs]), -100, 100))
    return Gain(sum(one.mean for one in strata) / len(strata), *score_interval(strata))


def table(before: Mapping[str, ScenarioEvaluation], after: Mapping[str, ScenarioEvaluation]) -> str:
    """Accuracy and suggestions of each scenario, before -> after."""

    def cell(name: str) -> str:
        old, new = before[name], after[name]
        right = f"{100 * np.mean(old.right):.0f} -> {100 * np.mean(new.right):.0f}"
        return f"{name} {right} ({np.mean(old.suggestions):.1f} -> {np.mean(new.suggestions):.1f})"

    return "; ".join(map(cell, SCENARIOS))
