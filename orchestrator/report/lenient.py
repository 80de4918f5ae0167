"""A lenient reading never changes a score: it says what a forgiving reader would have taken a reply for, beside the verdict.

Only a reply that the benchmark could not parse is read again, and it can be the last of its episode alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from envs import SCENARIOS
from envs.answers import FIRST_LETTER, letter
from envs.disguise import disguised
from envs.types import Action, Ending, Mode, Sample
from orchestrator.report.endings import PLACE, state_of
from orchestrator.report.evidence import Evidence

LONGEST = 4_000
"""Characters that are read: a reply may be a megabyte."""
LETTERS = 26

_WRAPPED = re.compile(r"\W{0,8}([A-Za-z])\W{0,8}", re.ASCII)
"""A letter alone, whatever stands round it: ``(A)``, ``**B**``, ``[c].``."""
_LEADING = re.compile(r"[^\w\s]{0,8}([A-Z])\s{0,2}(?:[).:\]*]|-\s)")
"""A capital with its mark before the text: ``B) Rewind the video.``, ``**C**: ...``."""
_ANNOUNCED = re.compile(
    r"\b(?:answer|option|choice|choose|select|pick)\b(?:\s+(?:is|would be|option|letter|choice))*"
    r"[\s:*\"'`(\[{$]{1,8}([A-Z])(?![\w'])(?!\W{0,4}\s(?:or|and)\s|\s{0,2}[/,&]\s{0,2}[A-Z]\b)"
)
"""``Answer: C``, ``The answer is D``, ``I choose option (B)``."""
_LISTED = re.compile(r"(?<![\w'])([A-Z])[).:]")
"""Every capital with a mark: a reply that repeats several options chooses none."""
_NOISE = re.compile(r"[^a-z0-9]+")


def lenient(reply: str, shown: int = LETTERS, texts: Sequence[str] = ()) -> int | None:
    """The index of the option that a forgiving reader takes a reply for, or None; ``shown`` options were lettered.

    In order: a letter alone in any wrapping, a capital with its mark at the start, a letter announced as the answer, the
    text of one of ``texts`` but for case and punctuation. Two different announced letters name nothing.
    """
    text = reply[:LONGEST].strip()
    if alone := _WRAPPED.fullmatch(text):
        return _index(alone[1], shown)
    if leading := _LEADING.match(text):
        return _index(leading[1], shown) if len(set(_LISTED.findall(text))) < 2 else None
    announced = {_index(found, shown) for found in _ANNOUNCED.findall(_capitalless(text))}
    if announced:
        return announced.pop() if len(announced) == 1 else None
    return _by_text(text, texts)


def readings(evidence: Evidence) -> pl.DataFrame:
    """One row an episode that ended with an unparsable reply: key, cell, letter, would.

    ``letter`` is the lenient reading, null where there is none. ``would``: ``correct`` or ``go on`` where the lenient reading
    would have ended the episode otherwise, ``wrong`` where not; null without the sample (then any of 26 letters is read).
    """
    wrong = (pl.col("action") == Action.UNPARSABLE) & (pl.col("ending") == Ending.WRONG)
    last = evidence.last.filter(wrong)
    found = [_read(evidence, tuple(row[:7]), row[7]) for row in last.select(*PLACE, "reply").iter_rows()]
    return last.select("key", "cell").with_columns(
        pl.Series("letter", [one[0] for one in found], dtype=pl.String),
        pl.Series("would", [one[1] for one in found], dtype=pl.String),
    )


def leniency(evidence: Evidence) -> pl.DataFrame:
    """One row a planned cell: unparsable (episodes that ended so), readable (of them, leniently), otherwise.

    ``share_readable`` is percent of the unparsable, ``share_otherwise`` percent of the scored episodes (null where the
    samples are not at hand and something was read); ``would_correct`` counts those that would be correct at once.
    """
    would, read = pl.col("would"), pl.col("letter").is_not_null()
    counted = readings(evidence).group_by("cell").agg(
        pl.len().cast(pl.Int64).alias("unparsable"),
        read.sum().cast(pl.Int64).alias("readable"),
        would.is_in(["correct", "go on"]).sum().cast(pl.Int64).alias("otherwise"),
        would.eq("correct").sum().cast(pl.Int64).alias("would_correct"),
        (read & would.is_null()).any().alias("unknown"),
    )  # fmt: skip
    names = ["cell", "model", "scenario", "condition", "protocol", "scored"]
    rows = evidence.rows.select(names).join(counted, on="cell", how="left")
    rows = rows.with_columns(
        pl.col("unparsable", "readable", "otherwise", "would_correct").fill_null(0), pl.col("unknown").fill_null(False)
    )
    known = pl.when(~pl.col("unknown"))
    return rows.with_columns(
        pl.when(pl.col("unparsable") > 0).then(100 * pl.col("readable") / pl.col("unparsable")).alias("share_readable"),
        known.then(pl.col("otherwise")).alias("otherwise"),
        known.then(pl.col("would_correct")).alias("would_correct"),
        pl.when(~pl.col("unknown") & (pl.col("scored") > 0))
        .then(100 * pl.col("otherwise") / pl.col("scored"))
        .alias("share_otherwise"),
    ).drop("unknown").sort("cell")  # fmt: skip


def _read(evidence: Evidence, place: tuple[str, int, str, int, int, int, int], reply: str) -> tuple[str | None, str | None]:
    sample = evidence.samples.get(place[0], {}).get(place[1])
    if sample is None:
        found = lenient(reply)
        return (None, "wrong") if found is None else (letter(found), None)
    shown, state, game = _shown(sample, place[2], evidence.sweep.seed), state_of(place), SCENARIOS[place[0]]
    view = game.view(shown, state)
    options = (*view.options, *view.categories)
    index = lenient(reply, len(options), options)
    if index is None:
        return None, "wrong"
    after, turn = game.step(shown, state, letter(index))
    if after.ending is Ending.CORRECT:
        return letter(index), "correct"
    return letter(index), "wrong" if turn.move is None else "go on"


def _shown(sample: Sample, mode: str, seed: int) -> Sample:
    """The sample as the condition shows it."""
    return disguised(sample, seed) if mode == Mode.RANDOM else sample


def _index(found: str, shown: int) -> int | None:
    index = ord(found.upper()) - FIRST_LETTER
    return index if index < min(shown, LETTERS) else None


def _capitalless(text: str) -> str:
    """Words in lower case, letters that stand alone as they were: ``The Answer Is D`` -> ``the answer is D``."""
    return re.sub(r"\w{2,}", lambda word: word[0].lower(), text)


def _by_text(text: str, texts: Sequence[str]) -> int | None:
    meant = _plain(text)
    found = [index for index, option in enumerate(texts) if meant and _plain(option) == meant]
    return found[0] if len(found) == 1 else None


def _plain(text: str) -> str:
    return _NOISE.sub(" ", text.lower()).strip()
