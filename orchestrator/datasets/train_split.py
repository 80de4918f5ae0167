"""The published train split: states of QD and COCO, one a row, in Parquet files ``train-*.parquet``.

Columns (dataset card of ``tdemin16/ProactiveBench``): prompt, ground_truth, proactive_actions, options, images; others are
left alone. A row is checked before it is learnt from; nothing here decodes a picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from envs.samples import BadData
from orchestrator.datasets.download import DATASET, Meter, Say
from orchestrator.datasets.hub import Repository
from orchestrator.datasets.remote_files import FetchError

FOLDER, REMOTE, PATTERN = "train", "data", "train-*.parquet"
ROWS = 26_879
"""Rows of the published split."""
COLUMNS = ("prompt", "ground_truth", "proactive_actions", "options", "images")


@dataclass(frozen=True, slots=True)
class Row:
    """One question with what counts as right."""

    number: int
    question: str
    """The user's words as the split has them, options included."""
    answer: str
    suggestions: tuple[str, ...]
    """The valid ones."""
    options: tuple[str, ...]
    """All that are shown, in order."""
    picture: bytes
    """The file's bytes."""


def is_split(folder: Path) -> bool:
    """Whether a folder holds the split, and not a benchmark in the published format."""
    return folder.is_dir() and any(folder.glob(PATTERN))


def rows(folder: Path) -> Iterator[Row]:
    """The rows in order; raises BadData naming file, row and what is wrong with it."""
    number = 0
    for file in sorted(folder.glob(PATTERN)):
        for found in _read(file).iter_rows(named=True):
            yield row(found, number, file.name)
            number += 1


def _read(file: Path) -> pl.DataFrame:
    try:
        frame = pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError) as problem:
        raise BadData(f"{file} is no Parquet file ({str(problem).splitlines()[0]}); fetch it again") from None
    if missing := [name for name in COLUMNS if name not in frame.columns]:
        raise BadData(f"{file} has no column {missing[0]!r}; the published train split has {', '.join(COLUMNS)}")
    return frame.select(COLUMNS)


def row(found: dict[str, Any], number: int, file: str) -> Row:
    """One row, checked; raises BadData."""

    def bad(why: str) -> BadData:
        return BadData(f"{file}, row {number}: {why}")

    options, valid = tuple(found["options"] or ()), tuple(found["proactive_actions"] or ())
    if found["ground_truth"] not in options:
        raise bad(f"the ground truth {found['ground_truth']!r} is not among its options")
    if strange := [ask for ask in valid if ask not in options]:
        raise bad(f"the proactive action {strange[0]!r} is not among its options")
    pictures = [image["bytes"] for image in found["images"] or () if image and image.get("bytes")]
    if len(pictures) != 1:
        raise bad(f"holds {len(pictures)} pictures; a question has one")
    question = "".join(_texts(found["prompt"]))
    if not question:
        raise bad("its prompt has no text of a user")
    return Row(number, question, found["ground_truth"], valid, options, pictures[0])


def _texts(prompt: Any) -> Iterator[str]:
    for message in prompt or ():
        if message["role"] == "user":
            yield from (part["text"] for part in message["content"] if part["type"] == "text" and part["text"])


def check(folder: Path, expected: int = ROWS) -> int:
    """Count the rows; raises BadData where one is bad, or where there are not as many as were published."""
    if not is_split(folder):
        raise BadData(f"{folder} holds no {PATTERN}; `proactive-sweep data fetch DIR --split train` brings them")
    number = sum(1 for _ in rows(folder))
    if number != expected:
        raise BadData(f"{folder} holds {number:,} rows, and the published train split {expected:,}; fetch it again")
    return number


def fetch(folder: Path, revision: str | None = None, say: Say = print, checked: Callable[[Path], int] = check) -> Path:
    """Download the split into ``folder/train`` and check it; raises FetchError or BadData."""
    source = Repository(DATASET, revision or "main", progress=Meter(say))
    files = [file for file in source.files(REMOTE) if Path(file.path).match(PATTERN)]
    if not files:
        raise FetchError(f"{DATASET} at {source.commit} has no {REMOTE}/{PATTERN}")
    place = folder / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    for file in files:
        say(f"{file.path}: {file.size / 1e6:,.0f} MB")
        source.download(file, place / Path(file.path).name)
    say(f"{place}: {checked(place):,} rows at commit {source.commit}, all good")
    return place
