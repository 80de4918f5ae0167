"""The headlines of the page, each computed from this run."""

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from envs.plural import pluralize
from orchestrator.report.html.text import join_names, visible
from orchestrator.report.measures.efficiency import lift_over_chance
from orchestrator.report.measures.endings import ending_counts
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.lenient import leniency
from orchestrator.report.measures.paired_tests import compare_conditions
from orchestrator.report.measures.ranking import FEWEST_FOR_BEST, format_probability, ranking
from orchestrator.report.run_data import RunData
from orchestrator.report.statistics.exact_tests import ALPHA
from orchestrator.report.tables.parts import Row
from orchestrator.report.tables.unseen import unseen_sentence
from orchestrator.report.wording import format_share, format_signed
from sweeps.protocol import ZERO_SHOT


class Finding(NamedTuple):
    """A headline number and its sentence."""

    figure: str
    text: str


def find_headlines(run_data: RunData) -> list[Finding]:
    """Return the headlines that this run's numbers support."""
    means = estimate(run_data).averages.filter(pl.col("acc").is_not_null(), protocol="mcqa")
    zero_shot = _averages(run_data, means, ZERO_SHOT)
    figure, text = unseen_sentence(run_data)
    return [
        *_best(run_data, zero_shot),
        *_chance(run_data, zero_shot),
        *_clear(run_data, means),
        *_asking(zero_shot),
        *_changes(run_data),
        *([Finding(figure, visible(text, 600))] if text else []),
        *_failures(run_data),
        *_parsing(run_data),
    ]


def _averages(run_data: RunData, means: pl.DataFrame, condition: str) -> pl.DataFrame:
    """Return the averages of models under a condition; of baselines without the oracle if there are no models."""
    rows = means.filter(~pl.col("model").is_in(run_data.models_of_policy("oracle")), condition=condition)
    return run_data.models_or_baselines(rows)


def _count_kind(run_data: RunData, rows: pl.DataFrame, adjective: str = "") -> str:
    """Return the number of the rows with their noun: ``1 model``, ``5 baselines``."""
    kind = "baseline" if set(rows["model"]) <= run_data.baselines else "model"
    return pluralize(rows.height, f"{adjective}{kind}")


def _best(run_data: RunData, rows: pl.DataFrame) -> Iterator[Finding]:
    if rows.is_empty():
        return
    first, *others = rows.sort("acc", "model", descending=[True, False]).to_dicts()
    baseline = first["model"] in run_data.baselines
    who = "baseline that does not know the answers" if baseline else "model"
    rank = f", the best {who}" if others else f", the only {who}"
    second = f". Next is {visible(others[0]['model'])} with {others[0]['acc']:.1f}%" if others else ""
    bounded = first["acc_low"] < first["acc_high"]  # all right or all wrong: nothing to resample
    interval = f", 95% interval {first['acc_low']:.1f} to {first['acc_high']:.1f}" if bounded else ""
    yield Finding(
        f"{first['acc']:.1f}%",
        f"is the zero-shot accuracy of {visible(first['model'])}{rank}: mean over {_scope(first)}{interval}{second}."
        f"{_certainty(run_data, first['model']) if others else ''}",
    )


def _certainty(run_data: RunData, model: str) -> str:
    """Return how certain it is that this model is the best."""
    ranked = ranking(run_data).filter(protocol="mcqa").sort("rank")
    if ranked.is_empty():
        return " Fewer than two are complete, so no rank is given."
    row = ranked.row(0, named=True)
    if model not in set(ranked["model"]):
        return f" It is unfinished, so no rank is given; {visible(row['model'])} is the best of the complete ones."
    if row["model"] != model:
        return f" With episodes without an answer counted as wrong, {visible(row['model'])} is ranked first."
    ranks = "its rank is 1" if row["rank_high"] == 1 else f"ranks 1 to {row['rank_high']} are not excluded"
    best = f"it is the best of {row['models']} with probability {format_probability(row['p_best'])} ({ranks}), and"
    if row["models"] < FEWEST_FOR_BEST:
        best = f"of {row['models']} {ranks}, and it is"
    return (
        f" On the same samples {best} above {visible(row['next'])} with probability {format_probability(row['p_beats_next'])}: "
        f"{format_signed(row['difference'])} points, "
        f"95% interval {format_signed(row['difference_low'])} to {format_signed(row['difference_high'])}."
    )


def _chance(run_data: RunData, rows: pl.DataFrame) -> Iterator[Finding]:
    levels = lift_over_chance(run_data).filter(condition=ZERO_SHOT, protocol="mcqa").unique("scenario")["chance"]
    others = rows.filter(~pl.col("model").is_in(run_data.models_of_policy("uniform")))
    if levels.is_empty() or levels.null_count() or others.is_empty():
        return
    level = float(levels.mean())  # type: ignore[arg-type]
    below = others.filter(pl.col("acc_high") < level)["model"].to_list()
    above = others.filter(pl.col("acc_low") > level)["model"].to_list()
    if others.height == 1:
        where = "lies above" if above else "lies below" if below else "contains"
        comparison = f"The interval of {visible(others['model'][0])} {where} it."
    else:
        comparison = (
            f"Of {_count_kind(run_data, others, 'other ')} the interval lies above it for {_count(above)} and below it for "
            f"{_count(below)}."
        )
    yield Finding(
        f"{level:.1f}%", f"is the accuracy of choosing blindly among the options (policy uniform). {comparison}"
    )


def _count(names: list[str]) -> str:
    """Return ``none``, ``1 (oracle)`` or ``3 (a, b, c)``."""
    return f"{len(names)} ({join_names(names)})" if names else "none"


def _clear(run_data: RunData, means: pl.DataFrame) -> Iterator[Finding]:
    clear_means, zero_shot = (_averages(run_data, means, name) for name in ("reference", ZERO_SHOT))
    both = clear_means.join(zero_shot, on="model", suffix="_play")
    if both.is_empty():
        return
    over = f", means over {_count_kind(run_data, both)}" if both.height > 1 else ""
    clear, play = float(both["acc"].mean()), float(both["acc_play"].mean())  # type: ignore[arg-type]
    yield Finding(
        format_signed(play - clear),
        f"points from the clear image ({clear:.1f}%) to zero-shot ({play:.1f}%){over}.",
    )


def _asking(rows: pl.DataFrame) -> Iterator[Finding]:
    rows = rows.filter(pl.col("ps").is_not_null())
    if rows.is_empty():
        return
    lowest, highest = (rows.sort("ps", "model").row(n, named=True) for n in (0, -1))
    if rows.height == 1:
        yield Finding(
            f"{highest['ps']:.1f}",
            f"suggestions per episode is the mean of {visible(highest['model'])}, zero-shot, with {highest['loops']:.0f}% of the "
            "episodes ending at the turn limit.",
        )
        return
    yield Finding(
        f"{lowest['ps']:.1f}–{highest['ps']:.1f}",
        f"suggestions per episode is the zero-shot range: {visible(lowest['model'])} asks least, {visible(highest['model'])} "
        f"most ({highest['loops']:.0f}% of its episodes end at the turn limit).",
    )


def _changes(run_data: RunData) -> Iterator[Finding]:
    """Yield the condition that changes most cells significantly."""
    excluded = ["reference", *run_data.unseen_conditions]
    cells = compare_conditions(run_data).filter(~pl.col("condition").is_in(excluded), protocol="mcqa")
    cells = run_data.models_or_baselines(cells)
    if cells.is_empty():
        return
    significant = pl.col("p_holm") < ALPHA
    changes = cells.group_by("condition").agg(
        pl.len(),
        (significant & (pl.col("difference") > 0)).sum().alias("up"),
        (significant & (pl.col("difference") < 0)).sum().alias("down"),
        pl.col("difference").mean(),
    )
    top = changes.sort(pl.col("up") + pl.col("down"), pl.col("condition"), descending=[True, False]).to_dicts()[0]
    if not top["up"] + top["down"]:
        yield Finding(
            f"0 of {cells.height}",
            "cells differ significantly in accuracy from zero-shot on the same samples (exact McNemar, Holm over all).",
        )
        return
    yield Finding(
        format_signed(top["difference"]),
        f"points is the mean change under {visible(top['condition'])}, the condition that changes most: against zero-shot on "
        f"the same samples {top['up']} of {top['len']} cells rise and {top['down']} fall significantly (exact McNemar, Holm).",
    )


def _failures(run_data: RunData) -> Iterator[Finding]:
    wrong = ending_counts(run_data).filter(condition=ZERO_SHOT, protocol="mcqa")
    wrong = wrong.filter(~pl.col("kind").is_in(["correct", "failed", "refused"]))
    wrong = run_data.models_or_baselines(wrong)
    if wrong.is_empty():
        return
    kinds = wrong.group_by("kind").agg(pl.col("count").sum()).sort("count", "kind", descending=[True, False])
    total = int(kinds["count"].sum())
    (kind, count), *others = kinds.iter_rows()
    next_kinds = ", ".join(f"{name} ({format_share(n, total)})" for name, n in others[:2])
    rest = f" Next: {next_kinds}." if others else ""
    ended = "ended with an unparsable reply" if kind == "unparsable" else kind
    yield Finding(
        format_share(count, total),
        f"of the {pluralize(total, 'zero-shot episode')} that did not succeed {ended}.{rest}",
    )


def _parsing(run_data: RunData) -> Iterator[Finding]:
    rows = run_data.models_or_baselines(leniency(run_data).filter(protocol="mcqa"))
    unparsable = int(rows["unparsable"].sum())
    scored = int(run_data.rows.join(rows, on="cell", how="semi")["scored"].sum())
    if not scored:
        return
    readable = int(rows["readable"].sum())
    lenient = f" ({unparsable:,}); a lenient reader would have understood {readable:,} of them" if unparsable else ""
    who = "the baselines'" if set(rows["model"]) <= run_data.baselines else "the models'"
    yield Finding(
        format_share(unparsable, scored),
        f"of {who} {pluralize(scored, 'scored episode')} ended with a reply that the benchmark cannot parse{lenient}.",
    )


def _scope(row: Row) -> str:
    if row["all_seven"]:
        return "the seven scenarios"
    scenarios = pluralize(row["scenarios"], "scenario")
    return scenarios if row["complete"] == row["scenarios"] else f"{scenarios}, {row['complete']} of them complete"
