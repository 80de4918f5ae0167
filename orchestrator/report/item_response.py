"""How hard samples are and how able cells are, by one mixed logistic model of a scenario (an item-response model).

The chance that a model under a condition ends a sample right has the log-odds ability - difficulty: the ability of a cell is
a level and effects of its model, its condition and of both, the difficulty of a sample one effect for all models and one for
each model (the testlet model of Bradlow, Wainer and Wang 1999, Psychometrika 64:153-168). All effects are normal; their
variances are estimated. Difficulties are integrated out on a grid (Bock and Aitkin 1981, Psychometrika 46:443-459), so that a
sample that everybody has right or wrong has a finite difficulty and takes part like all others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp  # type: ignore[import-untyped]

from orchestrator.report.intervals import Floats, Whole
from orchestrator.report.proportion import Z

POINTS, REACH = 41, 4.0
"""Points of the grid of difficulties, and standard deviations that it reaches to either side."""
ROUNDS, STEPS = 8, 8
"""Updates of the variances of abilities, and steps of the EM algorithm before each."""
FEWER = 400
"""Samples, evenly spaced, that variances and the information matrix are taken from where there are more."""
LEAST = 0.05
"""The least standard deviation of an effect, on the scale of log-odds."""
TINY = 1e-300


class Answers(NamedTuple):
    """What every cell of a scenario answered."""

    right: Floats
    """1 or 0 (cells, samples); NaN where there is no answer."""
    model: Whole
    """Number of each cell's model (cells,), from 0 on."""
    condition: Whole
    """Number of each cell's condition (cells,), from 0 on."""


class Fitted(NamedTuple):
    """Abilities and difficulties of a scenario; chances are shares."""

    cells: Floats
    """(cells, 3): the chance to be right on a sample drawn anew, low, high (95%)."""
    samples: Floats
    """(samples, 3): the chance that a cell drawn from those given is right on this sample, low, high (95%)."""
    difficulty: Floats
    """(samples,): posterior means of the effect common to all models, in log-odds; higher is harder."""
    spread: tuple[float, float]
    """Standard deviations of the difficulties: common to all models, and of a single model."""


class _State(NamedTuple):
    """Current estimates."""

    effects: Floats
    """Level, models, conditions, cells (effects,)."""
    scales: Floats
    """Standard deviation of each effect (effects,)."""
    common: float
    single: float
    """Standard deviations of difficulties."""


class _Posterior(NamedTuple):
    """Difficulties given the answers and a state, on the grid."""

    grid: Floats
    """(points,)"""
    kernel: Floats
    """(points, points): chance of a difficulty for a model, given the common one."""
    common: Floats
    """(samples, points): of the common difficulty."""
    likelihood: Floats
    """(models, samples, points): of a model's answers given its difficulty, up to a factor."""
    inner: Floats
    """(models, samples, points): the same given the common difficulty."""
    own: Floats
    """(models, samples, points): posterior of a model's difficulty."""


def fit(answers: Answers) -> Fitted:
    """Estimates of one scenario; two models or more."""
    design, kinds = _design(answers)
    state = _State(np.zeros(design.shape[1]), np.where(kinds == 0, 10.0, 0.5), 1.0, 0.5)
    state = state._replace(effects=np.eye(1, design.shape[1])[0] * _level(answers))
    part = answers._replace(right=answers.right[:, :: -(-answers.right.shape[1] // FEWER)])
    for _ in range(ROUNDS):
        state = _steps(part, design, state)
        state = state._replace(scales=_scales(state.effects, _covariance(part, design, state), kinds))
    state = _steps(answers, design, state)
    return _fitted(answers, design, state, _covariance(part, design, state, answers.right.shape[1]))


def _steps(answers: Answers, design: Floats, state: _State) -> _State:
    for _ in range(STEPS):
        state = _step(answers, design, state)
    return state


def _design(answers: Answers) -> tuple[Floats, Whole]:
    """Which effects make up each cell's ability (cells, effects), and the kind of each effect: level, model, condition, both."""
    cells = len(answers.model)
    parts = [np.ones((cells, 1)), np.eye(answers.model.max() + 1)[answers.model]]
    if answers.condition.max():
        parts += [np.eye(answers.condition.max() + 1)[answers.condition], np.eye(cells)]
    kinds = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
    return np.hstack(parts), kinds


def _level(answers: Answers) -> float:
    right, seen = np.nansum(answers.right) + 0.5, np.isfinite(answers.right).sum() + 1.0
    return float(np.log(right / (seen - right)))


def _step(answers: Answers, design: Floats, state: _State) -> _State:
    """One step of EM: difficulties, then abilities by one Newton step and the variances of difficulties."""
    found = _posterior(answers, design, state)
    score, information = _score(answers, found, design @ state.effects)
    precision = state.scales**-2.0
    slope = design.T @ score - precision * state.effects
    effects = state.effects + np.linalg.solve((design.T * information) @ design + np.diag(precision), slope)
    common = np.sqrt((found.common @ found.grid**2).sum() / (len(found.common) - 1))
    return _State(effects, state.scales, max(float(common), LEAST), _single(answers, found))


def _single(answers: Answers, found: _Posterior) -> float:
    """Standard deviation of what is hard for one model alone; not known, and taken as none, of models under one condition."""
    if not answers.condition.max():
        return 0.0
    away = (found.grid[None, :] - found.grid[:, None]) ** 2
    squares = (found.common / found.inner * (found.likelihood @ (found.kernel * away).T)).sum(axis=2)
    return max(float(np.sqrt(squares.mean())), LEAST)


def _posterior(answers: Answers, design: Floats, state: _State) -> _Posterior:
    reach = REACH * float(np.hypot(state.common, state.single))
    grid = np.linspace(-reach, reach, POINTS)
    kernel = np.eye(POINTS)
    if state.single:
        kernel = np.exp(-0.5 * ((grid[None, :] - grid[:, None]) / state.single) ** 2)
        kernel /= kernel.sum(axis=1, keepdims=True)
    likelihood = _likelihood(answers, design @ state.effects, grid)
    inner = np.maximum(likelihood @ kernel.T, TINY)
    log = np.log(inner).sum(axis=0) - 0.5 * (grid / state.common) ** 2
    common = np.exp(log - logsumexp(log, axis=1, keepdims=True))
    own = likelihood * ((common / inner) @ kernel)
    return _Posterior(grid, kernel, common, likelihood, inner, own)


def _likelihood(answers: Answers, abilities: Floats, grid: Floats) -> Floats:
    """(models, samples, points), the greatest of each row 1."""
    odds = abilities[:, None] - grid
    wrong = -np.logaddexp(0, odds)
    right, seen = _whole(answers)
    found = []
    for model in range(answers.model.max() + 1):
        mine = answers.model == model
        log = right[mine].T @ odds[mine] + seen[mine].T @ wrong[mine]
        found.append(np.exp(log - log.max(axis=1, keepdims=True)))
    return np.stack(found)


def _whole(answers: Answers) -> tuple[Floats, Floats]:
    """Right answers, and which there are, as numbers (cells, samples)."""
    return np.nan_to_num(answers.right), np.isfinite(answers.right).astype(np.float64)


def _score(answers: Answers, found: _Posterior, abilities: Floats) -> tuple[Floats, Floats]:
    """Slope of the log-likelihood in the abilities, and the information if difficulties were known (cells,)."""
    chances = expit(abilities[:, None] - found.grid)
    right, seen = _whole(answers)
    expected = np.empty_like(chances)
    for model, own in enumerate(found.own):
        mine = answers.model == model
        expected[mine] = seen[mine] @ own
    score = right.sum(axis=1) - (expected * chances).sum(axis=1)
    return score, (expected * chances * (1 - chances)).sum(axis=1)


def _covariance(answers: Answers, design: Floats, state: _State, samples: int = 0) -> Floats:
    """Posterior covariance of the effects, by the observed information (Louis 1982, J. R. Stat. Soc. B 44:226-233).

    ``answers`` may be those of a part of ``samples`` samples.
    """
    found, abilities = _posterior(answers, design, state), design @ state.effects
    _, known = _score(answers, found, abilities)
    information = np.diag(known) - _missing(answers, found, abilities)
    information *= max(samples, answers.right.shape[1]) / answers.right.shape[1]
    return np.asarray(np.linalg.inv(design.T @ information @ design + np.diag(state.scales**-2.0)))


def _missing(answers: Answers, found: _Posterior, abilities: Floats) -> Floats:
    """Covariance of the slopes (cells, cells) that is left because difficulties are not known, summed over samples."""
    chances, (_, seen) = expit(abilities[:, None] - found.grid), _whole(answers)
    given = np.empty((*found.common.shape, len(abilities)))
    same = np.zeros((len(abilities), len(abilities)))
    for model, own in enumerate(found.own):
        mine = np.flatnonzero(answers.model == model)
        weighted = found.likelihood[model][:, None, :] * chances[mine]
        given[:, :, mine] = (weighted @ found.kernel.T / found.inner[model][:, None, :]).transpose(0, 2, 1)
        given[:, :, mine] *= seen[mine].T[:, None, :]
        each = (seen[mine].T[:, None, :] * chances[mine].T).reshape(-1, len(mine))
        mean = np.einsum("sk,ck,cs->sc", own, chances[mine], seen[mine])
        same[np.ix_(mine, mine)] = each.T @ (each * own.reshape(-1, 1)) - mean.T @ mean
    means = np.einsum("sk,skc->sc", found.common, given)
    flat = given.reshape(-1, len(abilities))
    between = flat.T @ (flat * found.common.reshape(-1, 1)) - means.T @ means
    return np.where(answers.model[:, None] == answers.model, same, between)


def _scales(effects: Floats, covariance: Floats, kinds: Whole) -> Floats:
    """Standard deviations of the effects of each kind, kept from 0 as Chung et al. do (2013, Psychometrika 78:685-709)."""
    squares = effects**2 + np.diag(covariance)
    scales = np.full(len(kinds), 10.0)
    for kind in range(1, kinds.max() + 1):
        mine = kinds == kind
        scales[mine] = max(float(np.sqrt(squares[mine].sum() / (mine.sum() - 1))), LEAST)
    return scales


def _fitted(answers: Answers, design: Floats, state: _State, covariance: Floats) -> Fitted:
    found = _posterior(answers, design, state)
    abilities, errors = design @ state.effects, np.sqrt(np.einsum("ce,ef,cf->c", design, covariance, design))
    bounds = abilities[:, None] + Z * errors[:, None] * np.array([0.0, -1.0, 1.0])
    weights = np.exp(-0.5 * (found.grid / np.hypot(state.common, state.single)) ** 2)
    cells = expit(bounds[:, :, None] - found.grid) @ (weights / weights.sum())
    by_common = (expit(abilities[:, None] - found.grid) @ found.kernel.T).mean(axis=0)
    quantiles = _quantiles(found.common, found.grid)
    low, high = (np.interp(one, found.grid, by_common) for one in quantiles[::-1])
    samples = np.column_stack([found.common @ by_common, low, high])
    return Fitted(cells, samples, found.common @ found.grid, (state.common, state.single))


def _quantiles(chances: Floats, grid: Floats) -> Floats:
    """The 2.5% and 97.5% quantiles (2, samples) of distributions (samples, points) over the grid."""
    steps = np.cumsum(chances, axis=1) - chances / 2
    return np.array([[np.interp(level, row, grid) for row in steps] for level in (0.025, 0.975)])
