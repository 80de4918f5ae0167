"""Shares that an imperfect judge counts, corrected by answers whose true verdict is known.

With such answers from outside the run, sensitivity and specificity correct the judge's share (Rogan and Gladen 1978, Am. J.
Epidemiol. 107:71-76; interval with adjusted counts after Lang and Reiczigel 2014, Prev. Vet. Med. 113:13-22). With labelled
answers of the run itself, the labels correct the judge's mean by prediction-powered inference (Angelopoulos, Duchi and Zrnic
2023, "PPI++", arXiv 2311.01453), which is unbiased whatever the judge's errors are.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from orchestrator.report.statistics.proportion import Z, cautious_interval

Floats = NDArray[np.float64]


class IntervalEstimate(NamedTuple):
    """A value with its 95% interval."""

    value: float
    low: float
    high: float


class Confusion(NamedTuple):
    """Counts of a judge's yes and no by the truth."""

    hits: int
    """The truth is yes, and the judge says yes."""
    misses: int
    false_alarms: int
    rejections: int
    """The truth is no, and the judge says no."""

    @classmethod
    def of(cls, truth: pl.Series, verdicts: pl.Series) -> Self:
        """Count answers by the truth and the judge's verdict (booleans without nulls)."""
        pairs = (truth & verdicts, truth & ~verdicts, ~truth & verdicts, ~(truth | verdicts))
        return cls(*(int(pair.sum()) for pair in pairs))

    @property
    def kappa(self) -> float:
        """Cohen's kappa (1960) with the truth; 0 without an answer, or where chance alone would agree."""
        return float(np.nan_to_num(_kappas(np.array([self], dtype=np.float64)))[0])


FEWEST_LABELS = 20
"""Fewest labels that correct a share; each stratum needs two, or a label of every answer."""
PRIOR = 2.0
"""Imagined labels of a stratum, spread like those of the other strata, so that no variance is 0 where all labels agree."""
TRUE, JUDGED = np.array([1, 1, 0, 0]), np.array([1, 0, 1, 0])
"""The truth and the verdict in the four counts of a ``Confusion``: hits, misses, false alarms, rejections."""


def rogan_gladen(hits: float, n: float, judge: Confusion) -> IntervalEstimate | None:
    """Return the true share where a judge counts ``hits`` of ``n`` (which may be an effective size), with its 95% interval.

    None if the judge's errors are unknown, or so frequent that its verdicts say nothing (sensitivity + specificity <= 1).
    """
    true, false = judge.hits + judge.misses, judge.false_alarms + judge.rejections
    if not true or not false or not n or judge.hits / true + judge.rejections / false <= 1:
        return None
    value = (hits / n + judge.rejections / false - 1) / (judge.hits / true + judge.rejections / false - 1)
    size, sensitivity, specificity = n + Z**2, (judge.hits + 1) / (true + 2), (judge.rejections + 1) / (false + 2)
    share, scale = (hits + Z**2 / 2) / size, sensitivity + specificity - 1
    middle = (share + specificity - 1) / scale
    spreads = (share * (1 - share) / size, sensitivity * (1 - sensitivity) * middle**2 / (true + 2))
    variance = sum(spreads) + specificity * (1 - specificity) * (1 - middle) ** 2 / (false + 2)
    half = Z * variance**0.5 / scale
    value = min(max(value, 0.0), 1.0)
    return IntervalEstimate(value, max(0.0, min(middle - half, value)), min(1.0, max(middle + half, value)))


class Labels(NamedTuple):
    """The answers of one stratum: those with a label, by truth and verdict, and the verdicts on the others."""

    labelled: Confusion
    yes: int
    """Answers without a label that the judge accepts."""
    others: int
    """Answers without a label."""

    @property
    def size(self) -> int:
        return sum(self.labelled)


def prediction_powered(strata: Sequence[Labels], shares: Sequence[float] | None = None) -> IntervalEstimate | None:
    """Return the true share, averaged over strata, with its 95% interval; None with too few labels.

    The judge has the weight with the smallest variance (PPI++). The variance counts imagined labels (``PRIOR``); the interval
    is that of a share at the effective size that the variance gives, or of the labels alone where that is narrower.
    ``shares`` weigh the strata and sum to 1 (default: equally). Where strata are parts of a population that were labelled at
    different rates, weights by size are the inverse probability weights of their labels.
    """
    if sum(part.size for part in strata) < FEWEST_LABELS or any(part.size < 2 and part.others for part in strata):
        return None
    moments = _moments(strata, shares)
    sizes, others = np.array([[part.size, max(part.others, 1)] for part in strata], dtype=np.float64).T
    weights = np.full(len(strata), 1 / len(strata)) if shares is None else np.array(shares, dtype=np.float64)
    covariance = float((weights**2 * moments[:, 2] / sizes).sum())
    weight = float(np.clip(covariance / (weights**2 * moments[:, 1] * (1 / sizes + 1 / others)).sum(), 0, 1))
    value = float(weights @ [_point(part, weight) for part in strata])
    total = sizes.sum() + others.sum()
    inside = min(max(value, 0.5 / total), 1 - 0.5 / total)
    effective = inside * (1 - inside) / _variance(moments, sizes, others, weight, weights)
    alone, least = labels_alone(strata, weights)
    effective, value = float(np.clip(effective, least, total)), min(max(value, 0.0), 1.0)
    powered = IntervalEstimate(value, *cautious_interval(value * effective, effective))
    is_wider = powered.high - powered.low > alone.high - alone.low
    return alone if is_wider else powered


def labels_alone(strata: Sequence[Labels], weights: Floats) -> tuple[IntervalEstimate, float]:
    """Return the true share by the labels alone with its 95% interval, and the effective number of labels."""
    sizes = np.array([part.size for part in strata], dtype=np.float64)
    hits = np.array([part.labelled.hits + part.labelled.misses for part in strata], dtype=np.float64)
    value, smooth = float(weights @ (hits / sizes)), (hits + 0.5) / (sizes + 1)
    mean, effective = float(weights @ smooth), float(sizes.sum())
    if len(strata) > 1:
        effective = min(effective, mean * (1 - mean) / float(weights**2 @ (smooth * (1 - smooth) / sizes)))
    return IntervalEstimate(value, *cautious_interval(value * effective, effective)), effective


def _moments(strata: Sequence[Labels], weights: Sequence[float] | None) -> Floats:
    """Return variance of the truth, of the verdict, and their covariance (strata, 3), with imagined labels.

    Imagined labels are spread like the labels of the other strata; where strata are parts of a population, half like its
    answers and half evenly, without which intervals of 50 labels cover only 87% in the worst of five planted cases.
    """
    counts = np.array([part.labelled for part in strata], dtype=np.float64)
    rest = counts.sum(axis=0) - counts + 0.5
    if weights is not None:
        mean = weights @ ((counts + 0.5) / (counts + 0.5).sum(axis=1, keepdims=True))
        rest = np.tile((mean + 1 / len(mean)) / 2, (len(counts), 1))
    shares = counts + PRIOR * rest / rest.sum(axis=1, keepdims=True)
    shares /= shares.sum(axis=1, keepdims=True)
    true, judged, both = shares @ TRUE, shares @ JUDGED, shares[:, 0]
    return np.column_stack([true * (1 - true), judged * (1 - judged), both - true * judged])


def _variance(moments: Floats, sizes: Floats, others: Floats, weight: float, weights: Floats) -> float:
    true, judged, both = moments.T
    parts = weight**2 * judged / others + (true - 2 * weight * both + weight**2 * judged) / sizes
    return float((weights**2 * parts).sum())


def _point(part: Labels, weight: float) -> float:
    counts = np.array(part.labelled)
    true, judged = counts @ TRUE / part.size, counts @ JUDGED / part.size
    return float(weight * (part.yes / part.others if part.others else judged) + true - weight * judged)


def paired_kappa(counts: Confusion) -> IntervalEstimate | None:
    """Return Cohen's kappa of two fallible readers, the first in place of the truth; None where chance agreement is 1.

    The interval holds the middle 95% of the posterior under Jeffreys' prior for four shares (half a count each), so it is not
    empty where the readers never differ. It covers 93 to 98% of planted values (50 to 1,000 answers, 5 to 50% yes).
    """
    value = float(_kappas(np.array([counts], dtype=np.float64))[0])
    if np.isnan(value):
        return None
    shares = np.random.default_rng(0).dirichlet(np.array(counts) + 0.5, 10_000)
    low, high = np.nanquantile(_kappas(shares), (0.025, 0.975))
    return IntervalEstimate(value, min(float(low), value), max(float(high), value))


def _kappas(counts: Floats) -> Floats:
    """Return kappa for rows of counts or shares (draws, 4); NaN where chance agreement is 1."""
    yes, other_yes, total = counts[:, 0] + counts[:, 1], counts[:, 0] + counts[:, 2], counts.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        chance = (yes * other_yes + (total - yes) * (total - other_yes)) / total**2
        return np.where(chance < 1, ((counts[:, 0] + counts[:, 3]) / total - chance) / (1 - chance), np.nan)
