"""QuickDraw: a sketch gains one stroke per request."""

from envs import stimulus
from envs.scenario import LastImageSettles
from envs.types import Move, Sample, State


class QuickDraw(LastImageSettles):
    """Ask for more strokes until the sketch is recognizable, then name it."""

    name = "QD"
    stem = "QuickDraw"
    hint = stimulus.QD_HINT
    frame_digits = 4
    cue = dict.fromkeys(("details", "quickdraw", "drawing", "sketch"), Move.DETAIL)

    def advance(self, sample: Sample, state: State, move: Move) -> State:
        return state._replace(frame=state.frame + 1)
