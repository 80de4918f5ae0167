"""Whose verdicts are shown, and how far judges agree.

Read from the run folder alone; no judge is asked anything here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

from actors.judge_runner import judge_key
from orchestrator.report.metrics import BITS
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.verdict_store import judges, verdicts
from sweeps.load import judge as load_judge
from sweeps.spec import Judge, Sweep
from sweeps.sweep_file import override_key


def own(sweep: Sweep) -> str:
    """The key of the sweep's own judge; empty where it has none, or the paper's wording is not installed here."""
    try:
        return judge_key(sweep.judge) if sweep.judged and sweep.judge else ""
    except ValueError:
        return ""


def reader(sweep: Sweep, name: str = "", overrides: Sequence[str] = ()) -> Judge:
    """The judge that a command names, or the sweep's own, with keys of its table overridden; raises SweepError."""
    if name or sweep.judge is None:
        own = {model.name: model for model in sweep.models}
        table: dict[str, Any] = {"model": own[name].model_dump() if name in own else name} if name else {}
    else:
        table = sweep.judge.model_dump()
    for override in overrides:
        override_key(table, override)
    return load_judge(table, "the command line")


def chosen(folder: Path, sweep: Sweep, wanted: str = "") -> str:
    """The judge to show: the one whose key begins with ``wanted``, else the sweep's own, else the only one there.

    Raises RunFolderError when ``wanted`` fits no judge of this folder, or several.
    """
    found = judges(folder)
    if wanted:
        fitting = [name for name in found if name.startswith(wanted)]
        if len(fitting) != 1:
            there = ", ".join(found) or "nobody yet"
            raise RunFolderError(f"--judge {wanted!r} names {len(fitting)} judges of {folder}; there read: {there}")
        return fitting[0]
    mine = own(sweep)
    if mine in found or not found:
        return mine
    return found[0] if len(found) == 1 else mine


def agreement(folder: Path) -> pl.DataFrame:
    """One row for each pair of judges and bit, also of one that gave no verdict: how often they say the same of an answer.

    Columns: judge, other, bit, answers (both gave a verdict), equal (percent), kappa (Cohen 1960; null where chance
    alone would agree always), first_yes and other_yes (percent of yes of each). Sorted by judge, other, bit.
    """
    read = verdicts(folder).filter(pl.col("aggregate").is_not_null()).select("key", "judge", *BITS).collect()
    rows = []
    for one, other in combinations(judges(folder), 2):
        both = read.filter(judge=one).join(read.filter(judge=other), on="key", suffix="_other")
        rows += [{"judge": one, "other": other, "bit": bit, **_agree(both[bit], both[f"{bit}_other"])} for bit in BITS]
    schema = {
        **dict.fromkeys(("judge", "other", "bit"), pl.String),
        "answers": pl.Int64,
        **dict.fromkeys(("equal", "kappa", "first_yes", "other_yes"), pl.Float64),
    }
    return pl.DataFrame(rows, schema=schema)


def _agree(one: pl.Series, other: pl.Series) -> dict[str, float | int | None]:
    n = len(one)
    if not n:
        return {"answers": 0}
    equal, p, q = float((one == other).sum()) / n, float(one.sum()) / n, float(other.sum()) / n
    chance = p * q + (1 - p) * (1 - q)
    kappa = (equal - chance) / (1 - chance) if chance < 1 else None
    return {"answers": n, "equal": 100 * equal, "kappa": kappa, "first_yes": 100 * p, "other_yes": 100 * q}
