"""A dark room: each request turns the light up by one step, and on the brightest picture only the answer counts."""

from envs.scenario import LastImageSettles
from envs.types import Move, Sample, State


class DarkRoom(LastImageSettles):
    """Ask for more light until the thing in the room can be told, then name it."""

    name = "DARK"  # as in pyproject.toml
    stem = "DarkRoom"  # the data are in DarkRoom_preprocessed.jsonl
    hint = "Hint: turning up the light could help."
    cue = {"light": Move.BRIGHTNESS}  # words of a suggestion -> the move that it stands for

    def advance(self, sample: Sample, state: State, move: Move) -> State:
        """The next brighter picture."""
        return state._replace(frame=state.frame + 1)
