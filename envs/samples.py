"""Reads the samples of a data folder, and selects those that a sweep plays; a bad line becomes a sentence with file and line."""

import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import BinaryIO

from envs import SCENARIOS, regular
from envs.chance import chance
from envs.errors import UserError
from envs.plural import pluralize
from envs.sample_line import BadSample, parse_sample
from envs.types import Sample

LONGEST_LINE = 1 << 20
"""Bytes; a published line has about 600."""
OPEN_ENDED = 100
"""Samples per scenario in the paper's open-ended evaluation."""
SHOWN = 3
"""Number of bad lines whose reasons a record keeps."""


ReadSamples = Callable[[Path, str], tuple[list[Sample], list["Problem"]]]
"""The type of ``read_samples``."""


class BadData(UserError, ValueError):
    """A data folder that the user must correct; the message names file and line."""


@dataclass(frozen=True)
class Problem:
    """One bad line or picture, as a sentence."""

    file: str
    line: int
    """0 for the file itself."""
    reason: str

    def __str__(self) -> str:
        return f"{self.file}{f', line {self.line}' if self.line else ''}: {self.reason}"


@dataclass(frozen=True)
class SkippedLines:
    """The bad lines of one scenario's file, which ``skip_bad`` leaves out; equal for the same lines, however they are worded."""

    scenario: str
    lines: int
    numbers: str
    """Hash of their line numbers, 16 hex digits."""
    first: tuple[str, ...] = field(compare=False)
    """The first ``SHOWN`` lines as sentences."""

    def __str__(self) -> str:
        rest = f"; and {self.lines - len(self.first)} more" if self.lines > len(self.first) else ""
        return f"{pluralize(self.lines, 'bad line')} of {self.scenario}: {'; '.join(self.first)}{rest}"


def scenarios_in(folder: Path) -> list[str]:
    """Return the scenarios whose samples a data folder has."""
    return [name for name in SCENARIOS if lines_file(folder, name).is_file()]


def skipped_lines(scenario: str, bad: Sequence[Problem]) -> SkippedLines:
    """Return the record of a scenario's bad lines."""
    numbers = ",".join(str(problem.line) for problem in bad)
    digest = blake2b(numbers.encode(), digest_size=8).hexdigest()
    return SkippedLines(scenario, len(bad), digest, tuple(map(str, bad[:SHOWN])))


@cache
def paper_ids() -> Mapping[str, frozenset[int]]:
    """Return the ids that the paper evaluates by scenario, 7,557 in all (package: ``data_utils.FILTER``)."""
    table = json.loads(Path(__file__).with_name("kept_ids.json").read_text(encoding="utf-8"))
    return {name: frozenset(table[name]) for name in SCENARIOS}


def is_evaluated(sample: Sample, filtered: bool) -> bool:
    """Return True if a sample is played: its occlusion is not weak and, if ``filtered``, the paper evaluates its id.

    The package drops weak occlusions with and without the filter (``JSONLDataset.skip_args``): 63 lines of VSOD remain.
    The filter keeps every sample of scenarios that are not the paper's.
    """
    strong = sample.extra.get("strong_occlusions", True) != 0
    ids = paper_ids().get(sample.scenario)
    return strong and (not filtered or ids is None or sample.id in ids)


def load_samples(
    folder: Path, scenario: str, filtered: bool = True, skip_bad: bool = False, read: ReadSamples | None = None
) -> list[Sample]:
    """Return the samples of a scenario in file order; raises BadData for a bad line or a missing file.

    ``skip_bad`` leaves bad lines out. ``read`` is ``read_samples``, or a cache of it.
    """
    samples, problems = (read or read_samples)(folder, scenario)
    can_skip = all(problem.line for problem in problems)
    if problems and not (skip_bad and can_skip):
        raise BadData(_refuse(problems, folder, can_skip))
    evaluated = [sample for sample in samples if is_evaluated(sample, filtered)]
    if not evaluated:
        remedy = "that the paper's filter keeps; type --set selection.filtered=false"
        kind = f" {remedy if filtered else 'with strong occlusion'}" if samples else ""
        raise BadData(f"{lines_file(folder, scenario)} holds no sample{kind}")
    return evaluated


def _refuse(problems: Sequence[Problem], folder: Path, can_skip: bool) -> str:
    """Return why a file is not loaded, and what to type."""
    listing = f"`proactive-sweep data check {shlex.quote(str(folder))}` lists them"
    rest = f" (and {len(problems) - 1} more: {listing})" if problems[1:] else ""
    remedy = "; correct the file, or type --set skip_bad=true to leave bad lines out" if can_skip else ""
    return f"{problems[0]}{rest}{remedy}"


def read_samples(folder: Path, scenario: str) -> tuple[list[Sample], list[Problem]]:
    """Return all valid samples of a scenario, and all bad lines; a missing file is one problem."""
    path, root, resolved = lines_file(folder, scenario), os.path.realpath(folder), dict[str, str]()
    samples: dict[int, Sample] = {}
    problems: list[Problem] = []
    try:
        file = regular.open_file(path)
    except OSError as problem:  # missing, no permission, a link to itself, a pipe, a name that no disk can hold
        is_missing = isinstance(problem, FileNotFoundError)
        remedy = "is not there; `proactive-sweep data demo DIR` draws a small benchmark"
        reason = remedy if is_missing else f"cannot be read ({problem.strerror or problem})"
        return [], [Problem(str(path), 0, reason)]
    with file:
        for number, line in enumerate(_read_lines(file), 1):
            try:
                if len(line) > LONGEST_LINE:
                    raise BadSample(f"is longer than {LONGEST_LINE} bytes")
                if not line.strip():
                    continue
                sample = parse_sample(line, scenario)
                if sample.id in samples:
                    raise BadSample(f"id {sample.id} occurs twice")
                if _leads_outside(sample.image, root, resolved):
                    raise BadSample(f"image_template {sample.image!r} leads out of the data folder through a link")
                samples[sample.id] = sample
            except BadSample as reason:
                problems.append(Problem(path.name, number, str(reason)))
    return list(samples.values()), problems


def lines_file(folder: Path, scenario: str) -> Path:
    """Return the path of a scenario's data file."""
    return folder / f"{SCENARIOS[scenario].stem}_preprocessed.jsonl"


def _read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield every line, and of a line that is too long its beginning, so that memory stays bounded."""
    while line := file.readline(LONGEST_LINE + 1):
        yield line
        while len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            line = file.readline(LONGEST_LINE + 1)


def _leads_outside(template: str, root: str, resolved: dict[str, str]) -> bool:
    """Return True if links lead the template's folder out of the data folder ``root``; ``resolved`` remembers folders."""
    folder = template.split("{")[0].rpartition("/")[0]
    if folder not in resolved:
        resolved[folder] = os.path.realpath(os.path.join(root, folder))
    return resolved[folder] != root and not resolved[folder].startswith(f"{root.rstrip('/')}/")


# -- selections --------------------------------------------------------------------------------------------------------
def select_samples(
    samples: Sequence[Sample],
    limit: int | None = None,
    ids: Sequence[int] | None = None,
    subset: str = "all",
    seed: int = 0,
) -> list[Sample]:
    """Return the samples that a sweep plays; raises BadData for an id that does not exist."""
    selected = list(samples)
    if subset == "open-ended":  # of the paper: shuffled by seed 0, the first hundred (package: ``tests/oeg.py``)
        Random(0).shuffle(selected)
        selected = selected[:OPEN_ENDED]
    if ids is not None:
        selected = _find_ids(selected, ids)
    return selected if limit is None else limit_samples(selected, limit, seed)


def limit_samples(samples: Sequence[Sample], limit: int, seed: int) -> list[Sample]:
    """Draw ``limit`` samples by seed and keep their order; a larger limit draws the same samples and more."""
    ranked = sorted(samples, key=lambda s: (chance(seed, s.scenario, s.id, "selection").random(), s.id))
    ids = {sample.id for sample in ranked[:limit]}
    return [sample for sample in samples if sample.id in ids]


def _find_ids(samples: Sequence[Sample], ids: Sequence[int]) -> list[Sample]:
    wanted_ids = set(ids)
    missing = sorted(wanted_ids - {sample.id for sample in samples})
    if missing:
        scenario = samples[0].scenario if samples else "an empty scenario"
        rest = f" and {len(missing) - 5} more" if missing[5:] else ""
        raise BadData(f"{scenario} has no sample with id {', '.join(map(str, missing[:5]))}{rest} in this selection")
    return [sample for sample in samples if sample.id in wanted_ids]
