"""Greedy zero-shot episodes with the current weights: accuracy in and out of domain, and when the model asks.

The samples depend on the seed, not on the step. Reported scores come from ``run``, not from here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from actors.engine.batching import Job
from actors.engine.image_loader import picture_bounds
from envs import SCENARIOS
from envs.render import Renderer
from envs.samples import limit_samples, load_samples
from envs.scenario import suggestions
from envs.types import Action, Sample
from orchestrator.learning.states import GameState, solution_path
from orchestrator.learning.student import Student

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
    clear = [solution_path(sample, renderer)[-1] for sample in samples]
    clear_outcomes = [state.outcome(reply) for state, reply in zip(clear, greedy_replies(policy, clear), strict=True)]
    offers = [bool(suggestions(SCENARIOS[s.scenario].offered(s.sample, s.state))) for s in clear]
    clear_asks = [o.action is Action.SUGGESTION for o, offer in zip(clear_outcomes, offers, strict=True) if offer]
    return ScenarioEvaluation(
        tuple(right), tuple(asks), tuple(hidden_asks), tuple(clear_asks), tuple(o.right for o in clear_outcomes),
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
    percent."""
    scenarios = evaluations.items()
    outcomes = {
        "acc_in_domain": [scenario.right for name, scenario in scenarios if name in trained],
        "acc_out_of_domain": [scenario.right for name, scenario in scenarios if name not in trained],
        "eval_asks_hidden": [scenario.hidden_asks for _, scenario in scenarios],
        "eval_asks_clear": [scenario.clear_asks for _, scenario in scenarios if scenario.clear_asks],
    }
    return {name: 100 * _mean([_mean(values) for values in lists]) for name, lists in outcomes.items() if lists}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
