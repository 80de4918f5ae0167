"""A received run folder with a link in place of any file is refused by every command, before anything outside is written."""

from __future__ import annotations

import shutil
from itertools import cycle
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.engine.baselines import Baseline
from orchestrator.cli.main import app
from orchestrator.storage.status import write_status
from tests.orchestrator.report import runs

COMMANDS = (
    "run SWEEP --output {}", "judge {}", "report {}", "status {}", "ctl {} pause",
    "track {} --tracking-uri sqlite", "merge {} OTHER --output {}-merged", "export {} --to csv --output {}-out", "compare {}",
    "view {} --output {}-bundle", "audit {}",
)  # fmt: skip
FILES = ("lock", "sums.sha256", "tables", "option_labels.jsonl", "control", "control.jsonl", "mlflow.db", "mlartifacts",
         "report.html", "logs", "damaged", "progress.jsonl", "live.json", "results.json.tmp")  # fmt: skip
"""Files that commands write and that a run folder may lack."""


@pytest.fixture(scope="module")
def finished(demo_data, tmp_path_factory) -> Path:
    sweep = runs.sweep(
        demo_data, ["uniform"], ["hint"], scenarios=["QD"], protocol=["oeg"], judge={"model": "rule-judge"}
    )
    folder = runs.play_sweep(tmp_path_factory.mktemp("links") / "run", sweep)
    runs.judge_answers(folder, sweep, sweep.judge, Baseline("rule-judge"))
    write_status(folder, [], finished=True)
    (folder.parent / "sweep.toml").write_text(f'data = "{demo_data}"\nmodels = ["uniform"]\nscenarios = ["QD"]\n')
    return folder


def entries(folder: Path) -> list[str]:
    """Return every file and folder of a run, and those that commands may write there."""
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    return sorted({*names, *FILES})


def test_no_command_writes_through_a_link_in_a_run_folder(finished, tmp_path):
    folder, outside, commands = tmp_path / "run", tmp_path / "outside", cycle(COMMANDS)
    for name in entries(finished):
        for command in COMMANDS if name in ("lock", "tables", "episodes") else [next(commands)]:
            shutil.copytree(finished, folder)
            shutil.copytree(finished, outside)
            (outside / "tables").mkdir(exist_ok=True)
            (outside / "tables/main.tex").write_text("years of work")
            before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
            if (folder / name).is_dir():
                shutil.rmtree(folder / name)
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(outside / name)

            words = (
                command.replace("{}", str(folder))
                .replace("OTHER", str(finished))
                .replace("SWEEP", f"{finished.parent}/sweep.toml")
                .split()
            )
            outcome = CliRunner().invoke(app, words)

            assert outcome.exit_code == 2, (name, command, outcome.output)
            assert "is a link, a pipe or a device" in " ".join(outcome.output.split()), (name, command, outcome.output)
            assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before, (name, command)
            for made in (folder, outside):
                shutil.rmtree(made)
