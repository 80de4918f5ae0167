"""Whatever a model, a judge or a data file wrote, no control character of it reaches the terminal raw, in tables nor in JSON."""

from dataclasses import replace

import pytest

from actors.engine.baselines import Baseline
from actors.text.printable import UNSAFE
from orchestrator.report.tables.formats import show
from orchestrator.report.tables.table import text_table
from orchestrator.storage.verdict_store import verdicts
from sweeps.load import build_judge
from tests.actors.hostile import CONTROL
from tests.orchestrator.cli.test_cli import call
from tests.orchestrator.report import runs

HOSTILE = replace(text_table([CONTROL], [[f"cell {CONTROL}"]], f"title {CONTROL}"), notes=(f"caption {CONTROL}",))


@pytest.mark.parametrize("what", [HOSTILE, f"[bold]line {CONTROL}"])
def test_tables_and_lines_are_printed_with_escapes(what, capsys):
    show(what)
    printed = capsys.readouterr().out

    assert "\\x1b]52" in printed and "\\u202e" in printed and not UNSAFE.search(printed)
    assert not isinstance(what, str) or "[bold]" in printed


@pytest.fixture(scope="module")
def edited_folder(demo_data, tmp_path_factory):
    """A run of an older version, so without sums, in whose tables and plan somebody put control characters."""
    folder = tmp_path_factory.mktemp("edited") / "run"
    sweep = runs.sweep(demo_data, ["ask-properly"], ["hint"], protocol="oeg", scenarios=["QD"])
    runs.play_sweep(folder, sweep)
    runs.judge_answers(folder, sweep, build_judge({"model": "rule-judge"}, "a test"), Baseline("rule-judge"))
    for path in (folder / "verdicts").iterdir():
        rows = verdicts(folder).collect()
        rows.with_columns(judge=rows["judge"] + CONTROL.replace("\x00", "")).write_parquet(path)
    (folder / "sums.sha256").unlink()
    return folder


@pytest.mark.parametrize(
    "command", [("report", "--brief"), ("compare",), ("judge", "--agreement"), ("status",), ("judge", "--set", "x=1")]
)
def test_commands_over_edited_folder(edited_folder, command):
    name, *arguments = command
    outcome = call(name, edited_folder, *arguments)

    assert outcome.exit_code in (0, 2, 3) and not UNSAFE.search(outcome.output + outcome.stderr)
    assert name != "report" or "\\x1b]52" in outcome.output
