"""Errors that a user can correct: one sentence on standard error and an exit code, never a traceback.

Commands and options of earlier releases are in ``removed.toml``, with what to type instead.

Exit codes: 2 for such an error, 130 if the user stopped the command. Any other error is a bug and is raised.
"""

import os
import signal
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from typer.exceptions import TyperException

from actors.text.printable import one_line
from envs.errors import UserError
from envs.installed import install_line

USAGE, INTERRUPTED = 2, 130
REMOVED: dict[str, Any] = tomllib.loads(Path(__file__).with_name("removed.toml").read_text(encoding="utf-8"))


@contextmanager
def report_user_errors() -> Iterator[None]:
    """Turn user errors into one sentence on standard error and an exit code."""
    try:
        yield
    except UserError as mistake:
        raise _exit(str(mistake), mistake.exit_code) from None
    except TyperException as mistake:  # an argument that a command does not take
        if type(mistake).__name__ == "NoArgsIsHelpError":
            raise
        raise _exit(_describe_usage(mistake), USAGE) from None
    except KeyboardInterrupt:
        raise _exit("stopped; stored results are kept, rerun the same command to resume", INTERRUPTED) from None
    except OSError as problem:
        if problem.filename is None:
            raise
        raise _exit(f"{problem.filename}: {problem.strerror}", USAGE) from None


def _describe_usage(mistake: Any) -> str:
    """Return what to type instead of an option of an earlier release, or else what the parser says."""
    removed = removed_sentence(path_of(mistake.ctx, mistake.option_name)) if hasattr(mistake, "option_name") else ""
    return removed or f"{one_line(mistake.format_message()).rstrip('.')}. Type --help to see the options."


def path_of(context: Any, word: str) -> str:
    """Return a command or option after the names of the commands above it, without the program's."""
    while context is not None and context.parent is not None:
        word, context = f"{context.info_name} {word}", context.parent
    return word


def removed_sentence(typed: str) -> str:
    """Return what to type instead of a command, or of a command and its option; empty if neither was ever there."""
    if extra := REMOVED["in_extras"].get(typed):
        return f"`{typed}` belongs to an extra that is not installed; type {install_line(extra)}"
    if line := REMOVED["renamed"].get(typed):
        return f"`{typed}` is gone; type {line}"
    return f"`{typed}` is gone; 0.2.0 was the last with it" if typed in REMOVED["last_in_0_2_0"] else ""


@contextmanager
def keep_exit_code() -> Iterator[None]:
    """Keep a command's exit code even if a signal interrupts the clean-up of Ray and Python.

    If its clean-up is interrupted, Ray leaves a traceback and sometimes a segmentation fault.
    """
    try:
        yield
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # ignored under nohup
                signal.signal(number, lambda *_: os._exit(code))
        raise


def _exit(sentence: str, code: int) -> typer.Exit:
    print(one_line(f"proactive-sweep: {sentence}"), file=sys.stderr)
    return typer.Exit(code)
