"""Measure what a training must show: episodes before and after on held-out samples, and controls that must not pass.

Held-out samples are drawn from seeds from 900000 up, training samples from 5000 up; the embedded model was made from neither
(``proactive_demo.embedded.training``: 1000 to 1044, and 950000).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from envs import SCENARIOS
from orchestrator.learning import run_files, settings, trainer
from orchestrator.learning.evaluation import ScenarioEvaluation, evaluate
from orchestrator.learning.policy import Policy
from orchestrator.learning.settings import Training
from orchestrator.learning.trainer import PolicyOptimizer
from orchestrator.report.statistics.intervals import score_interval, stratum_from_values
from proactive_demo.drawing import draw

DEMO = Path(__file__).parents[3] / "sweeps" / "demo-learning.toml"
TRAINED = ("QD", "COCO")
UNSEEN = tuple(name for name in SCENARIOS if name not in TRAINED)
FIRST_TEST, FIRST_TRAIN = 900_000, 5_000
SAMPLES_PER_FOLDER = 34
"""Samples per scenario in one folder of held-out samples. VSOD has only 42 ids."""
CONTROLS: dict[str, tuple[str, ...]] = {
    "shuffled": ("train.shuffle_rewards=true",),
    "no-exploration": ("train.exploration.hint=0",),
    "cloning": ("train.steps=0", "train.exploration.clone=20", "train.exploration.hint=0"),
}
"""Name -> settings that remove what the model could learn from. Cloning shows it the right replies instead and gains
points; it does not pass because it still asks at clear views that it named before."""


@dataclass(frozen=True)
class Gain:
    """Points gained on the same samples, averaged over scenarios, with the paired 95% interval."""

    points: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.points:+.1f} [{self.low:.1f}, {self.high:.1f}]"


@dataclass(frozen=True)
class Verdict:
    """The outcome of one training."""

    trained: Gain
    unseen: Gain
    clear_asks: float
    """Percent of clear views with suggestions on offer at which the model still asks."""
    clear_right: float
    """Points gained in naming clear views."""

    def passes(self, trained: float, unseen: float) -> bool:
        """Return True if it gains at least these points in the trained and in the unseen scenarios."""
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


def held_out_folders(folder: Path, number: int, samples: int = SAMPLES_PER_FOLDER) -> list[Path]:
    """Return ``number`` folders with ``samples`` held-out samples per scenario."""
    folders = [folder / f"test-{k}" for k in range(number)]
    for k, path in enumerate(folders):
        if not path.exists():
            draw(path, samples * len(SCENARIOS), FIRST_TEST + k)
    return folders


def training_folder(folder: Path, seed: int, samples: int = 320) -> Path:
    """Return a folder of training samples of the two scenarios."""
    path = folder / f"train-{seed}"
    if not path.exists():
        draw(path, samples, FIRST_TRAIN + 1000 * seed, TRAINED)
    return path


def load_training(test: Path, learnt: Path, seed: int, overrides: Iterable[str] = ()) -> Training:
    """Return the demo's training on other folders."""
    own = (f"data={test}", f"train.data={learnt}", f"train.seed={seed}", "tracking.uri=none")
    return settings.load(DEMO, [*own, *overrides])


def evaluate_folders(
    policy: Policy, folders: Sequence[Path], samples: int = SAMPLES_PER_FOLDER
) -> list[dict[str, ScenarioEvaluation]]:
    """Return for each folder: scenario -> evaluation of the policy on its samples."""
    return [evaluate(policy, folder, list(SCENARIOS), samples, 0) for folder in folders]


def merge_evaluations(evaluations: Sequence[Mapping[str, ScenarioEvaluation]]) -> dict[str, ScenarioEvaluation]:
    """Return scenario -> evaluation on the samples of all folders."""
    return {
        name: ScenarioEvaluation(
            *(sum((getattr(part[name], field) for part in evaluations), ()) for field in ScenarioEvaluation.__slots__)
        )
        for name in SCENARIOS
    }


def train_policy(load_training: Training, folder: Path) -> Policy:
    """Train, and return the policy read back from the stored checkpoint."""
    done = trainer.train(load_training, folder, lambda line: None)
    assert done.model is not None
    policy = Policy(load_training.train)
    assert run_files.load_checkpoint(folder, policy, PolicyOptimizer(policy).adamw) == load_training.train.steps
    return policy


def compare_evaluations(before: Mapping[str, ScenarioEvaluation], after: Mapping[str, ScenarioEvaluation]) -> Verdict:
    """Compare evaluations before and after on the same samples."""
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
    """Return the mean paired difference with its score interval; scenarios are strata (``report.statistics.intervals``)."""
    strata = []
    for name in names:
        pairs = zip(after[name].right, before[name].right, strict=True)
        strata.append(stratum_from_values(np.array([100 * (int(a) - int(b)) for a, b in pairs]), -100, 100))
    return Gain(sum(stratum.mean for stratum in strata) / len(strata), *score_interval(strata))


def table(before: Mapping[str, ScenarioEvaluation], after: Mapping[str, ScenarioEvaluation]) -> str:
    """Return accuracy and suggestions of each scenario, before -> after."""

    def cell(name: str) -> str:
        old, new = before[name], after[name]
        right = f"{100 * np.mean(old.right):.0f} -> {100 * np.mean(new.right):.0f}"
        return f"{name} {right} ({np.mean(old.suggestions):.1f} -> {np.mean(new.suggestions):.1f})"

    return "; ".join(map(cell, SCENARIOS))
