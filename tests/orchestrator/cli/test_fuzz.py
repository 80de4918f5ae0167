"""Whatever is typed, and whatever stands in a run folder: exit code 0, 1, 2 or 130, a sentence, never a traceback, little memory.

The cases are drawn by seed and run in this process through the whole command line; `run` and `judge` meet no cluster.
"""

import os
import resource
import shutil
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from actors.engine.baselines import Baseline
from actors.text.printable import UNSAFE
from orchestrator.cli.main import app
from orchestrator.execution import ray_cluster
from orchestrator.scheduling.forecast.throughput import OBSERVED_FILE
from orchestrator.storage import checksums
from orchestrator.storage.run_folder import planned_cells
from orchestrator.storage.status import write_status
from sweeps.load import build_judge
from tests.actors.hostile import CONTROL
from tests.orchestrator.report import runs

LONG, DEEP = "n" * 5_000, "[" * 3_000
ODD = (
    "", " ", "-", "--", ".", "..", "/", "/dev/zero", "/dev/null", "/proc/self/mem", "{fifo}", "{device}", "{loop}", "{data}",
    "{run}", LONG, f"{{data}}/{LONG}", DEEP, CONTROL.replace("\x00", ""), "\udc80\udcff", "💥" * 80, "s3://", "s3:///x", "gs://",
    "1e999", "-1", "NaN", "0x10", "9" * 400, "a=b", "selection.limit=9e99", "seed=[", f"seed={DEEP}", "models=[]",
    "conditions=all", "{sweep}", "{data}/ROD_preprocessed.jsonl", "all", "ROD", "hint", "icl-1", "uniform", "rule-judge", "mcqa",
    "oeg", "--help", "--json",
)  # fmt: skip
"""What may stand in the place of any argument."""
COMMANDS = {
    "ls": ("models", "judges", "scenarios", "conditions"),
    "plan": ("{sweep}", "--set", "--output", "--gpus", "--gpu-type", "--model"),
    "run": ("{sweep}", "--set", "--output", "--retry", "--update", "--tracking-uri", "none"),
    "status": ("{run}", "--json"),
    "report": ("{run}", "--brief", "--data", "--judge", "--strict-paper"),
    "compare": ("{run}", "--data", "--judge", "--strict-paper"),
    "judge": ("{run}", "--judge", "--set", "--again", "--agreement", "--json"),
    "track": ("{run}", "--tracking-uri", "sqlite-but-no", "--data"),
    "audit --answers": ("{answers}", "--data", "{data}"),
    "audit": ("{run}", "--package", "--python", "--data"),
    "models try --prompt": ("ROD/0/hint", "--data", "{data}", "--judge", "rule-judge", "--json"),
    "data check": ("{data}", "--scenarios", "--unfiltered"),
    "models check": ("uniform", "{sweep}", "--gpu-type"),
    "merge": ("{run}", "{run}", "--output", "merged", "--prefer"),
    "export": ("{run}", "--to", "csv", "--output", "exported"),
    "init": ("new.toml", "--from", "demo", "--model", "uniform"),
}
"""Command -> the words that its lines are drawn from, beside ``ODD``."""
READING = (
    "status", "report --brief", "compare", "judge --agreement", "run {sweep} --output", "judge", "plan {sweep} --output",
)  # fmt: skip
"""Commands that are given each damaged run folder."""


@pytest.fixture(scope="module")
def paths(tmp_path_factory, demo_data):
    """Map names to paths for the lines: a sweep, its complete run folder, a pipe, a device, a link to itself."""
    folder = tmp_path_factory.mktemp("fuzz")
    created = {name: folder / name for name in ("run", "fifo", "loop")}
    os.mkfifo(created["fifo"])
    created["loop"].symlink_to(created["loop"])
    sweep = runs.sweep(demo_data, ["uniform", "ask-properly"], ["hint"], scenarios=["QD"], protocol=["mcqa", "oeg"])
    text = 'models = ["uniform", "ask-properly"]\nconditions = ["hint"]\nprotocol = ["mcqa", "oeg"]\n'
    (folder / "x.toml").write_text(
        f'# A test.\nname = "test"\ndata = "{demo_data}"\nscenarios = ["QD"]\ntracking = {{ uri = "none" }}\n{text}'
    )
    (folder / "answers.jsonl").write_text('{"scenario": "ROD", "id": 0, "answers": ["A"]}\n')
    runs.play_sweep(created["run"], sweep)
    runs.judge_answers(created["run"], sweep, build_judge({"model": "rule-judge"}, "a test"), Baseline("rule-judge"))
    rows = planned_cells(created["run"])
    cells = [{"cell": row["cell"], "planned": row["planned"], "finished": row["planned"]} for row in rows]
    ended = {"errors": 0, "state": "complete", "reason": ""}
    write_status(created["run"], [cell | ended for cell in cells], finished=True)
    checksums.write(created["run"] / OBSERVED_FILE, b'{"gpu": "h200", "episodes": {}}')
    others = {"sweep": folder / "x.toml", "answers": folder / "answers.jsonl"}
    return {**created, **others, "data": demo_data, "device": Path("/dev/zero")}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No cluster, no network, and a working folder that may be written to."""
    ray_cluster.ray.shutdown()  # another file's tests may have joined a cluster in this process
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PROACTIVE_SWEEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ray_cluster, "CONNECT_PAUSES_S", (0.0,))
    monkeypatch.chdir(tmp_path)


def run_line(*line: str) -> None:
    """Run a line; fails unless it ends as commands may."""
    outcome = CliRunner().invoke(app, list(line))
    what = (line, outcome.exit_code, outcome.output[-2000:])

    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), (*what, outcome.exc_info)
    assert outcome.exit_code in (0, 1, 2, 3, 130), what
    assert "Traceback" not in outcome.output and not UNSAFE.search(outcome.output.replace("\udc80", "")), what
    if outcome.exit_code == 2:
        messages = [line for line in outcome.stderr.splitlines() if line.startswith("proactive-sweep: ")]
        assert len(messages) == 1 and len(messages[0]) < 16_000, what


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def lines(chance: Random, count: int):
    """So many lines: a command, then words of its own and odd ones."""
    for _ in range(count):
        command = chance.choice(list(COMMANDS))
        words = [word for word in COMMANDS[command] if chance.random() < 0.8]
        for _ in range(chance.randrange(1, 4)):
            words.insert(chance.randrange(len(words) + 1), chance.choice(ODD))
        yield [*command.split(), *words]


def fill_in(words, paths) -> list[str]:
    for name, path in paths.items():
        words = [word.replace(f"{{{name}}}", str(path)) for word in words]
    return words


def test_odd_arguments(paths):
    before = peak_memory()
    for words in lines(Random(0), 50):
        run_line(*fill_in(words, paths))
    assert peak_memory() - before < 500_000, "kilobytes"


def spoil(raw: bytes, chance: Random) -> bytes:
    """Bytes as somebody, or a disk, may have left them."""
    at = chance.randrange(len(raw) + 1)
    return chance.choice([
        b"", raw[:at], raw[:at] + chance.randbytes(8) + raw[at + 8 :], b"\xff\xfe" + raw, b"null", b"[]", b"{}", DEEP.encode(),
        b'{"cells": [{}]}', b'{"cells": 7}', raw.replace(b"planned", b"planed"), raw.replace(b"10", b'"ten"'),
        raw.replace(b"hint", b"[/]\\u001b"), raw.replace(b"QD", b"XX"), raw.replace(b"uniform", LONG.encode()),
    ])  # fmt: skip


def test_odd_files_of_a_run_folder(paths, tmp_path):
    """Spoil one file of a run folder after the other, sums and all, or put something else in its place."""
    chance, before = Random(0), peak_memory()
    names = sorted(path.relative_to(paths["run"]) for path in paths["run"].rglob("*") if path.is_file())
    for number in range(30):
        folder = Path(shutil.copytree(paths["run"], tmp_path / "copy"))
        path = folder / names[number % len(names)]
        if chance.random() < 0.5:
            (folder / checksums.NAME).unlink()
        raw = path.read_bytes() if path.exists() else b""
        kind = chance.randrange(8)
        path.unlink(missing_ok=True)
        if kind == 0:
            os.mkfifo(path)
        elif kind == 1:
            path.mkdir()
        elif kind == 2:
            path.symlink_to("/dev/zero")
        elif kind > 3:
            path.write_bytes(spoil(raw, chance))
        command = chance.choice(READING)
        run_line(*fill_in(command.split(), paths), str(folder))
        shutil.rmtree(folder)
    assert peak_memory() - before < 500_000, "kilobytes"


@pytest.mark.parametrize(
    "command", [("plan",), ("run",), ("models", "check"), ("audit", "--data", "{data}", "--answers"), ("status",)]
)
@pytest.mark.parametrize("name", ["/dev/zero", "{fifo}", "{loop}", LONG, "{data}"])
def test_unusable_file_is_one_sentence(paths, command, name):
    run_line(*fill_in([*command, name], paths))


@pytest.mark.parametrize(
    "line",
    ["report {loop}", "compare {loop} {run}", "merge {run} {loop} --output merged", "run {sweep} --output {loop}",
     "run {sweep} --output new --reuse {loop}"],
)  # fmt: skip
def test_circular_folder_link_is_one_sentence(paths, line):
    outcome = CliRunner().invoke(app, fill_in(line.split(), paths))

    assert outcome.exit_code in (2, 3) and outcome.stderr.startswith("proactive-sweep: "), outcome.output
    assert outcome.stderr.count("\n") == 1 and "named twice" not in outcome.stderr
