"""``replay``: scores recorded answers by replaying them through the game, without pictures and without a model.

One line in, one line out; equal lines give equal lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from actors.text.printable import UNSAFE
from envs import SCENARIOS, STEMS, is_scenario
from envs.bad_lines import Problem, skipped_note
from envs.errors import UserError
from envs.samples import load_samples
from envs.types import Ending, Mode, Sample, View

KEYS = ("scenario", "id", "hint", "reference", "answers")
"""Keys that a line may have; ``protocol`` too, as long as it is the one that can be replayed."""
PROTOCOL = "mcqa"


class ReplayError(UserError, ValueError):
    """A line of recorded answers that cannot be scored; the message gives file, line and remedy."""


def replay(data: Path, lines: Iterable[str], where: str = "input") -> Iterator[dict[str, Any]]:
    """Replay JSON lines ``{"scenario", "id", "hint", "reference", "answers"}``; raises ReplayError, BadData.

    Every sample of the data can be replayed, kept by the paper's filter or not.
    """
    loaded: dict[str, dict[int, Sample]] = {}
    bad: dict[str, list[Problem]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        wanted = _request(line, f"{where}, line {number}")
        scenario = wanted["scenario"]
        if scenario not in loaded:
            found = load_samples(data, scenario, filtered=False, skipped=bad.setdefault(scenario, []))
            loaded[scenario] = {sample.id: sample for sample in found}
        sample = loaded[scenario].get(wanted["id"])
        if sample is None:
            missing = f"{scenario} has no sample with id {wanted['id']}{skipped_note(bad[scenario])}"
            raise ReplayError(f"{where}, line {number}: {missing}")
        yield replayed(sample, wanted["answers"], wanted["hint"], wanted["reference"])


def replayed(sample: Sample, answers: list[str], hint: bool = False, reference: bool = False) -> dict[str, Any]:
    """The episode that these answers make.

    ``max_steps`` says whether the number of turns equals the limit, as the package reports it (``get_statistics``).
    ``ending`` and ``correct`` are null where the answers stop before the episode does.
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
        "ending": None if state.ending is None else state.ending.value,
        "correct": None if state.ending is None else state.ending is Ending.CORRECT,
        "max_steps": state.turn == game.limit(sample),
        "unused_answers": len(answers) - len(turns),
    }


def as_json(found: Mapping[str, Any], encoding: str | None = None) -> str:
    """One line of JSON, readable as far as the encoding (default UTF-8) can hold it.

    What moves a terminal's cursor, reorders text or is half a character stands as JSON's own escape (``\\u009b``).
    """
    text = UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(found, ensure_ascii=False))
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(found)
    return text


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
    _all_known(found, where)
    name, number, answers = found.get("scenario"), found.get("id"), found.get("answers")
    scenario = STEMS.get(name, name) if isinstance(name, str) else None
    if not isinstance(scenario, str) or not is_scenario(scenario):
        raise ReplayError(f"{where}: scenario {name!r} is none of {', '.join(SCENARIOS)}")
    if not isinstance(number, int) or isinstance(number, bool):
        raise ReplayError(f"{where}: id must be a whole number, not {json.dumps(number)}")
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        raise ReplayError(f"{where}: answers must be a list of texts")
    flags = {flag: found.get(flag, False) for flag in ("hint", "reference")}
    for flag, value in flags.items():
        if not isinstance(value, bool):
            raise ReplayError(f"{where}: {flag} must be true or false, not {value!r}")
    return {"scenario": scenario, "id": number, "answers": answers, **flags}


def _all_known(found: Mapping[str, Any], where: str) -> None:
    """A key that nothing would read is a mistake, and so is a protocol that is not multiple choice."""
    if (protocol := found.get("protocol", PROTOCOL)) != PROTOCOL:
        raise ReplayError(
            f"{where}: protocol {protocol!r} cannot be replayed; replay scores multiple choice only, leave protocol out"
        )
    for key in found:
        if key not in (*KEYS, "protocol"):
            close = get_close_matches(key, KEYS, n=1)
            meant = f"did you mean {close[0]!r}?" if close else f"a line may hold {', '.join(KEYS)}"
            raise ReplayError(f"{where}: unknown key {key!r}; {meant}")
