"""The pictures that an episode of a sample can show, and the number of moves between them, for decision maps."""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from math import ceil
from typing import Self

from envs import SCENARIOS
from envs.answers import as_letter, as_text, option_table
from envs.check import reachable_states
from envs.types import Action, Sample, State, Turn, Verdict

MOST_FRAMES = {"VSOD": 32}
"""Scenario -> maximum number of pictures of a sample in a decision map; the others take all."""


def decision_states(sample: Sample) -> list[State]:
    """Return one state per picture of a decision map, nearest first.

    A scenario of ``MOST_FRAMES`` is thinned to every n-th frame of its ring, n as small as possible.
    """
    game = SCENARIOS[sample.scenario]
    states: dict[str, State] = {}
    for state in reachable_states(sample):
        states.setdefault(game.image(sample, state).key, state)
    if sample.scenario not in MOST_FRAMES:
        return list(states.values())
    step = ceil(sample.frames / MOST_FRAMES[sample.scenario])
    return [state for state in states.values() if (state.frame - sample.first_frame) % sample.frames % step == 0]


def read_category(sample: Sample, state: State, reply: str) -> Turn:
    """Read a reply to a question that offers only categories; the right category counts at every state."""
    reading = option_table(sample.categories, (sample.answer,), 0).read(as_text(reply), as_letter(reply))
    action = Action.UNPARSABLE if reading.chosen < 0 else Action.CATEGORY
    return Turn(state.frame, reply, Verdict.MISMATCH, reading.verdict, action, None)


@dataclass(frozen=True)
class Moves:
    """The pictures of a sample as a graph: an edge is one granted suggestion."""

    sample: Sample
    neighbors: dict[str, tuple[str, ...]]
    """Picture -> pictures one move away."""
    stand_ins: dict[str, str]
    """Picture -> the picture that a decision map asks about in its place: itself or, if it is thinned out, the nearest one."""

    @classmethod
    def from_sample(cls, sample: Sample) -> Self:
        """Return the graph of one sample."""
        game = SCENARIOS[sample.scenario]
        neighbors: dict[str, dict[str, None]] = {}
        frames: dict[str, int] = {}
        for state in reachable_states(sample):
            picture = game.image(sample, state).key
            frames.setdefault(picture, state.frame)
            next_pictures = neighbors.setdefault(picture, {})
            for ask in game.askable(sample, state):
                next_state, _ = game.step(sample, state, ask)
                if next_state.ending is None:
                    next_pictures[game.image(sample, next_state).key] = None
        on_map = {game.image(sample, state).key: state.frame for state in decision_states(sample)}
        stand_ins = {
            key: key if key in on_map else _nearest(frame, on_map, sample.frames) for key, frame in frames.items()
        }
        return cls(sample, {key: tuple(keys) for key, keys in neighbors.items()}, stand_ins)

    def counts(self, turn: int) -> bool:
        """Return True if the right category counts at this turn (never at ROD's first)."""
        game = SCENARIOS[self.sample.scenario]
        return game.answerable(self.sample, State(self.sample.first_frame, turn))

    def knows(self, picture: str, known: Collection[str]) -> bool:
        """Return True if a model can answer at this picture; ``known`` are the asked pictures that it recognizes."""
        return self.stand_ins.get(picture) in known

    def moves_to_known(self, picture: str, turn: int, known: Collection[str]) -> int | None:
        """Return the number of moves to the nearest known picture where a category counts; None if none can be reached."""
        queue, visited = deque([(picture, turn)]), set()
        while queue:
            current, current_turn = queue.popleft()
            counts = self.counts(current_turn)
            if (current, counts) in visited:
                continue
            visited.add((current, counts))
            if counts and self.knows(current, known):
                return current_turn - turn
            queue += [(neighbor, current_turn + 1) for neighbor in self.neighbors.get(current, ())]
        return None


def _nearest(frame: int, pictures: dict[str, int], frames: int) -> str:
    """Return the picture whose frame is nearest on the ring; of two equally near, the one with the lower frame number."""

    def distance(key: str) -> tuple[int, int]:
        return min((frame - pictures[key]) % frames, (pictures[key] - frame) % frames), pictures[key]

    return min(pictures, key=distance)
