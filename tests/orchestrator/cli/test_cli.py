"""The command line without a cluster: what it prints and writes, what it refuses, and with which exit code."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from envs import SCENARIOS
from envs.samples import load_samples
from orchestrator import load_sweep
from orchestrator.cli import run
from orchestrator.cli.main import app
from orchestrator.cli.models import parse_address
from orchestrator.cli.printing import print_json
from orchestrator.cli.user_errors import REMOVED
from orchestrator.report.tables.table import text_table
from orchestrator.storage.run_folder import planned_cells
from orchestrator.storage.status import write_status
from sweeps.load import build, load
from sweeps.sweep_file import shipped_sweeps
from tests.orchestrator.report import runs

CORE = {
    "init", "ls", "plan", "run", "status", "ctl", "view", "report", "compare", "judge", "audit", "track", "merge", "export",
    "data fetch", "data check", "models check", "models try",
}  # fmt: skip
MOST_FLAGS = 80
PLANNED = ("plan", "sweeps/baselines.toml", "--set")


def call(*args: object) -> Any:
    outcome = CliRunner().invoke(app, [str(arg) for arg in args])
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), outcome.exception
    return outcome


def read_json(*args: object) -> Any:
    outcome = call(*args)
    assert outcome.exit_code == 0, outcome.output
    return json.loads(outcome.stdout)


def commands(command: Any, path: str = "") -> dict[str, Any]:
    """Return the commands without subcommands by what is typed."""
    if not hasattr(command, "commands"):
        return {path: command}
    found = {}
    for name in command.commands:
        found |= commands(command.get_command(None, name), f"{path} {name}".strip())
    return found


@pytest.fixture(scope="module")
def folder(demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run folder of two baselines, with two samples of each scenario."""
    wanted = runs.sweep(demo_data, ["uniform", "oracle"], ["hint"], selection={"limit": 2})
    return runs.play_sweep(tmp_path_factory.mktemp("cli") / "run", wanted)


# -- commands and options ----------------------------------------------------------------------------------------------
def test_the_core_has_18_commands_and_at_most_80_options() -> None:
    program = get_command(app)
    every = commands(program)
    options = [part for command in (*every.values(), program) for part in command.params]
    flags = [part for part in options if part.param_type_name == "option" and "completion" not in part.name]

    assert set(every) == CORE
    assert len(flags) <= MOST_FLAGS


@pytest.mark.parametrize("typed", [name for names in REMOVED.values() for name in names])
def test_what_left_is_refused_with_what_to_type(typed: str) -> None:
    words = typed.split()
    outcome = call(*words[:-1], words[-1], "x")

    assert outcome.exit_code == 2 and outcome.stderr.count("\n") == 1
    assert outcome.stderr.startswith("proactive-sweep: ") and "--help" not in outcome.stderr, outcome.stderr
    assert f"extras/{REMOVED['in_extras'].get(typed, '')}" in f"{outcome.stderr} extras/"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("report", ""), "name of the run folder is empty"),
        (("status", "README.md"), "README.md is a file"),
        (("report", "nowhere"), "nowhere"),
        (("report", "a b", "c"), "`compare 'a b' c` for differences"),
        (("report", "x", "--output", "page.html"), "--output requires --filter PERCENT"),
        (("run",), "name a sweep"),
        (("plan", "none.toml"), "no sweep file none.toml"),
        (("run", "sweeps/baselines.toml", "--output", ""), "run folder is empty"),
        (("plan", "sweeps/baselines.toml", "--gpu-type", "abacus"), "requires --gpus N"),
        ((*PLANNED, "models=oracle,b"), "there is no model 'b'"),
        (("report", "x", "--data", "\udc80"), "does not exist"),
        (("init", "x.txt"), "end it with .toml"),
        (("init", "x.toml", "--from", "baseline"), "did you mean 'baselines"),
        (("init", "README.md/x.toml"), "README.md"),
        (("init", "x.toml", "--from", "paper", "--model", "oracle"), "leave one of the two out"),
        (("audit", "--answers", "none.jsonl"), "--answers FILE.jsonl --data DIR"),
        (("models", "check", "baselines", "paper"), "name one sweep"),
        (("models", "try", "--flip-rate", "5"), "takes one run folder"),
        *((("models", "try", "--prompt", address), "SCENARIO/ID") for address in ("QD", f"QD/{'9' * 5_000}")),
        (("models", "try", "--prompt", "QD/1/zero-shot-oeg", "--judge", "nobody"), "nobody"),
        (("export", "x", "--to", "csv", "--nonsense"), "No such option"),
    ],
)
def test_a_mistake_is_one_sentence_with_exit_code_2(
    arguments: tuple[str, ...], words: str, demo_data: Path, tmp_path: Path
) -> None:
    outcome = call(*(word.replace("{data}", str(demo_data)) for word in arguments))

    assert outcome.exit_code == 2
    assert outcome.stderr.startswith("proactive-sweep: ") and outcome.stderr.count("\n") == 1, outcome.stderr
    assert words in outcome.stderr and "\udc80" not in outcome.stderr


# -- start -------------------------------------------------------------------------------------------------------------
def test_init_writes_a_sweep_that_plans_and_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo_data: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    first = call("init", "My Drive/mine.toml")
    assert first.exit_code == 0 and "proactive-sweep run 'My Drive/mine.toml'" in first.stdout
    assert "looked for" in call("plan", "My Drive/mine.toml").stderr
    (tmp_path / "demo-data").symlink_to(demo_data)
    assert "56 cells, 560 episodes" in call("plan", "My Drive/mine.toml").stdout
    assert "is left unchanged" in call("init", "My Drive/mine.toml").stderr
    assert "data fetch data/ProactiveBench" in call("init", "paper.toml", "--from", "paper").stdout
    assert "name =" not in Path("paper.toml").read_text()
    for number, name in enumerate(shipped_sweeps()):
        assert call("init", f"{number}.toml", "--from", name).exit_code == 0, name
    assert call("init", "own", "--from", "package").exit_code == 0 and Path("own/README.md").is_file()
    assert "is left unchanged" in call("init", "own", "--from", "package").stderr


def test_lists_as_json_hold_what_the_tables_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    for kind in ("models", "judges", "scenarios", "conditions", "sweeps"):
        rows, table = read_json("ls", kind, "--json"), call("ls", kind).stdout
        assert rows and all(text in table for row in rows for text in row.values() if isinstance(text, str)), kind
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, call("ls", "models").stdout.splitlines())) == 60
    assert "error" in call("ls", "columns").stdout


def test_a_plan_has_a_row_per_model_and_its_json_one_per_cell(demo_data: Path, folder: Path) -> None:
    options = (*PLANNED, f"data={demo_data}", "--output", folder)
    listing, printed = read_json(*options, "--json"), call(*options).stdout

    assert printed.startswith("168 cells, 1,680 episodes, 28 done") and re.search(r"oracle +28 +280 +14", printed)
    assert sum(cell["done"] for cell in listing["cells"]) == 28 and len(listing["cells"]) == 168
    assert listing["cells"][0].keys() == {"model", "scenario", "condition", "protocol", "cell", "planned", "done"}


def test_the_sweep_of_a_run_folder_plans_and_resumes_that_folder(folder: Path, demo_data: Path) -> None:
    stored = folder / "sweep.resolved.toml"
    assert call("plan", stored).stdout.startswith("14 cells, 28 episodes, 28 done")
    assert load(stored, ["output=elsewhere", "scenarios=QD, ROD"]).scenarios == ("QD", "ROD")
    assert load(stored, ["output=elsewhere"]).output == "elsewhere"
    assert load(stored, ["seed=7"]).seed == 7 and load(stored).output == load_sweep(stored).output == str(folder)
    assert f"name its sweep: {stored}" in call("run", folder).stderr
    assert "add models to the file" in call("plan", stored, "--model", "guess").stderr


def test_a_plan_with_a_missing_model_folder_ends_with_2(demo_data: Path, tmp_path: Path) -> None:
    model = f'[[model]]\nname = "m"\nsource = "{tmp_path}/none"\n'
    (tmp_path / "s.toml").write_text(f'data = "{demo_data}"\nscenarios = ["QD"]\n{model}')
    done = call("plan", tmp_path / "s.toml")
    assert f"folder {tmp_path}/none does not exist" in done.stderr
    assert done.exit_code == 2 and "10 episodes" in done.stdout


@pytest.mark.parametrize(
    ("file", "option", "variable", "uri"),
    [(None, None, None, "sqlite"), (None, None, "http://v", "http://v"), (None, "none", "http://v", "none"),
     ("http://f", None, "http://v", "http://f"), ("http://f", "http://o", None, "http://o")],
)  # fmt: skip
def test_an_option_comes_before_the_file_and_the_file_before_the_variable(
    file: str | None, option: str | None, variable: str | None, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if variable is not None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", variable)
    table = {"name": "s", "data": "d", "models": ["uniform"], "conditions": ["hint"]}
    sweep = build({**table, **({"tracking": {"uri": file}} if file else {})}, "a test")

    assert run._with_tracking(sweep, option).tracking.uri == uri


# -- data and models ---------------------------------------------------------------------------------------------------
def test_data_check_names_what_is_missing(demo_data: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(demo_data, tmp_path / "d"))
    assert call("data", "check", copy, "--deep").exit_code == 0
    next((copy / "QuickDraw").rglob("*.*")).unlink()
    broken = call("data", "check", copy, "--scenarios", "QD,ROD")
    assert broken.exit_code == 1 and "is not there" in broken.output and "1 problem\n" in broken.output
    (file := tmp_path / "notes").write_text("mine")
    refused = call("data", "fetch", file / "deeper")
    assert refused.exit_code == 2 and str(file) in refused.stderr and file.read_text() == "mine"


def test_a_prompt_is_printed_by_its_address(demo_data: Path, tmp_path: Path) -> None:
    (sweep := tmp_path / "mine.toml").write_text('[[condition]]\nname = "mine"\nsystem = "Be brief."\n')
    own = call("models", "try", sweep, "--prompt", "ROD/0/mine", "--data", demo_data)
    asked = call("models", "try", "--prompt", "ROD/0/hint-oeg", "--data", demo_data).output
    judged = call("models", "try", "--prompt", "ROD/0/hint-oeg", "--data", demo_data, "--judge", "rule-judge").output

    assert own.exit_code == 0 and "Be brief." in own.stdout and "A. " in own.stdout
    assert asked.startswith("[user]\n<picture ") and "A. " not in asked
    assert "(the model's answer)" in judged and "<picture" not in judged
    assert parse_address("ROD/3/zero-shot-oeg-multi/1")[2:] == ("zero-shot", "oeg-multi", 1)
    assert parse_address("ROD/3")[2:] == ("zero-shot", "mcqa", 0)
    missing = call("models", "try", "--prompt", "COCO/4000", "--data", demo_data)
    assert missing.exit_code == 2 and "no sample with id 4000" in missing.stderr


def test_the_prompt_of_a_damaged_checkpoint_is_a_sentence(demo_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="its engine is not installed")
    (tmp_path / "config.json").write_text('{"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava"}')
    typed = ("models", "try", tmp_path, "--prompt", "ROD/0", "--data", demo_data)
    assert "no chat template of" in call(*typed).stderr
    for name in ("tokenizer", "tokenizer_config", "preprocessor_config"):
        (tmp_path / f"{name}.json").write_text("{}")
    done = call(*typed)
    assert done.exit_code == 2 and "cannot be rendered" in done.stderr


# -- reading -----------------------------------------------------------------------------------------------------------
def test_status_counts_states_and_lists_cells_on_request(folder: Path, demo_data: Path, tmp_path: Path) -> None:
    assert "14 cells: 14 complete (--cells lists them)" in call("status", folder).output
    assert "uniform/ROD/hint" not in call("status", folder).output
    assert "uniform/ROD/hint" in call("status", folder, "--cells").output
    assert {cell["state"] for cell in read_json("status", folder, "--json")["cells"]} == {"complete"}

    wanted = runs.sweep(demo_data, ["uniform", "oracle"], ["hint"], selection={"limit": 2})
    run = runs.play_sweep(tmp_path / "run", wanted)
    cell = {"planned": 2, "finished": 2, "errors": 0, "state": "partial", "reason": "pip install 'x[openai]'"}
    write_status(run, [{**cell, "cell": row["cell"]} for row in planned_cells(run)], finished=True)
    output = call("status", run).output
    assert "uniform/ROD/hint: partial, pip install 'x[openai]'" in output and "and 4 more cells with a reason" in output


def test_report_and_compare_print_and_their_json_writes_nothing(folder: Path) -> None:
    before = sorted(path.name for path in folder.iterdir())
    cells = read_json("report", folder, "--json")["cells"]
    listing = read_json("compare", folder, "--json")

    assert {cell["acc"] for cell in cells if cell["model"] == "oracle"} == {100.0}
    assert {row["model"] for row in listing["figures"]} == {"uniform", "oracle"} and listing["notes"]
    assert "oracle" in call("report", folder, "--brief").stdout
    assert sorted(path.name for path in folder.iterdir()) == before
    assert call("compare", folder, "--cluster", "none").exit_code == 0
    for command in ("report", "compare"):
        refused = call(command, folder, "--judge", "nobody")
        assert refused.exit_code == 2 and "nobody" in refused.output, command


def test_damaged_files_are_named_and_end_a_command_with_3(demo_data: Path, tmp_path: Path) -> None:
    run = runs.play_sweep(tmp_path / "run", runs.sweep(demo_data, ["uniform"], ["hint"], selection={"limit": 2}))
    (run / "results.parquet").unlink()
    for command in (("report", run, "--brief"), ("status", run), ("compare", run), ("export", run, "--to", "csv")):
        done = call(*command)
        assert done.exit_code == 3 and "results.parquet is missing" in done.stderr, command
    (run / "tables").write_text("mine")
    refused = call("report", run)
    assert refused.exit_code == 2 and "cannot be written" in refused.output


def test_tables_and_json_are_safe_to_print(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": float("nan"), "b": [float("inf"), 1.5, "\x1b[2J\u009b"], 3: ("ü",), "c": "\ud83d"})
    printed = capsys.readouterr().out
    table = text_table(("name", "a", "b"), [("x", "1", "2")], "Title", numbers=2)

    assert json.loads(printed) == {"a": None, "b": [None, 1.5, "\x1b[2J\u009b"], "3": ["ü"], "c": "\ud83d"}
    assert printed.isascii() and "\x1b" not in printed
    assert [column.number for column in table.columns] == [False, True, True]


# -- audit of transcripts ----------------------------------------------------------------------------------------------
def test_transcripts_are_scored_as_json_lines(demo_data: Path, tmp_path: Path) -> None:
    sample = load_samples(demo_data, "ROD")[0]
    ask = next(option for option in sample.options if "left" in option)
    answers: list[dict[str, Any]] = [
        {"answers": [ask, sample.answer, "A"]}, {"reference": True, "hint": True, "answers": ["X"]}, {"answers": [ask]},
        {"answers": ["\ud800 Baum"]},
    ]  # fmt: skip
    path = tmp_path / "answers.jsonl"
    path.write_text("\n\n".join(json.dumps({"scenario": "ROD", "id": sample.id, **line}) for line in answers))
    lines = call("audit", "--data", demo_data, "--answers", path).output.splitlines()
    first, second, unfinished, odd = map(json.loads, lines)

    assert (first["num_turns"], first["correct"], first["unused_answers"], first["max_steps"]) == (2, True, 1, False)
    assert first["turns"][0]["options"] == [*sample.options, *sample.categories]
    assert second["turns"][0]["prompt"].endswith(SCENARIOS["ROD"].hint)
    assert (unfinished["ending"], unfinished["correct"]) == (None, None)
    assert odd["turns"][0]["answer"] == "\ud800 Baum"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 1 is not JSON"),
        ('{"scenario": "XX", "id": 1, "answers": []}', "scenario"),
        ('{"scenario": "QD", "id": 99999, "answers": []}', "no sample with id 99999"),
        ('{"scenario": "QD", "id": 1, "answers": [], "hnit": true}', "line 1: unknown key 'hnit'"),
    ],
)
def test_a_bad_line_of_a_transcript_is_one_sentence(line: str, words: str, demo_data: Path, tmp_path: Path) -> None:
    (path := tmp_path / "bad.jsonl").write_text(line)
    outcome = call("audit", "--data", demo_data, "--answers", path)

    assert outcome.exit_code == 2 and words in outcome.stderr and outcome.stderr.count("\n") == 1
