"""``audit --answers``: score recorded answers by replaying them in the game, without pictures or a model.

Each input line gives one output line, and equal inputs give equal outputs.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from actors.text.printable import UNSAFE
from envs import SCENARIOS, STEMS, is_scenario
from envs.bad_lines import Problem, skipped_note
from envs.errors import UserError
from envs.samples import load_samples
from envs.types import Ending, Mode, Sample


class ReplayError(UserError, ValueError):
    """A line of recorded answers that cannot be scored."""


def _known_scenario(name: str) -> str:
    if not is_scenario(scenario := STEMS.get(name, name)):
        raise ValueError(f"choose from {', '.join(SCENARIOS)}")
    return scenario


class AnswerLine(BaseModel):
    """One line of recorded answers."""

    model_config = ConfigDict(strict=True, extra="forbid")
    scenario: Annotated[str, AfterValidator(_known_scenario)]
    id: int
    answers: list[str]
    hint: bool = False
    reference: bool = False
    protocol: Literal["mcqa"] = "mcqa"
    """The only protocol that can be replayed."""


def replay(data: Path, lines: Iterable[str], where: str = "input") -> Iterator[dict[str, Any]]:
    """Replay JSON lines ``{"scenario", "id", "hint", "reference", "answers"}``; raises ReplayError, BadData.

    Samples that the paper's filter drops can be replayed too.
    """
    loaded: dict[str, dict[int, Sample]] = {}
    skipped: dict[str, list[Problem]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        request = _parse_line(line, f"{where}, line {number}")
        scenario = request.scenario
        if scenario not in loaded:
            samples = load_samples(data, scenario, filtered=False, skipped=skipped.setdefault(scenario, []))
            loaded[scenario] = {sample.id: sample for sample in samples}
        sample = loaded[scenario].get(request.id)
        if sample is None:
            missing = f"{scenario} has no sample with id {request.id}{skipped_note(skipped[scenario])}"
            raise ReplayError(f"{where}, line {number}: {missing}")
        yield replay_answers(sample, request.answers, request.hint, request.reference)


def replay_answers(sample: Sample, answers: list[str], hint: bool = False, reference: bool = False) -> dict[str, Any]:
    """Return the episode of these answers.

    ``max_steps`` is True if the number of turns equals the limit, as in the package (``get_statistics``). ``ending`` and
    ``correct`` are null if the answers stop before the episode does.
    """
    game, turns = SCENARIOS[sample.scenario], list[dict[str, Any]]()
    state = game.initial(sample, Mode.REFERENCE if reference else Mode.PLAY)
    for answer in answers:
        if state.ending is not None:
            break
        view = game.view(sample, state, hint)
        state, turn = game.step(sample, state, answer)
        crop = view.image.crop
        turns.append({
            "image": view.image.path, "op": None if crop is None else ["crop", *crop], "prompt": view.prompt,
            "options": [*view.options, *view.categories], "answer": answer, "action": turn.option.value,
            "category": turn.category.value,
        })  # fmt: skip
    ended = state.ending is not None
    return {
        "scenario": sample.scenario, "id": sample.id, "turns": turns, "num_turns": state.turn,
        "ending": state.ending.value if state.ending else None,
        "correct": state.ending is Ending.CORRECT if ended else None,
        "max_steps": state.turn == game.limit(sample), "unused_answers": len(answers) - len(turns),
    }  # fmt: skip


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


def _parse_line(line: str, where: str) -> AnswerLine:
    try:
        return AnswerLine.model_validate(json.loads(line))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = ".".join(map(str, problem["loc"])) or "the line"
        example = '{"scenario": "ROD", "id": 3, "answers": ["A"]}'
        raise ReplayError(f"{where}: {name}: {problem['msg']}; a line is like {example}") from None
    except (ValueError, RecursionError):
        raise ReplayError(f"{where} is not JSON") from None
