"""People's labels of answers: which option an answer names.

Labels are only appended to ``option_labels.jsonl``; the newest one per person and answer counts.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from actors.text.printable import FORMULA
from envs import SCENARIOS, regular
from envs.errors import RunFolderError
from envs.types import Sample
from orchestrator.gold.labels import BITS
from orchestrator.storage import safe_write

FILE = "option_labels.jsonl"
NONE = "none"
"""Label of a reply that names no option."""
WORDING = "2: Which option does the answer name?"
"""The question that a person is asked, with its version."""
LARGEST = 256 << 20


class OptionLabel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    key: str = Field(max_length=500)
    labeler: str = Field(min_length=1, max_length=60)
    label: str = Field(pattern=rf"^({NONE}|[0-9]{{1,3}})$")
    """Number of the option in the sample's order, suggestions before categories, from 0 on; or ``none``."""
    unsure: bool = False
    note: str = Field(default="", max_length=500)
    time: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"), max_length=40)
    wording: str = Field(default=WORDING, max_length=200)


COLUMNS = tuple(OptionLabel.model_fields)


class PairAgreement(NamedTuple):
    """The agreement of two people on the answers that both have labeled."""

    first: str
    second: str
    both: int
    """Answers that both have labeled."""
    equal: int
    """Those of them with equal labels."""
    kappa: float | None
    """Cohen's kappa over all labels; None if every label is the same."""


def append_labels(folder: Path, labels: Iterable[OptionLabel]) -> None:
    """Append labels durably. Raises OSError."""
    lines = "".join(label.model_dump_json() + "\n" for label in labels)
    safe_write.append(folder / FILE, lines.encode())


def read_labels(folder: Path) -> dict[tuple[str, str], OptionLabel]:
    """Return the newest label by key and labeler; torn and foreign lines are skipped."""
    labels: dict[tuple[str, str], OptionLabel] = {}
    with suppress(FileNotFoundError):
        for line in regular.read_bytes(folder / FILE, LARGEST).splitlines():
            with suppress(ValidationError):
                label = OptionLabel.model_validate_json(line)
                labels[label.key, label.labeler] = label
    return labels


def to_csv(labels: Iterable[OptionLabel], samples: Mapping[str, Sample], drawn: Mapping[str, str]) -> str:
    """Return labels as CSV with ``COLUMNS`` and what corrects a judge, sorted by key and labeler.

    ``category`` is 1 for the right category, ``suggestion`` for a suggestion that counts as correct in the first turn, and
    ``drawn`` says how the answer was drawn. A value that looks like a formula gets an apostrophe.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*COLUMNS, *BITS, "drawn"])
    for label in sorted(labels, key=lambda label: (label.key, label.labeler)):
        bits = read_bits(label.label, samples[label.key]) if label.key in samples else ("", "")
        writer.writerow([*(disarm(str(getattr(label, name))) for name in COLUMNS), *bits, drawn.get(label.key, "")])
    return file.getvalue()


def read_bits(label: str, sample: Sample) -> tuple[int, int] | tuple[str, str]:
    """Return the category and suggestion bit of a label; empty texts for a number that the sample does not have."""
    options, game = (*sample.options, *sample.categories), SCENARIOS[sample.scenario]
    if label == NONE:
        return 0, 0
    if int(label) >= len(options):
        return "", ""
    option, is_category = options[int(label)], int(label) >= len(sample.options)
    asks = not is_category and option in game.askable(sample, game.initial(sample))
    return int(is_category and option == sample.answer), int(asks)


def from_csv(path: Path) -> list[OptionLabel]:
    """Return the labels of a CSV file; columns beyond key, labeler and label may be missing. Raises RunFolderError."""
    try:
        rows = list(csv.DictReader(io.StringIO(regular.read_bytes(path, LARGEST).decode("utf-8-sig"))))
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise RunFolderError(f"{path} cannot be read as CSV ({problem})") from None
    return [_parse_row(path, number, row) for number, row in enumerate(rows, 2)]


def _parse_row(path: Path, number: int, row: dict[str, str]) -> OptionLabel:
    values: dict[str, object] = {name: rearm(row[name]) for name in COLUMNS if row.get(name)}
    if "unsure" in values:
        values["unsure"] = str(values["unsure"]).lower() in ("1", "true", "yes")
    try:
        return OptionLabel(**values)  # type: ignore[arg-type]
    except ValidationError as problem:
        first = problem.errors()[0]
        raise RunFolderError(
            f"{path}, line {number}: {first['loc'][0]} {first['msg'].lower()}; columns are {', '.join(COLUMNS)}, and label is an "
            f"option's number from 0 on or {NONE}"
        ) from None


def agreements(labels: Iterable[OptionLabel]) -> Iterator[PairAgreement]:
    """Yield the agreement of every two people who have labeled at least one answer in common."""
    by_person: dict[str, dict[str, str]] = {}
    for label in labels:
        by_person.setdefault(label.labeler, {})[label.key] = label.label
    for first, second in combinations(sorted(by_person), 2):
        keys = by_person[first].keys() & by_person[second].keys()
        if keys:
            pairs = [(by_person[first][key], by_person[second][key]) for key in keys]
            equal = sum(label == other_label for label, other_label in pairs)
            yield PairAgreement(first, second, len(pairs), equal, _kappa(pairs))


def _kappa(pairs: list[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa (1960) over categories."""
    total = len(pairs)
    first, second = (Counter(labels) for labels in zip(*pairs, strict=True))
    chance = sum(first[name] * second[name] for name in first) / (total * total)
    equal = sum(label == other_label for label, other_label in pairs) / total
    return None if chance == 1 else (equal - chance) / (1 - chance)


def disarm(text: str) -> str:
    """Return the text as a spreadsheet shows it without computing it."""
    return f"'{text}" if re.match(FORMULA, text.lstrip("'")) else text


def rearm(text: str) -> str:
    """Return the text from which ``disarm`` made this one."""
    return text[1:] if text.startswith("'") and re.match(FORMULA, text.lstrip("'")) else text
