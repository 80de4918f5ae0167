"""What a model's run and a sweep's run say: means and sums of the cells below them, with baselines apart.

A mean is over scenarios, unweighted, under one condition, as the paper's average is; baselines are in no mean of a sweep.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

MODEL, BASELINE = "model", "baseline"
"""What a row of the sweep's models may be (tag and parameter ``kind``)."""
USUAL = "zero-shot"
"""The condition of a model's own ``acc`` where it was played under it."""
MEANS = ("acc", "acc_first", "ps", "loops")
READ = ("aggregate", "category", "suggestion")
"""A judge's bits: percent of the open-ended answers."""
DECIMALS = 2
"""Of a mean: MLflow's table shows every digit that it is given."""
SUMS = ("planned", "full", "finished", "errors", "cost", "prompt_tokens", "reply_tokens")
FORBIDDEN = re.compile(r"[^\w\-. :/]")
"""Characters that MLflow takes in no metric's name."""

Row = Mapping[str, Any]
"""A cell as its run has it: its names (cell, model, scenario, condition, protocol) and what was measured."""


class Roster(NamedTuple):
    """The sweep's models and conditions in the order of its file."""

    models: tuple[str, ...] = ()
    baselines: frozenset[str] = frozenset()
    """Those of them that are built-in policies."""
    conditions: tuple[str, ...] = ()

    @classmethod
    def of(cls, sweep: Mapping[str, Any]) -> Roster:
        """Of a resolved sweep (``sweep.resolved.toml``, or the same as a dict)."""
        models = [item for item in sweep.get("models", ()) if isinstance(item, dict)]
        return cls(
            tuple(str(item["name"]) for item in models),
            frozenset(str(item["name"]) for item in models if item.get("backend") == "builtin"),
            tuple(str(item["name"]) for item in sweep.get("conditions", ()) if isinstance(item, dict)),
        )

    def kind(self, model: str) -> str:
        """``model`` or ``baseline``."""
        return BASELINE if model in self.baselines else MODEL

    def place(self, model: str) -> int:
        """The model's place in the table: models first, each in the order of the file, then baselines."""
        known = sorted(self.models, key=lambda name: name in self.baselines)
        return known.index(model) if model in known else len(known)

    def main(self, conditions: Iterable[str]) -> str:
        """Of the conditions that a model plays, the one of its ``acc``: zero-shot, else the first of the sweep's."""
        found = sorted(set(conditions), key=lambda name: (name != USUAL, *self._rank(name)))
        return found[0] if found else ""

    def _rank(self, condition: str) -> tuple[int, str]:
        known = condition in self.conditions
        return (self.conditions.index(condition) if known else len(self.conditions)), condition


NOBODY = Roster()


def of_model(cells: Sequence[Row], main: str) -> dict[str, float]:
    """A model's measures from its cells.

    Under the condition ``main``: ``acc``, ``ps``, ``loops`` (means over scenarios), ``acc/SCENARIO``, ``scenarios`` (how many are
    in the mean) and, where answers are open-ended, the judge's bits, and over several turns ``acc_in_words`` and
    ``ps_in_words``, and of tool calls ``acc_by_calls`` and ``ps_by_calls``. Under every condition: ``acc_under/CONDITION`` and
    ``ps_under/CONDITION``. Of all cells: the sums of ``SUMS``. What was not measured is left out.
    """
    played = [cell for cell in cells if cell["protocol"] == "mcqa"]
    mine = [cell for cell in played if cell["condition"] == main and "acc" in cell]
    found = {name: mean for name in MEANS if (mean := _mean(mine, name)) is not None}
    found |= {f"acc/{cell['scenario']}": round(cell["acc"], DECIMALS) for cell in mine}
    found |= {"scenarios": float(len(mine))} if mine else {}
    for name in sorted({cell["condition"] for cell in played}):
        under = [cell for cell in played if cell["condition"] == name]
        found |= {f"{part}_under/{name}": mean for part in ("acc", "ps") if (mean := _mean(under, part)) is not None}
    answers = [cell for cell in cells if cell["protocol"] == "oeg" and cell["condition"] == main]
    found |= {bit: mean for bit in READ if (mean := _mean(answers, bit)) is not None}
    turns = [cell for cell in cells if cell["protocol"] == "oeg-multi" and cell["condition"] == main]
    found |= {f"{part}_in_words": mean for part in ("acc", "ps") if (mean := _mean(turns, part)) is not None}
    calls = [cell for cell in cells if cell["protocol"] == "tools" and cell["condition"] == main]
    found |= {f"{part}_by_calls": mean for part in ("acc", "ps") if (mean := _mean(calls, part)) is not None}
    return {FORBIDDEN.sub("_", name): value for name, value in (found | _sums(cells)).items()}


def of_sweep(models: Mapping[str, Mapping[str, float]], baselines: Iterable[str] = ()) -> tuple[dict[str, float], str]:
    """A sweep's measures from its models' (``of_model``), and the name of its best model, empty where no model has an ``acc``.

    ``acc`` and the like are means over models, ``best_acc`` is the best one's; sums are of baselines too.
    """
    apart = set(baselines)
    mine = {name: found for name, found in models.items() if name not in apart}
    names = {name for found in mine.values() for name in found if name not in (*SUMS, "scenarios")}
    means = {name: mean for name in sorted(names) if (mean := _mean(mine.values(), name)) is not None}
    sums = {name: total for name, total in _sums(models.values()).items() if name not in ("planned", "finished")}
    ranked = sorted((-found["acc"], name) for name, found in mine.items() if "acc" in found)
    best = {"best_acc": -ranked[0][0], "models": float(len(ranked))} if ranked else {}
    return {**means, **best, **sums}, ranked[0][1] if ranked else ""


def _mean(rows: Iterable[Row], name: str) -> float | None:
    values = [row[name] for row in rows if name in row]
    return round(fmean(values), DECIMALS) if values else None


def _sums(rows: Iterable[Row]) -> dict[str, float]:
    known = list(rows)
    found = {name: sum(row.get(name, 0) for row in known) for name in SUMS if any(name in row for row in known)}
    return {name: round(float(total), 4) for name, total in found.items()}
