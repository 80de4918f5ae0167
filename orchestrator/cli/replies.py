"""``judge`` has open-ended answers read by a judge; ``audit`` replays stored replies, or transcripts made elsewhere."""

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from envs import regular
from envs.errors import RunFolderError, UserError
from orchestrator.audit.answers import ReplayError, score_lines
from orchestrator.cli.options import A_RUN, AsJson, MovedData, RunName, readable_folder, required_name
from orchestrator.cli.printing import print_json, print_result, print_tables, reading
from orchestrator.report.scores import judge_agreement
from orchestrator.report.tables.table import text_table
from orchestrator.storage.run_folder import stored_sweep

YOURS = "Your sweep file: allows the services, data and code that it names."
OwnSweep = Annotated[Path | None, typer.Argument(metavar="[SWEEP]", help=YOURS)]
Settings = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the [judge] table.")]
Judge = Annotated[str, typer.Option("--judge", metavar="NAME", help="A judge by name (default: the sweep's own).")]
A_CSV = "Judge nothing; correct the judge by a CSV of key, category, suggestion (1 or 0), as `label --export` writes."
LINES = 'Score lines {"scenario": "ROD", "id": 1, "answers": ["A."]}; with --data.'
Labels = Annotated[Path | None, typer.Option(metavar="FILE", help=A_CSV)]


def judge(
    output: RunName,
    own: OwnSweep = None,
    judge_name: Judge = "",
    set_: Settings = [],  # noqa: B006
    again: Annotated[bool, typer.Option("--again", help="Also answers that it failed to judge before.")] = False,
    agreement: Annotated[bool, typer.Option("--agreement", help="Judge nothing; show how far judges agree.")] = False,
    labels: Labels = None,
    as_json: AsJson = False,
) -> None:
    """Judge the open-ended answers of a run: those pending, or all of them with another judge."""
    if labels is not None and "://" in output:
        raise RunFolderError(f"labels are kept in a folder of this machine; copy {output} to one and name that")
    if labels is not None or agreement:
        folder = readable_folder(output)
        with reading([folder]):
            _store_labels(folder, labels, as_json) if labels else _show_agreement(folder, as_json)
    else:
        _judge_answers(output, judge_name, set_, again, own, as_json)


def _judge_answers(output: str, judge_name: str, set_: list[str], again: bool, own: Path | None, as_json: bool) -> None:
    """Judge answers, print the open-ended table, and exit with 1 if some answers are still pending."""
    from orchestrator.execution.attempt import judge_answers
    from orchestrator.object_store.run_location import open_location
    from orchestrator.planning.named_by_user import check_named
    from sweeps.load import load

    own_sweep = load(own) if own else None
    with open_location(required_name(output)) as location:
        sweep = stored_sweep(location.folder)
        chosen = judge_agreement.resolve_judge(sweep, judge_name, set_)
        check_named(location.folder, sweep, [chosen.model], own_sweep, set_, pictures=False)
        rows, complete = judge_answers(sweep, location.folder, chosen, again)
    open_ended = rows.filter(rows["protocol"] == "oeg")
    if as_json:
        print_json(open_ended.to_dicts())
    else:
        print_tables(open_ended, sweep, location.folder)
    raise typer.Exit(location.exit_code(0 if complete else 1))


def _store_labels(folder: Path, path: Path, as_json: bool) -> None:
    """Store the labels of a file, by which ``report`` corrects the judge's shares."""
    from orchestrator.gold.labels import FILE, store_labels
    from orchestrator.report.read_run import read_run

    episodes = read_run(folder).episodes
    read, stored = store_labels(folder, path, episodes.filter(episodes["ending"] == "answered")["key"])
    sentence = f"{read:,} labels read, {stored:,} in {folder / FILE}; `report` corrects the judge by them"
    print_result(as_json, {"read": read, "stored": stored}, sentence)


def _show_agreement(folder: Path, as_json: bool) -> None:
    """Print how far each pair of judges agrees."""
    stored_sweep(folder)
    pairs = judge_agreement.agreement(folder)
    agreement = pairs.drop("first_yes", "other_yes")
    too_few = "fewer than two judges have read answers of this run"
    outcome = text_table(agreement.columns, agreement.iter_rows()) if pairs.height else too_few
    print_result(as_json, pairs.to_dicts(), outcome)


# -- audit ---------------------------------------------------------------------------------------------------------------
def audit(
    output: Annotated[str, typer.Argument(metavar="[DIR]", help=A_RUN)] = "",
    package: Annotated[Path | None, typer.Option(metavar="PATH", help="Folder that holds proactivebench/.")] = None,
    python: Annotated[str | None, typer.Option(help="A Python interpreter, 3.12 or newer.")] = None,
    install: Annotated[bool, typer.Option("--install", help="Fetch the package first.")] = False,
    data: MovedData = None,
    answers: Annotated[Path | None, typer.Option(metavar="FILE.jsonl", help=LINES)] = None,
    as_json: AsJson = False,
) -> None:
    """Replay all stored replies and verdicts through the package proactivebench and ours; exit code 1 if any differs.

    With --answers, score transcripts made elsewhere: JSON lines in, JSON lines out, without pictures or models.
    """
    if answers is not None:
        if data is None or output or package or python or install:
            raise UserError("--answers goes with --data alone: audit --answers FILE.jsonl --data DIR")
        _score_answers(answers, data)
        return
    if not output:
        raise UserError("name a run folder, or score transcripts by: audit --answers FILE.jsonl --data DIR")
    from orchestrator.audit.audit import audit as replay_run

    folder = readable_folder(output)
    with reading([folder]):
        outcome = replay_run(folder, package, python, data, install)
        print_result(as_json, {**asdict(outcome), "clean": outcome.clean}, *outcome.lines())
    raise typer.Exit(0 if outcome.clean else 1)


def _score_answers(file: Path, data: Path) -> None:
    try:
        with io.TextIOWrapper(regular.open_file(file), encoding="utf-8", newline="\n") as lines:
            for line in score_lines(data, lines, str(file)):
                print(json.dumps(line))
    except UnicodeDecodeError as problem:
        raise ReplayError(f"{file} is not UTF-8 text: {problem}") from None
