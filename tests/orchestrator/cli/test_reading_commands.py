"""Output of the commands that only read a run: report, export, view, models check, judge --agreement."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from rich.console import Console

from orchestrator.cli import judge, models, share, view
from orchestrator.storage import option_labels
from tests.orchestrator.cli.test_cli import call
from tests.orchestrator.report.runs import play_sweep, sweep


@pytest.fixture(scope="module")
def run(demo_data, tmp_path_factory) -> Path:
    wanted = sweep(demo_data, ["oracle", "uniform"], ["zero-shot"], scenarios=["QD"])
    return play_sweep(tmp_path_factory.mktemp("reading") / "run", wanted)


def test_runs_side_by_side_name_their_page(run, tmp_path):
    page = tmp_path / "page.html"

    assert f"open {page} in a browser" in call("report", run, "--leaderboard", "--output", page).output.splitlines()


def test_an_export_counts_its_files(run, tmp_path, capsys):
    target = share._write(run, "turns", None, None, "")
    line = capsys.readouterr().out.splitlines()[0]

    assert target == run.with_name("run-turns") and sorted(path.name for path in target.iterdir())
    assert line == f"1 file in {target}: turns.parquet"


def test_labels_go_out_and_come_back_and_no_page_is_served(run, tmp_path, monkeypatch):
    monkeypatch.setattr(view, "_serve", lambda *arguments: pytest.fail("a page is served"))
    key = pl.read_parquet(run / "episodes" / "*.parquet")["key"][0]
    labels = tmp_path / "labels.csv"
    option_labels.append_labels(run, [option_labels.OptionLabel(key=key, labeler="ada", label="0")])

    assert call("view", run, "--export-labels", labels).output == f"1 labels in {labels}\n"
    added = call("view", run, "--import-labels", labels)
    assert added.output == f"1 labels added to {run / option_labels.FILE}\n"
    assert "name one" in call("view", run, run, "--import-labels", labels).output


def test_a_bundle_reports_about_once_in_some_seconds(tmp_path, monkeypatch, capsys):
    states = [SimpleNamespace(episodes=number, pictures=0, bytes=2_000_000) for number in (1_000, 2_000, 3_000)]
    clock = iter([0.0, view.REPORT_S / 2, view.REPORT_S * 2, view.REPORT_S * 2, view.REPORT_S * 2.5])
    monkeypatch.setattr("orchestrator.view.bundle.write_bundle", lambda *arguments: iter(states))
    monkeypatch.setattr(view, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    view._write_bundle({}, None, tmp_path, False)
    printed = capsys.readouterr()

    assert printed.err == "2,000 episodes, 0 pictures ...\n"
    assert printed.out.splitlines() == [
        f"3,000 episodes and 0 pictures in {tmp_path} (2.0 MB)",
        f"to look at it: python -m http.server --directory {tmp_path} --bind 127.0.0.1",
    ]


def test_episodes_that_may_overflow_are_counted_only_with_their_data(tmp_path, demo_data):
    file = tmp_path / "s.toml"
    file.write_text('data = "gone"\nmodels = ["uniform"]\nconditions = ["hint"]\n')
    (note,) = models._overflow_notes(file)
    assert note.endswith("gone is missing, so the episodes that may outgrow their models cannot be counted")
    file.write_text(f'data = "{demo_data}"\nmodels = ["uniform"]\nconditions = ["hint"]\n')
    assert models._overflow_notes(file) == []


def test_a_jury_has_a_row_per_bit():
    rows = pl.DataFrame(
        {
            "bit": ["category"], "judges": [3], "answers": [1_234], "alpha": [0.5], "alpha_low": [0.4],
            "alpha_high": [0.6], "majority_yes": [61.0], "split": [None],
        }
    )  # fmt: skip
    console = Console(width=160, file=StringIO())
    console.print(judge._jury_table(rows))
    lines = [line for line in console.file.getvalue().splitlines() if line.strip()]

    assert lines[-1].split() == ["category", "3", "1,234", "0.50", "0.40", "to", "0.60", "61.00", "-"]
