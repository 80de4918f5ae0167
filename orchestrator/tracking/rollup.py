"""Measures of models and of the sweep: means and sums of the cells below them.

A mean is over scenarios, unweighted, under one condition, like the paper's average. Baselines are not part of a sweep's means.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

SHARES = ("asks", "gave_up_at_once", "guessed_at_once", "unreadable")
MEANS = ("acc", "acc_first", "ps", "loops", *SHARES)
OTHERS = (
    ("oeg", ("aggregate", "category", "suggestion"), ""),
    ("oeg-multi", ("acc", "ps"), "_in_words"),
    ("tools", ("acc", "ps"), "_by_calls"),
)
"""Other protocols, their measures (the judge's bits are percentages of the open-ended answers), and the end of their names."""
SUMS = ("planned", "full", "finished", "errors", "cost", "prompt_tokens", "reply_tokens")
FORBIDDEN = re.compile(r"[^\w\-. :/]")
"""Characters that MLflow does not accept in the name of a metric."""

CellRow = Mapping[str, Any]
"""A cell's names (cell, model, scenario, condition, protocol) and measures."""


def model_measures(cells: Sequence[CellRow], main_condition: str) -> dict[str, float]:
    """Return the measures of a model from its cells; missing ones are left out.

    Under the main condition: means over scenarios, ``acc/SCENARIO``, the number of ``scenarios``, and ``OTHERS``. Under every
    condition: ``acc_under/CONDITION``, ``ps_under/CONDITION``. Sums over all cells.
    """
    choices = [cell for cell in cells if cell["protocol"] == "mcqa"]
    main = [cell for cell in choices if cell["condition"] == main_condition and "acc" in cell]
    measures = _means(main, MEANS)
    if asked := sum(cell.get("asks", 0.0) for cell in main):  # a ratio of two means, as in the report
        right = sum(cell.get("asks", 0.0) * cell.get("right_if_asked", 0.0) for cell in main)
        measures["right_if_asked"] = rounded(right / asked)
    measures |= {f"acc/{cell['scenario']}": cell["acc"] for cell in main}
    measures |= {"scenarios": float(len(main))} if main else {}
    for condition in sorted({cell["condition"] for cell in choices}):
        under = [cell for cell in choices if cell["condition"] == condition]
        measures |= _means(under, ("acc", "ps"), f"_under/{condition}")
    for protocol, names, suffix in OTHERS:
        rows = [cell for cell in cells if cell["protocol"] == protocol and cell["condition"] == main_condition]
        measures |= _means(rows, names, suffix)
    return {FORBIDDEN.sub("_", name): value for name, value in (measures | _sums(cells)).items()}


def sweep_measures(
    models: Mapping[str, Mapping[str, float]], baselines: Collection[str] = ()
) -> tuple[dict[str, float], str]:
    """Return the measures of a sweep from its models', and the name of its best model ("" if no model has an ``acc``).

    ``acc`` and similar measures are means over models, ``best_acc`` is the best model's; sums include baselines.
    """
    ranked_models = {name: measures for name, measures in models.items() if name not in baselines}
    names = {name for measures in ranked_models.values() for name in measures if name not in (*SUMS, "scenarios")}
    means = _means(ranked_models.values(), sorted(names))
    sums = {name: total for name, total in _sums(models.values()).items() if name not in ("planned", "finished")}
    ranking = sorted((-measures["acc"], name) for name, measures in ranked_models.items() if "acc" in measures)
    best = {"best_acc": -ranking[0][0], "models": float(len(ranking))} if ranking else {}
    return {**means, **best, **sums}, ranking[0][1] if ranking else ""


def rounded(value: float) -> float:
    """Return a number with few decimals, because MLflow's tables show all that they get."""
    return round(float(value), 2 if abs(value) >= 1 else 4)


def _means(rows: Iterable[CellRow], names: Iterable[str], suffix: str = "") -> dict[str, float]:
    columns = {name: [row[name] for row in rows if name in row] for name in names}
    return {f"{name}{suffix}": rounded(fmean(values)) for name, values in columns.items() if values}


def _sums(rows: Iterable[CellRow]) -> dict[str, float]:
    columns = {name: [row[name] for row in rows if name in row] for name in SUMS}
    return {name: rounded(sum(values)) for name, values in columns.items() if values}
