"""Greedy zero-shot episodes with the current weights: accuracy in and out of domain, and when the model asks.

The samples depend on the seed, not on the step. Reported scores come from ``run``, not from here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path

import numpy as np

from actors.engine.batching import Job
from actors.engine.image_loader import picture_bounds
from actors.playing.option_scores import readable_forms, sum_scores
from actors.playing.state_graph import Question, StateGraph
from envs import SCENARIOS
from envs.render import Renderer
from envs.samples import limit_samples, load_samples
from envs.scenario import suggestions
from envs.types import Action, Sample
from orchestrator.learning.states import GameState, solution_path
from orchestrator.learning.student import Student
from orchestrator.operating.knowledge import KNOWN, Detection, Signals, collect_signals, detect
from orchestrator.operating.policy import Floats, QuestionPolicy, make_policy
from sweeps.conditions import CONDITIONS

Signal = tuple[float, float]
"""Log-odds of asking at a state, and the probability of the right category given that the model names a category."""


def option_probabilities(policy: Student, state: GameState, question: Question) -> Floats:
    """Return the probability of each option of a question, summed over the replies that name it."""
    forms = readable_forms(question, state.sample, CONDITIONS["zero-shot"])
    scores = policy.scores(state.job(), [form for form, _ in forms])
    options = sum_scores(len(question.options), [number for _, number in forms], scores)
    return np.array([exp(option.log_probability) for option in options[:-1]])


def question_policy(policy: Student, state: GameState) -> QuestionPolicy:
    """Return the model's policy at one state."""
    question = Question(state.state, state.job().request.situation.view)
    single = StateGraph(state.sample, (question,), (0,), ((),))
    return make_policy(single, [option_probabilities(policy, state, question)], [-2])[0]


def asking_signals(policy: Student, states: Sequence[GameState]) -> tuple[Signal, ...]:
    """Return the signals of the states that offer a suggestion."""
    signals = collect_signals([(question_policy(policy, state),) for state in states])
    return tuple(zip(signals.odds.tolist(), signals.recognition.tolist(), strict=True))


def detection_measures(signals: Mapping[str, Sequence[Signal]], trained: Sequence[str]) -> dict[str, float]:
    """Return the mean AUC and neutral b of asking, in and out of domain.

    Scenarios whose states are all known (``KNOWN``), or all unknown, are left out.
    """
    measures = {}
    for domain in ("in", "out_of"):
        detections = [_detect(pairs) for name, pairs in signals.items() if (name in trained) == (domain == "in")]
        usable = [each for each in detections if not np.isnan(each.auc)]
        if usable:
            measures[f"asking_auc_{domain}_domain"] = float(np.mean([each.auc for each in usable]))
            measures[f"neutral_b_{domain}_domain"] = float(np.mean([each.neutral for each in usable]))
    return measures


def _detect(signals: Sequence[Signal]) -> Detection:
    odds, recognition = np.array(signals, dtype=np.float64).reshape(len(signals), 2).T
    return detect(Signals(np.arange(len(odds)), odds, recognition), recognition >= KNOWN)


AT_ONCE = 64
"""Questions per batch, unless a training step takes fewer replies at once."""


@dataclass(frozen=True, slots=True)
class ScenarioEvaluation:
    """The outcome of an evaluation in one scenario; lists have one entry per sample."""

    right: tuple[bool, ...]
    suggestions: tuple[int, ...]
    hidden_asks: tuple[bool, ...]
    """True if the first reply was a valid or invalid suggestion."""
    clear_asks: tuple[bool, ...]
    """The same for the reply to the clear view; only samples that still offer suggestions there."""
    clear_right: tuple[bool, ...]
    """True if the reply to the clear view names the right category."""
    signals: tuple[Signal, ...] = ()
    """Signals of every state from the first to the clear view."""


def evaluate(
    policy: Student, folder: Path, scenarios: Sequence[str], samples: int, seed: int
) -> dict[str, ScenarioEvaluation]:
    """Evaluate ``samples`` samples of each scenario of a data folder; raises BadData."""
    renderer = Renderer(folder, fit=picture_bounds(policy.train.model))
    return {
        name: _evaluate_scenario(policy, limit_samples(load_samples(folder, name), samples, seed), renderer)
        for name in scenarios
    }


def _evaluate_scenario(policy: Student, samples: Sequence[Sample], renderer: Renderer) -> ScenarioEvaluation:
    """Play the episodes of these samples, then ask about their clear views."""
    states = [GameState(s, SCENARIOS[s.scenario].initial(s), "hidden", renderer) for s in samples]
    right, asks = [False] * len(samples), [0] * len(samples)
    hidden_asks: list[bool] = []
    live: list[tuple[int, GameState]] = list(enumerate(states))
    while live:
        replies = greedy_replies(policy, [state for _, state in live])
        outcomes = [(index, state, state.outcome(reply)) for (index, state), reply in zip(live, replies, strict=True)]
        hidden_asks = hidden_asks or [outcome.action is Action.SUGGESTION for _, _, outcome in outcomes]
        live = []
        for index, state, outcome in outcomes:
            right[index] = outcome.right
            if outcome.next_state is not None:
                asks[index] += 1
                live.append((index, state.successor(outcome.next_state)))
    paths = [solution_path(sample, renderer) for sample in samples]
    clear = [path[-1] for path in paths]
    clear_outcomes = [state.outcome(reply) for state, reply in zip(clear, greedy_replies(policy, clear), strict=True)]
    offers = [bool(suggestions(SCENARIOS[s.scenario].offered(s.sample, s.state))) for s in clear]
    clear_asks = [o.action is Action.SUGGESTION for o, offer in zip(clear_outcomes, offers, strict=True) if offer]
    return ScenarioEvaluation(
        tuple(right), tuple(asks), tuple(hidden_asks), tuple(clear_asks), tuple(o.right for o in clear_outcomes),
        asking_signals(policy, [state for path in paths for state in path]),
    )  # fmt: skip


def greedy_replies(policy: Student, states: Sequence[GameState]) -> list[str]:
    """Return the greedy reply to each state."""
    replies: list[str] = []
    at_once = min(AT_ONCE, policy.train.at_once * policy.train.rollouts)
    for start in range(0, len(states), at_once):
        replies += _reply(policy, [state.job() for state in states[start : start + at_once]])
    return replies


def _reply(policy: Student, jobs: Sequence[Job]) -> list[str]:
    """Reply in one batch, or one by one if the processor takes one question at a time (SmolVLM's)."""
    try:
        return policy.greedy(jobs)
    except ValueError:
        if len(jobs) == 1:
            raise
    return [policy.greedy([job])[0] for job in jobs]


def measures(evaluations: Mapping[str, ScenarioEvaluation], trained: Sequence[str]) -> dict[str, float]:
    """Return means over scenarios, each with equal weight: accuracy in and out of domain and asks at hidden and clear views, in
    percent, with ``detection_measures``."""
    scenarios = evaluations.items()
    outcomes = {
        "acc_in_domain": [scenario.right for name, scenario in scenarios if name in trained],
        "acc_out_of_domain": [scenario.right for name, scenario in scenarios if name not in trained],
        "eval_asks_hidden": [scenario.hidden_asks for _, scenario in scenarios],
        "eval_asks_clear": [scenario.clear_asks for _, scenario in scenarios if scenario.clear_asks],
    }
    means = {name: 100 * _mean([_mean(values) for values in lists]) for name, lists in outcomes.items() if lists}
    return means | detection_measures({name: scenario.signals for name, scenario in scenarios}, trained)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
