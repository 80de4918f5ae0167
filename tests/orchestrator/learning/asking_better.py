"""Does a reward or an exploration teach asking better? ``python -m tests.orchestrator.learning.asking_better DIR SEED ARM:SEED``.

Trains the demo's model with the settings of each arm, asks for the probability of every option on held-out samples before
and after, and splits the difference at equal numbers of suggestions; docs/operating-curves.md has the table.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from time import process_time

import numpy as np

from actors.playing.state_graph import StateGraph, build_graph
from envs.render import Renderer
from envs.samples import load_samples
from orchestrator.learning.evaluation import question_policy
from orchestrator.learning.policy import Policy
from orchestrator.learning.states import GameState
from orchestrator.operating.knowledge import KNOWN
from orchestrator.operating.measures import detection_measures
from orchestrator.operating.policy import Policy as OptionPolicy
from orchestrator.operating.summary import Summary, summarize
from orchestrator.report.measures.operating_splits import split_intervals
from orchestrator.report.statistics.agreement import IntervalEstimate
from proactive_demo.drawing import draw
from sweeps.conditions import VARIANTS
from tests.orchestrator.learning import proof

SAMPLES = 20
"""Held-out samples per scenario."""
SHORT = ("train.batch=64", "train.steps=60", "train.checkpoint_every=60", "train.warmup=3")
MORE_VIEWS = ("train.states.middle=1",)
ARMS: dict[str, tuple[str, ...]] = {
    "demo": (),
    "hot": (*MORE_VIEWS, "train.temperature=1.5"),
    "episode": (*MORE_VIEWS, "train.temperature=1.5", 'train.credit="episode"'),
    "wide": (*MORE_VIEWS, 'train.lora.targets=["q_proj","k_proj","v_proj","o_proj"]'),
    "low-rp": (*MORE_VIEWS, "train.rp=0.25"),
    "shuffled": ("train.shuffle_rewards=true",),
}
"""Name -> settings beside those of sweeps/demo-learning.toml and ``SHORT``; ``shuffled`` is the control."""


def ask_everything(policy: Policy, folder: Path) -> dict[str, Summary]:
    """Return the exact values of the model in each scenario, in the published order of options."""
    policy.network.eval()
    renderer, summaries = Renderer(folder), {}
    for name in (*proof.TRAINED, *proof.UNSEEN):
        graphs = [build_graph(sample, VARIANTS["every-state"]) for sample in load_samples(folder, name)]
        summaries[name] = summarize([(graphs, [_policy(policy, graph, renderer) for graph in graphs])])
    return summaries


def _policy(policy: Policy, graph: StateGraph, renderer: Renderer) -> OptionPolicy:
    states = [GameState(graph.sample, question.state, "middle", renderer) for question in graph.questions]
    return tuple(question_policy(policy, state) for state in states)


def split_between(
    before: dict[str, Summary], after: dict[str, Summary], names: Sequence[str], family: str
) -> dict[str, IntervalEstimate]:
    """Return the difference in exact accuracy over some scenarios and its two parts, in points."""
    curves = [(getattr(before[n], family), getattr(after[n], family), [str(k) for k in range(SAMPLES)]) for n in names]
    _, mean, _ = split_intervals(curves)
    return {
        part: IntervalEstimate(*(100 * value for value in values))
        for part, values in zip(("acc", "more", "better"), mean, strict=True)
    }


def mean_auc(summaries: dict[str, Summary], names: Sequence[str]) -> float:
    """Return the mean AUC by the model's own map over the scenarios that have one."""
    weights = np.full((1, SAMPLES), 1 / SAMPLES)
    labels = {name: {"own": summaries[name].signals.recognition >= KNOWN} for name in names}
    values = [detection_measures(summaries[name], labels[name], weights)["auc_own"][0] for name in names]
    return float(np.nanmean(values))


def run_arm(ground: Path, test: Path, before: dict[str, Summary], arm: str, seed: int) -> dict[str, object]:
    """Train one arm and return its row of the table."""
    start = process_time()
    learnt = proof.training_folder(ground, seed, 160)
    training = proof.load_training(test, learnt, seed, [*SHORT, *ARMS[arm]])
    after = ask_everything(proof.train_policy(training, ground / f"{arm}-{seed}"), test)
    row: dict[str, object] = {"arm": arm, "seed": seed}
    for group, names in (("unseen", proof.UNSEEN), ("trained", proof.TRAINED)):
        for family in ("plain", "persistent"):
            for part, value in split_between(before, after, names, family).items():
                row[f"{group} {family} {part}"] = [round(each, 1) for each in value]
        row[f"{group} auc"] = [round(mean_auc(each, names), 3) for each in (before, after)]
    return row | {"cpu_s": round(process_time() - start)}


def main(ground: Path, first_test: int, arms: Sequence[str]) -> None:
    test = ground / f"test-{first_test}"
    if not test.exists():
        draw(test, SAMPLES * 7, first_test)
    start = process_time()
    training = proof.load_training(test, proof.training_folder(ground, 0, 160), 0, SHORT)
    before = ask_everything(Policy(training.train), test)
    print(json.dumps({"before": round(process_time() - start)}), flush=True)
    for arm in arms:
        name, seed = arm.split(":")
        print(json.dumps(run_arm(ground, test, before, name, int(seed))), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
