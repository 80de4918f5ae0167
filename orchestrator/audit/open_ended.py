"""The audit of open-ended generation: the question, and each judge's reply as we and the package read it.

Compared: picture and question, the accepted answers, and of every stored verdict both readings, ours and the package's
zeros. Not compared: the two hints of the package's example (ours stands in ``envs.stimulus``), the accepted answers of a
clear picture (docs/decisions/0003: the package is told ours), and first replies of a judge that was asked again, which
are not stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from actors.playing.prompts import open_view
from envs import SCENARIOS
from envs.openended import Bits, accepted_answers, read_verdict, strict_verdict
from envs.types import Mode
from orchestrator.audit.records import Difference, Recording

READ = ("category", "suggestion", "aggregate")


def task(episode: Recording) -> dict[str, Any]:
    """What the package is given: the sample, and every judge's reply."""
    sample, clear = episode.sample, episode.cell.condition.mode is Mode.REFERENCE
    return {
        "stem": SCENARIOS[sample.scenario].stem, "id": sample.id, "mode": episode.cell.condition.mode.value,
        "options": sample.options, "categories": sample.categories, "scenario": sample.scenario,
        "accepted": ", ".join(accepted_answers(sample, reference=True)) if clear else None,
        "judged": [verdict["text"] for verdict in episode.verdicts],
    }  # fmt: skip


def compared(episode: Recording, reference: Mapping[str, Any]) -> Iterator[Difference]:
    """What the store, we and the package (``told``, see ``orchestrator.audit.reference_process``) do not agree on."""
    row, sample, condition = episode.row, episode.sample, episode.cell.condition
    clear = condition.mode is Mode.REFERENCE
    state = SCENARIOS[sample.scenario].initial(sample, condition.mode)
    view = open_view(sample, state, condition.model_copy(update={"hint": False}))
    answers = accepted_answers(sample, reference=clear)
    for image in row["image"]:
        if image != view.image.key:
            yield Difference(row["key"], "image", image, view.image.key, "not asked")
    crop = view.image.crop and [float(edge) for edge in view.image.crop]
    ours = {"question": [view.image.path, crop, view.prompt], "accepted answers": list(answers)}
    for what, expected in ours.items():
        if reference[what] != expected and not reference["raised"]:
            yield Difference(row["key"], what, "not stored", expected, reference[what])
    for number, verdict in enumerate(episode.verdicts):
        theirs = None if reference["raised"] else reference["bits"][number]
        yield from _readings(row["key"], verdict, sample.scenario, len(answers), theirs)


def _readings(key: str, verdict: Mapping[str, Any], scenario: str, count: int, theirs: Any) -> Iterator[Difference]:
    """``theirs`` are the package's three bits of the stored reply, None where it raised."""
    what, text = f"verdict of {verdict['judge']}", verdict["text"]
    stored = None if verdict["category"] is None else [verdict[name] for name in READ]
    read, strict = _bits(read_verdict(text, scenario, count)), _bits(strict_verdict(text, scenario, count))
    expected = strict if theirs is None else theirs
    if stored != read or (read is not None and read != expected):
        yield Difference(key, what, stored, read, theirs)
    stored_strict = [verdict[f"strict_{name}"] for name in READ]
    first = verdict["attempts"] == 1 and stored_strict[0] is not None
    if strict != expected or (first and stored_strict != strict):
        yield Difference(key, f"{what}, strict", stored_strict, strict, theirs)


def _bits(bits: Bits | None) -> list[bool] | None:
    return None if bits is None else [bits.category, bits.suggestion, bits.aggregate]
