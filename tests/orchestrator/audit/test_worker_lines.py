"""The audit's child process answers each line at once, and newer Pythons are looked for by name."""

import io
import json
import sys
from types import SimpleNamespace

import pytest

from orchestrator.audit import reference_process, reference_worker
from orchestrator.audit.audit import Audit
from orchestrator.audit.records import EpisodeDifference
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


def test_the_package_needs_python_3_12(tmp_path, monkeypatch):
    assert (reference_process.MIN_PYTHON, reference_process.VERSION) == ((3, 12), "0.1.1")
    with pytest.raises(AuditError) as refused:
        reference_process._find_python(str(tmp_path / "python"))
    assert str(refused.value) == (
        f"--python {tmp_path / 'python'} does not start, or is older than Python 3.12, which the package needs"
    )
    monkeypatch.setattr(reference_process, "MIN_PYTHON", (99, 0))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setattr(reference_process.shutil, "which", lambda name: None)
    with pytest.raises(AuditError) as refused:
        reference_process._find_python(None)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert str(refused.value) == (
        f"the package proactivebench needs Python 3.12 or newer, this is {here} and no newer one was found; name one with"
        " --python /path/to/python3.12"
    )


def test_the_newest_python_of_pyenv_is_taken_if_no_name_is_on_the_path(tmp_path, monkeypatch):
    for version in ("3.12.1", "3.13.0"):
        (tmp_path / "versions" / version / "bin").mkdir(parents=True)
        (tmp_path / "versions" / version / "bin/python").touch()
    asked: list[str] = []
    monkeypatch.setattr(reference_process, "MIN_PYTHON", (99, 0))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setattr(reference_process.shutil, "which", lambda name: f"/bin/{name}" if name.endswith("14") else None)
    monkeypatch.setattr(reference_process, "_is_new_enough", lambda path: asked.append(path) or "3.13.0" in path)
    python = str(tmp_path / "versions/3.13.0/bin/python")
    assert reference_process._find_python(None) == python
    assert asked == ["/bin/python3.14", str(tmp_path / "versions/3.12.1/bin/python"), python]


def test_an_audit_lists_twenty_differences_and_counts_what_it_left_out():
    differences = tuple(EpisodeDifference(f"k{number}", "turns", 1, 2, 3) for number in range(21))
    raised = tuple(f"r{number}" for number in range(1_021))
    lines = list(Audit(2_000, 3_000, 1_500, differences, raised, 1_001, 1_002, 1_003).lines())
    assert lines[:20] == [f"k{number}: turns: stored 1, ours 2, package 3" for number in range(20)]
    assert lines[20:40] == [f"r{number}" for number in range(20)]
    assert lines[40:] == [
        "the package raises in 1,021 episodes (docs/decisions/0001), compared up to that turn",
        "1,001 stored episodes are not compared: the data folder lacks their samples; name the run's data folder with --data",
        "1,002 episodes are not compared: their scenarios are not in the published package",
        "1,003 episodes of decision maps and operating curves are not compared: the package has no such question",
        "2,000 episodes, 3,000 turns, 1,500 verdicts: 21 differences",
    ]
    assert list(Audit(2, 3, 0, (), ()).lines()) == ["2 episodes, 3 turns: 0 differences"]
    assert (
        Audit(2, 3, 0, (), raised).clean
        and not Audit(2, 3, 0, (), (), 1).clean
        and not Audit(2, 3, 0, differences, ()).clean
    )
