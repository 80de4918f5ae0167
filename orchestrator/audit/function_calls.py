"""The audit of tool calls: every stored call read again, and the game played again on the options that the calls stand for.

Compared: each reply as an option, then everything that multiple choice compares, the package being given the options in place
of the calls; a malformed call is the empty reply there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from actors.playing.prompts import turn_view
from envs import SCENARIOS
from envs.tool_calls import called_option, offered_calls
from orchestrator.audit import multiple_choice
from orchestrator.audit.records import Difference, Recording


def task(episode: Recording) -> dict[str, Any]:
    """What the package is given: the options that the calls stand for."""
    return multiple_choice.task(episode) | {"replies": episode.row["read_as"]}


def compared(episode: Recording, reference: Mapping[str, Any]) -> Iterator[Difference]:
    """What the store, our game and the package (``told``, see ``orchestrator.audit.reference_process``) do not agree on."""
    return multiple_choice.read_differences(episode, reference, list(_played(episode)))


def _played(episode: Recording) -> Iterator[tuple[str, dict[str, Any]]]:
    """Our game on the stored calls: each as it is read now, and what comes of it."""
    sample, condition = episode.sample, episode.cell.condition
    game = SCENARIOS[sample.scenario]
    state = game.initial(sample, condition.mode, episode.row["seed"])
    for reply in episode.row["reply"]:
        if state.ending is not None:
            return
        view, plain = turn_view(sample, state, condition), game.view(sample, state, condition.hint)
        read = called_option(view, offered_calls(sample, state, view), reply)
        state, turn = game.step(sample, state, read)
        yield read, multiple_choice.facts(view, plain, view.image.key, state, turn)
