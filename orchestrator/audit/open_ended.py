"""The audit of open-ended generation: the question, and each judge's reply as we and the package read it.

Compared: picture and question, the accepted answers, and of every stored verdict both readings, ours and the package's
zeros. Not compared: the two hints of the package's example (ours stands in ``envs.stimulus``), the accepted answers of a
clear picture (docs/decisions/0003: the package is told ours), and first replies of a judge that was asked again, which
are not stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from actors.prompts import posed_openly
from envs import SCENARIOS
from envs.openended import Bits, accepted, read_verdict, strict_verdict
from envs.types import Mode
from orchestrator.audit.records import Difference, Recording

READ = ("category", "suggestion", "aggregate")


def task(episode: Recording) -> dict[str, Any]:
    """What the package is given: the sample, and every judge's reply."""
    sample, clear = episode.sample, episode.cell.condition.mode is Mode.REFERENCE
    return {
        "stem": SCENARIOS[sample.scenario].stem, "id": sample.id, "mode": episode.cell.condition.mode.value,
        "options": sample.options, "categories": sample.categories, "scenario": sample.scenario,
        "accepted": ", ".join(accepted(sample, reference=True)) if clear else None,
        "judged": [one["text"] for one in episode.verdicts],
    }  # fmt: skip


def compared(episode: Recording, told: Mapping[str, Any]) -> Iterator[Difference]:
    """What the store, we and the package (``told``, see ``orchestrator.audit.reference_process``) do not agree on."""
    row, sample, condition = episode.row, episode.sample, episode.cell.condition
    clear = condition.mode is Mode.REFERENCE
    state = SCENARIOS[sample.scenario].initial(sample, condition.mode)
    view = posed_openly(sample, state, condition.model_copy(update={"hint": False}))
    answers = accepted(sample, reference=clear)
    for image in row["image"]:
        if image != view.image.key:
            yield Difference(row["key"], "image", image, view.image.key, "not asked")
    crop = view.image.crop and [float(edge) for edge in view.image.crop]
    ours = {"question": [view.image.path, crop, view.prompt], "accepted answers": list(answers)}
    for what, mine in ours.items():
        if told[what] != mine and not told["raised"]:
            yield Difference(row["key"], what, "not stored", mine, told[what])
    for number, verdict in enumerate(episode.verdicts):
        theirs = None if told["raised"] else told["bits"][number]
        yield from _readings(row["key"], verdict, sample.scenario, len(answers), theirs)


def _readings(key: str, verdict: Mapping[str, Any], scenario: str, count: int, theirs: Any) -> Iterator[Difference]:
    """``theirs`` are the package's three bits of the stored reply, None where it raised."""
    what, text = f"verdict of {verdict['judge']}", verdict["text"]
    stored = None if verdict["category"] is None else [verdict[name] for name in READ]
    read, strict = _bits(read_verdict(text, scenario, count)), _bits(strict_verdict(text, scenario, count))
    expected = strict if theirs is None else theirs
    if stored != read or (read is not None and read != expected):
        yield Difference(key, what, stored, read, theirs)
    kept = [verdict[f"strict_{name}"] for name in READ]
    first = verdict["attempts"] == 1 and kept[0] is not None
    if strict != expected or (first and kept != strict):
        yield Difference(key, f"{what}, strict", kept, strict, theirs)


def _bits(found: Bits | None) -> list[bool] | None:
    return None if found is None else [found.category, found.suggestion, found.aggregate]
