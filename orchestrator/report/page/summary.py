"""Every sentence of the summary is computed from this run; what the run does not tell is not said.

What is unfinished, or has no answer, is said before what was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import polars as pl

from actors.prompts import VERSION
from envs import SCENARIOS
from orchestrator.folder import read_status
from orchestrator.report.endings import taxonomy
from orchestrator.report.evidence import Evidence
from orchestrator.report.lenient import leniency
from orchestrator.report.page.escape import visible
from orchestrator.report.paired import ALPHA, against
from orchestrator.report.provenance import foreign, subset
from orchestrator.report.statistics import Bootstrap
from orchestrator.store import damaged
from sweeps.spec import CONDITIONS

NAMED = 4
"""Names that a sentence lists before it only counts."""
Row = Mapping[str, Any]


class Fact(NamedTuple):
    """A line of what was run."""

    name: str
    text: str


class Finding(NamedTuple):
    """A headline number and the sentence that it belongs to."""

    figure: str
    text: str


# -- what was run ------------------------------------------------------------------------------------------------------
def facts(evidence: Evidence, judged: pl.DataFrame) -> list[Fact]:
    """What was run, on what, with which versions."""
    sweep, rows, status = evidence.sweep, evidence.rows, read_status(evidence.folder)
    planned, finished = int(rows["planned"].sum()), int(rows["finished"].sum())
    found = [
        Fact("Played", f"{finished:,} of {planned:,} planned episodes ({_share(finished, planned)}), {rows.height} cells"),
        Fact("Models", _models(evidence)),
        Fact("Scenarios", _list(_ordered(rows["scenario"]), 7)),
        Fact("Conditions", _list(_ordered(rows["condition"], CONDITIONS), 12)),
        Fact("Data", _data(evidence)),
        Fact("Decoding", _decoding(sweep.sampling)),
        Fact("Prompt text", _prompt(evidence)),
        Fact("Judge", _judge(evidence, judged)),
        Fact("Seed", str(sweep.seed)),
        Fact("Program", _program(status)),
    ]  # fmt: skip
    return found


def problems(evidence: Evidence) -> list[str]:
    """What is unfinished, went wrong or is in doubt, one sentence each; empty when all is well."""
    status = read_status(evidence.folder)
    return [
        *_running(status),
        *_unfinished(evidence.rows),
        *_given_up(status),
        *_errors(evidence),
        *[visible(note, 400) for note in evidence.notes],
        *[
            f"{path.parent.name}/{visible(path.name)} cannot be used and counts as absent"
            for path in damaged(evidence.folder)
        ],
    ]


def _models(evidence: Evidence) -> str:
    played = evidence.rows["model"].unique(maintain_order=True).to_list()
    models = [name for name in played if name not in evidence.baselines]
    baselines = [name for name in played if name in evidence.baselines]
    parts = [f"{len(models)}: {_list(models, 8)}"] if models else ["none"]
    return "; ".join([*parts, *([f"baselines: {_list(baselines, 8)}"] if baselines else [])])


def _data(evidence: Evidence) -> str:
    other, part = foreign(evidence), subset(evidence)
    samples = evidence.rows.group_by("scenario").agg(pl.col("planned").max())["planned"].sum()
    kinds = list(dict.fromkeys(other.values())) or ["ids and numbers are those of the published benchmark"]
    filtered = "the paper's filter" if evidence.sweep.selection.filtered else "unfiltered"
    told = f"{samples:,} samples, {filtered}; {'; '.join(kinds[:2])}"
    return visible(told + (f"; a subset in {_list(_ordered(part), 7)}" if part and not other else ""), 600)


def _decoding(sampling: Any) -> str:
    how = "greedy" if sampling.temperature == 0 else f"sampled at temperature {sampling.temperature:g}"
    return f"{how}, at most {sampling.max_tokens} new tokens a reply"


def _prompt(evidence: Evidence) -> str:
    if evidence.samples and not evidence.episodes.is_empty():
        return f"{VERSION}: the keys of the stored episodes agree with it"
    return f"{VERSION} in this program; without the data folder the stored keys cannot be checked against it"


def _judge(evidence: Evidence, judged: pl.DataFrame) -> str:
    if "judge" in judged.columns and judged.height:
        return f"{_list(judged['judge'].cast(pl.String).unique().sort().to_list(), 3)}: {judged.height:,} verdicts"
    if "oeg" in set(evidence.rows["protocol"]):
        return "open-ended answers are not judged yet"
    return "none: multiple choice is read by rule, as the package reads it"


def _program(status: Row) -> str:
    packages = status.get("packages") or {}
    named = [
        f"{name} {packages[name]}" for name in ("proactive-sweep", "vllm", "transformers", "ray") if name in packages
    ]
    commit = f"commit {str(status['commit'])[:12]}" if status.get("commit") else ""
    python = f"Python {status['python']}" if status.get("python") else ""
    return visible(", ".join(part for part in (*named, python, commit) if part) or "not recorded yet")


def _running(status: Row) -> Iterator[str]:
    if status.get("running"):
        yield "the sweep is still running: this page is a snapshot"


def _unfinished(rows: pl.DataFrame) -> Iterator[str]:
    left = rows.filter(pl.col("finished") < pl.col("planned"))
    if left.is_empty():
        return
    owed = int((left["planned"] - left["finished"]).sum())
    yield (
        f"{owed:,} of {int(rows['planned'].sum()):,} planned episodes are not played yet, in {left.height} of {rows.height} "
        f"cells: {_list(left['cell'].to_list())}; measures of these cells are of what is played"
    )


def _given_up(status: Row) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for cell in status.get("cells") or ():
        if cell.get("reason"):
            reasons.setdefault(str(cell["reason"]), []).append(str(cell["cell"]))
    for reason, cells in reasons.items():
        yield f"{len(cells)} cells stopped ({_list(cells, 2)}): {visible(reason, 300)}"


def _errors(evidence: Evidence) -> Iterator[str]:
    rows = evidence.rows
    total = int(rows["errors"].sum())
    if not total:
        return
    kinds = {name: int(rows[name].sum()) for name in ("unprocessable", "refused", "failed")}
    yield (
        f"{total:,} episodes have no answer ({', '.join(f'{n:,} {name}' for name, n in kinds.items() if n)}); "
        "they count in no measure"
    )
    causes = evidence.episodes.filter(pl.col("error").is_not_null()).group_by("error").len().sort("len", "error")
    for cause, count in causes.reverse().head(3).iter_rows():
        yield f"{count:,} times: {visible(cause, 240)}"


# -- what was found ----------------------------------------------------------------------------------------------------
def findings(evidence: Evidence, intervals: Bootstrap) -> list[Finding]:
    """The headlines that this run's numbers carry."""
    means = intervals.averages.filter((pl.col("protocol") == "mcqa") & pl.col("acc").is_not_null())
    return [
        *_best(evidence, _of(evidence, means, "zero-shot")),
        *_chance(evidence, _of(evidence, means, "zero-shot"), means),
        *_clear(evidence, means),
        *_asking(_of(evidence, means, "zero-shot")),
        *_changes(evidence),
        *_failures(evidence),
        *_parsing(evidence),
    ]


def _of(evidence: Evidence, means: pl.DataFrame, condition: str) -> pl.DataFrame:
    """Averages under a condition: of models, or where nothing else played of baselines that do not know the answer."""
    rows = means.filter(pl.col("condition") == condition)
    models = rows.filter(~pl.col("model").is_in(list(evidence.baselines)))
    return rows.filter(~pl.col("model").is_in(evidence.playing("oracle"))) if models.is_empty() else models


def _kind(evidence: Evidence, rows: pl.DataFrame, more: str = "") -> str:
    """What the rows are of, with their number: ``1 model``, ``5 baselines``."""
    kind = "baseline" if set(rows["model"]) <= evidence.baselines else "model"
    return f"{rows.height} {more}{kind}{'' if rows.height == 1 else 's'}"


def _best(evidence: Evidence, rows: pl.DataFrame) -> Iterator[Finding]:
    if rows.is_empty():
        return
    first, *others = rows.sort("acc", "model", descending=[True, False]).to_dicts()
    baseline = first["model"] in evidence.baselines
    who = "baseline that does not know the answers" if baseline else "model"
    rank = f", the best {who}" if others else f", the only {who}"
    second = f". Next is {visible(others[0]['model'])} with {others[0]['acc']:.1f}%" if others else ""
    known = first["acc_low"] < first["acc_high"]  # all right or all wrong: nothing to resample
    interval = f", 95% interval {first['acc_low']:.1f} to {first['acc_high']:.1f}" if known else ""
    yield Finding(
        f"{first['acc']:.1f}%",
        f"is the zero-shot accuracy of {visible(first['model'])}{rank}: mean over {_scope(first)}{interval}{second}.",
    )


def _chance(evidence: Evidence, rows: pl.DataFrame, means: pl.DataFrame) -> Iterator[Finding]:
    uniform = means.filter((pl.col("condition") == "zero-shot") & pl.col("model").is_in(evidence.playing("uniform")))
    others = rows.filter(~pl.col("model").is_in(evidence.playing("uniform")))
    if uniform.is_empty() or others.is_empty():
        return
    level = uniform["acc"][0]
    below = others.filter(pl.col("acc_high") < level)["model"].to_list()
    above = others.filter(pl.col("acc_low") > level)["model"].to_list()
    yield Finding(
        f"{level:.1f}%",
        f"is what choosing blindly among the options scores (the uniform baseline). Of {_kind(evidence, others, 'other ')} "
        f"the whole interval lies above it for {_count(above)} and below it for {_count(below)}.",
    )


def _count(names: list[str]) -> str:
    """``none``, ``1 (oracle)``, ``3 (a, b, c)``."""
    return f"{len(names)} ({_list(names)})" if names else "none"


def _clear(evidence: Evidence, means: pl.DataFrame) -> Iterator[Finding]:
    both = _of(evidence, means, "reference").join(_of(evidence, means, "zero-shot"), on="model", suffix="_play")
    if both.is_empty():
        return
    clear, play = float(both["acc"].mean()), float(both["acc_play"].mean())  # type: ignore[arg-type]
    yield Finding(
        _signed(play - clear),
        f"points is the step from accuracy on the clear image ({clear:.1f}%) to zero-shot accuracy ({play:.1f}%), means over "
        f"{_kind(evidence, both)}.",
    )


def _asking(rows: pl.DataFrame) -> Iterator[Finding]:
    rows = rows.filter(pl.col("ps").is_not_null())
    if rows.height < 2:
        return
    ordered = rows.sort("ps", "model").to_dicts()
    least, most = ordered[0], ordered[-1]
    yield Finding(
        f"{least['ps']:.1f}–{most['ps']:.1f}",
        f"suggestions an episode is the range, zero-shot: {visible(least['model'])} asks least, {visible(most['model'])} most "
        f"({most['loops']:.0f}% of its episodes end at the turn limit).",
    )


def _changes(evidence: Evidence) -> Iterator[Finding]:
    """The condition that changes most cells for sure."""
    found = against(evidence).filter((pl.col("protocol") == "mcqa") & (pl.col("condition") != "reference"))
    models = found.filter(~pl.col("model").is_in(list(evidence.baselines)))
    found = found if models.is_empty() else models
    if found.is_empty():
        return
    sure = pl.col("p_holm") < ALPHA
    counted = found.group_by("condition").agg(
        pl.len(),
        (sure & (pl.col("difference") > 0)).sum().alias("up"),
        (sure & (pl.col("difference") < 0)).sum().alias("down"),
        pl.col("difference").mean(),
    )
    top = counted.sort(pl.col("up") + pl.col("down"), pl.col("condition"), descending=[True, False]).to_dicts()[0]
    if not top["up"] + top["down"]:
        yield Finding(
            f"0 of {found.height}",
            "cells differ significantly in accuracy from zero-shot on the same samples (exact McNemar, Holm over all).",
        )
        return
    yield Finding(
        _signed(top["difference"]),
        f"points is the mean change under {visible(top['condition'])}, the condition that changes most: against zero-shot on "
        f"the same samples {top['up']} of {top['len']} cells rise and {top['down']} fall significantly (exact McNemar, Holm).",
    )


def _failures(evidence: Evidence) -> Iterator[Finding]:
    wrong = taxonomy(evidence).filter((pl.col("kind") != "correct") & (pl.col("protocol") == "mcqa"))
    wrong = wrong.filter((pl.col("condition") == "zero-shot") & ~pl.col("kind").is_in(["failed", "refused"]))
    models = wrong.filter(~pl.col("model").is_in(list(evidence.baselines)))
    wrong = wrong if models.is_empty() else models
    if wrong.is_empty():
        return
    counted = wrong.group_by("kind").agg(pl.col("count").sum()).sort("count", "kind", descending=[True, False])
    total = int(counted["count"].sum())
    (kind, count), *others = counted.iter_rows()
    more = f" Then: {', '.join(f'{name} ({_share(n, total)})' for name, n in others[:2])}." if others else ""
    yield Finding(
        _share(count, total), f"of the {total:,} zero-shot episodes that did not succeed {_ended(kind)}.{more}"
    )


def _parsing(evidence: Evidence) -> Iterator[Finding]:
    rows = leniency(evidence)
    unparsable = int(rows["unparsable"].sum())
    scored = int(evidence.rows["scored"].sum())
    if not scored:
        return
    if not unparsable:
        yield Finding("0", "episodes ended with a reply that the benchmark cannot parse.")
        return
    readable = int(rows["readable"].sum())
    yield Finding(
        _share(unparsable, scored),
        f"of the scored episodes ended with a reply that the benchmark cannot parse ({unparsable:,}); a lenient reader would "
        f"have understood {readable:,} of them.",
    )


def _ended(kind: str) -> str:
    """The kind as the end of a sentence."""
    return "ended with an unparsable reply" if kind == "unparsable" else kind


# -- words -------------------------------------------------------------------------------------------------------------
def _scope(row: Row) -> str:
    if row["all_seven"]:
        return "the seven scenarios"
    scenarios = f"{row['scenarios']} scenario{'s' if row['scenarios'] != 1 else ''}"
    return scenarios if row["complete"] == row["scenarios"] else f"{scenarios}, {row['complete']} of them complete"


def _share(part: int, whole: int) -> str:
    """Percent without a false 0 or 100."""
    if not whole:
        return "0%"
    value = 100 * part / whole
    if 0 < value < 0.1:
        return "<0.1%"
    return f"{min(value, 99.9):.1f}%" if part < whole else "100%"


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")


def _list(names: list[str], most: int = NAMED) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(visible, names[:most])) + more


def _ordered(names: Iterable[str], known: Iterable[str] = SCENARIOS) -> list[str]:
    """The paper's names in the paper's order, then the others."""
    found = set(names)
    listed = [name for name in known if name in found]
    return listed + sorted(found - set(listed))
