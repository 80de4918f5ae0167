"""Replays recorded replies in our game: for the audit, film strips, and ``audit --answers``, which needs no pictures.

Of answers, each input line gives one output line, and equal inputs give equal outputs.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ValidationError

from actors.playing.prompts import open_view, turn_view
from envs import SCENARIOS, STEMS, dialogue, installed_scenarios
from envs.errors import UserError
from envs.lenient import repair_reply
from envs.openended import read_marks
from envs.samples import load_samples
from envs.tool_calls import called_option, offered_calls
from envs.types import Ending, Mode, Sample, State, Turn, View
from sweeps.conditions import Condition
from sweeps.spec import Protocol
from sweeps.validation import describe_error


class ReplayError(UserError, ValueError):
    """A line of recorded answers that cannot be scored."""


class Replayed(NamedTuple):
    """One turn of a replay."""

    view: View
    """What the model saw."""
    plain: View
    """What it would see without the condition's changes, as in the package."""
    option: str | None
    """The option that the reply was read as; None if it was unreadable."""
    before: State
    state: State
    turn: Turn


def replay(
    sample: Sample,
    condition: Condition,
    replies: Iterable[str | None],
    protocol: Protocol = Protocol.MCQA,
    seed: int = 0,
) -> Iterator[Replayed]:
    """Yield the turns of these replies, up to the end of the episode; those of ``oeg-multi`` are the judge's."""
    game, is_dialogue = SCENARIOS[sample.scenario], protocol is Protocol.OEG_MULTI
    state = game.initial(sample, condition.mode, seed)
    for reply in replies:
        if state.ending is not None:
            return
        view = (open_view if protocol.is_open_ended else turn_view)(sample, state, condition)
        plain = game.view(sample, state, condition.hint and not is_dialogue)
        option: str | None = reply or ""  # a judge that failed has no reply
        if is_dialogue:
            marks = read_marks(reply or "", len(dialogue.turn_choices(sample, state).lines))
            option = None if marks is None else dialogue.option_from_marks(sample, state, marks)
        elif protocol is Protocol.TOOLS:
            calls = offered_calls(sample.scenario, view, game.askable(sample, state))
            option = called_option(view, calls, reply or "")
        elif condition.lenient:
            option = repair_reply(sample, state, reply or "")
        before = state
        state, turn = game.step(sample, state, option or "")
        yield Replayed(view, plain, option, before, state, turn)


def _known_scenario(name: str) -> str:
    scenario = STEMS.get(name, name)
    if scenario not in SCENARIOS and scenario not in installed_scenarios():
        raise ValueError(f"choose from {', '.join(SCENARIOS)}")
    return scenario


class AnswerLine(BaseModel, strict=True, extra="forbid"):
    """One line of recorded answers."""

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
            samples = load_samples(data, name, filtered=False, skip_bad=True)
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
        for answer, (_, plain, *_, turn) in zip(answers, turns, strict=False)
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
        example = '{"scenario": "ROD", "id": 3, "answers": ["A"]}'
        raise ReplayError(f"{where}: {describe_error(error, AnswerLine)}; a line is like {example}") from None
    except (ValueError, RecursionError):
        raise ReplayError(f"{where} is not JSON") from None
