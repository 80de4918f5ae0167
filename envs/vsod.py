"""OcclusionDataSet-MM20: a person walks through a video and hides the objects of the question; frames form a ring."""

from envs import stimulus
from envs.scenario import Ring
from envs.types import Move


class VideoOcclusion(Ring):
    """Rewind or wait until nobody is in the way, then answer."""

    name = "VSOD"
    stem = "OcclusionDataSet-MM20"
    hint = stimulus.VSOD_HINT
    preface = stimulus.VIDEO_PREFACE
    cue = {"rewind the video.": Move.REWIND, "wait for the": Move.WAIT}
    back = Move.REWIND
    frame_digits = 4
    most_frames = 32
