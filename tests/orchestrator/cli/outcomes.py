"""What a command printed, and the code with which it ended."""

from typing import Any

import pytest
import typer


def exit_code(command: Any, *arguments: Any, **options: Any) -> int:
    """Call a command that exits, and return its code."""
    with pytest.raises(typer.Exit) as end:
        command(*arguments, **options)
    return end.value.exit_code


def compact_lines(capsys: Any) -> list[str]:
    """Return the printed lines without rules and with single spaces."""
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line.strip(" ─━")]
