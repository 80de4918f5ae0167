"""The audit's child process answers each line at once, and newer Pythons are looked for by name."""

import io
import json
import sys
from types import SimpleNamespace

import pytest

from orchestrator.audit import reference_process, reference_worker
from orchestrator.audit.reference_process import AuditError


class Flushed(io.StringIO):
    """A pipe whose reader sees what was flushed."""

    seen = ""

    def flush(self):
        self.seen = self.getvalue()


def test_each_task_is_a_line_and_its_answer_is_flushed(tmp_path, monkeypatch):
    (tmp_path / "S_preprocessed.jsonl").write_text(
        '{"id": 3, "options": ["old"], "categories": ["old"], "prompt": "p"}\n'
    )
    given, pipe = [], Flushed()

    class Game:
        def __init__(self, **options):
            given.append((options["entry"], pipe.seen.count("\n")))
            raise ValueError("no")

    environment = SimpleNamespace(get_environment=lambda stem: given.append(stem) or Game)
    modules = {"proactivebench.environment": environment, "proactivebench.open_ended_gen": None}
    monkeypatch.setattr(reference_worker, "import_module", modules.__getitem__)
    task = {
        "stem": "S",
        "id": 3,
        "options": ["x"],
        "categories": ["y"],
        "mode": "play",
        "replies": [],
        "moves": [],
        "hint": 0,
    }
    monkeypatch.setattr(sys, "stdin", io.StringIO(2 * (json.dumps(task) + "\n")))
    monkeypatch.setattr(sys, "stdout", pipe)
    reference_worker.main(tmp_path)
    entry = {"id": 3, "options": ["x"], "categories": ["y"], "prompt": "p"}
    assert given == ["S", (entry, 0), "S", (entry, 1)]
    assert pipe.getvalue() == 2 * '{"turns": [], "ending": null, "raised": "ValueError: no"}\n'
    assert isinstance(environment.random, reference_worker.RecordedMoves) and sys.stdout is sys.stderr


def test_pythons_from_3_12_to_3_15_are_looked_for(tmp_path, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(reference_process, "MIN_PYTHON", (99, 0))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setattr(reference_process.shutil, "which", lambda name: asked.append(name))
    with pytest.raises(AuditError):
        reference_process._find_python(None)
    assert asked == ["python3.12", "python3.13", "python3.14", "python3.15"]
