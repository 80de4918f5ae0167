"""Options, questions, categories and file names of a data folder are untrusted text that no command prints or writes raw."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.text.printable import UNSAFE
from orchestrator.cli.main import app
from orchestrator.report.html.page import write_page
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.all_tables import write_tables
from tests.orchestrator.report.html.test_page import Elements
from tests.orchestrator.report.runs import play_sweep, sweep

FOLDER = "<img src=x onerror=alert(1)> [red]`$(id)` ![p](javascript:alert(2)) |%_"
OSC, CLEAR = "\x1b]0;owned\x07\x1b]52;c;cm0gLXJmIH4=\x07", "\x1b[2J\x9b2J\r\b"
MARKUP = "\n\n# heading\n```\n| cell | \\input{/etc/passwd} [bold red]x[/] ![p](http://y/z.png)"
TEXT = f"Cat <script>alert(3)</script> {OSC}{CLEAR}\u202egnp.exe{MARKUP}"
ADDRESSES = {"src", "href", "action", "formaction", "data", "poster", "srcset"}


@pytest.fixture(scope="module")
def hostile_run(demo_data, tmp_path_factory) -> tuple[Path, Path]:
    """A data folder with a hostile name, hostile questions, categories and answers, and a run over it."""
    data_folder = tmp_path_factory.mktemp("hostile") / "data"
    shutil.copytree(demo_data / "QuickDraw", data_folder / "QuickDraw" / FOLDER)
    lines = [json.loads(line) for line in (demo_data / "QuickDraw_preprocessed.jsonl").read_text().splitlines()]
    for number, entry in enumerate(lines):
        entry["image_template"] = entry["image_template"].replace("QuickDraw/", f"QuickDraw/{FOLDER}/", 1)
        entry["prompt"] = f"What is it? {TEXT}"
        entry["categories"] = [f"{text} {number} {TEXT}" for text in entry["categories"]]
        entry["answer"] = f"{entry['answer']} {number} {TEXT}"
        entry["options"] = [f"{text} {TEXT}" for text in entry["options"]]
    (data_folder / "QuickDraw_preprocessed.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    wanted = sweep(data_folder, ["oracle", "always-ask", "guess"], ["zero-shot", "hint"], scenarios=["QD"])
    return data_folder, play_sweep(data_folder.parent / "run", wanted)


def run_command(*args: object) -> str:
    """Run a command that must succeed, and return its output."""
    done = CliRunner().invoke(app, [str(arg) for arg in args])
    assert done.exit_code == 0, done.output
    return done.output


def test_hostile_data_are_played_and_never_printed_raw(hostile_run, tmp_path):
    data_folder, run = hostile_run
    assert read_run(run).episodes.filter(model="oracle")["correct"].all()
    output = run_command("report", run, "--brief") + run_command("compare", run) + run_command("status", run)
    output += run_command("models", "try", "--prompt", "QD/0/hint", "--data", data_folder)
    lines = [json.loads(line) for line in (data_folder / "QuickDraw_preprocessed.jsonl").read_text().splitlines()]
    file = tmp_path / "answers.jsonl"
    file.write_text(
        "".join(json.dumps({"scenario": "QD", "id": line["id"], "answers": ["A"]}) + "\n" for line in lines)
    )
    output += run_command("audit", "--answers", file, "--data", data_folder)

    assert "Cat <script>" in output, "the texts must be shown for this test to mean anything"
    assert not UNSAFE.search(output), UNSAFE.search(output)


def test_page_and_tables_escape_hostile_text(hostile_run):
    _, run = hostile_run
    page = write_page(read_run(run)).read_text("utf-8")
    elements = Elements(page).elements

    assert not any(name.startswith("on") for _, attributes in elements for name in attributes)
    loaded = [str(value) for _, attrs in elements for name, value in attrs.items() if name in ADDRESSES]
    assert all(address.startswith(("data:image/", "data:,", "#")) for address in loaded), loaded
    assert "<script>alert" not in page and not UNSAFE.search(page)
    for path in write_tables(read_run(run)):
        text = path.read_text("utf-8")
        assert "<script" not in text and "\\input" not in text and not UNSAFE.search(text)
