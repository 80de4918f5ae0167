"""Options, questions, categories and file names of a data folder are foreign text: no command prints or writes them raw."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.text.printable import UNSAFE
from orchestrator.cli.main import app
from orchestrator.report.html import write_page
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.write import write_tables
from orchestrator.tracking.transcripts import transcripts
from tests.orchestrator.report.runs import played, sweep

FOLDER = "<img src=x onerror=alert(1)> [red]`$(id)` ![p](javascript:alert(2)) |%_"
OSC, CLEAR = "\x1b]0;owned\x07\x1b]52;c;cm0gLXJmIH4=\x07", "\x1b[2J\x9b2J\r\b"
MARKUP = "\n\n# heading\n```\n| cell | \\input{/etc/passwd} [bold red]x[/] ![p](http://y/z.png)"
TEXT = f"Cat <script>alert(3)</script> {OSC}{CLEAR}\u202egnp.exe{MARKUP}"
ADDRESSES = {"src", "href", "action", "formaction", "data", "poster", "srcset"}


@pytest.fixture(scope="module")
def hostile(demo_data, tmp_path_factory) -> tuple[Path, Path]:
    """Sketches in a folder with a hostile name, whose question, categories and answer are hostile; and a run over them."""
    data = tmp_path_factory.mktemp("hostile") / "data"
    shutil.copytree(demo_data / "QuickDraw", data / "QuickDraw" / FOLDER)
    lines = [json.loads(line) for line in (demo_data / "QuickDraw_preprocessed.jsonl").read_text().splitlines()]
    for number, entry in enumerate(lines):
        entry["image_template"] = entry["image_template"].replace("QuickDraw/", f"QuickDraw/{FOLDER}/", 1)
        entry["prompt"] = f"What is it? {TEXT}"
        entry["categories"] = [f"{one} {number} {TEXT}" for one in entry["categories"]]
        entry["answer"] = f"{entry['answer']} {number} {TEXT}"
        entry["options"] = [f"{one} {TEXT}" for one in entry["options"]]
    (data / "QuickDraw_preprocessed.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    wanted = sweep(data, ["oracle", "always-ask", "guess"], ["zero-shot", "hint"], scenarios=["QD"])
    return data, played(data.parent / "run", wanted)


def command(*args: object) -> str:
    """What a command prints; it must succeed."""
    done = CliRunner().invoke(app, [str(arg) for arg in args])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_data_are_played_and_no_command_prints_them_raw(hostile, tmp_path):
    data, run = hostile
    assert read_run(run).episodes.filter(model="oracle")["correct"].all()
    said = command("report", run, "--brief") + command("compare", run) + command("status", run)
    said += command("prompt", "QD", 0, "--condition", "hint", "--data", data)
    lines = [json.loads(line) for line in (data / "QuickDraw_preprocessed.jsonl").read_text().splitlines()]
    file = tmp_path / "answers.jsonl"
    file.write_text(
        "".join(json.dumps({"scenario": "QD", "id": line["id"], "answers": ["A"]}) + "\n" for line in lines)
    )
    said += command("audit", "--answers", file, "--data", data)

    assert "Cat <script>" in said, "the texts must be shown for this test to mean anything"
    assert not UNSAFE.search(said), UNSAFE.search(said)


class Elements(HTMLParser):
    """What a parser sees of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def test_the_page_and_the_tables_hold_them_as_text(hostile):
    _, run = hostile
    page = write_page(read_run(run)).read_text("utf-8")
    elements = Elements(page).seen

    assert "alert(3)" in page, "the texts must be there for this test to mean anything"
    assert not any(name.startswith("on") for _, attributes in elements for name in attributes)
    loaded = [str(value) for _, found in elements for name, value in found.items() if name in ADDRESSES]
    assert all(address.startswith(("data:image/", "data:,", "#")) for address in loaded), loaded
    assert "<script>alert" not in page and not UNSAFE.search(page)
    for path in write_tables(read_run(run)):
        text = path.read_text("utf-8")
        assert "<script" not in text and "\\input" not in text and not UNSAFE.search(text)


def test_what_mlflow_shows_of_them_is_code_and_printable(hostile):
    told = list(transcripts(read_run(hostile[1]), limit=500))

    assert told and all(turn.picture.startswith("data:image/") for one in told for turn in one.turns)
    shown = "\n".join(str(part) for one in told for part in (one.name, one.tags, one.ending, one.turns))
    assert not UNSAFE.search(shown)
    for text in [one.ending for one in told] + [turn.verdict for one in told for turn in one.turns]:
        prose = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
        assert not re.search(r"[<\[#|]", prose), "MLflow renders messages as Markdown"
    assert any("alert(3)" in one.ending for one in told), "the texts must be shown for this test to mean anything"
