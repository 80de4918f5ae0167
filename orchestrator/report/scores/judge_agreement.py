"""The judge whose verdicts are reported, and the agreement between judges, from the verdicts in a run folder."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

from actors.playing.judge_runner import judge_key
from envs.errors import RunFolderError
from orchestrator.report.scores.metrics import BITS
from orchestrator.report.statistics.judge_error import Confusion, paired_kappa
from orchestrator.storage.verdict_store import judge_names, verdicts
from sweeps.load import build_judge as load_judge
from sweeps.spec import Judge, Sweep
from sweeps.sweep_file import override_key


def own_judge_key(sweep: Sweep) -> str:
    """Return the key of the sweep's own judge; empty if it has none or if the paper's wording is not installed."""
    try:
        return judge_key(sweep.judge) if sweep.is_judged and sweep.judge else ""
    except ValueError:
        return ""


def resolve_judge(sweep: Sweep, name: str = "", overrides: Sequence[str] = ()) -> Judge:
    """Return the judge that a command names, or the sweep's own, with ``overrides`` (KEY=VALUE) applied; raises SweepError."""
    if name or sweep.judge is None:
        own = {model.name: model for model in sweep.models}
        table: dict[str, Any] = {"model": own[name].model_dump() if name in own else name} if name else {}
    else:
        table = sweep.judge.model_dump()
    for override in overrides:
        override_key(table, override)
    return load_judge(table, "the command line")


def choose_judge(folder: Path, sweep: Sweep, prefix: str) -> str:
    """Return the judge to report: the one whose key begins with ``prefix``, else the only one, else the sweep's own.

    Raises RunFolderError if ``prefix`` matches no judge of this folder, or several.
    """
    judge_keys = judge_names(folder)
    if prefix:
        fitting = [name for name in judge_keys if name.startswith(prefix)]
        if len(fitting) != 1:
            judges = ", ".join(judge_keys) or "none yet"
            raise RunFolderError(f"--judge {prefix!r} names {len(fitting)} judges of {folder}; its judges: {judges}")
        return fitting[0]
    return judge_keys[0] if len(judge_keys) == 1 else own_judge_key(sweep)


def disputed_answers(folder: Path, judge: str, other: str) -> set[str]:
    """Return the keys of answers on which two judges differ in a bit; an answer that one has not read is not disputed."""
    rows = verdicts(folder).select("key", "judge", *BITS).drop_nulls()
    both = rows.filter(judge=judge).join(rows.filter(judge=other), on="key", suffix="_other")
    differing = both.filter(pl.any_horizontal(pl.col(bit) != pl.col(f"{bit}_other") for bit in BITS))
    return set(differing.select("key").collect()["key"])


def agreement(folder: Path) -> pl.DataFrame:
    """Return one row per pair of judges and bit: how often both judges say the same. A judge without verdicts has rows too.

    Columns: judge, other, bit, answers (with verdicts of both), equal (percent), kappa with its 95% interval (Cohen 1960; null
    if chance agreement is 1), first_yes and other_yes (percent of yes of each). Sorted by judge, other, bit.
    """
    stored = verdicts(folder).filter(pl.col("aggregate").is_not_null())
    judged = stored.select("key", "judge", *BITS).collect()
    rows = list[tuple[object, ...]]()
    for first, second in combinations(judge_names(folder), 2):
        both = judged.filter(judge=first).join(judged.filter(judge=second), on="key", suffix="_other")
        rows += [(first, second, bit, *_compare_bits(both[bit], both[f"{bit}_other"])) for bit in BITS]
    figures = dict.fromkeys(("equal", "kappa", "kappa_low", "kappa_high", "first_yes", "other_yes"), pl.Float64)
    schema = {**dict.fromkeys(("judge", "other", "bit"), pl.String), "answers": pl.Int64, **figures}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _compare_bits(first: pl.Series, second: pl.Series) -> tuple[float | int | None, ...]:
    if not (n := len(first)):
        return 0, *(None,) * 6
    counts = Confusion.of(first, second)
    kappa = paired_kappa(counts) or (None, None, None)
    shares = (counts.hits + counts.rejections, first.sum(), second.sum())
    equal, yes, other_yes = (100 * share / n for share in shares)
    return n, equal, *kappa, yes, other_yes
