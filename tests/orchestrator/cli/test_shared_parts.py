"""Parts that commands share: options and what they resolve to, summaries, faults and times, to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from envs.errors import UserError
from orchestrator.cli import ctl, options, printing, status
from orchestrator.storage.control_log import Command, LogEntry
from sweeps.load import SweepError
from tests.orchestrator.report import runs

SWEEP = '# A test.\nname = "s"\ndata = "nowhere"\nmodels = ["uniform"]\nconditions = ["hint"]\n'


def refusal_of(call, *arguments) -> str:
    with pytest.raises(UserError) as refused:
        call(*arguments)
    return str(refused.value)


@pytest.mark.parametrize("text", ["", "  ", "\t"])
def test_an_empty_folder_is_refused(text: str) -> None:
    sentence = "the name of the run folder is empty; type a folder, or s3://BUCKET/FOLDER"
    assert refusal_of(options.required_name, text) == refusal_of(options.readable_folder, text) == sentence


def test_a_run_folder_is_no_file(tmp_path: Path) -> None:
    (file := tmp_path / "notes").write_text("")

    assert options.readable_folder(str(tmp_path)) == tmp_path and options.readable_folder("not/there") == Path(
        "not/there"
    )
    assert options.required_name(" a ") == " a "
    assert refusal_of(options.readable_folder, str(file)) == (
        f"{file} is a file, not a run folder; name a folder such as outputs/NAME"
    )
    assert options._benchmark(str(tmp_path)) == tmp_path
    assert refusal_of(options._benchmark, str(file)) == (
        f"--data {file} is not a folder; name the one that holds the *_preprocessed.jsonl files"
    )
    assert options.reusable_folders(["b", "a", "b"]) == [("b", Path("b")), ("a", Path("a"))]


def test_options_of_a_sweep_override_its_file(tmp_path: Path) -> None:
    (file := tmp_path / "s.toml").write_text(SWEEP)

    plain = options.load_sweep(file, [], None)
    assert (plain.output, plain.skip_bad) == ("outputs/s", False)
    changed = options.load_sweep(file, ["seed=7"], "elsewhere", skip_bad=True)
    assert (changed.output, changed.skip_bad, changed.seed) == ("elsewhere", True, 7)
    assert options.with_local_output(changed) is changed
    with pytest.raises(SweepError) as refused:
        options.load_sweep(file, [], " ")
    assert str(refused.value) == "--output is empty; name a folder, or omit it for outputs/<name>"
    assert "nowhere" in refusal_of(options.require_data, plain, file)
    options.require_data(plain.model_copy(update={"data": str(tmp_path)}), file)


def test_a_table_has_its_numbers_on_the_right() -> None:
    table = printing.text_table(("name", "a", "b"), [("x", "1", "2")], "Title", numbers=2)

    assert [column.justify for column in table.columns] == ["left", "right", "right"]
    assert [column.no_wrap for column in table.columns] == [False, True, True] and "Title" in str(table.title)
    assert {column.justify for column in printing.text_table(("name", "note"), []).columns} == {"left"}


def test_damaged_files_are_named_and_end_a_command_with_3(demo_data, tmp_path, capsys) -> None:
    wanted = runs.sweep(demo_data, ["uniform"], ["hint"], scenarios=["ROD"])
    folders = [runs.play_sweep(tmp_path / name, wanted) for name in ("a", "b")]
    printing.exit_for_faults(folders)
    assert capsys.readouterr().err == "" and printing.FAULTY == 3

    (folders[1] / "results.json").write_text("[]")
    with pytest.raises(typer.Exit) as end:
        printing.exit_for_faults(folders)
    assert end.value.exit_code == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{folders[1]}/results.json")
    for sums in folders[1].glob("*sums*"):
        sums.unlink()
    printing.exit_for_faults(folders[1:])
    assert capsys.readouterr().err.count("\n") == 1, "a folder of the first versions is only named"


def test_a_rule_of_precision_is_said_once_there_is_a_plan(demo_data, tmp_path) -> None:
    rule = {"half_width": 10.0}
    plain = runs.sweep(demo_data, ["uniform"], ["hint"], scenarios=["ROD"])
    ruled = runs.sweep(demo_data, ["uniform"], ["hint"], scenarios=["ROD"], precision=rule)

    assert printing.precision_lines(tmp_path) == []
    assert printing.precision_lines(runs.play_sweep(tmp_path / "plain", plain)) == []
    assert printing.precision_lines(runs.play_sweep(tmp_path / "ruled", ruled)) == [
        "precision +-10 points on the average over scenarios: 0 of 1 cell stopped, 0 of 10 episodes not needed"
    ]
    assert printing.gold_check_lines(plain) == []


def test_lines_have_their_prefix_and_no_control_characters(capsys) -> None:
    printing.print_lines(["a\x1b", 7], "note: ")
    printing.print_lines(["b"])
    assert capsys.readouterr().out == "note: a\\x1b\nnote: 7\nb\n"


def cell(number: int, state: str = "complete", reason: str = "") -> dict[str, str]:
    return {"cell": f"c{number}", "state": state, "reason": reason}


@pytest.mark.parametrize(
    ("stopped", "last"),
    [
        (10, "c9: failed, gone"),
        (11, "and 1 more cell with a reason (--cells lists them)"),
        (12, "and 2 more cells with a reason (--cells lists them)"),
    ],
)
def test_states_are_counted_and_ten_reasons_listed(stopped: int, last: str) -> None:
    failed = [cell(number, "failed", "gone") for number in range(stopped)]
    first, *lines = status._summarize_cells([cell(99), *failed, cell(98)])

    assert first == f"{stopped + 2} cells: 2 complete, {stopped} failed (--cells lists them)"
    assert lines[:10] == [f"c{number}: failed, gone" for number in range(10)]
    assert lines[-1] == last and len(lines) == min(stopped, 11)
    assert list(status._summarize_cells([cell(1, "waiting")])) == ["1 cell: 1 waiting (--cells lists them)"]


@pytest.mark.parametrize(
    ("text", "printed"),
    [("2026-11-22T10:01:02.5+00:00", "2026-11-22 10:01:02"), ("soon", "soon"), ("", ""), ("2026-11-22", "2026-11-22 00:00:00")],
)  # fmt: skip
def test_times_are_those_of_the_log(text: str, printed: str) -> None:
    assert ctl._format_time(text) == printed


def test_history_has_a_row_per_command(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    sent = Command(verb="pause", target="m0", who="me", host="n1", asked="")
    ctl._show_history(
        [
            LogEntry(name="1.json", command=sent, taken="2026-11-22T10:01:02", effect="6 cells are paused"),
            LogEntry(name="2.json", command=None, taken="?", effect="it is no command", refused=True),
        ],
        False,
    )
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line.strip(" ─━")]
    assert lines == [
        "taken by command effect",
        "2026-11-22 10:01:02 me on n1 pause m0 6 cells are paused",
        "? ? control/2.json refused: it is no command",
    ]
    ctl._show_history([], False)
    assert capsys.readouterr().out == "no command was sent to this run\n" and ctl.NO_ANSWER == 1
