"""Records for Inspect and Every Eval Ever are those of the golden files, field by field: their readers know no other names.

``UPDATE_GOLDEN=1 pytest tests/orchestrator/export/test_golden_exports.py`` writes the files anew.
"""

import json
import os
import re
from pathlib import Path
from zipfile import ZipFile

import pytest

from orchestrator.export.export import export
from tests.orchestrator.report.runs import play_export_run

GOLDEN = Path(__file__).with_name("golden")
CHANGING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{22,64}\b|\b\d{10}\b|\d{4}-\d\d-\d\dT[0-9:.+]+|attachment://\w+|data:image\S+"
)
"""Hashes, times and pictures, which differ between machines or moments."""
VOLATILE = {"version", "latency_ms", "total_time", "packages", "location", "eval_library"}


@pytest.fixture(scope="module")
def run(demo_data, tmp_path_factory):
    return play_export_run(tmp_path_factory.mktemp("run") / "run", demo_data, "A. First.")


def steady(value, name=""):
    """Return the JSON with what changes from run to run as ``...``."""
    if name in VOLATILE:
        return "..."
    if isinstance(value, dict):
        return {CHANGING.sub("...", key): steady(entry, key) for key, entry in value.items()}
    if isinstance(value, list):
        return [steady(entry) for entry in value]
    if isinstance(value, str):
        return CHANGING.sub("...", value)
    return round(value, 9) if isinstance(value, float) else value


def check(name, content):
    text = json.dumps(steady(content), indent=1, ensure_ascii=False) + "\n"
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")

    assert path.read_text(encoding="utf-8") == text


def test_a_record_of_every_eval_ever_and_its_first_lines(run, tmp_path):
    export(run, "every-eval-ever", tmp_path / "out", by="a lab")
    record = next(path for path in sorted((tmp_path / "out").rglob("*.json")) if "uniform" in str(path))
    lines = [json.loads(line) for line in next(record.parent.glob("*_samples.jsonl")).read_text("utf-8").splitlines()]

    check("every-eval-ever.json", json.loads(record.read_text("utf-8")))
    check(
        "every-eval-ever-lines.json", [lines[0], *(line for line in lines if line["evaluation"]["num_turns"] > 1)][:2]
    )


@pytest.fixture(scope="module")
def logs(run, tmp_path_factory):
    """Task of the policy ``ask-properly`` -> the members of its log."""
    folder = tmp_path_factory.mktemp("inspect") / "out"
    read = {}
    for name in export(run, "inspect", folder, by="a lab"):
        if name.endswith(".eval"):
            with ZipFile(folder / name) as log:
                members = {member: json.loads(log.read(member)) for member in sorted(log.namelist())}
            header = members["header.json"]["eval"]
            if header["model"] == "ask-properly":
                read[header["task"]] = members
    return read


def test_logs_are_one_per_condition_and_protocol(logs):
    assert sorted(logs) == sorted(TASKS)


TASKS = tuple(f"proactivebench-{name}" for name in ("hint", "hint-oeg", "zero-shot", "zero-shot-oeg"))


@pytest.mark.parametrize("task", TASKS[:2])
def test_a_log_of_inspect_and_one_of_its_samples(logs, task):
    samples = [name for name in logs[task] if name.startswith("samples/")]

    assert len(samples) == 20
    name = task.replace("/", "-")
    check(f"inspect-{name}-header.json", logs[task]["header.json"])
    check(f"inspect-{name}-sample.json", logs[task][samples[0]])
