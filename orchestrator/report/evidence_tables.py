"""The tables beside the paper's: paired differences, ranks, replicates, readings, and what samples are hard."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from envs import in_order
from orchestrator.report.difficulty import Difficulty, difficulty, hardest
from orchestrator.report.escaping import MISSING, Entry, Grid
from orchestrator.report.grid_parts import AVERAGE, Row, by_scenario, change, models, rounded
from orchestrator.report.lenient import leniency
from orchestrator.report.own_measures import COUNT, names
from orchestrator.report.paired_averages import averages_against
from orchestrator.report.paired_tests import ALPHA, against
from orchestrator.report.ranking import chance, ranking
from orchestrator.report.robustness import PARTS, robustness
from orchestrator.report.run_data import RunData
from orchestrator.report.share_changes import share_changes
from orchestrator.report.wording import counted, signed
from sweeps.spec import Protocol

HARDEST = 5
"""Samples of each scenario that are shown."""
READINGS = ("acc", "acc_lenient", "acc_lenient_most", "acc_fuzzy", "acc_fuzzy_most")
PAIRED = {
    Protocol.MCQA: ("paired", "accuracy"),
    Protocol.OEG: ("open-ended-paired", "open-ended, share of answers that the judge accepts,"),
    Protocol.TOOLS: ("tools-paired", "tool calls, accuracy"),
    Protocol.OEG_MULTI: ("open-ended-turns-paired", "open-ended over several turns, accuracy"),
}
"""Name and measure of the paired table."""


def paired(run_data: RunData, protocol: Protocol = Protocol.MCQA) -> Grid:
    """What each condition changes against zero-shot on the same samples, in points; ``*`` where the corrected p is below 0.05."""
    found = against(run_data).filter(protocol=protocol.value)
    differences = averages_against(run_data).filter(protocol=protocol.value)
    means = {(row["model"], row["condition"]): row for row in differences.iter_rows(named=True)}
    scenarios, rows, ranked = in_order(found["scenario"]), [], 0
    for model in models(run_data, found["model"]):
        played = set(found.filter(model=model)["condition"])
        for name in [name for name in run_data.conditions if name in played]:
            ranked += model not in run_data.baselines
            part = {row["scenario"]: row for row in found.filter(model=model, condition=name).iter_rows(named=True)}
            entries = [change(part.get(scenario)) for scenario in scenarios]
            rows.append((f"{model}, {name}", (*entries, change(means.get((model, name)), span=True))))
    name, measure = PAIRED[protocol]
    test = "sign flips of clusters" if run_data.cluster else "McNemar"
    title = (
        f"{measure} against zero-shot on the same samples, points; last, the mean over the condition's scenarios with its 95% "
        f"interval (* {test}, of means a score test; Holm over all models, p < {ALPHA})"
    )
    return Grid(name, title, (*scenarios, AVERAGE), tuple(rows), found, ranked)


def shares(run_data: RunData) -> Grid:
    """What hints and random suggestions change in what models do (``share_changes``), the paper's beside ours where published."""
    found = share_changes(run_data)
    names, rows = (
        {"share_suggestion": "suggestions", "share_abstention": "abstentions", "share_category": "categories"},
        [],
    )
    for model in models(run_data, found["model"]):
        for name in [name for name in run_data.conditions if name in set(found.filter(model=model)["condition"])]:
            part = {row["share"]: row for row in found.filter(model=model, condition=name).iter_rows(named=True)}
            rows.append((f"{model}, {name}", tuple(_changed(part[share]) for share in names)))
    title = (
        "change of the shares of answers against zero-shot, percent of the share before (before to after; points with their "
        "paired 95% interval), averaged over the scenarios complete under both; of the paper's figures only suggestions under "
        "random ones are published as numbers"
    )
    return Grid("share-changes", title, tuple(names.values()), tuple(rows), found)


def _changed(row: Row) -> Entry:
    points = f"{signed(row['points'])} [{signed(row['points_low'])}, {signed(row['points_high'])}]"
    span = f"({row['before']:.1f} to {row['after']:.1f}; {points})"
    change = "-" if row["percent"] is None else f"{signed(row['percent'])}"
    paper = "" if row["published"] is None else f", paper {signed(row['published'])}"
    return Entry(f"{change} {span}{paper}", row["percent"])


def ranks(run_data: RunData, condition: str = "zero-shot") -> Grid:
    """The order of models with complete cells, and how sure it is (``orchestrator.report.ranking``)."""
    found = ranking(run_data, condition)
    order = found.filter(protocol="mcqa")
    rows = tuple((row["model"], tuple(map(Entry, _standing(row)))) for row in order.iter_rows(named=True))
    columns = ("accuracy", "rank", "ranks not excluded", "best of all", "above the next", "difference")
    title = (
        f"{condition}: rank by the average over scenarios on the same samples; chance to be the best, and to be above the next "
        "model; difference to it in points (95% interval)"
    )
    return Grid("ranking", title, columns, rows, found, len(rows))


def robust(run_data: RunData, condition: str = "zero-shot") -> Grid:
    """Accuracy over all replicates, its range, and what its answers vary with (``orchestrator.report.robustness``)."""
    found = robustness(run_data)
    scenarios, rows = by_scenario(run_data, found.filter(condition=condition), _spread)
    title = (
        f"{condition}: accuracy over all replicates, lowest to highest replicate; parts of the variance of an answer: sample / "
        "option order / draw of the decoding, percent (with one seed the order holds the draw)"
    )
    return Grid("robustness", title, tuple(scenarios), tuple(rows), found)


def readings(run_data: RunData, condition: str = "zero-shot") -> Grid:
    """Accuracy under the strict, the lenient and the fuzzy reading, averaged over scenarios (``leniency``)."""
    found = leniency(run_data).filter(condition=condition, protocol="mcqa")
    means = found.group_by("model").agg(pl.col(READINGS).mean(), pl.col(READINGS).null_count().name.suffix("_gaps"))
    known = {row["model"]: row for row in means.iter_rows(named=True)}
    rows = []
    for model in models(run_data, found.filter(pl.col("unparsable") > 0)["model"]):
        row = known[model]
        lows = [MISSING if row[f"{name}_gaps"] else Entry(rounded(row, name), row[name]) for name in READINGS]
        rows.append((model, (lows[0], *[_up_to(*pair) for pair in (lows[1:3], lows[3:5])])))
    title = (
        f"{condition}: accuracy where a reply that names nothing is wrong (strict, the benchmark's), is read by a tolerant rule "
        "(lenient), or counts as the nearest option (fuzzy); to: if all that would go on ended right"
    )
    return Grid("readings", title, ("strict", "lenient", "fuzzy"), tuple(rows), found)


def shrunken(run_data: RunData, condition: str = "zero-shot") -> Grid:
    """Accuracy of each cell, drawn towards like cells as far as its own answers are few (``difficulty``)."""
    found = difficulty(run_data).cells.filter(condition=condition)
    scenarios, rows = by_scenario(run_data, found, _drawn)
    title = (
        f"{condition}: accuracy that a mixed logistic model of samples, models and conditions gives each cell, in percent, "
        "with its 95% interval; what few answers say by chance is taken out"
    )
    return Grid("shrunken", title, tuple(scenarios), tuple(rows), found, len(rows))


def own(run_data: RunData) -> list[Grid]:
    """One table a measure of an installed package: its mean in each cell, with its 95% interval."""
    return [_own(run_data, name) for name in names(run_data.rows.columns)]


def _own(run_data: RunData, name: str) -> Grid:
    found = run_data.rows.filter(pl.col(f"{name}{COUNT}") > 0)
    scenarios, rows = in_order(found["scenario"]), list[tuple[str, tuple[Entry, ...]]]()
    for model in models(run_data, found["model"]):
        mine = found.filter(model=model)
        for condition, protocol in mine.select("condition", "protocol").unique(maintain_order=True).iter_rows():
            part = mine.filter(condition=condition, protocol=protocol)
            cells = {row["scenario"]: row for row in part.iter_rows(named=True)}
            label = f"{model}, {condition}" if protocol == Protocol.MCQA else f"{model}, {condition} ({protocol})"
            rows.append((label, tuple(_mean(cells.get(scenario), name) for scenario in scenarios)))
    title = f"{name}: mean over episodes, with its 95% interval (a measure of an installed package)"
    columns = (
        "cell",
        "model",
        "scenario",
        "condition",
        "protocol",
        name,
        f"{name}_low",
        f"{name}_high",
        f"{name}{COUNT}",
    )
    return Grid(f"measure-{name}", title, tuple(scenarios), tuple(rows), found.select(columns), len(rows))


def _mean(row: Row | None, name: str) -> Entry:
    if row is None:
        return MISSING
    span = f" ({row[f'{name}_low']:.1f} to {row[f'{name}_high']:.1f})" if row[f"{name}_low"] is not None else ""
    return Entry(f"{row[name]:.1f}{span}", row[name])


def hard_samples(run_data: RunData) -> Grid:
    """The hardest samples of each scenario, over all models and conditions but the reference."""
    found = difficulty(run_data)
    shown = hardest(found, HARDEST)
    rows = tuple((f"{row['scenario']} {row['sample_id']:04d}", _hard(row)) for row in shown.iter_rows(named=True))
    title = (
        "hardest samples: answers that were right; percent that all models and conditions would have right of such samples "
        "(95% interval); difficulty in log-odds above the scenario's mean; an episode to look at"
    )
    notes = tuple(_extremes(scenario, found) for scenario in found.spreads)
    columns = ("right", "expected", "difficulty", "episode")
    return Grid("hard-samples", title, columns, rows, shown, len(rows), notes, subject="sample")


def _extremes(scenario: str, found: Difficulty) -> str:
    """What a reader must know of a scenario's order."""
    part, (common, single) = found.samples.filter(scenario=scenario), found.spreads[scenario]
    wrong, right = (int(part[name].sum()) for name in ("all_wrong", "all_right"))
    return (
        f"{scenario}: of {counted(part.height, 'sample')} nobody ever got {wrong:,} right and nobody ever got {right:,} wrong; "
        "they stay in the model, and those answered alike are equally hard, in the order of their numbers. Difficulty varies by "
        f"{common:.1f} (standard deviation, log-odds) for all models together and {single:.1f} more from model to model"
    )


def _hard(row: Row) -> tuple[Entry, ...]:
    return (
        Entry(f"{row['right']} of {row['answers']}", row["right"] / row["answers"]),
        Entry(f"{row['expected']:.1f} ({row['expected_low']:.1f} to {row['expected_high']:.1f})", row["expected"]),
        Entry(f"{row['difficulty']:.1f}", row["difficulty"]),
        Entry(row["example"], episode=row["example"]),
    )


def _drawn(row: Row) -> Entry:
    return Entry(
        f"{row['acc_shrunk']:.1f} ({row['acc_shrunk_low']:.1f} to {row['acc_shrunk_high']:.1f})", row["acc_shrunk"]
    )


def _up_to(low: Entry, high: Entry) -> Entry:
    return low if low.text == high.text else Entry(f"{low.text} to {high.text}", low.value)


def _spread(row: Row) -> Entry:
    shares = " / ".join("-" if row[name] is None else f"{row[name]:.0f}" for name in PARTS)
    return Entry(f"{row['acc']:.1f}, {row['least']:.1f} to {row['most']:.1f}; {shares}", row["acc"])


def _standing(row: Row) -> Iterable[str]:
    yield from (f"{row['average']:.1f}", str(row["rank"]), f"{row['rank_low']} to {row['rank_high']}")
    yield chance(row["p_best"])
    if row["next"] is None:
        yield from ("-", "-")
    else:
        yield from (chance(row["p_beats_next"]), change({**row, "p_holm": None}, span=True).text)
