"""``audit --answers``: score recorded answers by replaying them in the game, without pictures or a model.

Each input line gives one output line, and equal inputs give equal outputs.
"""

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
"""Keys of a line; ``protocol`` is also allowed if it is ``PROTOCOL``."""
PROTOCOL = "mcqa"


class ReplayError(UserError, ValueError):
    """A line of recorded answers that cannot be scored."""


def replay(data: Path, lines: Iterable[str], where: str = "input") -> Iterator[dict[str, Any]]:
    """Replay JSON lines ``{"scenario", "id", "hint", "reference", "answers"}``; raises ReplayError, BadData.

    Samples that the paper's filter drops can be replayed too.
    """
    loaded: dict[str, dict[int, Sample]] = {}
    skipped: dict[str, list[Problem]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        request = _parse_request(line, f"{where}, line {number}")
        scenario = request["scenario"]
        if scenario not in loaded:
            samples = load_samples(data, scenario, filtered=False, skipped=skipped.setdefault(scenario, []))
            loaded[scenario] = {sample.id: sample for sample in samples}
        sample = loaded[scenario].get(request["id"])
        if sample is None:
            missing = f"{scenario} has no sample with id {request['id']}{skipped_note(skipped[scenario])}"
            raise ReplayError(f"{where}, line {number}: {missing}")
        yield replay_answers(sample, request["answers"], request["hint"], request["reference"])


def replay_answers(sample: Sample, answers: list[str], hint: bool = False, reference: bool = False) -> dict[str, Any]:
    """Return the episode of these answers.

    ``max_steps`` is True if the number of turns equals the limit, as in the package (``get_statistics``). ``ending`` and
    ``correct`` are null if the answers stop before the episode does.
    """
    game = SCENARIOS[sample.scenario]
    state = game.initial(sample, Mode.REFERENCE if reference else Mode.PLAY)
    turns = []
    for answer in answers:
        if state.ending is not None:
            break
        view = game.view(sample, state, hint)
        state, turn = game.step(sample, state, answer)
        turns.append(
            {**_view_fields(view), "answer": answer, "action": turn.option.value, "category": turn.category.value}
        )
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


def as_json(fields: Mapping[str, Any], encoding: str | None = None) -> str:
    """Return one line of JSON that escapes only what the encoding (default UTF-8) lacks or a terminal would act on.

    Control characters, marks that reorder text, and lone surrogates are escaped as ``\\u009b``.
    """
    text = UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(fields, ensure_ascii=False))
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(fields)
    return text


def _view_fields(view: View) -> dict[str, Any]:
    crop = view.image.crop
    return {
        "image": view.image.path,
        "op": None if crop is None else ["crop", *crop],
        "prompt": view.prompt,
        "options": [*view.options, *view.categories],
    }


def _parse_request(line: str, where: str) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        raise ReplayError(f"{where} is not JSON") from None
    if not isinstance(request, Mapping):
        raise ReplayError(f'{where} must be an object such as {{"scenario": "ROD", "id": 3, "answers": ["A"]}}')
    _check_keys(request, where)
    name, number, answers = request.get("scenario"), request.get("id"), request.get("answers")
    scenario = STEMS.get(name, name) if isinstance(name, str) else None
    if not isinstance(scenario, str) or not is_scenario(scenario):
        raise ReplayError(f"{where}: scenario {name!r} is none of {', '.join(SCENARIOS)}")
    if not isinstance(number, int) or isinstance(number, bool):
        raise ReplayError(f"{where}: id must be a whole number, not {json.dumps(number)}")
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        raise ReplayError(f"{where}: answers must be a list of strings")
    flags = {flag: request.get(flag, False) for flag in ("hint", "reference")}
    for flag, value in flags.items():
        if not isinstance(value, bool):
            raise ReplayError(f"{where}: {flag} must be true or false, not {value!r}")
    return {"scenario": scenario, "id": number, "answers": answers, **flags}


def _check_keys(request: Mapping[str, Any], where: str) -> None:
    """Raise ReplayError for an unknown key or a protocol other than multiple choice."""
    if (protocol := request.get("protocol", PROTOCOL)) != PROTOCOL:
        raise ReplayError(
            f"{where}: protocol {protocol!r} cannot be replayed; replay scores multiple choice only, leave protocol out"
        )
    for key in request:
        if key not in (*KEYS, "protocol"):
            close = get_close_matches(key, KEYS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"a line has the keys {', '.join(KEYS)}"
            raise ReplayError(f"{where}: unknown key {key!r}; {hint}")
