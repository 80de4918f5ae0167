"""The headlines of the page.

Every headline is computed from this run; nothing is said that the run does not show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import polars as pl

from orchestrator.report.efficiency import lift
from orchestrator.report.endings import taxonomy
from orchestrator.report.estimates import Estimates
from orchestrator.report.html.escape import visible
from orchestrator.report.html.phrasing import listed
from orchestrator.report.lenient import leniency
from orchestrator.report.paired_tests import ALPHA, against
from orchestrator.report.ranking import chance, ranking
from orchestrator.report.run_data import RunData
from orchestrator.report.unseen import sentence
from orchestrator.report.wording import counted, share, signed

Row = Mapping[str, Any]


class Finding(NamedTuple):
    """A headline number and the sentence that it belongs to."""

    figure: str
    text: str


def findings(run_data: RunData, intervals: Estimates) -> list[Finding]:
    """The headlines that this run's numbers carry."""
    means = intervals.averages.filter((pl.col("protocol") == "mcqa") & pl.col("acc").is_not_null())
    return [
        *_best(run_data, _of(run_data, means, "zero-shot")),
        *_chance(run_data, _of(run_data, means, "zero-shot")),
        *_clear(run_data, means),
        *_asking(_of(run_data, means, "zero-shot")),
        *_changes(run_data),
        *_unseen(run_data, intervals),
        *_failures(run_data),
        *_parsing(run_data),
    ]


def _of(run_data: RunData, means: pl.DataFrame, condition: str) -> pl.DataFrame:
    """Averages under a condition: of models, or where nothing else played of baselines that do not know the answer."""
    rows = means.filter(pl.col("condition") == condition)
    real = rows.filter(~pl.col("model").is_in(list(run_data.baselines)))
    return rows.filter(~pl.col("model").is_in(run_data.playing("oracle"))) if real.is_empty() else real


def _kind(run_data: RunData, rows: pl.DataFrame, more: str = "") -> str:
    """What the rows are of, with their number: ``1 model``, ``5 baselines``."""
    kind = "baseline" if set(rows["model"]) <= run_data.baselines else "model"
    return counted(rows.height, f"{more}{kind}")


def _best(run_data: RunData, rows: pl.DataFrame) -> Iterator[Finding]:
    if rows.is_empty():
        return
    first, *others = rows.sort("acc", "model", descending=[True, False]).to_dicts()
    baseline = first["model"] in run_data.baselines
    who = "baseline that does not know the answers" if baseline else "model"
    rank = f", the best {who}" if others else f", the only {who}"
    second = f". Next is {visible(others[0]['model'])} with {others[0]['acc']:.1f}%" if others else ""
    known = first["acc_low"] < first["acc_high"]  # all right or all wrong: nothing to resample
    interval = f", 95% interval {first['acc_low']:.1f} to {first['acc_high']:.1f}" if known else ""
    yield Finding(
        f"{first['acc']:.1f}%",
        f"is the zero-shot accuracy of {visible(first['model'])}{rank}: mean over {_scope(first)}{interval}{second}."
        f"{_sureness(run_data, first['model']) if others else ''}",
    )


def _sureness(run_data: RunData, model: str) -> str:
    """How sure it is that this model is the best."""
    found = ranking(run_data).filter(protocol="mcqa", rank=1)
    if found.is_empty() or found["model"].item() != model:
        return " Fewer than two are complete, so no rank is given."
    row = found.row(0, named=True)
    ranks = "its rank is 1" if row["rank_high"] == 1 else f"ranks 1 to {row['rank_high']} are not excluded"
    return (
        f" On the same samples it is the best of {row['models']} with probability {chance(row['p_best'])} ({ranks}), and above "
        f"{visible(row['next'])} with probability {chance(row['p_beats_next'])}: {signed(row['difference'])} points, 95% "
        f"interval {signed(row['difference_low'])} to {signed(row['difference_high'])}."
    )


def _chance(run_data: RunData, rows: pl.DataFrame) -> Iterator[Finding]:
    levels = lift(run_data).filter(condition="zero-shot", protocol="mcqa").unique("scenario")["chance"]
    others = rows.filter(~pl.col("model").is_in(run_data.playing("uniform")))
    if levels.is_empty() or levels.null_count() or others.is_empty():
        return
    level = float(levels.mean())  # type: ignore[arg-type]
    below = others.filter(pl.col("acc_high") < level)["model"].to_list()
    above = others.filter(pl.col("acc_low") > level)["model"].to_list()
    if others.height == 1:
        where = "lies wholly above" if above else "lies wholly below" if below else "contains"
        comparison = f"The interval of {visible(others['model'][0])} {where} it."
    else:
        comparison = (
            f"Of {_kind(run_data, others, 'other ')} the whole interval lies above it for {_count(above)} and below it for "
            f"{_count(below)}."
        )
    yield Finding(
        f"{level:.1f}%", f"is what choosing blindly among the options scores (the policy uniform). {comparison}"
    )


def _count(names: list[str]) -> str:
    """``none``, ``1 (oracle)``, ``3 (a, b, c)``."""
    return f"{len(names)} ({listed(names)})" if names else "none"


def _clear(run_data: RunData, means: pl.DataFrame) -> Iterator[Finding]:
    both = _of(run_data, means, "reference").join(_of(run_data, means, "zero-shot"), on="model", suffix="_play")
    if both.is_empty():
        return
    over = f", means over {_kind(run_data, both)}" if both.height > 1 else ""
    clear, play = float(both["acc"].mean()), float(both["acc_play"].mean())  # type: ignore[arg-type]
    yield Finding(
        signed(play - clear),
        f"points is the step from accuracy on the clear image ({clear:.1f}%) to zero-shot accuracy ({play:.1f}%){over}.",
    )


def _asking(rows: pl.DataFrame) -> Iterator[Finding]:
    rows = rows.filter(pl.col("ps").is_not_null())
    if rows.is_empty():
        return
    ordered = rows.sort("ps", "model").to_dicts()
    least, most = ordered[0], ordered[-1]
    if least is most:
        yield Finding(
            f"{most['ps']:.1f}",
            f"suggestions an episode is the mean of {visible(most['model'])}, zero-shot, with {most['loops']:.0f}% of the "
            "episodes ending at the turn limit.",
        )
        return
    yield Finding(
        f"{least['ps']:.1f}–{most['ps']:.1f}",
        f"suggestions an episode is the range, zero-shot: {visible(least['model'])} asks least, {visible(most['model'])} most "
        f"({most['loops']:.0f}% of its episodes end at the turn limit).",
    )


def _changes(run_data: RunData) -> Iterator[Finding]:
    """The condition that changes most cells for sure."""
    others = ["reference", *run_data.unseen]
    found = against(run_data).filter((pl.col("protocol") == "mcqa") & ~pl.col("condition").is_in(others))
    real = found.filter(~pl.col("model").is_in(list(run_data.baselines)))
    found = found if real.is_empty() else real
    if found.is_empty():
        return
    sure = pl.col("p_holm") < ALPHA
    changes = found.group_by("condition").agg(
        pl.len(),
        (sure & (pl.col("difference") > 0)).sum().alias("up"),
        (sure & (pl.col("difference") < 0)).sum().alias("down"),
        pl.col("difference").mean(),
    )
    top = changes.sort(pl.col("up") + pl.col("down"), pl.col("condition"), descending=[True, False]).to_dicts()[0]
    if not top["up"] + top["down"]:
        yield Finding(
            f"0 of {found.height}",
            "cells differ significantly in accuracy from zero-shot on the same samples (exact McNemar, Holm over all).",
        )
        return
    yield Finding(
        signed(top["difference"]),
        f"points is the mean change under {visible(top['condition'])}, the condition that changes most: against zero-shot on "
        f"the same samples {top['up']} of {top['len']} cells rise and {top['down']} fall significantly (exact McNemar, Holm).",
    )


def _unseen(run_data: RunData, intervals: Estimates) -> Iterator[Finding]:
    figure, told = sentence(run_data, intervals)
    if told:
        yield Finding(figure, visible(told, 600))


def _failures(run_data: RunData) -> Iterator[Finding]:
    wrong = taxonomy(run_data).filter((pl.col("kind") != "correct") & (pl.col("protocol") == "mcqa"))
    wrong = wrong.filter((pl.col("condition") == "zero-shot") & ~pl.col("kind").is_in(["failed", "refused"]))
    real = wrong.filter(~pl.col("model").is_in(list(run_data.baselines)))
    wrong = wrong if real.is_empty() else real
    if wrong.is_empty():
        return
    kinds = wrong.group_by("kind").agg(pl.col("count").sum()).sort("count", "kind", descending=[True, False])
    total = int(kinds["count"].sum())
    (kind, count), *others = kinds.iter_rows()
    more = f" Then: {', '.join(f'{name} ({share(n, total)})' for name, n in others[:2])}." if others else ""
    yield Finding(
        share(count, total), f"of the {counted(total, 'zero-shot episode')} that did not succeed {_ended(kind)}.{more}"
    )


def _parsing(run_data: RunData) -> Iterator[Finding]:
    rows = leniency(run_data).filter(pl.col("protocol") == "mcqa")
    real = rows.filter(~pl.col("model").is_in(list(run_data.baselines)))
    rows = rows if real.is_empty() else real
    unparsable, scored = (
        int(rows["unparsable"].sum()),
        int(run_data.rows.join(rows, on="cell", how="semi")["scored"].sum()),
    )
    if not scored:
        return
    readable = int(rows["readable"].sum())
    lenient = f" ({unparsable:,}); a lenient reader would have understood {readable:,} of them" if unparsable else ""
    who = "the baselines'" if real.is_empty() else "the models'"
    yield Finding(
        share(unparsable, scored),
        f"of {who} {counted(scored, 'scored episode')} ended with a reply that the benchmark cannot parse{lenient}.",
    )


def _ended(kind: str) -> str:
    """The kind as the end of a sentence."""
    return "ended with an unparsable reply" if kind == "unparsable" else kind


def _scope(row: Row) -> str:
    if row["all_seven"]:
        return "the seven scenarios"
    scenarios = counted(row["scenarios"], "scenario")
    return scenarios if row["complete"] == row["scenarios"] else f"{scenarios}, {row['complete']} of them complete"
