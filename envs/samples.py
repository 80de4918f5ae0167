"""Reads the samples of a data folder, and selects those that a sweep plays; a bad line becomes a sentence with file and line."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random

from envs import SCENARIOS, regular
from envs.bad_lines import Problem, refusal
from envs.chance import chance
from envs.errors import UserError
from envs.sample_line import BadSample, parse_sample
from envs.types import Sample

LONGEST_LINE = 1 << 20
"""Bytes; a published line has about 600."""
OPEN_ENDED = 100
"""Samples per scenario in the paper's open-ended evaluation."""


class BadData(UserError, ValueError):
    """A data folder that the user must correct; the message names file and line."""


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
    folder: Path, scenario: str, filtered: bool = True, skipped: list[Problem] | None = None
) -> list[Sample]:
    """Return the samples of a scenario in file order; raises BadData for a bad line or a missing file.

    If ``skipped`` is a list, bad lines are appended to it and raise nothing.
    """
    samples, problems = read_samples(folder, scenario)
    if problems and (skipped is None or not all(problem.line for problem in problems)):
        raise BadData(refusal(problems, folder))
    if skipped is not None:
        skipped += problems
    evaluated = [sample for sample in samples if is_evaluated(sample, filtered)]
    if not evaluated:
        filters = (
            " that the paper's filter keeps; type --set selection.filtered=false"
            if filtered
            else " with strong occlusion"
        )
        raise BadData(f"{lines_file(folder, scenario)} holds no sample{filters if samples else ''}")
    return evaluated


def read_samples(folder: Path, scenario: str) -> tuple[list[Sample], list[Problem]]:
    """Return all valid samples of a scenario, and all bad lines; a missing file is one problem."""
    path, root, resolved = lines_file(folder, scenario), os.path.realpath(folder), dict[str, str]()
    samples: dict[int, Sample] = {}
    problems: list[Problem] = []
    for number, line in _read_lines(path, problems):
        try:
            sample = parse_sample(line, scenario)
            if sample.id in samples:
                raise BadSample(f"id {sample.id} occurs twice")
            if _leads_outside(sample.image, root, resolved):
                raise BadSample(f"image_template {sample.image!r} leads out of the data folder through a link")
        except BadSample as reason:
            problems.append(Problem(path.name, number, str(reason)))
            continue
        samples[sample.id] = sample
    return list(samples.values()), problems


def lines_file(folder: Path, scenario: str) -> Path:
    """Return the path of a scenario's data file."""
    return folder / f"{SCENARIOS[scenario].stem}_preprocessed.jsonl"


def _read_lines(path: Path, problems: list[Problem]) -> Iterator[tuple[int, str]]:
    """Yield numbered lines of text, and add the others to ``problems``; a line that is too long is never kept in memory."""
    try:
        file = regular.open_file(path)
    except OSError as problem:  # missing, no permission, a link to itself, a pipe, a name that no disk can hold
        reason = f"cannot be read ({problem.strerror or problem})"
        if isinstance(problem, FileNotFoundError):
            reason = "is not there; `proactive-sweep data demo DIR` draws a small benchmark"
        problems.append(Problem(str(path), 0, reason))
        return
    with file:
        number, in_long_line = 0, False
        while chunk := file.readline(LONGEST_LINE):
            ends = chunk.endswith(b"\n") or len(chunk) < LONGEST_LINE
            if not in_long_line:
                number += 1
                if not ends:
                    problems.append(Problem(path.name, number, f"is longer than {LONGEST_LINE} bytes"))
                elif chunk.strip():
                    try:
                        yield number, chunk.decode("utf-8-sig" if number == 1 else "utf-8")
                    except UnicodeDecodeError:
                        problems.append(Problem(path.name, number, "is not UTF-8 text"))
            in_long_line = not ends


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
    selected = open_ended_subset(samples) if subset == "open-ended" else list(samples)
    if ids is not None:
        selected = samples_by_id(selected, ids)
    return selected if limit is None else limit_samples(selected, limit, seed)


def limit_samples(samples: Sequence[Sample], limit: int, seed: int) -> list[Sample]:
    """Draw ``limit`` samples by seed and keep their order; a larger limit draws the same samples and more."""
    ranked = sorted(samples, key=lambda s: (chance(seed, s.scenario, s.id, "selection").random(), s.id))
    ids = {sample.id for sample in ranked[:limit]}
    return [sample for sample in samples if sample.id in ids]


def samples_by_id(samples: Sequence[Sample], ids: Sequence[int]) -> list[Sample]:
    """Return the samples with these ids in file order; raises BadData that names missing ids."""
    wanted_ids = set(ids)
    missing = sorted(wanted_ids - {sample.id for sample in samples})
    if missing:
        scenario = samples[0].scenario if samples else "an empty scenario"
        rest = f" and {len(missing) - 5} more" if missing[5:] else ""
        raise BadData(f"{scenario} has no sample with id {', '.join(map(str, missing[:5]))}{rest} in this selection")
    return [sample for sample in samples if sample.id in wanted_ids]


def open_ended_subset(samples: Sequence[Sample]) -> list[Sample]:
    """Return the paper's open-ended subset: file order, shuffled by seed 0, the first hundred (package: ``tests/oeg.py``)."""
    shuffled = list(samples)
    Random(0).shuffle(shuffled)
    return shuffled[:OPEN_ENDED]
