"""What commands print of flip rates, judges and power, and which of them look for faults of folders."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import typer

from orchestrator.cli import (
    compare,
    flip_rate,
    judge,
    report,
    share,
    status,
)
from orchestrator.flip_rate import comparison
from orchestrator.flip_rate.flip_rate import Flips
from orchestrator.storage import option_labels
from tests.orchestrator.cli.outcomes import compact_lines, exit_code
from tests.orchestrator.flip_rate.test_flip_rate import planted_pairs


# -- flip rates and judges ---------------------------------------------------------------------------------------------
def test_changed_cells_are_ten_in_a_terminal_and_all_in_json(folder: Path, capsys: Any) -> None:
    pairs = planted_pairs()
    cells = comparison.cells(pairs, "batch-1")
    many = pl.concat([cells] * 12)
    flips = Flips(comparison.rates(pairs, "batch-1"), many, comparison.changed_turns(pairs, "batch-1"), ("a note\x1b",))
    repeats: Any = SimpleNamespace(share=5.0, seed=3, folder=folder, sweep=report_sweep(folder))
    flip_rate._show(repeats, flips, Path("out"), False)
    lines = compact_lines(capsys)
    assert sum(line.startswith("batch-1 m/QD/hint ") for line in lines) == 10
    assert lines[-3:] == ["and 2 more cells with changed answers", "a note\\x1b", "tables: out"]
    same = many.with_columns(lost=pl.lit(0), won=pl.lit(0))
    flip_rate._show(repeats, Flips(flips.rates, same, flips.changed, ()), Path("out"), False)
    lines = compact_lines(capsys)
    assert lines[-1] == "tables: out" and not any("m/QD/hint" in line or "more cells" in line for line in lines)
    won = many.head(10).with_columns(lost=pl.lit(0))
    flip_rate._show(repeats, Flips(flips.rates, won, flips.changed, ()), Path("out"), False)
    lines = compact_lines(capsys)
    assert sum("m/QD/hint" in line for line in lines) == 10 and not any("more cells" in line for line in lines)

    flip_rate._show(repeats, flips, Path("out"), True)
    shown = json.loads(capsys.readouterr().out)
    assert {name: shown[name] for name in ("share", "seed", "folder", "notes")} == {
        "share": 5.0, "seed": 3, "folder": "out", "notes": ["a note\x1b"],
    }  # fmt: skip
    assert list(shown)[4:] == ["rates", "cells"] and (len(shown["rates"]), len(shown["cells"])) == (1, 12)


def report_sweep(folder: Path) -> Any:
    from orchestrator.storage.run_folder import stored_sweep

    return stored_sweep(folder)


def test_agreement_needs_two_judges_and_names_people(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    judge.show_agreement(folder, as_json=True)
    assert json.loads(capsys.readouterr().out) == []
    pairs = [option_labels.PairAgreement("ada", "bob", 1_200, 1_000, None)]
    pairs.append(option_labels.PairAgreement("ada", "cy", 9, 8, 0.5))
    monkeypatch.setattr(option_labels, "agreements", lambda labels: iter(pairs))
    judge.show_agreement(folder, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "fewer than two judges have read answers of this run", "ada and bob: 1,000 of 1,200 labels equal, kappa -",
        "ada and cy: 8 of 9 labels equal, kappa 0.50",
    ]  # fmt: skip
    judge.show_agreement(folder, as_json=True)
    rows = json.loads(capsys.readouterr().out)
    assert rows[1] == {"first": "ada", "second": "cy", "both": 9, "equal": 8, "kappa": 0.5}


def test_two_judges_have_a_row_per_bit_and_unknown_kappa_is_a_dash(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    row = {
        "judge": "a", "other": "b", "bit": "category", "answers": 1_234, "equal": 61.0, "kappa": 0.5, "kappa_low": 0.4,
        "kappa_high": 0.6, "first_yes": 12.0, "other_yes": 13.456,
    }  # fmt: skip
    rows = pl.DataFrame([row, {**row, "kappa": None, "kappa_low": None, "kappa_high": None}])
    judge.show(judge._agreement_table(rows))
    assert compact_lines(capsys) == [
        "judge other bit answers equal % kappa 95% interval yes % other's yes %",
        "a b category 1,234 61.00 0.50 0.40 to 0.60 12.00 13.46", "a b category 1,234 61.00 - - 12.00 13.46",
    ]  # fmt: skip


# -- faults of folders -------------------------------------------------------------------------------------------------
def test_every_command_that_reads_a_folder_looks_for_its_faults(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    asked: list[Any] = []
    for module in (compare, report, status, share):
        monkeypatch.setattr(
            module, "exit_for_faults", lambda folders, name=module.__name__: asked.append((name, folders))
        )
    monkeypatch.setattr(compare, "_show_power", lambda *arguments: None)
    monkeypatch.setattr(compare, "compare_folders", lambda *arguments: None)
    monkeypatch.setattr(report, "_report_run", lambda *arguments: None)
    monkeypatch.setattr(share, "_write", lambda *arguments: None)
    monkeypatch.setattr(share, "print_mlflow", lambda folder: None)
    rebuild = SimpleNamespace(track=lambda *arguments: None)
    monkeypatch.setitem(sys.modules, "orchestrator.tracking.mlflow.rebuild", rebuild)
    merging = SimpleNamespace(merge=lambda *arguments: None, describe_merge=lambda merged: ["merged"])
    monkeypatch.setitem(sys.modules, "orchestrator.merging.merge", merging)
    compare.compare([folder], power=True)
    compare.compare([folder, folder])
    compare.compare([folder], as_json=True)
    report.report([folder])
    status.status(folder)
    status.status(folder, as_json=True)
    share.track(folder)
    share.export([str(folder)], "csv")
    assert exit_code(share.merge, [folder], str(folder.parent / "into")) == 0
    assert capsys.readouterr().out.endswith("merged\n")
    assert [(name.rpartition(".")[2], folders) for name, folders in asked] == [
        ("compare", [folder]), ("compare", [folder, folder]), ("compare", [folder]), ("report", [folder]),
        ("status", [folder]), ("status", [folder]), ("share", [folder]), ("share", [folder]), ("share", [folder]),
    ]  # fmt: skip


def test_a_page_is_opened_only_if_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(typer, "launch", opened.append)
    monkeypatch.setattr(report, "_report_run", lambda *arguments: None if arguments[2] else Path("page.html"))
    report.report([folder])
    report.report([folder], brief=True, open_page=True)
    assert opened == []
    report.report([folder], open_page=True)
    assert opened == ["page.html"]


def test_power_is_of_one_run_or_of_pairs(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    one, several = pl.DataFrame({"least": [1.0]}), pl.DataFrame({"least": [2.0]})
    run: Any = SimpleNamespace(folder=folder)
    monkeypatch.setattr("orchestrator.report.read_run.read_runs", lambda folders, *options: [run] * len(folders))
    monkeypatch.setattr("orchestrator.report.comparisons.power.unpaired_power", lambda run: one)
    monkeypatch.setattr("orchestrator.report.comparisons.power.paired_power", lambda comparison: several)
    monkeypatch.setattr("orchestrator.report.comparisons.power.power_table", lambda least, paired: (least, paired))
    pairing = "orchestrator.report.comparisons.run_comparison"
    monkeypatch.setattr(f"{pairing}.compare_runs", lambda runs: runs)
    monkeypatch.setattr(f"{pairing}.distinct_names", lambda folders: list("ab")[: len(folders)])
    monkeypatch.setattr("orchestrator.report.tables.model_input.joint_input_notes", lambda runs: sorted(runs))
    monkeypatch.setattr("orchestrator.report.tables.model_input.add_notes", lambda table, notes: (*table, notes))
    monkeypatch.setattr(
        "orchestrator.report.tables.formats.rich_table", lambda table: f"{table[0]['least'][0]} {table[1:]}"
    )
    options = compare.ReadOptions(None, "", False, "")
    compare._show_power([folder], options, False)
    compare._show_power([folder, folder], options, False)
    assert capsys.readouterr().out.splitlines() == ["1.0 (False, ['a'])", "2.0 (True, ['a', 'b'])"]
    compare._show_power([folder], options, True)
    assert json.loads(capsys.readouterr().out) == [{"least": 1.0}]
