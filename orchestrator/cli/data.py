"""``data``: draw, download, check or filter the benchmark's files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from actors.text.printable import printable
from envs import SCENARIOS
from envs.samples import BadData
from orchestrator.cli.options import WIDTH, AsJson, RunFolder
from orchestrator.cli.printing import print_json, print_lines, text_table
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from orchestrator.report.measures.first_turn_filter import FirstTurns

LISTED = 5
"""Most undecided samples that are listed by id."""
COLUMNS = ("samples", "kept", "gone", "undecided", "published", "shared", "first_turn", "first_turn_kept")
RULE_COLUMNS = ("kept", "undecided", "published", "shared", "first_turn_kept")
RULE_HEADINGS = ("right", "kept", "undecided", "kept by paper", "kept by both", "of kept %")
HEADINGS = ("samples", "kept", "dropped", "undecided", "kept by paper", "kept by both", "first turn %", "of kept %")

Threshold = Annotated[
    int,
    typer.Option(min=1, max=100, metavar="PERCENT", help="Drop a sample if this share of the models is right at once."),
]
Models = Annotated[
    str, typer.Option(metavar="NAME,...", help="Count these models (default: all but policies and people).")
]


def filter_samples(
    folder: RunFolder,
    threshold: Threshold = 25,
    into: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the kept ids there, as JSON.")] = None,
    models: Models = "",
    as_json: AsJson = False,
) -> None:
    """Recompute which samples the paper's filter keeps, from a run over all; exit code 1 if some are undecided."""
    from orchestrator.report.measures import first_turn_filter as first_turn
    from orchestrator.report.read_run import read_run
    from orchestrator.storage.disk import disk_errors

    run_data = read_run(folder)
    turns = first_turn.first_turns(run_data, [name for name in models.split(",") if name])
    tables = {
        percent: first_turn.threshold_counts(turns, percent) for percent in sorted({threshold, *first_turn.THRESHOLDS})
    }
    decisions = turns.decide(threshold)
    undecided = decisions.filter(decisions["kept"].is_null())
    if into is not None:
        with disk_errors(into):
            first_turn.write_ids(turns, threshold, into)
    if as_json:
        print_json({
            "models": turns.models, "threshold": threshold, "thresholds": {p: rows.to_dicts() for p, rows in tables.items()},
            "rules": list(_rules(turns, tables)), "undecided": undecided.to_dicts(), "notes": run_data.notes,
        })  # fmt: skip
    else:
        scenario_table = _scenario_table(tables[threshold], threshold, len(turns.models))
        show(scenario_table, _rule_table(_rules(turns, tables)), min_width=WIDTH)
        print_lines([*run_data.notes, *_notes(turns, undecided, threshold, into)])
    raise typer.Exit(1 if undecided.height else 0)


def _scenario_table(rows: pl.DataFrame, percent: int, models: int) -> Table:
    from orchestrator.report.measures.first_turn_filter import models_needed

    needed = models_needed(percent, models)
    title = f"dropped: samples that {percent}% of the models ({needed} of {models}) get right at the first turn"
    texts = (
        (row["scenario"], *(_figure(row[name]) + _limits(row, name) for name in COLUMNS))
        for row in rows.iter_rows(named=True)
    )
    return text_table(("scenario", *HEADINGS), texts, title, numbers=len(HEADINGS))


def _rule_table(rules: Iterable[Mapping[str, Any]]) -> Table:
    from orchestrator.report.measures.first_turn_filter import RECALL_RATE

    heads = (*RULE_HEADINGS, f"recall at {RECALL_RATE:.0%}", "at chance")
    title = f"other rules: percent dropped of samples with a first-turn rate of {RECALL_RATE:.0%}, and at chance"
    texts = ((rule["rule"], *map(_figure, list(rule.values())[1:])) for rule in rules)
    return text_table(("rule", *heads), texts, title, numbers=len(heads))


def _rules(turns: FirstTurns, tables: dict[int, pl.DataFrame]) -> Iterator[dict[str, Any]]:
    """Yield one row per threshold and one for the binomial test, which keeps no list of samples."""
    from orchestrator.report.measures import first_turn_filter as first_turn

    models = len(turns.models)
    for percent, rows in tables.items():
        needed = first_turn.models_needed(percent, models)
        (total,) = rows.filter(scenario=first_turn.TOTAL).select(RULE_COLUMNS).to_dicts()
        yield {"rule": f"{percent}% of the models", "needed": needed, **total, **_recalls(needed, models)}
    needed = first_turn.binomial_models_needed(models)
    rule = f"binomial test, p < {first_turn.ALPHA}"
    yield {"rule": rule, "needed": needed, **dict.fromkeys(RULE_COLUMNS), **_recalls(needed, models)}


def _recalls(needed: int, models: int) -> dict[str, float]:
    from orchestrator.report.measures import first_turn_filter as first_turn

    return {
        "recall": first_turn.recall(needed, models),
        "at_chance": first_turn.recall(needed, models, first_turn.CHANCE),
    }


def _notes(turns: FirstTurns, undecided: pl.DataFrame, percent: int, into: Path | None) -> Iterator[str]:
    """Yield the notes below the tables, one sentence each."""
    yield f"models: {', '.join(turns.models)}, at the first turn of zero-shot"
    short = turns.samples.filter(turns.samples["lacking"] > 0)
    if short.height:
        lacking = "lack answers of some models (not played, or errors); these count as neither right nor wrong"
        yield f"{short.height:,} samples {lacking}"
    if undecided.height:
        ids = [f"{row['scenario']}/{row['sample_id']:04d}" for row in undecided.head(LISTED).iter_rows(named=True)]
        more = f" and {undecided.height - LISTED:,} more" if undecided.height > LISTED else ""
        yield f"{undecided.height:,} samples stay undecided until these answers exist: {', '.join(ids)}{more}"
    if into is not None:
        count = sum(map(len, turns.ids(percent).values()))
        yield f"{into} holds the {count:,} kept ids; play only them with --set selection.ids_file={into}"


def _limits(row: Mapping[str, Any], name: str) -> str:
    """Return the 95% interval of a figure that has one."""
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    return "" if low is None or high is None else f" ({low:.0f}–{high:.0f})"


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.1f}"


data_app = typer.Typer(help="The benchmark's data: draw a demo, download it, check or filter it.", no_args_is_help=True)
Scenarios = Annotated[str, typer.Option(help="Names joined by commas, or all.")]


@data_app.command()
def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to draw it.")],
    samples: Annotated[int, typer.Option(help="Samples in all, spread over the scenarios.")] = 210,
    seed: Annotated[int, typer.Option(help="The same seed draws the same bytes.")] = 0,
    keep: Annotated[bool, typer.Option("--keep", help="Leave a folder that is not empty as it is.")] = False,
    scenarios: Scenarios = "all",
) -> None:
    """Draw a small benchmark of all seven scenarios in the published format."""
    from envs.demo import draw

    if keep and folder.is_dir() and any(folder.iterdir()):
        print(printable(f"{folder} already exists; remove it to draw it again"))
        return
    try:
        counts = draw(folder, samples, seed, _scenario_names(scenarios))
    except ValueError as mistake:
        raise BadData(str(mistake)) from None
    except OSError as problem:
        raise BadData(_unwritable(folder, problem)) from None
    print(printable(f"{folder}: ") + ", ".join(f"{name} {count}" for name, count in counts.items()))


@data_app.command()
def fetch(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to put it; the benchmark is then DIR/test.")],
    scenarios: Scenarios = "all",
    revision: Annotated[str | None, typer.Option(help="A commit of the data set, to pin it.")] = None,
    delete_archives: Annotated[
        bool, typer.Option("--delete-archives", help="Remove each archive once unpacked.")
    ] = False,
    split: Annotated[str, typer.Option(help="test, the benchmark; or train, the states to learn from.")] = "test",
) -> None:
    """Download the published benchmark, unpack it safely and check it; rerun to resume."""
    from orchestrator.datasets.download import FOLDER, describe_terms
    from orchestrator.datasets.download import fetch_benchmark as download
    from orchestrator.datasets.train_split import fetch_split as download_train_split

    names = _scenario_names(scenarios)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise BadData(_unwritable(folder, problem)) from None
    if split not in ("test", "train"):
        raise BadData(f"--split {split!r} is neither test nor train")
    print_lines(describe_terms(("QD", "COCO") if split == "train" else names))
    if split == "train":
        print(f'in a sweep file: [train] data = "{download_train_split(folder, revision)}"')
        return
    outcome = download(folder, names, revision, delete_archives)
    print_lines(outcome.lines())
    print(printable(f'in a sweep file: data = "{folder / FOLDER}"'))
    raise typer.Exit(0 if outcome.ok else 1)


@data_app.command()
def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The benchmark folder.")],
    scenarios: Scenarios = "all",
    unfiltered: Annotated[
        bool, typer.Option("--unfiltered", help="Check every line, not only the samples that the paper evaluates.")
    ] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Decode every picture fully.")] = False,
) -> None:
    """List every bad line and every missing or unreadable picture; exit code 1 if there is any."""
    from envs.check import check as check_folder

    outcome = check_folder(folder, _scenario_names(scenarios), filtered=not unfiltered, deep=deep)
    print_lines(outcome.lines())
    raise typer.Exit(0 if outcome.ok else 1)


data_app.command("filter")(filter_samples)


def _scenario_names(text: str) -> list[str]:
    return list(SCENARIOS) if text == "all" else text.split(",")


def _unwritable(folder: Path, problem: OSError) -> str:
    """Return why a folder cannot be written to; usually it or one of its parents is a file."""
    file = next((path for path in (folder, *folder.parents) if path.is_file()), None)
    why = f"{file} is a file" if file else problem.strerror or str(problem)
    return f"{folder} cannot be written to: {why}; name another folder"
