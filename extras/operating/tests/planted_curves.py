"""Policies with planted will and knowledge."""

from __future__ import annotations

from random import Random

import numpy as np

from envs import SCENARIOS
from proactive_operating.policy import Policy, make_policy
from proactive_operating.state_graph import StateGraph


def planted(graph: StateGraph, rng: Random, asks: float = 0.0, skill: float = 2.0, noise: float = 0.5) -> Policy:
    """A policy with random odds: ``asks`` moves its will to ask, ``skill`` makes it right and quiet on telling views."""
    chances = []
    game = SCENARIOS[graph.sample.scenario]
    for number, question in enumerate(graph.questions):
        kinds = [graph.kind(number, option) for option in range(len(question.options))]
        sees = game.telling(graph.sample, question.state)
        wish = asks - skill * sees + skill / 2
        logits = [
            wish
            if kind == "suggestion"
            else (skill if kind == "right" and sees else 0.0) - (3 if kind == "abstention" else 0)
            for kind in kinds
        ]
        weights = np.exp(np.array(logits) + noise * np.array([rng.gauss(0, 1) for _ in kinds]))
        chances.append(0.97 * weights / weights.sum())
    return make_policy(graph, chances, [int(np.argmax(each)) for each in chances])
