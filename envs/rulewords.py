"""The words of the rule judge's ideas: each matches the beginning of a word, or an entire word if it ends in ``$``."""

import re
from typing import NamedTuple


class Idea(NamedTuple):
    """A verb near an object; the verbs ``alone`` need no object."""

    verbs: re.Pattern[str]
    objects: re.Pattern[str]
    alone: re.Pattern[str]


def _idea(verbs: str, objects: str, alone: str = "") -> Idea:
    patterns = (re.compile("|".join(stems.split()) or r"(?!)") for stems in (verbs, objects, alone))
    return Idea(*patterns)


def _repair(objects: str, alone: str = "") -> Idea:
    return _idea(
        "increas reduc improv adjust fix correct lower rais decreas chang boost enhanc better more$ less$ higher restor "
        "undo revers remov clean provid",
        objects,
        alone,
    )


IDEAS: dict[str, Idea] = {
    "move the blocks": _idea(
        "mov shift slid remov push lift relocat displac", "block cube brick occlu obstacle obstruct object cover"
    ),
    "move the camera": _idea(
        "mov shift chang pan$ panning tilt adjust turn reposition point different another other$",
        "camera viewpoint view angle perspective vantage",
    ),
    "move farther": _idea(
        "mov step go$ stand wide larger zoom", "farther further back$ backward away$ out$ wide area distance"
    ),
    "rewind": _idea("go$ jump skip play$ scroll earlier previous", "back$ backward frame moment video", "rewind rewound"),
    "wait": _idea(
        "let$ later next$ subsequent forward until continu", "frame video moment pass play clear appear disappear", "wait"
    ),
    "rotate": _idea("turn spin flip different chang", "object item around angle view side orientation", "rotat"),
    "add more details": _idea(
        "add$ adding more$ continu finish complet extra additional another draw$", "detail stroke line drawing sketch part$"
    ),
}  # fmt: skip
"""Beginning of an accepted suggestion, lower case -> its idea."""

REPAIRS: dict[str, Idea] = {
    "bright": _repair("bright light exposure dark", "brighten darken"),
    "contrast": _repair("contrast"),
    "saturation": _repair("saturat colour color vivid"),
    "deblur": _repair("blur sharp focus", "deblur sharpen refocus"),
    "denoise": _repair("nois grain", "denois"),
    "compression": _repair("compress jpeg", "decompress uncompress"),
    "resolution": _repair("resolution pixel", "upscal"),
    "artifacts": _repair("artifact artefact glitch"),
}
"""Word of an accepted repair of IN-C, lower case -> its idea."""

NEGATIONS = frozenset(
    ("not", "no", "never", "without", "nor", "neither", "cannot", "cant", "dont", "doesnt", "didnt", "isnt", "arent",
     "wasnt", "wont", "wouldnt", "shouldnt", "neednt")
)  # fmt: skip
"""Words that cancel the words after them, without apostrophes."""

REFUSALS = frozenset(
    ("cannot", "cant", "couldnt", "unable", "impossible", "nobody", "unclear", "unsure", "undecidable")
)  # fmt: skip
"""Words by which an answer declines."""
KNOWING = frozenset(
    ("tell", "know", "sure", "see", "say", "answer", "determine", "identify", "recognise", "recognize", "idea")
)
"""Words that decline after a negation."""

NUMBERS = {
    name: str(number)
    for number, name in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
         "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty")
    )
}  # fmt: skip
"""Number words -> digits."""
