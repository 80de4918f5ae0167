"""Anyone's transcripts can be scored: answers are replayed through the game, with no picture and no model.

A line in, a line out; the same lines give the same lines for ever.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from envs import SCENARIOS, STEMS
from envs.samples import load
from envs.types import Ending, Mode, Sample, View


class ReplayError(ValueError):
    """What the user should read: file, line, what to change."""


def replay(data: Path, lines: Iterable[str], where: str = "input") -> Iterator[dict[str, Any]]:
    """Replay JSON lines ``{"scenario", "id", "hint", "reference", "answers"}``; raises ReplayError, BadData.

    Every sample of the data can be replayed, kept by the paper's filter or not.
    """
    loaded: dict[str, dict[int, Sample]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        wanted = _request(line, f"{where}, line {number}")
        scenario = wanted["scenario"]
        if scenario not in loaded:
            loaded[scenario] = {sample.id: sample for sample in load(data, scenario, filtered=False)}
        sample = loaded[scenario].get(wanted["id"])
        if sample is None:
            raise ReplayError(f"{where}, line {number}: {scenario} has no sample with id {wanted['id']}")
        yield replayed(sample, wanted["answers"], wanted["hint"], wanted["reference"])


def replayed(sample: Sample, answers: list[str], hint: bool = False, reference: bool = False) -> dict[str, Any]:
    """The episode that these answers make.

    ``max_steps`` says whether the number of turns equals the limit, as the package reports it (``get_statistics``).
    """
    game = SCENARIOS[sample.scenario]
    state = game.initial(sample, Mode.REFERENCE if reference else Mode.PLAY)
    turns = []
    for answer in answers:
        if state.ending is not None:
            break
        view = game.view(sample, state, hint)
        state, turn = game.step(sample, state, answer)
        turns.append({**_shown(view), "answer": answer, "action": turn.option.value, "category": turn.category.value})
    return {
        "scenario": sample.scenario,
        "id": sample.id,
        "turns": turns,
        "num_turns": state.turn,
        "correct": state.ending is Ending.CORRECT,
        "max_steps": state.turn == game.limit(sample),
        "unused_answers": len(answers) - len(turns),
    }


def _shown(view: View) -> dict[str, Any]:
    crop = view.image.crop
    return {
        "image": view.image.path,
        "op": None if crop is None else ["crop", *crop],
        "prompt": view.prompt,
        "options": [*view.options, *view.categories],
    }


def _request(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise ReplayError(f"{where} is not JSON") from None
    if not isinstance(found, Mapping):
        raise ReplayError(f'{where} must be an object such as {{"scenario": "ROD", "id": 3, "answers": ["A"]}}')
    name = found.get("scenario")
    scenario = STEMS.get(name, name) if isinstance(name, str) else name
    answers = found.get("answers")
    if scenario not in SCENARIOS:
        raise ReplayError(f"{where}: scenario {name!r} is none of {', '.join(SCENARIOS)}")
    if not isinstance(found.get("id"), int):
        raise ReplayError(f"{where}: id must be a whole number, not {found.get('id')!r}")
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        raise ReplayError(f"{where}: answers must be a list of texts")
    flags = {flag: found.get(flag, False) for flag in ("hint", "reference")}
    for flag, value in flags.items():
        if not isinstance(value, bool):
            raise ReplayError(f"{where}: {flag} must be true or false, not {value!r}")
    return {"scenario": scenario, "id": found["id"], "answers": answers, **flags}
