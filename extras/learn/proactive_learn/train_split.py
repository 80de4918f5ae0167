"""The published train split: states of QD and COCO, one per row, in Parquet files ``train-*.parquet``.

Columns (dataset card of ``tdemin16/ProactiveBench``): prompt, ground_truth, proactive_actions, options, images; others are
ignored. Every row is checked before training; pictures are not decoded here.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from envs.samples import BadData
from orchestrator.datasets.download import DATASET
from orchestrator.datasets.sources import Address, FetchError, RemoteFolder, pin

FOLDER, REMOTE, PATTERN = "train", "data", "train-*.parquet"
ROWS = 26_879
"""Rows of the published split."""
COLUMNS = ("prompt", "ground_truth", "proactive_actions", "options", "images")


@dataclass(frozen=True, slots=True)
class SplitRow:
    """One question with its accepted answers."""

    number: int
    """Index over all files, from 0 on."""
    question: str
    """The user's message, options included."""
    answer: str
    suggestions: tuple[str, ...]
    """The valid suggestions."""
    options: tuple[str, ...]
    """All options, in order."""
    picture: bytes
    """The file's bytes."""


def is_split(folder: Path) -> bool:
    """Return True if a folder holds the split, not a benchmark in the published format."""
    return folder.is_dir() and any(folder.glob(PATTERN))


def read_rows(folder: Path) -> Iterator[SplitRow]:
    """Yield the rows in order. Raises BadData that names file, row and defect."""
    number = 0
    for file in sorted(folder.glob(PATTERN)):
        for columns in _read(file).iter_rows(named=True):
            yield parse_row(columns, number, file.name)
            number += 1


def _read(file: Path) -> pl.DataFrame:
    try:
        frame = pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError) as problem:
        raise BadData(f"{file} is no Parquet file ({str(problem).splitlines()[0]}); fetch it again") from None
    if missing := [name for name in COLUMNS if name not in frame.columns]:
        raise BadData(f"{file} has no column {missing[0]!r}; the published train split has {', '.join(COLUMNS)}")
    return frame.select(COLUMNS)


def parse_row(columns: dict[str, Any], number: int, file: str) -> SplitRow:
    """Check and return one row. Raises BadData."""

    def bad(why: str) -> BadData:
        return BadData(f"row {number} of the split ({file}): {why}")

    options, valid = tuple(columns["options"] or ()), tuple(columns["proactive_actions"] or ())
    if columns["ground_truth"] not in options:
        raise bad(f"the ground truth {columns['ground_truth']!r} is not among its options")
    if unknown := [ask for ask in valid if ask not in options]:
        raise bad(f"the proactive action {unknown[0]!r} is not among its options")
    pictures = [image["bytes"] for image in columns["images"] or () if image and image.get("bytes")]
    if len(pictures) != 1:
        raise bad(f"holds {len(pictures)} pictures; a question has one")
    parts = [part for message in columns["prompt"] or () if message["role"] == "user" for part in message["content"]]
    question = "".join(part["text"] or "" for part in parts if part["type"] == "text")
    if not question:
        raise bad("its prompt has no text of a user")
    return SplitRow(number, question, columns["ground_truth"], valid, options, pictures[0])


def check_split(folder: Path, expected: int = ROWS) -> int:
    """Count the rows. Raises BadData if one is bad or the number differs from the published one."""
    if not is_split(folder):
        raise BadData(f"{folder} holds no {PATTERN}; `proactive-sweep data split DIR` downloads them")
    number = sum(1 for _ in read_rows(folder))
    if number != expected:
        raise BadData(f"{folder} holds {number:,} rows, and the published train split {expected:,}; fetch it again")
    return number


def fetch_split(folder: Path, revision: str | None = None) -> Path:
    """Download the split, by default of the newest commit, into ``folder/train``, check it, and return this folder.

    Files of another commit are removed. Raises FetchError or BadData.
    """
    address, target = pin(Address("hf", DATASET, revision or "", REMOTE)), folder / FOLDER
    source = RemoteFolder(address, target)
    files = {name: size for name, size in source.files.items() if Path(name).match(PATTERN)}
    if not files:
        raise FetchError(f"{address} has no {PATTERN}")
    for name, size in files.items():
        print(f"{name}: {size / 1e6:,.0f} MB")
        source.download(name, target / name)
    for other in target.glob(PATTERN):  # of another commit
        if other.name not in files:
            other.unlink()
    shutil.rmtree(source.arriving, ignore_errors=True)
    print(f"{target}: {check_split(target):,} rows at commit {address.revision}, all good")
    return target
