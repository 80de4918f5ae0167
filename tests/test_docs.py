"""What the docs tell people to type works as written: commands of the first page, model tables, links and names of commands."""

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
from typer.exceptions import TyperException
from typer.main import get_command

from orchestrator.cli.main import add_installed, build_app
from sweeps.conditions import CONDITIONS
from sweeps.load import build, load
from sweeps.sweep_file import resolve_sweep
from tests.elsewhere import working_folder

ROOT = Path(__file__).parents[1]
PAGES = sorted(ROOT.glob("docs/*.md"))


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)


FIRST_PAGE = ROOT / "docs/measure-my-model.md"
TABLES = [tomllib.loads(text) for text in blocks(FIRST_PAGE, "toml")]
MODELS = [table["model"][0] for table in TABLES if "model" in table]
LINES = [len(text.strip().splitlines()) for text in blocks(FIRST_PAGE, "toml")]


@pytest.fixture
def run_page(tmp_path, ray_address, monkeypatch):
    """Run the `sh` blocks of a page in a new folder, line by line; return what each command printed."""
    for name, value in working_folder(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RAY_ADDRESS", ray_address)

    def run(page):
        outputs = []
        for command in (line for block in blocks(page, "sh") for line in block.strip().splitlines()):
            done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            outputs.append(done.stdout)
        return outputs

    return run


@pytest.mark.slow
@pytest.mark.long
def test_the_first_page_runs_as_written(run_page):
    outputs = run_page(FIRST_PAGE)

    assert len(outputs) == 4
    assert "embedded" in outputs[0] and "embedded" in outputs[2]
    assert "Hint: moving the occluding object" in outputs[3]


@pytest.mark.slow
@pytest.mark.long
def test_a_split_sweep_merges_as_written(run_page):
    outputs = run_page(ROOT / "docs/split-a-sweep.md")

    taken = [f"840 episodes from outputs/{half}" for half in ("first", "second")]
    assert len(outputs) == 7 and outputs[3].splitlines()[:2] == taken and "\n0 planned episodes pending" in outputs[3]


@pytest.mark.parametrize(("pages", "words"), [(PAGES, 15_000), ([ROOT / "README.md"], 600)], ids=["docs", "README"])
def test_pages_stay_short(pages, words):
    """Counts as ``wc -w docs/*.md`` does; ``docs/decisions/`` is not counted."""
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= words


def test_the_snippets_are_as_short_as_the_page_says_and_make_sweeps():
    base = TABLES[-1]
    for entry in MODELS:
        sweep = build({**base, "model": [entry]}, "mine.toml")
        assert [cell.model.name for cell in sweep.cells()] == [entry["name"]] * 14

    assert LINES == [5, 6, 4, 3]


SHOWN = [
    *PAGES,
    ROOT / "README.md",
    ROOT / "Makefile",
    *ROOT.glob("extras/*/*/sweeps/*.toml"),
    *ROOT.glob("sweeps/*.toml"),
]


def accept(line):
    """Parse a command line as far as its options, without running it."""
    words, command = shlex.split(line.removesuffix("...")), get_command(add_installed(build_app()))
    context = command.context_class(command)
    while hasattr(command, "commands"):
        assert words[0] in command.commands, line
        command = command.get_command(context, words.pop(0))
    command.make_parser(command.context_class(command, parent=context)).parse_args(words)


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.name)
def test_links_lead_somewhere_and_commands_are_accepted(page):
    text = page.read_text(encoding="utf-8")

    for link in re.findall(r"\]\(([^)#]+)", text) if page.suffix == ".md" else ():
        assert link.startswith("http") or (page.parent / link).exists(), link
    for line in re.findall(r"proactive-sweep ((?!needs)[a-z](?:'[^'\n]*'|[^`'\n|;&)#])*)", text.replace("\\\n", "")):
        accept(line.strip())
    for path in re.findall(r"(?<!/)sweeps/[\w/.-]+\.toml", text):
        assert path.endswith("mine.toml") or resolve_sweep(Path(path)).is_file(), path


def test_a_command_that_is_none_is_found():
    accept("models try NAME --prove")
    with pytest.raises(TyperException, match="--forever"):
        accept("run mine.toml --forever")


WRITTEN = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "AGENTS.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("deploy/*.md"),
        *ROOT.glob("tests/**/*.md"),
    ]
)
TOPS = ("envs", "sweeps", "actors", "orchestrator", "tests", "docs", "deploy", ".ci")


def named_paths(text):
    """Yield the paths of the tree that a page names in code; outputs, placeholders and addresses are skipped."""
    for span in (*re.findall(r"`([^`\n]+)`", text), *re.findall(r"^```.*?^```", text, re.S | re.M)):
        for path in re.findall(rf"(?<![\w./<-])(?:{'|'.join(map(re.escape, TOPS))})/[\w./{{}},*<>-]*", span):
            yield path.rstrip(".,")
    for module in re.findall(r"-m ((?:actors|orchestrator|tests)\.[\w.]+)", text):
        yield module.replace(".", "/")


def missing(text):
    """Return the paths of a page that do not exist; ``a/{b,c}.py`` and ``a/*.toml`` are expanded."""
    absent = []
    for path in named_paths(text):
        choices = re.match(r"(.*)\{([^}]*)\}(.*)", path)
        paths = [choices[1] + choice.strip() + choices[3] for choice in choices[2].split(",")] if choices else [path]
        absent += [choice for choice in paths if not (list(ROOT.glob(choice)) or (ROOT / f"{choice}.py").is_file())]
    return [path for path in absent if not (path.endswith("mine.toml") or resolve_sweep(Path(path)).is_file())]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_path_that_a_page_names_is_there(page):
    assert missing(page.read_text(encoding="utf-8")) == []


def test_missing_path_is_found():
    text = "`orchestrator/score.py`, `tests/bench/`, `envs/{coco,vsad}.py`, `sweeps/ablations/*.toml`, `-m actors.training`"
    assert missing(text) == ["orchestrator/score.py", "envs/vsad.py", "actors/training"]


def test_the_numbers_of_the_paper_page_are_the_plans():
    cells = load(ROOT / "sweeps/paper.toml").cells()
    text = (ROOT / "docs/paper-on-8-gpus.md").read_text(encoding="utf-8")

    assert f"{len(cells)} cells" in text and "794,166" in text and len(CONDITIONS) == 7


@pytest.mark.parametrize("reply", ["B. Rewind the video.", "b", "B", "B.", " b . because"])
def test_scorings_readable_examples(reply):
    assert read(reply) == "wrong"


@pytest.mark.parametrize("reply", ["(B)", "**B**", "B)", "The answer is B", "The answer is B.", "Rewind the video", ""])
def test_scorings_unreadable_examples(reply):
    assert read(reply) == "mismatch"


def read(reply):
    """How options A and B of which neither is right are read: what the table of docs/scoring.md says."""
    from envs.answers import as_letter, as_text, option_table

    assert f"`{reply}`" in (ROOT / "docs/scoring.md").read_text(encoding="utf-8") or not reply
    return option_table(("Wait.", "Rewind the video."), (), 0).read(as_text(reply), as_letter(reply)).verdict
