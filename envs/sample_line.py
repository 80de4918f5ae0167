"""Parses and validates one line of a published file: a ``Sample`` can be played to every end, and ``BadSample`` says why not."""

import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from math import isfinite
from string import Formatter
from typing import Any

from envs import SCENARIOS
from envs.answers import as_text
from envs.scenario import Scenario, suggestions
from envs.types import Mode, Move, Sample

LONGEST_TEMPLATE = 512
"""Characters of an image template; a published one has about 80."""
LONGEST_REASON = 300
"""Characters of a reason, which may quote a line of a megabyte."""
DEEPEST = 16
"""Levels of nested lists and objects; hundreds of levels can be read, but not sent to a worker."""
LARGEST_NUMBER = 1 << 53
"""JSON readers disagree about larger whole numbers (RFC 8259, section 6)."""
LARGEST_FRAME = 1_000_000
"""Frame numbers are stored in 32 bits."""
MOST_TURNS = 10_000
"""Most turns of one episode; published ones have hundreds at most. A policy that only asks plays all of them."""
MOST_OPTIONS = 32
"""Most options and categories of one question: letters follow A by code point, and the 33rd is ``a``, which reads as A."""


TEXTS = ("prompt", "image_template", "answer")
LISTS = ("options", "categories")
FRAMES = dict.fromkeys(("first_image", "reference_image"), (0, LARGEST_FRAME))
NUMBERS = {"id": (0, LARGEST_NUMBER), "num_images": (1, LARGEST_FRAME), **FRAMES}
"""Field -> its smallest and its largest whole number."""
COMMON_FIELDS = (*TEXTS, *NUMBERS, *LISTS)
"""Fields of every scenario; all others are in ``Sample.extra``."""


class BadSample(ValueError):
    """The reason why a line is not a sample; a long reason is cut in its middle."""

    def __init__(self, reason: str) -> None:
        half = LONGEST_REASON // 2
        super().__init__(reason if len(reason) <= LONGEST_REASON else f"{reason[:half]} ... {reason[-half:]}")


def parse_sample(line: str | bytes, scenario: str) -> Sample:
    """Parse one line; raises BadSample with the first reason against it."""
    entry = _parse_object(line)
    for name in COMMON_FIELDS:
        if name not in entry:
            raise BadSample(f"the field {name!r} is missing")
        if wanted := _describe_misfit(name, entry[name]):
            raise BadSample(f"{name} must be {wanted}, not {entry[name]!r}")
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
        extra={name: value for name, value in entry.items() if name not in COMMON_FIELDS},
        digest=_digest(entry),
    )
    if reason := next(_find_reasons(sample, SCENARIOS[scenario]), ""):
        raise BadSample(reason)
    return sample


# -- types -------------------------------------------------------------------------------------------------------------
def _parse_object(line: str | bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line if isinstance(line, str) else line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise BadSample("is not JSON") from None
    if not isinstance(entry, dict):
        raise BadSample(f"is not a JSON object but {type(entry).__name__}")
    _check_value(entry, DEEPEST)
    return entry


def _check_value(value: object, levels: int) -> None:
    """Check the depth of lists and objects, and the size of numbers in them."""
    if isinstance(value, dict | list):
        if not levels:
            raise BadSample(f"holds lists or objects more than {DEEPEST} deep")
        for child in value.values() if isinstance(value, dict) else value:
            _check_value(child, levels - 1)
    elif isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        raise BadSample(f"holds the number {value}, which is beyond {LARGEST_NUMBER}")
    elif isinstance(value, float) and not isfinite(value):
        raise BadSample(f"holds {value}, which is not JSON or a number that is too large")


def _describe_misfit(name: str, value: Any) -> str:
    """Return what a common field must be if it is something else; empty if it fits."""
    if name in TEXTS:
        return "" if isinstance(value, str) and value else "a non-empty text"
    if name in LISTS:
        fits = isinstance(value, list) and value and all(isinstance(text, str) for text in value)
        return "" if fits else "a non-empty list of texts"
    least, most = NUMBERS[name]
    return "" if type(value) is int and least <= value <= most else f"a whole number from {least} to {most}"


def _digest(entry: Mapping[str, Any]) -> str:
    canonical = json.dumps(entry, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    try:
        return blake2b(canonical.encode(), digest_size=8).hexdigest()
    except UnicodeEncodeError:
        raise BadSample("holds a lone surrogate (half a character), which UTF-8 cannot store") from None


# -- rules -------------------------------------------------------------------------------------------------------------
def _find_reasons(sample: Sample, game: Scenario) -> Iterator[str]:
    """Yield the reasons why a sample cannot be played; each check relies on those before it, so only the first one counts."""
    yield from _check_template(sample.image, game)
    yield from _check_answers(sample)
    yield from game.problems(sample)
    limit = game.limit(sample)
    if limit != int(limit) or not 1 <= limit <= MOST_TURNS:
        yield f"an episode would last {limit!r} turns; a whole number from 1 to {MOST_TURNS} can be played"
    yield from _check_moves(sample, game)


def _check_template(template: str, game: Scenario) -> Iterator[str]:
    """Check that the template names only known fields and stays inside the data folder."""
    first, *rest = template.split("/")
    if not template.isprintable() or len(template) > LONGEST_TEMPLATE:
        yield f"image_template {template!r} must be at most {LONGEST_TEMPLATE} printable characters"
    if first in ("", "..") or first[0] == "~" or ":" in first or "\\" in template or ".." in rest:
        yield f"image_template {template!r} must be relative to the data folder and stay in it"
    if not game.placeholders:
        return
    try:
        fields = [field for _, *field in Formatter().parse(template) if field[0] is not None]
    except ValueError:
        fields = [["", "", None]]
    if any(name not in game.placeholders or spec or conversion for name, spec, conversion in fields):
        allowed = ", ".join(f"{{{name}}}" for name in game.placeholders)
        yield f"image_template {template!r} may hold only {allowed}, without formatting"


def _check_answers(sample: Sample) -> Iterator[str]:
    texts = [as_text(category) for category in sample.categories]
    if sample.answer not in sample.categories:
        yield f"answer {sample.answer!r} is not among the categories"
    elif sample.categories[texts.index(as_text(sample.answer))] != sample.answer:  # the package asserts this too
        reason = f"categories {list(sample.categories)!r}: an earlier one reads like the answer {sample.answer!r}"
        yield f"{reason}, so no reply could tell them apart"
    if len(sample.options) + len(sample.categories) > MOST_OPTIONS:
        yield f"there are more than {MOST_OPTIONS} options and categories, so two letters would read alike"
    if not suggestions(sample.options):
        yield "options hold no suggestion, so there is nothing to ask for"


def _check_moves(sample: Sample, game: Scenario) -> Iterator[str]:
    """Check that every suggestion that can count holds the cue of one possible move.

    The package (``_parse_action``) raises if there are two cues, even of one move, except for MVP-N.
    """
    moves = game.moves(sample)
    # random-proactive hides no suggestion at the edge of a video or of a picture
    for ask in game.askable(sample, game.initial(sample, Mode.RANDOM)):
        cues = [cue for cue, move in game.cue.items() if cue in ask.lower() and move in moves]
        if not cues:
            yield f"option {ask!r} stands for no move of {sample.scenario}"
        elif len(cues) > 1 and {game.cue[cue] for cue in cues} != {Move.ROTATE}:
            yield f"option {ask!r} holds more than one cue of {sample.scenario}: {', '.join(map(repr, cues))}"
