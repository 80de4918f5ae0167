"""A service's key is in no file of a run, MLflow's included, in no command line and in nothing printed, however it is escaped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import psutil
import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.text.redaction import MIN_SECRET_LENGTH, _spellings
from tests.actors.service import Answer, completion, failure, service
from tests.conftest import ROOT

KEY = "sk-\"quote'back\\slash%41&<tag>-0123456789"
LOOK_S = 0.5
SWEEP = """
name = "hidden"
data = "{data}"
models = ["echo"]
conditions = ["zero-shot"]
scenarios = ["QD", "ROD"]
protocol = ["mcqa", "tools"]
selection = {{ limit = 3 }}
[[model]]
name = "echo"
source = "echo"
endpoint = {{ base_url = "{url}", key_env = "ECHO_KEY", patience = 0.1 }}
"""


def repeat_key(number: int, body: dict) -> Answer:
    """Repeat the key as services and hostile models do: in replies, function calls, and refusals."""
    if number % 5 == 4:
        return failure(400, "bad_request", f"Incorrect API key provided: {KEY}")
    status, headers, answer = completion(f"Your key is {KEY}; in JSON " + repr({"key": KEY}))
    if "tools" in body:
        arguments = {"id": "c", "type": "function", "function": {"name": KEY, "arguments": KEY}}
        answer["choices"][0]["message"]["tool_calls"] = [arguments]
    return status, headers, answer


def parts_of_key(text: str) -> list[str]:
    """Return the spellings of the key of which the text has a run of eight characters."""
    size = MIN_SECRET_LENGTH
    return [s for s in _spellings(KEY) if any(s[n : n + size] in text for n in range(len(s) - size + 1))]


def watch_command_lines(process: subprocess.Popen[str], lines: set[str]) -> None:
    """Collect the command lines of a process and all that it has started, until it ends."""
    while process.poll() is None:
        try:
            for child in (parent := psutil.Process(process.pid), *parent.children(recursive=True)):
                lines.add("\0".join(child.cmdline()))
        except psutil.Error:
            pass
        threading.Event().wait(LOOK_S)


def stored_texts(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield every file as text; Parquet is decoded, for its pages are compressed."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".parquet":
            yield path, str(pl.read_parquet(path).to_dicts())
        elif path.is_file():
            yield path, path.read_bytes().decode("utf-8", "replace")


@pytest.mark.slow
def test_no_key_is_stored_shown_or_on_a_command_line(demo_data, empty, tmp_path):
    file, output, lines = tmp_path / "hidden.toml", tmp_path / "run", set[str]()
    output.mkdir()
    shutil.copy(empty, output / "mlflow.db")  # making its tables takes seconds
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    options = {"cwd": ROOT, "env": {**environment, "ECHO_KEY": KEY}, "text": True, "stdout": subprocess.PIPE}
    program = [sys.executable, "-m", "orchestrator"]
    with service(repeat_key) as echo:
        file.write_text(SWEEP.format(data=demo_data, url=echo.url))
        process = subprocess.Popen([*program, "run", file, "--output", output], stderr=subprocess.STDOUT, **options)
        watcher = threading.Thread(target=watch_command_lines, args=(process, lines))
        watcher.start()
        printed, _ = process.communicate(timeout=300)
        watcher.join()
        assert set(echo.keys) == {f"Bearer {KEY}"}, "the service itself gets the key"

    reported = subprocess.run([*program, "report", output], stderr=subprocess.STDOUT, timeout=300, **options)
    texts = dict(stored_texts(output))
    assert {"mlflow.db", "report.html"} <= {path.name for path in texts}
    assert any("your key is ***" in text.lower() for text in texts.values()), "replies were stored"
    assert [(path.name, parts) for path, text in texts.items() if (parts := parts_of_key(text))] == []
    assert len(lines) > 5 and [line for line in lines if parts_of_key(line)] == []
    assert parts_of_key(printed + reported.stdout) == []


@pytest.mark.slow
def test_a_key_that_no_header_can_carry_is_one_sentence(demo_data, tmp_path):
    file, output = tmp_path / "hidden.toml", tmp_path / "run"
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    file.write_text(SWEEP.format(data=demo_data, url="http://127.0.0.1:9/v1"))
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "run", str(file), "--output", str(output)],
        cwd=ROOT, env={**environment, "ECHO_KEY": "clé-ünïcødé-12345"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr + done.stdout
    assert "ECHO_KEY" in done.stderr and "ünïcødé" not in done.stderr + done.stdout
