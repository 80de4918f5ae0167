"""A line of the published files becomes a valid ``Sample``, or one sentence that names its file and line.

What is not a bad line plays to every end; what is one never reaches a sweep.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from random import Random
from string import Formatter
from typing import Any, BinaryIO

from envs import SCENARIOS, regular
from envs.answers import as_text
from envs.bad_lines import Problem, refusal
from envs.chance import chance
from envs.errors import UserError
from envs.scenario import Scenario, suggestions
from envs.types import Mode, Move, Sample

LONGEST_LINE = 1 << 20
"""Bytes; a published line has about 600."""
LONGEST_TEMPLATE = 512
"""Characters of an image template; a published one has about 80."""
LONGEST_REASON = 300
"""Characters of a sentence about a line: a line may hold a megabyte, and its reason is for reading."""
DEEPEST = 16
"""Lists and objects inside one another; what is nested hundreds deep could be read, and then not be sent to a worker."""
LARGEST_NUMBER = 1 << 53
"""Whole numbers beyond it are not the same in every JSON reader (RFC 8259, section 6), nor as floats."""
LARGEST_FRAME = 1_000_000
"""A frame's number is kept in 32 bits."""
MOST_TURNS = 10_000
"""Turns of one episode; the longest published game has hundreds. A policy that only asks plays all of them."""
OPEN_ENDED = 100
"""Samples a scenario in the paper's open-ended evaluation."""

MOST_OPTIONS = 32
"""Options and categories of one question: letters run on from A by code point, and the 33rd is a small a."""

TEXTS = ("prompt", "image_template", "answer")
NUMBERS = ("id", "first_image", "num_images", "reference_image")
LISTS = ("options", "categories")
NAMED = frozenset((*TEXTS, *NUMBERS, *LISTS))


class BadSample(ValueError):
    """Why a line is no sample; a reason that quotes too much is cut in its middle."""

    def __init__(self, reason: str) -> None:
        half = LONGEST_REASON // 2
        super().__init__(reason if len(reason) <= LONGEST_REASON else f"{reason[:half]} ... {reason[-half:]}")


class BadData(UserError, ValueError):
    """A data folder that the user must mend; the message says which file and line."""


@cache
def paper_ids() -> Mapping[str, frozenset[int]]:
    """Scenario -> ids that the paper evaluates, 7,557 in all (package: ``data_utils.FILTER``)."""
    table = json.loads(Path(__file__).with_name("kept_ids.json").read_text(encoding="utf-8"))
    return {name: frozenset(table[name]) for name in SCENARIOS}


def is_evaluated(sample: Sample, filtered: bool) -> bool:
    """Return True if a sample is played: its occlusion is not weak and, if ``filtered``, the paper's filter keeps its id.

    The package drops weak occlusions with and without the filter (``JSONLDataset.skip_args``): 63 lines of VSOD stay. The
    filter keeps every sample of a scenario that is none of the paper's.
    """
    strong = sample.extra.get("strong_occlusions", True) != 0
    known = paper_ids().get(sample.scenario)
    return strong and (not filtered or known is None or sample.id in known)


def load_samples(
    folder: Path, scenario: str, filtered: bool = True, skipped: list[Problem] | None = None
) -> list[Sample]:
    """The samples of a scenario in file order; raises BadData if a line is bad or the file is not there.

    With a list for what is ``skipped``, bad lines go there and stop nothing.
    """
    samples, problems = read_samples(folder, scenario)
    if problems and (skipped is None or not all(problem.line for problem in problems)):
        raise BadData(refusal(problems, folder))
    if skipped is not None:
        skipped += problems
    chosen = [sample for sample in samples if is_evaluated(sample, filtered)]
    if not samples:
        raise BadData(f"{lines_file(folder, scenario)} holds no sample")
    if not chosen:
        remedy = (
            " that the paper's filter keeps; --set selection.filtered=false" if filtered else " with strong occlusion"
        )
        raise BadData(f"{lines_file(folder, scenario)} holds no sample{remedy}")
    return chosen


def read_samples(folder: Path, scenario: str) -> tuple[list[Sample], list[Problem]]:
    """All valid samples of a scenario, and all bad lines; a missing file is one problem."""
    path, outside = lines_file(folder, scenario), _Outside(folder)
    samples: list[Sample] = []
    problems: list[Problem] = []
    ids: set[int] = set()
    for number, line in _lines(path, problems):
        try:
            sample = parse_sample(line, scenario)
            if sample.id in ids:
                raise BadSample(f"id {sample.id} occurs twice")
            if outside(sample.image):
                raise BadSample(f"image_template {sample.image!r} leads out of the data folder through a link")
        except BadSample as reason:
            problems.append(Problem(path.name, number, str(reason)))
            continue
        ids.add(sample.id)
        samples.append(sample)
    return samples, problems


def parse_sample(line: str, scenario: str) -> Sample:
    """One line as a sample; raises BadSample with the first reason against it."""
    game = SCENARIOS[scenario]
    entry = _object(line)
    _typed(entry)
    sample = Sample(
        scenario=scenario,
        id=entry["id"],
        prompt=entry["prompt"],
        options=tuple(entry["options"]),
        categories=tuple(entry["categories"]),
        answer=entry["answer"],
        image=entry["image_template"],
        first_frame=entry["first_image"],
        frames=entry["num_images"],
        reference_frame=entry["reference_image"],
        extra={name: value for name, value in entry.items() if name not in NAMED},
        digest=_digest(entry),
    )
    for reason in _reasons(sample, game):
        raise BadSample(reason)
    return sample


# -- selections --------------------------------------------------------------------------------------------------------
def select_samples(
    samples: Sequence[Sample],
    limit: int | None = None,
    ids: Sequence[int] | None = None,
    subset: str = "all",
    seed: int = 0,
) -> list[Sample]:
    """The samples that a sweep plays; raises BadData when a named id does not exist."""
    chosen = list(samples)
    if subset == "open-ended":
        chosen = open_ended_subset(chosen)
    if ids is not None:
        chosen = samples_by_id(chosen, ids)
    return chosen if limit is None else limit_samples(chosen, limit, seed)


def limit_samples(samples: Sequence[Sample], limit: int, seed: int) -> list[Sample]:
    """``limit`` samples drawn by seed, in the order given; a larger limit contains the smaller."""
    ranked = sorted(samples, key=lambda s: (chance(seed, s.scenario, s.id, "selection").random(), s.id))
    drawn = {sample.id for sample in ranked[:limit]}
    return [sample for sample in samples if sample.id in drawn]


def samples_by_id(samples: Sequence[Sample], ids: Sequence[int]) -> list[Sample]:
    """The samples with these ids, in file order; raises BadData naming those that are not there."""
    wanted = set(ids)
    missing = sorted(wanted - {sample.id for sample in samples})
    if missing:
        scenario = samples[0].scenario if samples else "an empty scenario"
        more = f" and {len(missing) - 5} more" if missing[5:] else ""
        raise BadData(f"{scenario} has no sample with id {', '.join(map(str, missing[:5]))}{more} in this selection")
    return [sample for sample in samples if sample.id in wanted]


def open_ended_subset(samples: Sequence[Sample]) -> list[Sample]:
    """The paper's open-ended subset: file order, shuffled by seed 0, the first hundred (package: ``tests/oeg.py``)."""
    shuffled = list(samples)
    Random(0).shuffle(shuffled)
    return shuffled[:OPEN_ENDED]


# -- reading -----------------------------------------------------------------------------------------------------------
def lines_file(folder: Path, scenario: str) -> Path:
    """Where a scenario's lines lie."""
    return folder / f"{SCENARIOS[scenario].stem}_preprocessed.jsonl"


def _lines(path: Path, problems: list[Problem]) -> Iterator[tuple[int, str]]:
    """Numbered lines that are text; a line that is too long is skipped without being held."""
    file = _opened(path, problems)
    if file is None:
        return
    with file:
        number, rest = 0, False
        while chunk := file.readline(LONGEST_LINE):
            whole = chunk.endswith(b"\n") or len(chunk) < LONGEST_LINE
            if not rest:
                number += 1
                if not whole:
                    problems.append(Problem(path.name, number, f"is longer than {LONGEST_LINE} bytes"))
                elif chunk.strip():
                    try:
                        yield number, chunk.decode("utf-8-sig" if number == 1 else "utf-8")
                    except UnicodeDecodeError:
                        problems.append(Problem(path.name, number, "is not UTF-8 text"))
            rest = not whole


def _opened(path: Path, problems: list[Problem]) -> BinaryIO | None:
    """The file, or None and a problem; never waits for a pipe nor reads a device without end."""
    try:
        return regular.open_file(path)
    except FileNotFoundError:
        why = "is not there; `proactive-sweep data demo DIR` draws a small benchmark"
    except OSError as problem:  # no permission, a link to itself, a pipe, a name that no disk can hold
        why = f"cannot be read ({problem.strerror or problem})"
    problems.append(Problem(str(path), 0, why))
    return None


def _object(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line, parse_constant=_no_constant, parse_int=_whole, parse_float=_finite)
    except BadSample:
        raise
    except (ValueError, RecursionError):
        raise BadSample("is not JSON") from None
    if not isinstance(entry, dict):
        raise BadSample(f"is not a JSON object but {type(entry).__name__}")
    if _deeper(entry, DEEPEST):
        raise BadSample(f"holds lists or objects more than {DEEPEST} deep")
    return entry


def _no_constant(name: str) -> float:
    raise BadSample(f"is not JSON: {name} is no number")


def _whole(digits: str) -> int:
    if len(digits) > 20 or abs(number := int(digits)) > LARGEST_NUMBER:
        raise BadSample(f"holds the number {digits}, which is beyond {LARGEST_NUMBER}")
    return number


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise BadSample(f"holds the number {digits}, which is too large")
    return number


def _deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(item, levels - 1) for item in inside)


def _typed(entry: Mapping[str, Any]) -> None:
    for name in (*TEXTS, *NUMBERS, *LISTS):
        if name not in entry:
            raise BadSample(f"the field {name!r} is missing")
    for name in TEXTS:
        if not isinstance(entry[name], str) or not entry[name]:
            raise BadSample(f"{name} must be a text, not {entry[name]!r}")
    for name in NUMBERS:
        _count(name, entry[name])
    if entry["num_images"] < 1:
        raise BadSample("num_images must be 1 or more")
    for name in LISTS:
        if not isinstance(entry[name], list) or not entry[name] or not all(isinstance(o, str) for o in entry[name]):
            raise BadSample(f"{name} must be a list of texts, not {entry[name]!r}")


def _count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadSample(f"{name} must be a whole number from 0 up, not {value!r}")
    if name != "id" and value > LARGEST_FRAME:
        raise BadSample(f"{name} must be at most {LARGEST_FRAME}, not {value}")


def _digest(entry: Mapping[str, Any]) -> str:
    canonical = json.dumps(entry, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    try:
        return blake2b(canonical.encode(), digest_size=8).hexdigest()
    except UnicodeEncodeError:
        raise BadSample("holds half a character (a lone surrogate), which no file can keep") from None


# -- checks ------------------------------------------------------------------------------------------------------------
def _reasons(sample: Sample, game: Scenario) -> Iterator[str]:
    """Everything against a typed sample; each part may rely on those before it, so only the first counts."""
    yield from _template(sample, game)
    yield from _answers(sample)
    yield from game.problems(sample)
    yield from _length(sample, game)
    yield from _moves(sample, game)


def _template(sample: Sample, game: Scenario) -> Iterator[str]:
    """The template names only known fields and stays inside the data folder, whatever a file's author wants."""
    template = sample.image
    if not template.isprintable() or len(template) > LONGEST_TEMPLATE:
        yield f"image_template {template!r} must be at most {LONGEST_TEMPLATE} printable characters"
    if template.startswith(("/", "~")) or "\\" in template or ":" in template.split("/")[0]:
        yield f"image_template {template!r} must be relative to the data folder"
    if ".." in template.split("/"):
        yield f"image_template {template!r} must not leave the data folder"
    if not game.placeholders:
        return
    try:
        fields = [(name, spec, mark) for _, name, spec, mark in Formatter().parse(template) if name is not None]
    except ValueError:
        fields = [("", "", None)]
    if any(name not in game.placeholders or spec or mark for name, spec, mark in fields):
        wanted = ", ".join(f"{{{name}}}" for name in game.placeholders)
        yield f"image_template {template!r} may hold only {wanted}, without formatting"


def _answers(sample: Sample) -> Iterator[str]:
    if sample.answer not in sample.categories:
        yield f"answer {sample.answer!r} is not among the categories"
    elif sample.categories[_read_alike(sample)] != sample.answer:
        told = f"categories {list(sample.categories)!r}: an earlier one reads like the answer {sample.answer!r}"
        yield f"{told}, so no reply could tell them apart"
    if len(sample.options) + len(sample.categories) > MOST_OPTIONS:
        yield f"options and categories are more than {MOST_OPTIONS}: their letters would read alike"
    if not suggestions(sample.options):
        yield "options hold no suggestion, so there is nothing to ask for"


def _read_alike(sample: Sample) -> int:
    """Index of the first category that a reply with the answer's text names; the package asserts that it is the answer."""
    return [as_text(category) for category in sample.categories].index(as_text(sample.answer))


def _length(sample: Sample, game: Scenario) -> Iterator[str]:
    """A limit that no count of turns can equal would never end an episode."""
    limit = game.limit(sample)
    if limit != int(limit) or not 1 <= limit <= MOST_TURNS:
        yield f"an episode would last {limit!r} turns; a whole number from 1 to {MOST_TURNS} can be played"


def _moves(sample: Sample, game: Scenario) -> Iterator[str]:
    """Every suggestion that can count must stand for exactly one move of the sample's world (``_parse_action``)."""
    known = game.moves(sample)
    # random-proactive is the mode in which nothing is hidden at the edge of a video or of a picture
    for ask in game.askable(sample, game.initial(sample, Mode.RANDOM)):
        cues = [move for cue, move in game.cue.items() if cue in ask.lower() and move in known]
        if not cues:
            yield f"option {ask!r} stands for no move of {sample.scenario}"
        elif len(cues) > 1 and set(cues) != {Move.ROTATE}:
            yield f"option {ask!r} stands for more than one move of {sample.scenario}"


class _Outside:
    """Tells whether a template's folder lies outside the data folder once links are followed; asks the disk once a folder."""

    def __init__(self, folder: Path) -> None:
        self.root = os.path.realpath(folder).rstrip("/")
        self.known = {"": self.root}

    def __call__(self, template: str) -> bool:
        real = self._real(template.split("{")[0].rpartition("/")[0])
        return real != self.root and not real.startswith(f"{self.root}/")

    def _real(self, folder: str) -> str:
        """The folder with its links followed; what holds it is known after the first template."""
        if folder not in self.known:
            above, _, name = folder.rpartition("/")
            path = f"{self._real(above)}/{name}"
            self.known[folder] = os.path.realpath(path) if os.path.islink(path) else path
        return self.known[folder]
