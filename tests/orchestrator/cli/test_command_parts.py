"""What ``run``, ``play``, ``audit``, ``compare`` and ``models flip-rate`` decide before they start, and say at the end."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from envs.errors import UserError
from orchestrator.cli import audit, compare, flip_rate, play, run
from sweeps.load import build

TABLE = {"name": "s", "data": "d", "models": ["uniform"], "conditions": ["hint"]}


def sentence_of(call: Any, *arguments: Any) -> str:
    with pytest.raises(UserError) as refused:
        call(*arguments)
    return str(refused.value)


@pytest.mark.parametrize(
    ("file", "option", "variable", "uri"),
    [
        (None, None, None, "sqlite"), (None, None, "http://v", "http://v"), (None, "none", "http://v", "none"),
        ("http://f", None, "http://v", "http://f"), ("http://f", "http://o", None, "http://o"),
        ("none", None, "http://v", "none"), (None, "", "http://v", "sqlite"),
    ],
)  # fmt: skip
def test_an_option_comes_before_the_file_and_the_file_before_the_variable(
    file: str | None, option: str | None, variable: str | None, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if variable is not None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", variable)
    sweep = build({**TABLE, **({"tracking": {"uri": file}} if file else {})}, "a test")

    assert run._with_tracking(sweep, option).tracking.uri == uri


@pytest.mark.parametrize(("uri", "tracks"), [("sqlite", True), ("none", False)])
def test_the_next_steps_name_the_folder(
    uri: str, tracks: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = build({**TABLE, "output": "outputs/s", "tracking": {"uri": uri}}, "a test")
    run._print_next_steps(sweep, tmp_path)

    assert capsys.readouterr().out.splitlines() == [
        "Results: outputs/s/results.json",
        "Tables, figures and report.html: proactive-sweep report outputs/s",
        *[f"Figures, tables and sample episodes in MLflow: proactive-sweep track {tmp_path}"] * tracks,
    ]


def test_a_person_is_the_only_model_of_a_folder(tmp_path: Path) -> None:
    keys = play._selection("ROD,QD", "all")
    assert keys == {"scenarios": ["ROD", "QD"], "conditions": "all"} and play._selection("", "") == {}
    sweep = play.personal_sweep(str(tmp_path), "Ann-1", {"scenarios": ["QD"]}, ["selection.limit=3"])

    (person,) = sweep.models
    assert (person.name, person.source, person.backend) == ("human-Ann-1", "human:Ann-1", "human")
    assert (sweep.name, sweep.data, sweep.output) == ("play", str(tmp_path), "outputs/play-Ann-1")
    assert (sweep.scenarios, sweep.selection.limit, sweep.tracking.uri) == (("QD",), 3, "none")
    assert [protocol.value for protocol in sweep.protocols] == ["mcqa"]
    assert play.personal_sweep(str(tmp_path), "a" * 60, {}, [], "there").output == "there"


def test_a_person_plays_a_sweep_file_without_its_models(tmp_path: Path) -> None:
    (file := tmp_path / "s.toml").write_text(
        '# A test.\nname = "s"\ndata = "d"\nmodels = ["mine"]\nconditions = ["hint"]\noutput = "o"\nprotocol = ["oeg"]\n'
        '[judge]\nmodel = "rule-judge"\n[[model]]\nname = "mine"\nsource = "org/mine"\n'
    )
    assert play._table(str(file)) == {"name": "s", "data": "d", "conditions": ["hint"]}
    assert play.personal_sweep(str(file), "ann", {}, []).output == "outputs/play-ann"
    assert play._table("s3://bucket/data") == {"name": "play", "data": "s3://bucket/data"}
    assert sentence_of(play._table, "not/there") == (
        "data folder not/there not found; `proactive-sweep data demo not/there` draws a small one"
    )


@pytest.mark.parametrize("name", ["a" * 61, "", "a b", "a/b", "ü"])
def test_a_persons_name_is_one_of_a_file(name: str, tmp_path: Path) -> None:
    assert sentence_of(play.personal_sweep, str(tmp_path), name, {}, []) == (
        f"--as {name!r} must be letters, digits, dots, dashes, plus signs or underscores, 60 at most"
    )


def test_compare_writes_cells_of_several_runs_only(tmp_path: Path) -> None:
    refused = "--csv writes the cells of several runs; name a second run folder, and leave out --power"
    file = tmp_path / "cells.csv"

    assert sentence_of(lambda: compare.compare([tmp_path], csv=file)) == refused
    assert sentence_of(lambda: compare.compare([tmp_path, tmp_path], csv=file, power=True)) == refused


def test_an_audit_takes_a_run_or_answers_with_their_data(tmp_path: Path) -> None:
    both = "--answers requires --data and no run folder: audit --answers FILE --data DIR"
    file = tmp_path / "a.jsonl"

    assert sentence_of(lambda: audit.audit("run", data=tmp_path, answers=file)) == both
    assert sentence_of(lambda: audit.audit("", answers=file)) == both
    assert sentence_of(audit.audit) == "name a run folder, or type --answers FILE.jsonl --data DIR"


def test_paid_requests_are_sent_only_after_a_yes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paid: Any = SimpleNamespace(asks_services=True)
    free: Any = SimpleNamespace(asks_services=False)
    answers: list[str] = []
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: bool(answers)))
    monkeypatch.setattr(typer, "confirm", lambda question: answers.append(question) or len(answers) == 2)

    flip_rate._confirm_services(free, yes=False)
    flip_rate._confirm_services(paid, yes=True)
    assert sentence_of(flip_rate._confirm_services, paid, False) == (
        "this would send paid requests to services; check the costs above and add --yes"
    )
    assert answers == []
    answers.append("a terminal")
    flip_rate._confirm_services(paid, yes=False)
    with pytest.raises(typer.Exit) as end:
        flip_rate._confirm_services(paid, yes=False)
    assert end.value.exit_code == 1 and capsys.readouterr().out == "nothing was played\n"
    assert answers[1:] == ["play these episodes again?"] * 2


def test_only_a_local_run_is_replayed_and_json_keeps_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert flip_rate._local("outputs/s") == Path("outputs/s")
    assert sentence_of(flip_rate._local, "s3://b/f") == "s3://b/f is not a local folder; download it first"
    flip_rate._say("for people\x1b", as_json=False)
    flip_rate._say("for programs", as_json=True)
    assert tuple(capsys.readouterr()) == ("for people\\x1b\n", "for programs\n")
