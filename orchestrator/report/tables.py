"""The tables of a report, as in the paper, in Markdown, LaTeX and CSV.

An unfinished entry says how far it is and is never marked best; no error counts as a zero. The same run gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from envs import SCENARIOS
from orchestrator.report import escaping
from orchestrator.report.efficiency import budget_averages, efficiency, lift
from orchestrator.report.endings import taxonomy
from orchestrator.report.escaping import MISSING, Entry, Grid
from orchestrator.report.estimates import Estimates, estimate
from orchestrator.report.judge_tables import averages, title
from orchestrator.report.lenient import leniency
from orchestrator.report.metrics import CUT, lacking
from orchestrator.report.model_size import capacity
from orchestrator.report.paired_averages import averages_against, averages_between
from orchestrator.report.paired_tests import ALPHA, against, between, significant
from orchestrator.report.published import MEASURES
from orchestrator.report.ranking import BEATS, beats, chance, ranking
from orchestrator.report.robustness import PARTS, robustness
from orchestrator.report.run_data import RunData, read
from orchestrator.report.wording import counted, signed
from orchestrator.storage import atomic_write
from sweeps.conditions import WITH_EXAMPLES
from sweeps.load import registry
from sweeps.spec import Protocol

AVERAGE = "avg"
READINGS = ("acc", "acc_lenient", "acc_lenient_most", "acc_fuzzy", "acc_fuzzy_most")
PAIRED = {
    Protocol.MCQA: ("paired", "accuracy"),
    Protocol.OEG: ("open-ended-paired", "open-ended, share of answers that the judge accepts,"),
}
"""Name and measure of the paired table."""
Row = Mapping[str, Any]
Format = Callable[[Row], str]


def write_tables(
    folder: Path, data: Path | None = None, judge: str = "", strict: bool = False, cluster: str = ""
) -> list[Path]:
    """Markdown, LaTeX and CSV of every table that the run has, and CSV of every measure beside them (``measures``).

    Into ``folder/tables``; returns the files written, sorted. ``judge`` and ``strict`` choose the verdicts and
    ``cluster`` the clusters, as ``read`` does. Raises RunFolderError when the folder is no run.
    """
    run_data = read(folder, data, judge, strict, cluster)
    place = Path(folder) / "tables"
    place.mkdir(exist_ok=True)
    texts: dict[str, str] = {}
    for grid in grids(run_data):
        texts |= {f"{grid.name}.md": escaping.markdown(grid), f"{grid.name}.tex": escaping.latex(grid)}
        texts[f"{grid.name}.csv"] = grid.numbers.write_csv(float_precision=6)
    texts |= {f"{name}.csv": frame.write_csv(float_precision=6) for name, frame in measures(run_data).items()}
    for name, text in texts.items():
        atomic_write.write(place / name, text.encode())
    return sorted(place / name for name in texts)


def measures(run_data: RunData) -> dict[str, pl.DataFrame]:
    """Name -> what reviewers of the paper asked for beside its tables, as frames; those without a row are left out."""
    frames = {
        "endings": taxonomy(run_data),
        "efficiency": efficiency(run_data),
        "budget": budget_averages(run_data),
        "lift": lift(run_data),
        "lenient": leniency(run_data),
        "capacity": capacity(run_data),
        "models-paired": between(run_data),
        "models-paired-averages": averages_between(run_data).join(beats(run_data), on=BEATS, how="left"),
        "paired-averages": averages_against(run_data),
    }
    return {name: frame for name, frame in frames.items() if not frame.is_empty()}


def grids(run_data: RunData, intervals: Estimates | None = None) -> list[Grid]:
    """The tables that this run has, those of no cell left out: main, conditions, reference, paired, open-ended."""
    intervals = intervals or estimate(run_data)
    made = [
        main(run_data, intervals),
        conditions(run_data, intervals),
        reference(run_data, intervals),
        ranks(run_data),
        robust(run_data),
        readings(run_data),
        paired(run_data),
        open_ended(run_data, intervals),
        paired(run_data, Protocol.OEG),
    ]
    return [grid for grid in made if grid.rows]


def main(run_data: RunData, intervals: Estimates, condition: str = "zero-shot") -> Grid:
    """Models x scenarios, acc and ps, the average at the end (paper, Table 1)."""
    cells = intervals.cells.filter(condition=condition, protocol="mcqa")
    averages = intervals.averages.filter(condition=condition, protocol="mcqa")
    grid = _by_scenario(run_data, cells, averages, _acc_ps)
    title = f"{condition}: accuracy in percent / mean number of suggestions"
    return replace(grid, name="main", title=title, numbers=_numbers(cells, averages))


def conditions(run_data: RunData, intervals: Estimates) -> Grid:
    """Models x conditions, averages over scenarios; beside the in-context examples zero-shot over their scenarios."""
    averages = intervals.averages.filter(protocol="mcqa")
    few = _over(intervals.cells.filter(protocol="mcqa", condition="zero-shot"), WITH_EXAMPLES)
    present = [name for name in run_data.conditions if name in set(averages["condition"]) and name != "reference"]
    examples = [name for name in present if run_data.conditions[name].scenarios]
    whole = [name for name in present if name not in examples]
    columns = [*whole, *([f"zero-shot ({', '.join(WITH_EXAMPLES)})"] if examples else []), *examples]
    rows: list[tuple[str, list[Entry]]] = []
    for model in models(run_data, averages["model"]):
        mine = {row["condition"]: row for row in averages.filter(model=model).iter_rows(named=True)}
        entries = [_average(run_data, mine.get(name)) for name in whole]
        entries += [few.get(model, MISSING)] if examples else []
        rows.append((model, [*entries, *(_average(run_data, mine.get(name)) for name in examples)]))
    title = "conditions: accuracy in percent / mean number of suggestions, averaged over scenarios"
    return _grid(run_data, "conditions", title, columns, rows, averages, "mcqa")


def reference(run_data: RunData, intervals: Estimates) -> Grid:
    """Accuracy on the clear image, and under zero-shot, by scenario (paper, Table 6 and Figure 3)."""
    clear = intervals.cells.filter(condition="reference", protocol="mcqa")
    if clear.is_empty():
        return Grid("reference", "", (), (), intervals.cells.clear())
    played = {(row["model"], row["scenario"]): row for row in _zero_shot(intervals.cells).iter_rows(named=True)}
    means = {row["model"]: row for row in _zero_shot(intervals.averages).iter_rows(named=True)}

    def both(row: Row) -> str:
        other = played.get((row["model"], row["scenario"])) if "scenario" in row else means.get(row["model"])
        return f"{row['acc']:.1f} / {_one(other, 'acc')}"

    averages = intervals.averages.filter(condition="reference", protocol="mcqa")
    grid = _by_scenario(run_data, clear, averages, both)
    numbers = _numbers(clear, averages, _zero_shot(intervals.cells), _zero_shot(intervals.averages))
    return replace(grid, name="reference", title="accuracy in percent: clear image / zero-shot", numbers=numbers)


def paired(run_data: RunData, protocol: Protocol = Protocol.MCQA) -> Grid:
    """What each condition changes against zero-shot on the same samples, in points; ``*`` where the corrected p is below 0.05."""
    found = against(run_data).filter(protocol=protocol.value)
    differences = averages_against(run_data).filter(protocol=protocol.value)
    means = {(row["model"], row["condition"]): row for row in differences.iter_rows(named=True)}
    scenarios, rows, ranked = _present(found["scenario"]), [], 0
    for model in models(run_data, found["model"]):
        played = set(found.filter(model=model)["condition"])
        for name in [name for name in run_data.conditions if name in played]:
            ranked += model not in run_data.baselines
            part = {row["scenario"]: row for row in found.filter(model=model, condition=name).iter_rows(named=True)}
            entries = [_change(part.get(scenario)) for scenario in scenarios]
            rows.append((f"{model}, {name}", (*entries, _change(means.get((model, name)), span=True))))
    name, measure = PAIRED[protocol]
    test = "sign flips of clusters" if run_data.cluster else "McNemar"
    title = (
        f"{measure} against zero-shot on the same samples, points; last, the mean over the condition's scenarios with its 95% "
        f"interval (* {test}, of means a score test; Holm over all models, p < {ALPHA})"
    )
    return Grid(name, title, (*scenarios, AVERAGE), tuple(rows), found, ranked)


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
    part = found.filter(condition=condition)
    scenarios = _present(part["scenario"])
    rows = []
    for model in models(run_data, part["model"]):
        cells = {row["scenario"]: row for row in part.filter(model=model).iter_rows(named=True)}
        rows.append((model, tuple(_spread(cells.get(name)) for name in scenarios)))
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
        lows = [MISSING if row[f"{name}_gaps"] else Entry(_one(row, name), row[name]) for name in READINGS]
        rows.append((model, (lows[0], *[_up_to(*pair) for pair in (lows[1:3], lows[3:5])])))
    title = (
        f"{condition}: accuracy where a reply that names nothing is wrong (strict, the benchmark's), is read by a tolerant rule "
        "(lenient), or counts as the nearest option (fuzzy); to: if all that would go on ended right"
    )
    return Grid("readings", title, ("strict", "lenient", "fuzzy"), tuple(rows), found)


def _up_to(low: Entry, high: Entry) -> Entry:
    return low if low.text == high.text else Entry(f"{low.text} to {high.text}", low.value)


def _spread(row: Row | None) -> Entry:
    if row is None:
        return MISSING
    shares = " / ".join("-" if row[name] is None else f"{row[name]:.0f}" for name in PARTS)
    return Entry(f"{row['acc']:.1f}, {row['least']:.1f} to {row['most']:.1f}; {shares}", row["acc"])


def _standing(row: Row) -> Iterable[str]:
    yield from (f"{row['average']:.1f}", str(row["rank"]), f"{row['rank_low']} to {row['rank_high']}")
    yield chance(row["p_best"])
    if row["next"] is None:
        yield from ("-", "-")
    else:
        yield from (chance(row["p_beats_next"]), _change({**row, "p_holm": None}, span=True).text)


def open_ended(run_data: RunData, intervals: Estimates) -> Grid:
    """The judged share of answers: aggregate / category / suggestion in percent (paper, Tables 8 and 9)."""
    measures = list(MEASURES["oeg"].values())
    judged = run_data.rows.filter(pl.col("protocol") == "oeg")
    judged = judged.with_columns(lacking(judged.columns).alias("lacking"))
    if judged.is_empty() or not set(measures) <= set(judged.columns):
        return Grid("open-ended", "", (), (), judged)

    def three(row: Row) -> str:
        return " / ".join(_one(row, measure) for measure in measures)

    rows: list[tuple[str, tuple[Entry, ...]]] = []
    scenarios, means = _present(judged["scenario"]), averages(run_data)
    for model in models(run_data, judged["model"]):
        for condition in [name for name in run_data.conditions if name in set(judged.filter(model=model)["condition"])]:
            part = {r["scenario"]: r for r in judged.filter(model=model, condition=condition).iter_rows(named=True)}
            entries = [_entry(part.get(name), three, measures[0]) for name in scenarios]
            mean = means.row(by_predicate=(pl.col("model") == model) & (pl.col("condition") == condition), named=True)
            whole = (
                Entry(three(mean), None) if mean["complete"] == len(scenarios) else Entry("unfinished", unfinished=True)
            )
            rows.append((f"{model}, {condition}", (*entries, whole)))
    column = AVERAGE if len(scenarios) == len(SCENARIOS) else f"avg of {len(scenarios)}"
    numbers = pl.concat([judged.drop("lacking"), means.with_columns(scenario=pl.lit(AVERAGE))], how="diagonal")
    return Grid("open-ended", title(run_data), (*scenarios, column), tuple(rows), numbers)


def models(run_data: RunData, names: Iterable[str]) -> list[str]:
    """The names that occur: models as the registry lists them, then others by name, then the baselines."""
    known = {name: place for place, name in enumerate(registry())}
    return sorted(set(names), key=lambda name: (name in run_data.baselines, known.get(name, len(known)), name))


def _by_scenario(run_data: RunData, cells: pl.DataFrame, averages: pl.DataFrame, text: Format) -> Grid:
    scenarios = _present(cells["scenario"])
    counted = cells.with_columns(lacking(cells.columns).alias("lacking"))
    means = {row["model"]: row for row in averages.iter_rows(named=True)}
    rows: list[tuple[str, list[Entry]]] = []
    for model in models(run_data, cells["model"]):
        part = {row["scenario"]: row for row in counted.filter(model=model).iter_rows(named=True)}
        entries = [_entry(part.get(name), text) for name in scenarios]
        rows.append((model, [*entries, _average(run_data, means.get(model), text)]))
    column = AVERAGE if len(scenarios) == len(SCENARIOS) else f"avg of {len(scenarios)}"
    return _grid(run_data, "", "", [*scenarios, column], rows, cells, "mcqa")


def _grid(
    run_data: RunData,
    name: str,
    title: str,
    columns: Sequence[str],
    rows: list[tuple[str, list[Entry]]],
    numbers: pl.DataFrame,
    protocol: str,
) -> Grid:
    """Best and second are marked among models; among baselines only where there is nothing else."""
    ranked = [model not in run_data.baselines for model, _ in rows]
    marked = escaping.marked(rows, ranked if any(ranked) else [True] * len(rows))
    return Grid(name, title, tuple(columns), marked, numbers, sum(ranked), _errors(run_data, protocol))


def _entry(row: Row | None, text: Format, measure: str = "acc") -> Entry:
    if row is None:
        return MISSING
    if row[measure] is None:
        return Entry(f"{row['finished']}/{row['planned']}", None, unfinished=True)
    if left := row["lacking"]:
        return Entry(f"{text(row)} ({row['planned'] - left}/{row['planned']})", row[measure], unfinished=True)
    return Entry(text(row), row[measure])


def _average(run_data: RunData, row: Row | None, text: Format | None = None) -> Entry:
    """An average counts as finished when every planned scenario is."""
    if row is None:
        return MISSING
    same = [pl.col(name) == row[name] for name in ("model", "condition", "protocol")]
    planned = run_data.rows.filter(same)["scenario"].n_unique()
    if row["acc"] is None:
        return Entry("unfinished", None, unfinished=True)
    shown = (text or _acc_ps)(row)
    if row["complete"] < planned:
        return Entry(f"{shown} ({row['complete']} of {counted(planned, 'scenario')})", row["acc"], unfinished=True)
    return Entry(shown, row["acc"])


def _over(cells: pl.DataFrame, scenarios: Sequence[str]) -> dict[str, Entry]:
    """Model -> the unweighted mean over these scenarios."""
    part = cells.filter(pl.col("scenario").is_in(scenarios))
    done = (lacking(part.columns) == 0).all()
    means = part.group_by("model").agg(
        pl.col("acc", "ps").mean(), done.alias("done"), pl.col("acc").null_count().alias("gaps")
    )
    return {
        row["model"]: Entry("unfinished", None, unfinished=True)
        if row["gaps"]
        else Entry(_acc_ps(row), row["acc"], unfinished=not row["done"])
        for row in means.iter_rows(named=True)
    }


def _change(row: Row | None, span: bool = False) -> Entry:
    if row is None:
        return MISSING
    interval = f" ({signed(row['difference_low'])} to {signed(row['difference_high'])})" if span else ""
    return Entry(f"{signed(row['difference'])}{'*' if significant(row['p_holm']) else ''}{interval}", row["difference"])


def _errors(run_data: RunData, protocol: str) -> tuple[str, ...]:
    """One sentence a cell that has episodes without an answer, or episodes that a limit cut short."""
    bad = run_data.rows.filter((pl.col("protocol") == protocol) & (pl.col("errors") > 0))
    return (*_cut_short(run_data.rows.filter(protocol=protocol)), *_without_answer(bad))


def _cut_short(rows: pl.DataFrame) -> tuple[str, ...]:
    return tuple(
        f"{row['cell']}: {row[ending]} of {counted(row['scored'], 'episode')} {what}, counted as not right; acc is at most "
        f"{row['acc_bound']:.1f} and loops at most {row['loops_bound']:.1f} where nothing were cut"
        for ending, what in CUT.items()
        for row in rows.filter(pl.col(ending) > 0).iter_rows(named=True)
    )


def _without_answer(bad: pl.DataFrame) -> tuple[str, ...]:
    return tuple(
        f"{row['cell']}: {row['errors']} of {counted(row['finished'], 'episode')} without an answer, and in no measure "
        f"({row['unprocessable']} unprocessable, {row['refused']} refused, {row['failed']} failed)"
        for row in bad.iter_rows(named=True)
    )


def _numbers(cells: pl.DataFrame, averages: pl.DataFrame, *more: pl.DataFrame) -> pl.DataFrame:
    """What the CSV holds: cells, then averages as scenario ``avg``, with every count and interval."""
    parts = [cells, averages, *more]
    rows = pl.concat([_labelled(part) for part in parts], how="diagonal")
    return rows.sort("model", "condition", "protocol", "scenario", maintain_order=True)


def _labelled(rows: pl.DataFrame) -> pl.DataFrame:
    if "scenario" in rows.columns:
        return rows.drop("cell")
    return rows.with_columns(pl.lit(AVERAGE).alias("scenario"))


def _zero_shot(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(condition="zero-shot", protocol="mcqa")


def _present(names: Iterable[str]) -> list[str]:
    found = set(names)
    return [name for name in SCENARIOS if name in found]


def _acc_ps(row: Row) -> str:
    return f"{row['acc']:.1f} / {row['ps']:.1f}"


def _one(row: Row | None, measure: str) -> str:
    return "-" if row is None or row[measure] is None else f"{row[measure]:.1f}"
