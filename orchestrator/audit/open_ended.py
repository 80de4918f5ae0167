"""The audit of open-ended answers: the question, and each judge's reply as parsed by us and by the package.

Compared: picture and question, accepted answers, and both readings of every stored verdict. Not compared: the two hints of the
package's example (ours are in ``envs.stimulus``), the accepted answers of a clear picture (docs/decisions/0003: the package
gets ours), and earlier attempts of a judge, which are not stored.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from actors.playing.prompts import open_view
from envs import SCENARIOS
from envs.openended import Bits, accepted_answers, read_verdict, strict_verdict
from envs.types import Mode
from orchestrator.audit.records import EpisodeDifference, Recording

BITS = ("category", "suggestion", "aggregate")


def task(episode: Recording) -> dict[str, Any]:
    """Return the input of the package: the sample, and every judge's reply."""
    sample, is_clear = episode.sample, episode.cell.condition.mode is Mode.REFERENCE
    return {
        "stem": SCENARIOS[sample.scenario].stem, "id": sample.id, "mode": episode.cell.condition.mode.value,
        "options": sample.options, "categories": sample.categories, "scenario": sample.scenario,
        "accepted": ", ".join(accepted_answers(sample, reference=True)) if is_clear else None,
        "judged": [verdict["text"] for verdict in episode.verdicts],
    }  # fmt: skip


def differences(episode: Recording, reference: Mapping[str, Any]) -> Iterator[EpisodeDifference]:
    """Yield the differences between the store, our code and the package (``reference_worker.read_judgments``)."""
    row, sample, condition = episode.row, episode.sample, episode.cell.condition
    is_clear = condition.mode is Mode.REFERENCE
    state = SCENARIOS[sample.scenario].initial(sample, condition.mode)
    view = open_view(sample, state, condition.model_copy(update={"hint": False}))
    answers = accepted_answers(sample, reference=is_clear)
    for image in row["image"]:
        if image != view.image.key:
            yield EpisodeDifference(row["key"], "image", image, view.image.key, "not asked")
    crop = view.image.crop and [float(edge) for edge in view.image.crop]
    ours = {"question": [view.image.path, crop, view.prompt], "accepted answers": list(answers)}
    for name, expected in ours.items():
        if reference[name] != expected and not reference["raised"]:
            yield EpisodeDifference(row["key"], name, "not stored", expected, reference[name])
    for number, verdict in enumerate(episode.verdicts):
        theirs = None if reference["raised"] else reference["bits"][number]
        yield from _verdict_differences(row["key"], verdict, sample.scenario, len(answers), theirs)


def _verdict_differences(
    key: str, verdict: Mapping[str, Any], scenario: str, count: int, theirs: Any
) -> Iterator[EpisodeDifference]:
    """Compare a stored verdict; ``theirs`` are the three bits of the package, None if it raised."""
    subject, text = f"verdict of {verdict['judge']}", verdict["text"]
    stored = None if verdict["category"] is None else [verdict[name] for name in BITS]
    read, strict = _bits(read_verdict(text, scenario, count)), _bits(strict_verdict(text, scenario, count))
    expected = strict if theirs is None else theirs
    if stored != read or (read is not None and read != expected):
        yield EpisodeDifference(key, subject, stored, read, theirs)
    stored_strict = [verdict[f"strict_{name}"] for name in BITS]
    first = verdict["attempts"] == 1 and stored_strict[0] is not None
    if strict != expected or (first and stored_strict != strict):
        yield EpisodeDifference(key, f"{subject}, strict", stored_strict, strict, theirs)


def _bits(bits: Bits | None) -> list[bool] | None:
    return None if bits is None else [bits.category, bits.suggestion, bits.aggregate]
