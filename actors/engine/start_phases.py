"""The phases of an engine's start, as vLLM logs them in the output of its processes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MAX_OUTPUT_BYTES = 1 << 24
"""Most bytes of an output file that are read; a start writes about ten thousand."""
DOWNLOAD = re.compile(r"Time spent downloading weights for \S{1,300}: ([0-9]{1,9}\.[0-9]{1,9}) seconds")
READ = re.compile(r"Loading weights took ([0-9]{1,9}\.[0-9]{1,9}) seconds")
COMPILE = re.compile(r"init engine \([^()]{1,99}\) took [0-9.]{1,19} s \(compilation: ([0-9]{1,9}\.[0-9]{1,9}) s")


@dataclass(frozen=True, slots=True)
class StartPhases:
    """The seconds of each phase of one start, without waiting for other engines to load."""

    download: float = 0.0
    """Fetching weights that the node did not have."""
    read: float = 0.0
    """Reading weights from the node's disk."""
    compile: float = 0.0
    """Compiling kernels, or loading them from the node's compile cache."""
    warm: float = 0.0
    """Everything else: imports, profiling, CUDA graphs, the front end."""

    @property
    def cached(self) -> float:
        """Seconds of a start on a node that already has the weights and the compiled kernels."""
        return self.read + self.warm

    def scaled(self, factor: float) -> StartPhases:
        return StartPhases(self.download * factor, self.read * factor, self.compile * factor, self.warm * factor)


def parse_phases(output: str, seconds: float) -> StartPhases | None:
    """Return the phases of a start that took ``seconds``; None if the engine's output reports no reading of weights."""
    read = READ.findall(output)
    if not read:
        return None
    download, compiled = (max(map(float, line.findall(output)), default=0.0) for line in (DOWNLOAD, COMPILE))
    logged = download + (reading := max(map(float, read))) + compiled
    return StartPhases(download, reading, compiled, max(0.0, seconds - logged))


def read_phases(files: Iterable[str], seconds: float) -> StartPhases | None:
    """Return ``parse_phases`` of the output files of this process and its children."""
    texts = []
    for file in files:
        try:
            with Path(file).open("rb") as output:
                texts.append(output.read(MAX_OUTPUT_BYTES).decode("utf-8", "replace"))
        except OSError:
            continue
    return parse_phases("\n".join(texts), seconds)
