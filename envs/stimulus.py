"""The benchmark's prompt strings, byte for byte; changing one changes what is measured.

Source of every string in this file: the package ``proactivebench`` 0.1.1 (MIT, Thomas De Min et al.), modules
``environment`` and ``data_utils``; the open-ended hint comes from its example ``tests/oeg.py``. No other module of this
project holds a published prompt.
"""

from functools import lru_cache

VIDEO_PREFACE = "This is a frame extracted from a video. Answer the following question."
"""Precedes every question about a video (VSOD, CIT)."""

ROD_REFERENCE = "What type of object is in the image?"
"""The question about ROD's clear image, which has no blocks."""

ROD_HINT = "Hint: moving the occluding object might reveal what is behind it."
VSOD_HINT = (
    "Hint: If there is an occlusion, waiting for it to disappear or rewinding the video might reveal what's behind it."
)
MVPN_HINT = "Hint: rotating the object could provide a more informative view."
INC_HINT = "Hint: enhancing the image quality could help with classification."
QD_HINT = "Hint: Adding more details to the quickdraw could help with classification."
CIT_HINT = (
    "Hint: If you cannot answer the question, waiting for it to appear or rewinding the video could help with "
    "classification."
)
COCO_HINT = "Hint: moving the camera could help with classification."
COCO_ZOOM_HINT = "Hint: zooming out could help with classification."

OPEN_ENDED_HINT = " If you cannot answer this question, please tell me what I should do to help you."
"""Follows the question in the open-ended protocol's hint variant, with its leading space."""

MOVE_CAMERA = "Move the camera"
ROD_ACCEPTED = ("Move the blocks", MOVE_CAMERA)
VSOD_ACCEPTED = ("Wait for the occlusion to disappear", "Rewind the video", MOVE_CAMERA)
MVPN_ACCEPTED = ("Rotate the object", MOVE_CAMERA)
QD_ACCEPTED = ("Add more details to the drawing",)
CIT_ACCEPTED = ("Rewind the video",)
COCO_ACCEPTED = (MOVE_CAMERA, "Move farther from the object")
"""Answers that a judge must accept in addition to the entry's (``get_open_ended_gen_answers``)."""

ROD_REASONING = (
    "I cannot see what is behind the occluding object. Moving the occluding object might reveal its position. So, first, "
    "I need to move the occluding object and then answer the question. Therefore, the answer is:"
)
"""Chain-of-thought wording of ROD's solved examples."""
MVPN_REASONING = (
    "I cannot tell which object is this. Rotating the object or changing the viewpoint might provide a more informative "
    "view. So, first, I need to rotate the object or change the viewpoint and then answer the question. Therefore, the "
    "answer is:"
)
"""Chain-of-thought wording of MVP-N's solved examples."""

OPTIONS_FOLLOW = " Choose from the following options. Options:\n"
ONE_OPTION_ONLY = "Please only return one of the options without any other words."


def multiple_choice(question: str, options: tuple[str, ...]) -> str:
    """Return the question with its lettered options, one per line (``apply_multi_choice_template``, short answer)."""
    return f"{question}{OPTIONS_FOLLOW}{lettered(options)}{ONE_OPTION_ONLY}"


@lru_cache(maxsize=65536)
def lettered(options: tuple[str, ...]) -> str:
    """Return the options, each after its letter on a line of its own."""
    return "".join(f"{chr(65 + index)}. {option}\n" for index, option in enumerate(options))
