"""What commands that read print, and how they end: comparisons, judges, exports, pages, filters and the program itself."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from envs.errors import UserError
from orchestrator.cli import (
    compare,
    data,
    flip_rate,
    judge,
    labels,
    listing,
    main,
    models,
    plan,
    report,
    share,
    status,
    view,
)
from orchestrator.execution import attempt
from orchestrator.storage import option_labels
from tests.orchestrator.cli.outcomes import compact_lines, exit_code
from tests.orchestrator.report import runs


def report_sweep(folder: Path) -> Any:
    from orchestrator.storage.run_folder import stored_sweep

    return stored_sweep(folder)


# -- reading -----------------------------------------------------------------------------------------------------------
def test_documents_of_one_run_have_these_parts(folder: Path, capsys: Any) -> None:
    report.report([folder], as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["cells", "intervals", "notes"]
    assert printed["intervals"].startswith(
        "acc_low and acc_high as in results.json, over independent samples; in pages: "
    )
    compare.compare([folder], as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["figures", "notes"] and printed["notes"][1].startswith("intervals: ")
    report.report([folder], leaderboard=True, as_json=True)
    assert list(json.loads(capsys.readouterr().out)) == ["rows", "cells", "notes"]
    compare.compare([folder], power=True, as_json=True)
    assert isinstance(json.loads(capsys.readouterr().out), list)


def test_documents_of_several_runs_have_these_parts(folder: Path, tmp_path: Path, capsys: Any) -> None:
    copy = tmp_path / "copy"
    copy.symlink_to(folder)
    wanted = report_sweep(folder).model_copy(update={"output": str(tmp_path / "other")})
    other = runs.play_sweep(tmp_path / "other", wanted)
    compare.compare([folder, other], csv=tmp_path / "cells.csv", as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["cells", "averages", "notes", *(["asking"] if "asking" in printed else [])]
    assert len((tmp_path / "cells.csv").read_text().splitlines()) == 1 + len(printed["cells"])
    report.report([folder, other], brief=True)
    assert "open " not in capsys.readouterr().out
    report.report([folder, other], into=tmp_path / "runs.html")
    assert compact_lines(capsys)[-1] == f"open {tmp_path / 'runs.html'} in a browser"
    assert ">Runs side by side<" in (tmp_path / "runs.html").read_text()


def test_pages_on_several_runs_have_names_of_their_own(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[Any] = []
    monkeypatch.setattr(report, "_report_runs", lambda *arguments: asked.append(arguments[2]))
    monkeypatch.setattr(report, "_rank_models", lambda *arguments: asked.append(arguments[2]))
    report.report([folder, folder])
    report.report([folder, folder], brief=True)
    report.report([folder, folder], into=Path("mine.html"))
    report.report([folder], leaderboard=True)
    report.report([folder], leaderboard=True, into=Path("mine.html"))
    mine = Path("mine.html")
    assert asked == [Path("runs.html"), None, mine, Path("leaderboard.html"), mine]


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(("complete", "code"), [(True, 0), (False, 1)])
def test_judged_answers_are_tables_or_json(
    as_json: bool, complete: bool, code: int, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    rows = pl.DataFrame({"cell": ["a", "b"], "protocol": ["oeg", "mcqa"]})
    monkeypatch.setattr(attempt, "judge_answers", lambda sweep, folder, chosen, again: (rows, complete))
    monkeypatch.setattr(judge, "print_tables", lambda rows, sweep, folder: print("tables", rows["cell"].to_list()))
    assert exit_code(judge._judge_answers, str(folder), "rule-judge", [], False, None, as_json) == code
    printed = capsys.readouterr().out
    assert printed == "tables ['a']\n" if not as_json else json.loads(printed) == [{"cell": "a", "protocol": "oeg"}]


def test_a_judge_is_asked_for_labels_agreement_or_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(judge, "label_answers", lambda *arguments: asked.append(("labels", *arguments[1:])))
    monkeypatch.setattr(judge, "show_agreement", lambda *arguments: asked.append(("agreement", *arguments)))
    monkeypatch.setattr(judge, "_judge_answers", lambda *arguments: asked.append(("answers", *arguments)))
    file = tmp_path / "labels.csv"
    judge.judge("run", labels=file)
    judge.judge("run", draw=3, active=True)
    judge.judge("run", agreement=True, as_json=True)
    judge.judge("run", "m", ["judge.attempts=2"], again=True)
    assert asked == [
        ("labels", file, 0, False, False), ("labels", None, 3, True, False), ("agreement", Path("run"), True),
        ("answers", "run", "m", ["judge.attempts=2"], True, None, False),
    ]  # fmt: skip


def test_models_and_judges_of_a_folder_are_named_by_the_user_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def refuse(*arguments: Any, **options: Any) -> None:
        asked.append((arguments, options))
        raise UserError("not named")

    monkeypatch.setattr("orchestrator.planning.named_by_user.check_named", refuse)
    monkeypatch.setattr(flip_rate, "_confirm_services", lambda *arguments: pytest.fail("it would play"))
    monkeypatch.setattr(attempt, "judge_answers", lambda *arguments: pytest.fail("it would judge"))
    for command, arguments in (
        (flip_rate.flip_rate, (str(folder), 100, 0, [1])),
        (judge._judge_answers, (str(folder), "rule-judge", [], False, None, False)),
    ):
        with pytest.raises(UserError, match=r"^not named$"):
            command(*arguments)
    (flips, _), (judged, options) = asked
    assert [model.name for model in flips[2]] == ["oracle"] and flips[0] == judged[0] == folder
    assert [model.name for model in judged[2]] == ["rule-judge"] and options == {"pictures": False}


def test_agreement_is_of_a_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        judge.show_agreement(tmp_path, as_json=True)


@pytest.mark.parametrize("numbers", [None, pl.DataFrame({"acc": [50.0]})])
@pytest.mark.parametrize("rows", [(), (("a",),)])
def test_stored_labels_are_counted_and_their_table_shown(
    numbers: pl.DataFrame | None, rows: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    table = SimpleNamespace(numbers=numbers, rows=rows)
    monkeypatch.setattr("orchestrator.gold.labels.samples_by_key", lambda *arguments: {})
    monkeypatch.setattr("orchestrator.gold.labels.store_labels", lambda *arguments: (1_003, 1_002))
    monkeypatch.setattr("orchestrator.report.tables.open_ended.corrected_table", lambda run_data: table)
    monkeypatch.setattr("orchestrator.report.tables.model_input.add_notes", lambda table, notes: table)
    monkeypatch.setattr("orchestrator.report.tables.formats.rich_table", lambda table: "the table")
    labels.label_answers(str(folder), Path("labels.csv"), 0, False, True)
    assert json.loads(capsys.readouterr().out) == ([] if numbers is None else [{"acc": 50.0}])
    labels.label_answers(str(folder), Path("labels.csv"), 0, False, False)
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"1,003 labels read, 1,002 in {folder / 'labels.csv'}"
    few = "too few labels to correct a share: it takes 20 of a model under a condition, two in each scenario"
    assert second == ("the table" if rows else few)


def test_a_sheet_of_answers_is_written_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    sheet = pl.DataFrame({"key": [f"k{number}" for number in range(1_001)]})
    monkeypatch.setattr(labels, "_draw_sheet", lambda *arguments: sheet)
    file = tmp_path / "labels.csv"
    labels.label_answers(str(folder), file, 1_001, False, False)
    assert capsys.readouterr().out == (
        f"1,001 answers in {file}; fill category and suggestion with 1 or 0, and omit --draw\n"
    )
    assert file.read_text().splitlines()[:2] == ["key", "k0"]
    for arguments, sentence in (
        ((str(folder), file, 3), f"{file} exists; name another file, or omit --draw to read its labels"),
        ((str(folder), None, 3), "--draw needs a file to write; add --labels FILE"),
        (("s3://b/f", file, 0), "labels are kept in a folder of this machine; copy s3://b/f to one and name that"),
    ):
        with pytest.raises(UserError) as refused:
            labels.label_answers(*arguments, False, False)
        assert str(refused.value) == sentence


def test_one_run_is_exported_and_then_uploaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(share, "_write", lambda *arguments: asked.append(arguments) or Path("written"))
    monkeypatch.setattr(share, "_upload", lambda *arguments: asked.append(arguments))
    share.export([str(folder)], "csv", publish="a/b", public=True)
    share.export([str(folder)], "csv")
    share.export(["x", "y"], publish="a/b", yes=True)
    written = (folder, "csv", None, None, "")
    assert asked == [
        written, ([Path("written")], "a/b", True, False), written, ([Path("x"), Path("y")], "a/b", False, True),
    ]  # fmt: skip


def test_a_bundle_with_pictures_names_their_licenses(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for pictures in (0, 1):
        state = SimpleNamespace(episodes=1_000, pictures=pictures, bytes=2_000_000_000_000)
        monkeypatch.setattr("orchestrator.view.bundle.write_bundle", lambda *arguments, state=state: iter([state]))
        view._write_bundle({}, None, tmp_path, True)
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == f"1,000 episodes and {pictures} pictures in {tmp_path} (2,000,000.0 MB)"
        licenses = "before you publish it, see docs/data-sources.md for the licenses of the pictures"
        assert lines[2:] == [licenses] * pictures
    with pytest.raises(UserError, match=r"^a folder is named twice; type each folder once$"):
        view._check_runs([folder, folder])


def test_an_export_lists_four_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    names = [f"f{number}" for number in range(5)]
    for count, listed in ((4, "f0, f1, f2, f3"), (5, "f0, f1, f2, f3, ...")):
        monkeypatch.setattr("orchestrator.export.export.export", lambda *arguments, count=count: names[:count])
        assert share._write(tmp_path / "run", "csv", None, None, "") == tmp_path / "run-csv"
        assert capsys.readouterr().out == f"{count} files in {tmp_path / 'run-csv'}: {listed}\n"


def test_a_label_of_another_run_is_refused(folder: Path, tmp_path: Path) -> None:
    label = option_labels.OptionLabel(key="m/ROD/hint/0000-00000000", labeler="ada", label="0")
    (file := tmp_path / "labels.csv").write_text(option_labels.to_csv([label]))
    with pytest.raises(UserError) as refused:
        view._import_labels(folder, file)
    assert str(refused.value) == (
        f"{file} labels m/ROD/hint/0000-00000000, which is not an episode of {folder}; name the folder that has it"
    )


def test_filters_have_titles_that_say_what_is_dropped(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    row = {
        "scenario": "QD",
        **dict.fromkeys(data.COLUMNS, 3),
        "first_turn": 2.5,
        "first_turn_low": 1.4,
        "first_turn_high": 3.6,
    }
    data.show(data._scenario_table(pl.DataFrame([row]), 25, 8))
    title, heads, line = compact_lines(capsys)
    assert title == "dropped: samples that 25% of the models (2 of 8) get right at the first turn"
    assert heads == "scenario samples kept dropped undecided kept by paper kept by both first turn % of kept %"
    assert line == "QD 3 3 3 3 3 3 2.5 (1–4) 3"
    rule = {
        "rule": "25% of the models",
        "needed": 2,
        **dict.fromkeys(data.RULE_COLUMNS, 4),
        "recall": 50.0,
        "at_chance": None,
    }
    data.show(data._rule_table([rule]))
    title, heads, line = compact_lines(capsys)
    assert title == "other rules: percent dropped of samples with a first-turn rate of 40%, and at chance"
    assert heads == "rule right kept undecided kept by paper kept by both of kept % recall at 40% at chance"
    assert line == "25% of the models 2 4 4 4 4 4 50.0 -"


def test_a_forecast_is_lines_or_json(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    asked: list[Any] = []

    def sizes(sweep: Any, *options: Any) -> list[str]:
        asked.append(options)
        return ["one", "two"]

    monkeypatch.setattr("orchestrator.report.measures.sample_size.describe_sample_sizes", sizes)
    plan.plan(Path("baselines"), precision=5.0)
    assert capsys.readouterr().out == "one\ntwo\n"
    plan.plan(Path("baselines"), detect=2.0, gpus=3, gpu_type="a100", as_json=True)
    assert json.loads(capsys.readouterr().out) == {"lines": ["one", "two"]}
    assert asked == [(5.0, None, 8, "h200"), (None, 2.0, 3, "a100")]


def test_lists_take_their_headings_from_the_first_row(capsys: Any) -> None:
    listing.list_names("measures", as_json=True)
    assert [row["name"] for row in json.loads(capsys.readouterr().out)][:4] == list(listing.MEASURES)


def test_status_counts_cells_or_lists_them_and_names_every_part_in_json(folder: Path, capsys: Any) -> None:
    status.status(folder)
    lines = compact_lines(capsys)
    assert "1 cell: 1 complete (--cells lists them)" in lines and not any(
        line.startswith("oracle/ROD/hint") for line in lines
    )
    status.status(folder, cells=True)
    lines = compact_lines(capsys)
    assert lines[0] == "cell state finished planned errors reason" and lines[1].startswith(
        "oracle/ROD/hint complete 2 2 0"
    )
    assert not any(line.endswith("(--cells)") for line in lines)
    status.status(folder, as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert list(printed)[-4:] == ["reused", "cached", "judges", "replica_time"] and "precision" not in printed
    assert (printed["reused"], printed["judges"], printed["replica_time"]) == ({}, {}, [])


def test_status_has_a_line_per_judge(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    counts = SimpleNamespace(sentence=lambda name: f"{name} read 3 answers", _asdict=lambda: {"read": 3})
    monkeypatch.setattr(
        "orchestrator.storage.verdict_store.judge_counts", lambda *arguments: {"a": counts, "b": counts}
    )
    status.status(folder)
    lines = compact_lines(capsys)
    assert [line for line in lines if line.startswith("judge ")] == ["judge a read 3 answers", "judge b read 3 answers"]
    status.status(folder, as_json=True)
    assert json.loads(capsys.readouterr().out)["judges"] == {"a": {"read": 3}, "b": {"read": 3}}


@pytest.mark.parametrize(
    ("own", "command", "cost"),
    [
        ("rule-judge/1", "--by MODEL", "asks a model of `proactive-sweep ls models`"),
        ("qwen3-8b/1", "--by rule-judge", "reads all answers and costs nothing"),
    ],
)
def test_disputed_answers_need_a_second_judge(own: str, command: str, cost: str, folder: Path) -> None:
    run_data: Any = SimpleNamespace(folder=folder, sweep=report_sweep(folder), judge=own, samples={})
    answers = pl.DataFrame({"key": pl.Series([], dtype=pl.String)})
    with pytest.raises(UserError) as refused:
        labels._draw_sheet(run_data, answers, 3, True)
    assert str(refused.value) == f"--active needs the verdicts of a second judge; `judge {folder} {command}` {cost}"


def test_pending_episodes_are_neither_stored_nor_reused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        "orchestrator.inspection.service_cost.estimates", lambda plan, pending, *others: asked.append(pending) or []
    )
    rows = [{"cell": "a", "planned": 9, "done": 2}, {"cell": "b", "planned": 9, "done": 2, "reused": 3}]
    sweep: Any = report_sweep(folder)
    assert plan._service_costs(sweep, SimpleNamespace(), rows) == [] and asked == [{"a": 7, "b": 4}]  # type: ignore[arg-type]
    assert plan._count_reused(sweep, SimpleNamespace(), rows, []) == []  # type: ignore[arg-type]


def test_a_folder_that_exists_is_no_bundle(folder: Path, tmp_path: Path, capsys: Any) -> None:
    view.view([folder], bundle=tmp_path / "out", no_pictures=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"2 episodes and 0 pictures in {tmp_path / 'out'} (") and len(lines) == 2
    with pytest.raises(UserError) as refused:
        view.view([folder], bundle=tmp_path / "out")
    assert str(refused.value) == f"{tmp_path / 'out'} already exists; name a new folder for --bundle"


def test_every_command_of_the_help_stands_in_its_panel() -> None:
    panels: dict[str, list[str]] = {}
    for command in [*main.app.registered_commands, *main.app.registered_groups]:
        panels.setdefault(str(command.rich_help_panel), []).append(str(command.name))
    assert panels == {
        "Start": ["init", "ls", "plan", "run", "data", "models"], "Watch": ["status", "view", "ctl"],
        "Compare": ["report", "compare", "judge"], "Check": ["prompt", "audit", "play"], "Train": ["train"],
        "Share": ["track", "merge", "export"],
    }  # fmt: skip
    for group, names in ((data.data_app, ["demo", "fetch", "check", "filter"]),
                         (models.models_app, ["check", "fetch", "try", "prove", "flip-rate"])):  # fmt: skip
        commands = [command.name or command.callback.__name__ for command in group.registered_commands]
        assert commands == names and group.info.no_args_is_help is True
    assert (main.app.info.no_args_is_help, main.app.pretty_exceptions_enable) == (True, False)


# -- the program -------------------------------------------------------------------------------------------------------
def test_a_log_shows_each_line_at_once_and_escapes_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "1")
    monkeypatch.setattr(main, "close_working_folder", lambda: None)
    monkeypatch.setattr(main, "keep_exit_code", nullcontext)
    monkeypatch.setattr(sys, "argv", ["proactive-sweep", "--version"])
    monkeypatch.setattr(sys, "stdout", log)
    with pytest.raises(SystemExit):
        main.main()
    assert (log.line_buffering, log.errors) == (True, "backslashreplace")


@pytest.mark.parametrize(("set_before", "seconds"), [(None, "120"), ("30", "30")])
def test_ray_may_take_two_minutes_to_start_unless_the_user_says_otherwise(
    set_before: str | None, seconds: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    name = "RAY_raylet_start_wait_time_s"
    monkeypatch.setenv(name, set_before or "")
    if set_before is None:
        monkeypatch.delenv(name)
    monkeypatch.setattr(main, "close_working_folder", lambda: None)
    monkeypatch.setattr(main, "keep_exit_code", nullcontext)
    monkeypatch.setattr(sys, "argv", ["proactive-sweep", "--version"])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert (end.value.code, os.environ[name]) == (0, seconds)
    assert capsys.readouterr().out == f"proactive-sweep {main.version()}\n"
    monkeypatch.delenv(name)
