"""Facts for programs and pipes: --json holds what the tables show, names are whole, --version and help say what is typed."""

from __future__ import annotations

import json
import re

import pytest
import typer

from orchestrator.cli.data import data_app
from orchestrator.cli.main import app
from orchestrator.cli.models import models_app
from orchestrator.cli.printing import print_json
from orchestrator.storage.software import version
from tests.orchestrator.cli.test_cli import call
from tests.orchestrator.report import runs


@pytest.fixture(scope="module")
def run(demo_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("facts") / "run"
    return runs.play_sweep(folder, runs.sweep(demo_data, ["uniform", "oracle"], ["hint"], selection={"limit": 2}))


def read_json(*args):
    outcome = call(*args)
    assert outcome.exit_code == 0, outcome.output
    return json.loads(outcome.stdout)


@pytest.mark.parametrize("kind", ["models", "judges", "scenarios", "conditions", "sweeps"])
def test_ls_as_json_names_what_the_table_names(kind, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    rows, table = read_json("ls", kind, "--json"), call("ls", kind).stdout

    assert rows and all(str(row["name"]) in table for row in rows)
    assert all(text in table for row in rows for text in row.values() if isinstance(text, str)), (
        "nothing is cut in a pipe"
    )


def test_a_terminal_of_a_width_keeps_it(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")

    assert max(map(len, call("ls", "models").stdout.splitlines())) == 60


def test_plan_as_json_counts_what_the_table_counts(run, demo_data):
    options = ("baselines", "--set", f"data={demo_data}", "--output", run)
    listing = read_json("plan", *options, "--json")

    total = f"{len(listing['cells'])} cells, {sum(cell['planned'] for cell in listing['cells']):,} episodes"
    assert total in call("plan", *options).stdout
    assert listing["cells"][0].keys() == {"model", "scenario", "condition", "protocol", "cell", "planned", "done"}
    assert sum(cell["done"] for cell in listing["cells"]) == 28


def test_a_forecast_as_json_has_its_lines():
    assert any("GPU-hours" in line for line in read_json("plan", "paper", "--precision", "5", "--json")["lines"])


def test_status_and_report_as_json(run):
    assert {cell["state"] for cell in read_json("status", run, "--json")["cells"]} == {"complete"}

    before = sorted(path.name for path in run.iterdir())
    printed = read_json("report", run, "--json")
    cells = printed["cells"]
    assert "independent samples; in pages: 95%, over" in printed["intervals"]
    assert sorted(path.name for path in run.iterdir()) == before, "nothing is written"
    assert {cell["acc"] for cell in cells if cell["model"] == "oracle"} == {100.0}
    assert "oracle" in call("report", run, "--brief").stdout


def test_compare_as_json_has_a_reason_where_nothing_is_published(run):
    listing = read_json("compare", run, "--json")

    assert {row["model"] for row in listing["figures"]} == {"uniform", "oracle"} and listing["notes"]
    assert all(row["reason"] for row in listing["figures"] if row["published"] is None)


def test_models_check_as_json_says_what_is_ok():
    (row,) = read_json("models", "check", "uniform", "--json")["models"]
    assert row["model"] == "uniform" and row["ok"] is True


def test_figures_that_are_not_known_are_null_and_control_characters_are_escapes(capsys):
    print_json({"a": float("nan"), "b": [float("inf"), 1.5, "\x1b[2J\u009b"], "c": ("x",)})
    printed = capsys.readouterr().out

    assert json.loads(printed) == {"a": None, "b": [None, 1.5, "\x1b[2J\u009b"], "c": ["x"]}
    assert printed.isascii() and "\x1b" not in printed


def test_version_is_the_installed_one():
    assert call("--version").stdout.strip() == f"proactive-sweep {version()}"


def test_shells_can_complete():
    assert "--install-completion" in call("--help").stdout


COMMANDS = {
    f"{part} {name}".strip(): command
    for part, group in {"": app, "data": data_app, "models": models_app}.items()
    for name, command in typer.main.get_command(group).commands.items()
}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_the_tables_of_a_sweep_file_in_brackets(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    help_text = " ".join(str(getattr(part, "help", "")) for part in COMMANDS[name].params)

    printed = call(*name.split(), "--help").stdout
    assert not re.search(r"(?<!\\)\[\[?[a-z]+\]", help_text), "Rich takes it for markup"
    for bracket in re.findall(r"\\\[[^\]]*\]+", help_text):
        assert bracket.replace("\\", "") in printed


@pytest.mark.parametrize(
    ("name", "bracket"), [("judge", "[judge] table"), ("train", "[train] table"), ("run", "[[model]]")]
)
def test_the_brackets_of_help_are_there(name, bracket, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert bracket in call(name, "--help").stdout


def test_init_writes_a_sweep_that_plans_and_says_what_to_type(tmp_path, monkeypatch, demo_data):
    monkeypatch.chdir(tmp_path)
    outcome = call("init", "mine.toml")

    assert outcome.exit_code == 0 and "proactive-sweep run mine.toml" in outcome.stdout
    assert call("plan", "mine.toml").stderr.startswith(
        "proactive-sweep: there is no data folder 'demo-data' (looked for "
    )
    (tmp_path / "demo-data").symlink_to(demo_data)
    assert "56 cells, 560 episodes" in call("plan", "mine.toml").stdout
    again = call("init", "mine.toml")
    assert again.exit_code == 2 and "is left unchanged" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("init", "x.txt"), "end it with .toml"),
        (("init", "x.toml", "--from", "dem"), "did you mean 'demo'"),
        (("init", "file/x.toml"), "cannot be written"),
    ],
)
def test_init_refuses_in_a_sentence(arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")

    outcome = call(*arguments)
    assert outcome.exit_code == 2 and sentence in outcome.stderr and outcome.stderr.count("\n") == 1


def test_a_copy_of_a_shipped_sweep_has_an_output_and_data_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("init", "again.toml", "--from", "baselines").exit_code == 0

    assert "name =" not in (tmp_path / "again.toml").read_text()
    assert "proactive-sweep data fetch data/ProactiveBench " in call("init", "paper.toml", "--from", "paper").stdout
    assert "outputs/again" in call("init", "other.toml", "--from", "baselines").stdout.replace("other", "again")


def test_prompt_shows_a_condition_of_a_sweep_file(tmp_path, demo_data):
    file = tmp_path / "mine.toml"
    file.write_text('[[condition]]\nname = "mine"\nsystem = "Be brief."\nhint_text = "Ask me."\n')
    outcome = call("prompt", "ROD", "0", "--data", demo_data, "--sweep", file, "--condition", "mine")

    assert outcome.exit_code == 0 and "Be brief." in outcome.stdout and "Ask me." in outcome.stdout
    assert call("prompt", "ROD", "0", "--data", demo_data, "--condition", "mine").exit_code == 2
