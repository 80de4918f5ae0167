"""A received run folder with a link in place of any file is refused by every command, before anything outside is written."""

from __future__ import annotations

import shutil
from itertools import cycle
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.engine.baselines import Baseline
from orchestrator.cli.main import app
from orchestrator.storage.status import LIVE, write_status
from tests.orchestrator.report import runs

COMMANDS = (
    "run SWEEP --output {}", "judge {}", "report {}", "status {}", "ctl {} pause",
    "track {} --tracking-uri sqlite", "merge {} OTHER --output {}-merged", "export {} --to csv --output {}-out", "compare {}",
    "view {} --output {}-bundle", "audit {}",
)  # fmt: skip


@pytest.fixture(scope="module")
def finished(demo_data, empty, tmp_path_factory) -> Path:
    sweep = runs.sweep(
        demo_data, ["uniform"], ["hint"], scenarios=["QD"], protocol=["oeg"], judge={"model": "rule-judge"}
    )
    folder = runs.play_sweep(tmp_path_factory.mktemp("links") / "run", sweep)
    runs.judge_answers(folder, sweep, sweep.judge, Baseline("rule-judge"))
    write_status(folder, [], finished=True)
    shutil.copy(empty, folder / "mlflow.db")  # making its tables takes seconds
    (folder.parent / "sweep.toml").write_text(f'data = "{demo_data}"\nmodels = ["uniform"]\nscenarios = ["QD"]\n')
    return folder


def invoke(command: str, folder: Path, finished: Path):
    words = command.replace("OTHER", str(finished)).replace("SWEEP", f"{finished.parent}/sweep.toml")
    return CliRunner().invoke(app, words.replace("{}", str(folder)).split())


def written_names(finished: Path, cli, tmp_path: Path) -> list[str]:
    """Return every file and folder that a command writes in a run folder, and the names that files have before theirs."""
    played, read = tmp_path / "played", Path(shutil.copytree(finished, tmp_path / "read"))
    played.mkdir()
    shutil.copy(finished / "mlflow.db", played)
    assert cli.call("run", finished.parent / "sweep.toml", "--output", played).returncode == 0
    for command in COMMANDS[1:-1]:  # ``audit`` needs the published package
        assert invoke(command, read, finished).exit_code in (0, 1), command
    names = {
        path.relative_to(folder).as_posix()
        for folder in (finished, played, read)
        for path in (*folder.glob("*"), *folder.glob("*/*"))
    }
    names.add(LIVE)  # the only file that a run removes at its end
    return sorted({*names, *(f"{name}.tmp" for name in names if "." in name)})


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_command_writes_through_a_link_in_a_run_folder(finished, cli, tmp_path):
    folder, outside, commands = tmp_path / "run", tmp_path / "outside", cycle(COMMANDS)
    names = written_names(finished, cli, tmp_path)
    assert {"lock", "tables", "report.html", "control", "logs", "sums.sha256.tmp"} <= {*names}
    for name in names:
        for command in COMMANDS if name in ("lock", "tables", "episodes") else [next(commands)]:
            shutil.copytree(finished, folder)
            shutil.copytree(finished, outside)
            (outside / "tables").mkdir(exist_ok=True)
            (outside / "tables/main.tex").write_text("years of work")
            before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
            if (folder / name).is_dir():
                shutil.rmtree(folder / name)
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(outside / name)

            outcome = invoke(command, folder, finished)

            assert outcome.exit_code == 2, (name, command, outcome.output)
            assert "is a link, a pipe or a device" in " ".join(outcome.output.split()), (name, command, outcome.output)
            assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before, (name, command)
            for made in (folder, outside):
                shutil.rmtree(made)
