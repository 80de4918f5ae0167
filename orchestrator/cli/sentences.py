"""What a user reads when a command cannot do what it should: one sentence on standard error, never a traceback.

Exit codes: 2 for what the user can mend, 130 where the user stopped the command. Any other error is a fault of ours and
travels up.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from actors.printable import one_line
from envs.installed import PackageError
from envs.samples import BadData
from orchestrator.inspection.replay import ReplayError
from orchestrator.storage.lock import RunFolderError
from sweeps.sweep_file import SweepError

USAGE, INTERRUPTED = 2, 130


class Commands(TyperGroup):
    """The commands, whose foreseeable errors are sentences wherever they arise, in their arguments too."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was typed."""
        with sentences():
            return super().invoke(ctx)


@contextmanager
def sentences() -> Iterator[None]:
    """Turn the errors that a user can cause into one sentence on stderr and an exit code."""
    try:
        yield
    except (SweepError, BadData, PackageError, RunFolderError, ReplayError) as mistake:
        raise _told(str(mistake), USAGE) from None
    except TyperException as mistake:  # an argument that a command does not take
        if type(mistake).__name__ == "NoArgsIsHelpError":
            raise
        raise _told(f"{one_line(mistake.format_message())} --help says what may be typed", USAGE) from None
    except KeyboardInterrupt:
        raise _told("stopped; what was stored is kept, and the same command goes on", INTERRUPTED) from None
    except OSError as problem:
        if problem.filename is None:
            raise
        raise _told(f"{problem.filename}: {problem.strerror}", USAGE) from None


@contextmanager
def its_exit_code() -> Iterator[None]:
    """What a command ended with is its exit code, also where a signal cuts short what Ray and Python do at exit.

    Interrupted in that, Ray leaves a traceback and now and then a segmentation fault.
    """
    try:
        yield
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                signal.signal(number, lambda *heard: os._exit(code))
        raise


def _told(sentence: str, code: int) -> typer.Exit:
    print(one_line(f"proactive-sweep: {sentence}"), file=sys.stderr)
    return typer.Exit(code)
