"""Greedy zero-shot episodes with the weights as they are now: accuracy in and out of domain, and when the model asks.

Samples are drawn by seed, the same at every step; the figures of record are those that ``run`` stores.
"""

from __future__ import annotations

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
from orchestrator.learning.states import GameState, path
from orchestrator.learning.student import Student

AT_ONCE = 64
"""Most questions answered together; fewer where a step of the training takes fewer replies at once."""


@dataclass(frozen=True, slots=True)
class Played:
    """The outcome of an evaluation in one scenario; lists have one entry per sample."""

    right: tuple[bool, ...]
    suggestions: tuple[int, ...]
    hidden_asks: tuple[bool, ...]
    """True if the first reply was a valid or invalid suggestion."""
    clear_asks: tuple[bool, ...]
    """The same at the clear view, of the samples that still offer suggestions there."""
    clear_right: tuple[bool, ...]
    """True if the clear view was named rightly."""


def evaluate(policy: Student, folder: Path, scenarios: Sequence[str], samples: int, seed: int) -> dict[str, Played]:
    """Scenario -> what was found on ``samples`` of its samples; raises BadData."""
    renderer = Renderer(folder, fit=picture_bounds(policy.train.model))
    return {
        name: examined(policy, limit_samples(load_samples(folder, name), samples, seed), renderer) for name in scenarios
    }


def examined(policy: Student, samples: Sequence[Sample], renderer: Renderer) -> Played:
    """Episodes of these samples of one scenario, and their clear views."""
    paths = [path(sample, renderer) for sample in samples]
    states = [GameState(s, SCENARIOS[s.scenario].initial(s), "hidden", renderer) for s in samples]
    right, asks = [False] * len(samples), [0] * len(samples)
    firsts: list[bool] = []
    live: list[tuple[int, GameState]] = list(enumerate(states))
    while live:
        replies = greedy(policy, [state for _, state in live])
        outcomes = [(index, state, state.read(reply)) for (index, state), reply in zip(live, replies, strict=True)]
        firsts = firsts or [outcome.action is Action.SUGGESTION for _, _, outcome in outcomes]
        live = []
        for number, state, outcome in outcomes:
            right[number] = outcome.right
            if outcome.after is not None:
                asks[number] += 1
                live.append((number, state.next(outcome.after)))
    clear = [states[-1] for states in paths]
    named = [state.read(reply) for state, reply in zip(clear, greedy(policy, clear), strict=True)]
    offers = [bool(suggestions(SCENARIOS[s.scenario].offered(s.sample, s.state))) for s in clear]
    is_suggestion = [o.action is Action.SUGGESTION for o, offer in zip(named, offers, strict=True) if offer]
    return Played(tuple(right), tuple(asks), tuple(firsts), tuple(is_suggestion), tuple(o.right for o in named))


def greedy(policy: Student, states: Sequence[GameState]) -> list[str]:
    """The likeliest reply to each state."""
    replies: list[str] = []
    at_once = min(AT_ONCE, policy.train.at_once * policy.train.rollouts)
    for start in range(0, len(states), at_once):
        replies += together(policy, [state.job() for state in states[start : start + at_once]])
    return replies


def together(policy: Student, jobs: Sequence[Job]) -> list[str]:
    """Answered as one batch, or one by one where the processor refuses several questions (SmolVLM's)."""
    try:
        return policy.greedy(jobs)
    except ValueError:
        if len(jobs) == 1:
            raise
    return [policy.greedy([job])[0] for job in jobs]


def measures(evaluations: Mapping[str, Played], trained: Sequence[str]) -> dict[str, float]:
    """Unweighted means over scenarios, in percent: accuracy in and out of domain; asks on hidden and clear views."""
    parts = {
        "in_domain": [n for n in evaluations if n in trained],
        "out_of_domain": [n for n in evaluations if n not in trained],
    }
    measured = {
        f"acc_{part}": percent([mean(evaluations[n].right) for n in names]) for part, names in parts.items() if names
    }
    measured["eval_asks_hidden"] = percent([mean(evaluation.hidden_asks) for evaluation in evaluations.values()])
    clear = [mean(played.clear_asks) for played in evaluations.values() if played.clear_asks]
    return {**measured, **({"eval_asks_clear": percent(clear)} if clear else {})}


def mean(values: Sequence[float]) -> float:
    """The plain mean."""
    return sum(values) / len(values)


def percent(shares: Sequence[float]) -> float:
    """The mean of shares, in percent."""
    return 100 * mean(shares)
