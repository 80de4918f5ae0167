"""``audit --answers``: transcripts made elsewhere are scored by our game, without pictures and models.

Each input line gives one output line, and equal inputs give equal outputs.
"""

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from envs import SCENARIOS, STEMS, installed_scenarios, regular
from envs.errors import UserError
from envs.samples import load_samples
from envs.types import Ending, Mode, Sample
from orchestrator.audit.replay import replay
from sweeps.conditions import Condition


class ReplayError(UserError, ValueError):
    """A line of recorded answers that cannot be scored."""


def print_scores(file: Path, data: Path) -> None:
    """Print a line of JSON for each line of a file of answers; raises ReplayError, BadData, OSError."""
    try:
        with io.TextIOWrapper(regular.open_file(file), encoding="utf-8", newline="\n") as lines:
            for line in score_lines(data, lines, str(file)):
                print(json.dumps(line))
    except UnicodeDecodeError as problem:
        raise ReplayError(f"{file} is not UTF-8 text: {problem}") from None


def _known_scenario(name: str) -> str:
    scenario = STEMS.get(name, name)
    if scenario not in SCENARIOS and scenario not in installed_scenarios():
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
    """The only protocol that can be scored."""


def score_lines(data: Path, lines: Iterable[str], where: str = "input") -> Iterator[dict[str, Any]]:
    """Score lines of JSON (``AnswerLine``), also of samples that the paper's filter drops; raises ReplayError, BadData."""
    loaded: dict[str, dict[int, Sample]] = {}
    for number, line in ((number, line) for number, line in enumerate(lines, 1) if line.strip()):
        request = _parse_line(line, f"{where}, line {number}")
        if (name := request.scenario) not in loaded:
            samples = load_samples(data, name, filtered=False, skipped=[])
            loaded[name] = {sample.id: sample for sample in samples}
        if (sample := loaded[name].get(request.id)) is None:
            raise ReplayError(f"{where}, line {number}: {name} has no sample with id {request.id}")
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
