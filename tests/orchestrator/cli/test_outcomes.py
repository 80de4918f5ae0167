"""What commands print of an outcome, and their exit codes: engines, trainers and downloads are stood in for by their results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from orchestrator.cli import (
    data,
    models,
    run,
    train,
)
from orchestrator.execution.results import AttemptOutcome
from orchestrator.inspection.model_try import Proof, Row
from sweeps.spec import ModelSpec
from tests.orchestrator.cli.outcomes import compact_lines, exit_code
from tests.orchestrator.cli.test_exact_lines import TRAIN

MODEL = ModelSpec(name="m", source="org/m")


# -- models ------------------------------------------------------------------------------------------------------------


def test_a_trial_is_said_at_once_and_then_a_table(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    rows = [
        Row("m", 3.25, 1.5, 20.0, 256, 4.125, 8, 1, "c", "ids 2/2", bound="bottleneck: engine"),
        Row("other", wrong="it does not load"),
    ]
    cluster = SimpleNamespace(try_models=lambda *arguments: iter(rows))
    monkeypatch.setitem(sys.modules, "orchestrator.execution.cluster_models", cluster)
    assert exit_code(models.try_models, ["oracle"]) == 1
    printed = capsys.readouterr()
    assert printed.err == "m: ok\nother: it does not load\n"
    assert [" ".join(line.split()) for line in printed.out.splitlines() if line.strip(" ─━")] == [
        "model load time, s GiB tokens/picture episodes/s cut short equal wrong",
        "m 3.2 20.0 GPU + 1.5 host 256 4.12 1 of 8 ids 2/2 nothing", "other - - - - 0 of 0 - it does not load",
        "m: bottleneck: engine",
    ]  # fmt: skip
    rows.pop()
    assert exit_code(models.try_models, ["oracle"], as_json=True) == 0
    assert json.loads(capsys.readouterr().out) == [rows[0].table()] and rows[0].table()["ok"]


def test_a_proof_is_said_at_once_and_then_a_table(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    proof = Proof("oracle", "vllm", "w", "out", "unequal to its certificate", "equal", "all equal", ["dtype: a, now b"])
    monkeypatch.setattr("orchestrator.inspection.model_try.prove_and_store", lambda *arguments: proof)
    assert exit_code(models.prove, ["oracle"]) == 1
    printed = capsys.readouterr()
    assert printed.err == "oracle: unequal to its certificate\n"
    assert [" ".join(line.split()) for line in printed.out.splitlines() if line.strip(" ─━")] == [
        "model engine verdict outcome", "oracle vllm unequal to its certificate all equal",
        "oracle differs from its certificate in out: dtype: a, now b",
    ]  # fmt: skip
    proof.changed.clear()
    assert exit_code(models.prove, ["oracle"], as_json=True) == 0
    assert list(json.loads(capsys.readouterr().out)[0]) == [
        "model", "engine", "weights", "folder", "verdict", "status", "outcome", "changed",
    ]  # fmt: skip


@pytest.mark.parametrize(("missing", "code"), [([], 0), (["m"], 1)])
def test_weights_are_fetched_here_or_on_the_cluster(
    missing: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    fetched: list[str] = []

    def fetch(where: str) -> Any:
        return lambda specs, say: (fetched.append(f"{where}: {specs[0].name}"), say("a\x1b"), missing)[2]

    monkeypatch.setattr("orchestrator.datasets.weights.fetch_all", fetch("here"))
    monkeypatch.setitem(
        sys.modules, "orchestrator.execution.cluster_models", SimpleNamespace(fetch_on_cluster=fetch("there"))
    )
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert exit_code(models.fetch, ["oracle"]) == code
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    assert exit_code(models.fetch, ["oracle"]) == code
    assert fetched == ["here: oracle", "there: oracle"] and capsys.readouterr().out == "a\\x1b\n" * 2


def test_checked_models_are_a_table_or_json_with_their_verdicts(capsys: Any) -> None:
    assert exit_code(models.check, ["oracle"]) == 0
    assert (
        compact_lines(capsys)[0] == "model source architecture pictures chat template decoding memory packages license"
    )
    assert exit_code(models.check, ["oracle"], as_json=True) == 0
    checked = json.loads(capsys.readouterr().out)
    assert (list(checked), checked["notes"], checked["models"][0]["ok"]) == (["models", "notes"], [], True)


# -- runs and trainings ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("steps", "model", "code"), [(1_200, None, 130), (3, "out/model.toml", None)])
def test_a_training_says_its_steps_or_its_model(
    steps: int, model: str | None, code: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (file := tmp_path / "s.toml").write_text(TRAIN)
    folders: list[Path] = []
    student = SimpleNamespace(steps=steps, model=model)
    trainer = SimpleNamespace(train=lambda training, folder: folders.append(folder) or student)
    monkeypatch.setitem(sys.modules, "orchestrator.learning.trainer", trainer)
    if code is None:
        train.train(file, [], "there")
        said = "out/model.toml: play it with `proactive-sweep run SWEEP --model out/model.toml`\n"
    else:
        assert exit_code(train.train, file, [], "") == code
        said = "stopped after 1,200 steps; rerun the same command to resume\n"
    assert capsys.readouterr().out == said and folders == [Path("there" if code is None else "outputs/s")]


@pytest.mark.parametrize(("interrupted", "code"), [(False, 1), (True, 130)])
def test_a_run_counts_its_failed_episodes_and_says_why_groups_ended(
    interrupted: bool, code: int, folder: Path, demo_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:  # fmt: skip
    asked: list[Any] = []

    def play(sweep: Any, output: Path, update: bool, **options: Any) -> AttemptOutcome:
        asked.append((output, update, options))
        rows = pl.DataFrame({"failed": [1_000, 234]})
        return AttemptOutcome(rows, False, interrupted, {"group\x1b": "no GPU"})

    monkeypatch.setitem(sys.modules, "orchestrator.execution.run", SimpleNamespace(run=play))
    monkeypatch.setattr(run, "print_tables", lambda rows, sweep, folder: print("tables"))
    (file := tmp_path / "s.toml").write_text(
        f'name = "s"\ndata = "{demo_data}"\nmodels = ["oracle"]\ntracking = {{ uri = "none" }}\n'
    )
    output = str(tmp_path / "out")
    assert exit_code(run.run, file, output=output, retry="overflow", retry_failed=True) == code
    printed = capsys.readouterr()
    assert printed.err == "group\\x1b: no GPU\n"
    assert printed.out.splitlines() == [
        "tables", f"Results: {output}/results.json", f"Tables, figures and report.html: proactive-sweep report {output}",
        "1,234 episodes failed; rerun with --retry-failed to play them again",
    ] * (not interrupted)  # fmt: skip
    ((path, update, options),) = asked
    assert (path, update, options["reuse"]) == (Path(output), False, []) and set(options["retry"]) == {
        "overflow",
        "failed",
    }


# -- data --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 1)])
def test_a_download_names_its_terms_its_outcome_and_the_key_of_a_sweep_file(
    ok: bool, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    asked: list[Any] = []
    outcome = SimpleNamespace(ok=ok, lines=lambda: ["7 files"])
    monkeypatch.setattr("orchestrator.datasets.download.describe_terms", lambda names: [f"terms of {' '.join(names)}"])
    monkeypatch.setattr(
        "orchestrator.datasets.download.fetch_benchmark", lambda *arguments: asked.append(arguments) or outcome
    )
    folder = tmp_path / "new" / "data"
    assert exit_code(data.fetch, folder, "QD,ROD", "abc", True) == code
    assert asked == [(folder, ["QD", "ROD"], "abc", True)] and folder.is_dir()
    assert capsys.readouterr().out.splitlines() == [
        "terms of QD ROD", "7 files", f'in a sweep file: data = "{folder / "test"}"',
    ]  # fmt: skip


def test_the_states_to_learn_from_are_of_two_scenarios(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("orchestrator.datasets.download.describe_terms", lambda names: [f"terms of {' '.join(names)}"])
    monkeypatch.setattr(
        "orchestrator.datasets.train_split.fetch_split", lambda folder, revision: f"{folder}/{revision}"
    )
    data.fetch(tmp_path, revision="abc", split="train")
    assert capsys.readouterr().out == f'terms of QD COCO\nin a sweep file: [train] data = "{tmp_path}/abc"\n'


@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 1)])
def test_checked_data_are_lines_and_an_exit_code(
    ok: bool, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    asked: list[Any] = []
    outcome = SimpleNamespace(ok=ok, lines=lambda: ["a line\x1b"])
    monkeypatch.setattr("envs.check.check", lambda *names, **options: asked.append((names, options)) or outcome)
    assert exit_code(data.check, tmp_path, "QD") == code
    assert exit_code(data.check, tmp_path, "QD,CIT", unfiltered=True, deep=True) == code
    assert asked == [
        ((tmp_path, ["QD"]), {"filtered": True, "deep": False}),
        ((tmp_path, ["QD", "CIT"]), {"filtered": False, "deep": True}),
    ]
    assert capsys.readouterr().out == "a line\\x1b\n" * 2
