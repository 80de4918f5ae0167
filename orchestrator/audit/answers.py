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
from orchestrator.audit.replay import replay
from sweeps.conditions import Condition


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


def score_lines(data: Path, lines: Iterable[str], where: str = "input") -> Iterator[dict[str, Any]]:
    """Score JSON lines ``{"scenario", "id", "hint", "reference", "answers"}``; raises ReplayError, BadData.

    Samples that the paper's filter drops can be scored too.
    """
    loaded: dict[str, dict[int, Sample]] = {}
    skipped: dict[str, list[Problem]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        request = _parse_line(line, f"{where}, line {number}")
        if (name := request.scenario) not in loaded:
            samples = load_samples(data, name, filtered=False, skipped=skipped.setdefault(name, []))
            loaded[name] = {sample.id: sample for sample in samples}
        if (sample := loaded[name].get(request.id)) is None:
            missing = f"{name} has no sample with id {request.id}{skipped_note(skipped[name])}"
            raise ReplayError(f"{where}, line {number}: {missing}")
        yield score_answers(sample, request.answers, request.hint, request.reference)


def score_answers(sample: Sample, answers: list[str], hint: bool = False, reference: bool = False) -> dict[str, Any]:
    """Return the episode of these answers.

    ``max_steps`` is True if the number of turns equals the limit, as in the package (``get_statistics``). ``ending`` and
    ``correct`` are null if the answers stop before the episode does.
    """
    condition = Condition(name="answers", mode=Mode.REFERENCE if reference else Mode.PLAY, hint=hint)
    turns = list(replay(sample, condition, answers))
    ending = turns[-1].state.ending if turns else None
    rows = [
        {
            "image": plain.image.path, "op": None if plain.image.crop is None else ["crop", *plain.image.crop],
            "prompt": plain.prompt, "options": [*plain.options, *plain.categories], "answer": answer,
            "action": turn.option.value, "category": turn.category.value,
        }
        for answer, (_, plain, _, _, turn) in zip(answers, turns, strict=False)
    ]  # fmt: skip
    return {
        "scenario": sample.scenario, "id": sample.id, "turns": rows, "num_turns": len(turns),
        "ending": ending.value if ending else None, "correct": ending is Ending.CORRECT if ending else None,
        "max_steps": len(turns) == SCENARIOS[sample.scenario].limit(sample), "unused_answers": len(answers) - len(turns),
    }  # fmt: skip


def as_json(fields: Mapping[str, Any], encoding: str | None = None) -> str:
    """Return one line of JSON that escapes only what the encoding (default UTF-8) lacks or a terminal would act on."""
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
