"""Errors that a user can mend are one sentence on standard error with an exit code; bugs travel up."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
import typer

from envs.errors import UserError
from orchestrator.cli.user_errors import keep_exit_code, report_user_errors

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize(
    ("problem", "code", "sentence"),
    [
        (UserError("no such\nfolder"), 2, "no such folder"),
        (KeyboardInterrupt(), 130, "stopped; stored results are kept, rerun the same command to resume"),
        (FileNotFoundError(2, "No such file", "a/b\x1b"), 2, "a/b\\x1b: No such file"),
        (typer.BadParameter("it is odd."), 2, "Invalid value: it is odd. Type --help to see the options."),
    ],
)
def test_mistakes_are_sentences(
    problem: BaseException, code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as end, report_user_errors():
        raise problem
    captured = capsys.readouterr()
    said = " ".join(captured.err.split())
    assert (end.value.exit_code, captured.out, said) == (code, "", f"proactive-sweep: {sentence}")


@pytest.mark.parametrize("problem", [ZeroDivisionError(), OSError("a pipe broke"), SystemExit(4)])
def test_bugs_travel_up(problem: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(type(problem)), report_user_errors():
        raise problem
    assert capsys.readouterr().err == ""


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_DFL) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("code", "exits"), [(3, 3), (None, 0), ("a sentence", 1), (0, 0)])
@pytest.mark.usefixtures("handlers")
def test_a_signal_during_the_clean_up_keeps_the_exit_code(
    code: int | str | None, exits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with pytest.raises(SystemExit), keep_exit_code():
        raise SystemExit(code)
    for number in NUMBERS:
        signal.raise_signal(number)

    assert ended == [exits, exits], "nohup is respected"
