"""The pictures that an episode of a sample can show, and how many moves lie between them: what a decision map is drawn on.

Rules alone decide it: the same for every model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import ceil

from envs import SCENARIOS
from envs.answers import as_letter, as_text, option_table
from envs.scenario import LastImageSettles, Scenario
from envs.types import Action, Sample, State, Turn, Verdict

Steps = dict[str, int]
"""Picture (``ImageRef.key``) -> moves."""


def reachable_states(sample: Sample) -> Iterator[State]:
    """Every state in plain play that right suggestions lead to, nearest to the first one first; two that play alike are one."""
    game = SCENARIOS[sample.scenario]
    waiting, seen = deque([game.initial(sample)]), set()
    while waiting:
        state = waiting.popleft()
        place = _place(game, state)
        if state.ending is not None or place in seen:
            continue
        seen.add(place)
        yield state
        waiting += [game.step(sample, state, ask)[0] for ask in game.askable(sample, state)]


def decision_states(sample: Sample) -> list[State]:
    """The states whose pictures a decision map asks about, each picture once, nearest first.

    In a scenario that names ``most_frames`` (VSOD: 32), every n-th frame of its ring from the first on, n the smallest that
    leaves so many.
    """
    game = SCENARIOS[sample.scenario]
    found: dict[str, State] = {}
    for state in reachable_states(sample):
        found.setdefault(game.image(sample, state).key, state)
    if game.most_frames is None:
        return list(found.values())
    step = ceil(sample.frames / game.most_frames)
    return [state for state in found.values() if (state.frame - sample.first_frame) % sample.frames % step == 0]


def read_category(sample: Sample, state: State, reply: str) -> Turn:
    """A reply to the categories alone: the right one counts wherever it is named, nothing moves."""
    reading = option_table(sample.categories, (sample.answer,), 0).read(as_text(reply), as_letter(reply))
    action = Action.UNPARSABLE if reading.chosen < 0 else Action.CATEGORY
    return Turn(state.frame, reply, Verdict.MISMATCH, reading.verdict, action, None)


@dataclass(frozen=True)
class Moves:
    """The pictures of a sample as a graph: an edge is one granted suggestion."""

    sample: Sample
    after: dict[str, tuple[str, ...]]
    """Picture -> those that one move shows, nearest first."""
    asked: dict[str, str]
    """Picture -> the one that a decision map asks about in its place: itself, or where thinned the nearest on the ring."""

    @classmethod
    def from_sample(cls, sample: Sample) -> Moves:
        """The graph of one sample."""
        game = SCENARIOS[sample.scenario]
        after: dict[str, list[str]] = {}
        numbers: dict[str, int] = {}
        for state in reachable_states(sample):
            shown = game.image(sample, state).key
            numbers.setdefault(shown, state.frame)
            further = after.setdefault(shown, [])
            for ask in game.askable(sample, state):
                new, _ = game.step(sample, state, ask)
                if new.ending is None:
                    further.append(game.image(sample, new).key)
        own = {game.image(sample, state).key: state.frame for state in decision_states(sample)}
        asked = {one: one if one in own else _nearest(number, own, sample.frames) for one, number in numbers.items()}
        return cls(sample, {one: tuple(dict.fromkeys(further)) for one, further in after.items()}, asked)

    def counts(self, turn: int) -> bool:
        """Return True if the right category counts at this turn (never at ROD's first)."""
        game = SCENARIOS[self.sample.scenario]
        return game.answerable(self.sample, State(self.sample.first_frame, turn))

    def knows(self, picture: str, known: Collection[str]) -> bool:
        """Return True if a model that answers the ``known`` ones of the asked pictures rightly can answer at this one."""
        return self.asked.get(picture) in known

    def moves_to_known(self, picture: str, turn: int, known: Collection[str]) -> int | None:
        """Moves from a picture at a turn to the nearest known one where a category counts; None where none can be reached."""
        waiting, seen = deque([(picture, turn)]), set()
        while waiting:
            one, at = waiting.popleft()
            counts = self.counts(at)
            if (one, counts) in seen:
                continue
            seen.add((one, counts))
            if counts and self.knows(one, known):
                return at - turn
            waiting += [(further, at + 1) for further in self.after.get(one, ())]
        return None


def _nearest(frame: int, asked: dict[str, int], frames: int) -> str:
    """The asked picture whose frame lies nearest on the ring, the lower number of two."""
    return min(asked, key=lambda one: (min((frame - asked[one]) % frames, (asked[one] - frame) % frames), asked[one]))


def _place(game: Scenario, state: State) -> tuple[object, ...]:
    """Return the part of the state that the rest of play depends on, without the turn where play may walk in circles."""
    turn = state.turn if isinstance(game, LastImageSettles) else 0
    return state.frame, state.last, state.across, state.along, turn
