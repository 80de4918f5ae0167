"""``ls``: headings, figures and rows of each list, worked out from what ships."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from envs import SCENARIOS
from orchestrator.cli import data as data_commands
from orchestrator.cli import listing
from orchestrator.cli.main import PANELS, app
from sweeps.registry import registry


def listed(kind: str) -> list[str]:
    """Return the lines of ``ls`` as a pipe gets them."""
    done = CliRunner().invoke(app, ["ls", kind], env={"COLUMNS": "10000"})
    assert done.exit_code == 0, done.output
    return [line for line in done.output.splitlines() if line.strip(" ─━")]


@pytest.mark.parametrize(
    ("kind", "headings"),
    [
        ("models", "name source backend GPUs parameters pictures note"),
        ("judges", "name source backend GPUs note"),
        ("scenarios", "name file hint package"),
        ("conditions", "name scenarios what it does"),
        ("measures", "name what it is package"),
        ("sweeps", "name question"),
        ("differences", "difference"),
    ],
)
def test_headings(kind: str, headings: str) -> None:
    assert " ".join(listed(kind)[0].split()) == headings


def test_models_have_their_figures() -> None:
    model = registry()["qwen2.5-vl-7b"]
    row = next(row for row in listing.models() if row["name"] == "qwen2.5-vl-7b")

    assert list(row.values()) == [
        model.name, model.source, model.backend, model.gpus, model.parameters, model.max_images, model.note,
    ]  # fmt: skip
    line = next(line for line in listed("models") if line.split()[:1] == ["qwen2.5-vl-7b"])
    assert line.split()[1:6] == [model.source, "vllm", "1", f"{model.parameters:g}B", str(model.max_images or "any")]
    assert [row["name"] for row in listing.models()][: len(registry())] == list(registry())


def test_scenarios_name_their_files() -> None:
    rows = {row["name"]: row for row in listing.scenarios()}

    assert list(rows)[:7] == list(SCENARIOS)[:7] and rows["QD"]["file"].endswith("_preprocessed.jsonl")
    assert rows["QD"] == {
        "name": "QD", "file": f"{SCENARIOS['QD'].stem}_preprocessed.jsonl", "hint": SCENARIOS["QD"].hint, "package": "",
    }  # fmt: skip


def test_conditions_and_measures_say_what_they_do() -> None:
    conditions = {row["name"]: row for row in listing.conditions()}
    assert conditions["zero-shot"]["scenarios"] == ["all"] and "every-state" in conditions
    assert conditions["icl-1"]["scenarios"] == ["ROD", "MVP-N"]
    assert [list(row.values()) for row in listing.measures()][:4] == [
        ["acc", "percent of episodes that end with the right category", ""],
        ["acc_first", "percent of episodes that end with the right category at the first turn", ""],
        ["ps", "mean number of suggestions in an episode", ""],
        ["loops", "percent of episodes that end at the turn limit", ""],
    ]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("parameters", None, ""), ("parameters", 7.0, "7B"), ("parameters", 0.5, "0.5B"), ("gpus", 0.5, "0.5"),
        ("paper_episodes", None, "unknown"), ("paper_episodes", 12345, "12,345"), ("paper_episodes", 0, "0"),
        ("max_images", None, "any"), ("max_images", 4, "4"), ("scenarios", ["ROD", "QD"], "ROD, QD"), ("gpus", 2.0, "2"),
        ("note", "a", "a"), ("gpus", 3, "3"),
    ],
)  # fmt: skip
def test_figures_on_the_terminal(name: str, value: Any, text: str) -> None:
    assert listing._format_value(name, value) == text


def test_differences_are_stacked_below_their_names() -> None:
    rows = [{"name": "seed", "ours": "a", "paper_episodes": 9}, {"name": "size", "ours": "b", "paper_episodes": None}]

    assert list(listing._stack(rows)) == [
        ("seed", "here, by default", "a"), ("", "paper episodes, at most", "9"), ("", "", ""),
        ("size", "here, by default", "b"), ("", "paper episodes, at most", "unknown"), ("", "", ""),
    ]  # fmt: skip


def test_columns_have_type_nulls_and_values() -> None:
    lines = [" ".join(line.split()) for line in listed("columns")]

    titles = [line for line in lines if line.endswith("/part-*.parquet")]
    assert titles[:2] == ["episodes/part-*.parquet", "turns/part-*.parquet"]
    assert lines[1] == "column type meaning" and lines[2].startswith("key String ")
    assert any(line.startswith("error String, null ") for line in lines)
    assert listing._explain({"meaning": "How it ended.", "values": ["a", "b"]}) == "How it ended. One of: a, b."
    assert listing._explain({"meaning": "Its key.", "values": []}) == "Its key."


def test_an_unknown_list_names_the_others() -> None:
    done = CliRunner().invoke(app, ["ls", "modles"])

    assert done.exit_code == 2 and " ".join(done.output.split()) == (
        "proactive-sweep: cannot list 'modles'; type models, judges, scenarios, conditions, measures, sweeps, differences"
        " or columns"
    )


def test_commands_have_their_panels() -> None:
    assert {panel: list(commands) for panel, commands in PANELS.items()} == {
        "Start": ["init", "ls", "plan", "run"], "Watch": ["status", "view", "ctl"],
        "Compare": ["report", "compare", "judge"], "Check": ["prompt", "audit", "play"], "Train": ["train"],
        "Share": ["track", "merge", "export"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"kept_low": 3.0, "kept_high": 7.4}, " (3–7)"), ({"kept_low": 3.0}, ""), ({"kept_high": 3.0}, ""), ({}, ""),
    ],
)  # fmt: skip
def test_a_figure_of_the_filter_has_its_interval(row: dict[str, float], text: str) -> None:
    assert data_commands._limits(row, "kept") == text
    assert [data_commands._figure(value) for value in (None, 1234, 12.34, 0)] == ["-", "1,234", "12.3", "0"]


def test_notes_of_the_filter_name_five_undecided_samples() -> None:
    samples = pl.DataFrame({"lacking": [0, 1, 2]})
    turns = SimpleNamespace(models=["a", "b"], samples=samples, ids=lambda percent: {"QD": [1, 2], "ROD": [percent]})
    undecided = pl.DataFrame({"scenario": ["QD"] * 7, "sample_id": range(7)})

    assert list(data_commands._notes(turns, undecided, 25, Path("ids.json"))) == [  # type: ignore[arg-type]
        "models: a, b, at the first turn of zero-shot",
        "2 samples lack answers of some models (not played, or errors); these count as neither right nor wrong",
        "7 samples stay undecided until these answers exist: QD/0000, QD/0001, QD/0002, QD/0003, QD/0004 and 2 more",
        "ids.json holds the 3 kept ids; play only them with --set selection.ids_file=ids.json",
    ]
    none = SimpleNamespace(models=["a"], samples=samples.head(1))
    assert list(data_commands._notes(none, undecided.head(0), 25, None)) == [  # type: ignore[arg-type]
        "models: a, at the first turn of zero-shot"
    ]
    five = list(data_commands._notes(none, undecided.head(5), 25, None))  # type: ignore[arg-type]
    assert five[1].endswith("QD/0003, QD/0004")


def test_a_folder_that_cannot_be_written_to_names_the_file_in_its_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    below, problem = tmp_path / "file" / "a" / "b", OSError(13, "Permission denied")

    assert data_commands._unwritable(below, problem) == (
        f"{below} cannot be written to: {tmp_path / 'file'} is a file; name another folder"
    )
    assert data_commands._unwritable(tmp_path / "a", problem) == (
        f"{tmp_path / 'a'} cannot be written to: Permission denied; name another folder"
    )
    assert "to: odd; name" in data_commands._unwritable(tmp_path / "a", OSError("odd"))
    assert data_commands._scenario_names("all") == list(SCENARIOS)
    assert data_commands._scenario_names("QD,ROD") == ["QD", "ROD"]
