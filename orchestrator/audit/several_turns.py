"""The audit of open-ended generation over several turns: the judge's replies read again, and the game played again on them.

Compared: each judge's reply as an option, then everything that multiple choice compares, the package being given the options
in place of the answers. Not compared: which options the package would have drawn, for it has no such game; and a reply of an
earlier attempt of the judge, which is not stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from actors.playing.prompts import open_view
from envs import SCENARIOS, dialogue
from envs.openended import read_marks
from orchestrator.audit import multiple_choice
from orchestrator.audit.records import Difference, Recording

JUDGED = ("read_as", "judged")
"""Columns of a turn that this protocol alone has."""


def task(episode: Recording) -> dict[str, Any]:
    """What the package is given: the options that the answers stand for."""
    return multiple_choice.task(episode) | {"replies": episode.row["read_as"], "hint": False}


def compared(episode: Recording, reference: Mapping[str, Any]) -> Iterator[Difference]:
    """What the store, our game and the package (``told``, see ``orchestrator.audit.reference_process``) do not agree on."""
    return multiple_choice.read_differences(episode, reference, list(_played(episode)))


def _played(episode: Recording) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Our game on the stored verdicts: each answer as it is read now (None where it cannot be), and what comes of it."""
    sample, game = episode.sample, SCENARIOS[episode.sample.scenario]
    state = game.initial(sample, episode.cell.condition.mode, episode.row["seed"])
    for text in episode.row["judged"]:
        if state.ending is not None:
            return
        marks = read_marks(text or "", len(dialogue.turn_choices(sample, state).lines))
        read = None if marks is None else dialogue.option_from_marks(sample, state, marks)
        view, plain = open_view(sample, state, episode.cell.condition), game.view(sample, state)
        state, turn = game.step(sample, state, read or "")
        yield read, multiple_choice.facts(view, plain, view.image.key, state, turn)
