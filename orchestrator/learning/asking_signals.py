"""Habit and knowledge of asking on held-out states, while a training goes on: neutral b and AUC of the odds of asking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp

import numpy as np

from actors.playing.option_scores import readable_forms, sum_scores
from actors.playing.state_graph import Question, StateGraph
from orchestrator.learning.states import GameState
from orchestrator.learning.student import Student
from orchestrator.operating.knowledge import KNOWN, Detection, Signals, collect_signals, detect
from orchestrator.operating.policy import Floats, QuestionPolicy, make_policy
from sweeps.conditions import CONDITIONS

Signal = tuple[float, float]
"""Log-odds of asking at a state, and the chance of the right category if the model names one."""


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
    """Return the signals of the states at which something can be asked."""
    signals = collect_signals([(question_policy(policy, state),) for state in states])
    return tuple(zip(signals.odds.tolist(), signals.recognition.tolist(), strict=True))


def detection_measures(signals: Mapping[str, Sequence[Signal]], trained: Sequence[str]) -> dict[str, float]:
    """Return AUC and neutral b, means over the scenarios in and out of domain that have states of both kinds."""
    measures = {}
    for domain in ("in", "out_of"):
        detections = [_detect(own) for name, own in signals.items() if (name in trained) == (domain == "in")]
        usable = [each for each in detections if not np.isnan(each.auc)]
        if usable:
            measures[f"asking_auc_{domain}_domain"] = float(np.mean([each.auc for each in usable]))
            measures[f"neutral_b_{domain}_domain"] = float(np.mean([each.neutral for each in usable]))
    return measures


def _detect(signals: Sequence[Signal]) -> Detection:
    odds, recognition = np.array(signals, dtype=np.float64).reshape(len(signals), 2).T
    return detect(Signals(np.arange(len(odds)), odds, recognition), recognition >= KNOWN)
