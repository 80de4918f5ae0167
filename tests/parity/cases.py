"""Seeded random entries of all seven scenarios and replies to them: plain, awkward and hostile. Standard library only.

``entries`` gives lines that can be played, ``flawed_entry`` lines on which the package raises sooner or later, ``disguise``
what random-proactive shows, ``reply`` what a model might say to the options it sees now.
"""

from __future__ import annotations

import copy
import unicodedata
from collections.abc import Callable
from random import Random
from typing import Any

Entry = dict[str, Any]
SCENARIOS = ("ROD", "VSOD", "MVP-N", "IN-C", "QD", "CIT", "COCO")

CATEGORIES = (
    "Banana.", "Baseball.", "Skillet.", "Screwdriver.", "20.", "1.", "14.", "3.", "A.", "b.", "U.S. flag.", "Salt, pepper.",
    "Café au lait.", "Sr. Kelvin.", "ice cream.", "Ice Cream Cone.", "T-shirt, jersey.", "X-ray.", "Übung.", "猫.", "Straße.",
    "No. 7 bus.", "Mr. Potato head.", "Çay.", "İstanbul kebabı.", "ﬁsh.", "Ω meter.", "D. Vinci print.", "Hot  dog.", "mouse",
    "Red, green, and blue kite.", "jack-o'-lantern.", "naïve.", "😀 mask.", "🐈.", "Ｆull width.", "e\u0301clair.", "C++.",
    "(none).", "#.",
)  # fmt: skip
PROMPTS = (
    "What is it?", "Qu'est-ce que c'est ? ", "Given the context, what do you expect is behind the blue blocks?", "何ですか?",
    "What is the person\tdoing?\nBe brief.",
    "¿Qué {objeto} es éste? 100 %", "Was ist «das» – ein Gerät? 🧐", "Cafe\u0301 or café?",
)  # fmt: skip
ABSTENTIONS = (
    "I cannot answer this question.", "I do not know.", "I CANNOT tell.", "I do not know the answer. Sorry.", "Cannot say.",
)  # fmt: skip
REPAIRS = (
    "Reduce the brightness.", "Increase the contrast.", "Lower the saturation.", "Deblur the image.",
    "Denoise the image.", "Undo the compression.", "Raise the resolution.", "Remove the artifacts.",
)  # fmt: skip
SUGGESTIONS: dict[str, tuple[str, ...]] = {
    "ROD": ("Move the blue blocks to the left.", "Move the blue blocks to the right."),
    "VSOD": ("Rewind the video.", "Wait for the occlusion to disappear."),
    "MVP-N": ("Rotate the object.", "Change the view.", "Show a different angle.", "Change its orientation."),
    "IN-C": REPAIRS,
    "QD": ("Add more details.", "Continue the drawing.", "Finish the sketch.", "Complete the QuickDraw."),
    "CIT": ("Rewind the video.", "Wait for the object to appear."),
    "COCO": (
        "Move the camera to the left.", "Move the camera to the right.", "Move the camera up.", "Move the camera down.",
        "Move farther from the object.",
    ),
}  # fmt: skip
DIRECTIONS = ("left", "right", "up", "down", "up_left", "up_right", "down_left", "down_right", "zoom")
FRAMES = (1, 2, 3, 4, 5, 6, 8, 11, 14, 14, 14, 20, 24, 30, 36, 40)
BROKEN = "Realistic-Occlusion-Dataset/rod_3/banana/natural_bluebl_greenr-banana-s{image}.jpg"
"""The published set's one broken picture is its frame 6."""


# -- entries -----------------------------------------------------------------------------------------------------------
def entries(rng: Random, scenario: str) -> Entry:
    """One entry whose fields are sound; the package plays it, though some videos are too short for every reply."""
    number, frames = rng.randrange(1_000_000), rng.choice(FRAMES)
    categories = _categories(rng)
    base = {
        "id": number, "image_template": f"{scenario}/x{number}/s{{image}}.jpg", "first_image": rng.randrange(frames),
        "num_images": frames, "reference_image": rng.randrange(frames), "prompt": rng.choice(PROMPTS),
        "options": _options(rng, scenario), "categories": categories, "answer": rng.choice(categories),
    }  # fmt: skip
    return {**base, **_SPECIAL[scenario](rng, base)}


def _categories(rng: Random) -> list[str]:
    """Mostly four, each of which reads differently."""
    count = 4 if rng.random() < 0.93 else rng.choice((1, 2, 3, 6, 12))
    empty = rng.random() < 0.15
    return rng.sample([c for c in CATEGORIES if empty or c != "A."], count)


def _options(rng: Random, scenario: str) -> list[str]:
    """Suggestions and one abstention anywhere; seldom more of them than the alphabet has letters."""
    suggestions = SUGGESTIONS[scenario]
    chosen = rng.sample(
        suggestions, rng.randint(min(2, len(suggestions)), len(suggestions)) if rng.random() < 0.85 else 1
    )
    if scenario not in ("CIT", "COCO", "IN-C") and rng.random() < 0.05:
        chosen = [f"Way {i + 1}: {suggestions[i % len(suggestions)]}" for i in range(rng.randint(22, 31))]
    return _with_abstention(rng, chosen)


def _with_abstention(rng: Random, suggestions: list[str]) -> list[str]:
    mixed = [*suggestions, rng.choice(ABSTENTIONS)]
    rng.shuffle(mixed)
    return mixed


def _rod(rng: Random, base: Entry) -> Entry:
    if rng.random() < 0.3:
        first = rng.choice((4, 5, 5, 6, 6, 7, 7, 8)) % base["num_images"]
        return {"image_template": BROKEN, "first_image": first, "reference_image": 0}
    return {"attribute": "brownc"}


def _vsod(rng: Random, base: Entry) -> Entry:
    return {"strong_occlusions": rng.random() < 0.8}


def _mvpn(rng: Random, base: Entry) -> Entry:
    views = [rng.randrange(rng.choice((9, 200, 12_000))) for _ in range(base["num_images"] + rng.randrange(4))]
    return {
        "valid_images": views if rng.random() < 0.9 else [],
        "first_image": views[0] if rng.random() < 0.9 else 7,
        "image_template": f"MVP-N/{base['id']}/{{informative}}/{{image}}.png",
    }


def _inc(rng: Random, base: Entry) -> Entry:
    frames = rng.choice((1, 2, 3, 4, 5, 5, 5))
    return {
        "num_images": frames, "first_image": rng.randint(frames, 5), "reference_image": 1,
        "image_template": f"ImageNet-C/{{level}}/{base['id']}.JPEG",
        "quality_answer": rng.choice([option for option in base["options"] if option in REPAIRS]),
    }  # fmt: skip


def _qd(rng: Random, base: Entry) -> Entry:
    return {"first_image": 0, "reference_image": base["num_images"] - 1}


def _cit(rng: Random, base: Entry) -> Entry:
    step = rng.choice((1, 2, 5, 9))
    long = step * rng.randint(2, 14) + rng.randrange(step)
    frames = long if rng.random() < 0.9 else rng.randint(1, 2 * step)
    wait = rng.choice(("Wait for the object to appear.", "Wait for the action to begin."))
    return {
        "num_images": frames, "step_size": step, "max_steps": rng.randint(1, 40),
        "first_image": rng.choice((0, frames - 1, rng.randrange(frames))), "reference_image": rng.randrange(frames),
        "options": _with_abstention(rng, ["Rewind the video.", wait]),
    }  # fmt: skip


def _coco(rng: Random, base: Entry) -> Entry:
    direction = rng.choice(DIRECTIONS)
    words = ("to the left", "to the right", "camera up", "camera down", "farther")
    suggestions = [
        option for option, word in zip(SUGGESTIONS["COCO"], words, strict=True)
        if word.split()[-1] in (direction if direction != "zoom" else "farther")
    ]  # fmt: skip
    zoom, left, top = direction == "zoom", _length(rng, 300), _length(rng, 300)
    across, along = _length(rng, 60), _length(rng, 60)
    if zoom and rng.random() < 0.8:
        along = across  # else rounding soon tells the axes apart, and the package raises
    if not zoom and rng.random() < 0.06:
        across, along = rng.choice(((0, along), (across, 0), (0.0, 0.0)))
    return {
        "image_template": "coco2014/val2014/COCO_val2014_000000000042.jpg", "first_image": 0, "num_images": 1,
        "reference_image": 0, "options": _with_abstention(rng, suggestions), "direction": direction,
        "granularity": rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10)), "horizontal_step": across, "vertical_step": along,
        "crop": {
            "top": top, "left": left, "height": _length(rng, 200) + (0 if zoom else top),
            "width": _length(rng, 200) + (0 if zoom else left),
        },
    }  # fmt: skip


def _length(rng: Random, largest: int) -> float:
    """A whole number, or a float that does not add up."""
    return rng.choice(
        (
            rng.randint(1, largest),
            rng.uniform(0.1, largest),
            largest / 3,
            largest / 7,
            0.1,
            rng.randint(1, largest) / 10,
        )
    )


_SPECIAL = {"ROD": _rod, "VSOD": _vsod, "MVP-N": _mvpn, "IN-C": _inc, "QD": _qd, "CIT": _cit, "COCO": _coco}


def disguise(rng: Random, scenario: str, entry: Entry) -> Entry:
    """The entry as random-proactive shows it: suggestions of other scenarios in place of its own."""
    own, count = SUGGESTIONS[scenario], len(entry["options"])
    foreign = [s for name in SCENARIOS if name != scenario for s in SUGGESTIONS[name] if s not in own]
    stand_ins = rng.sample(foreign, count) if count <= len(foreign) else rng.choices(foreign, k=count)
    options = [o if _abstains(o) else new for o, new in zip(entry["options"], stand_ins, strict=True)]
    return {**entry, "options": options}


def _abstains(option: str) -> bool:
    return "cannot" in option.lower() or "do not" in option.lower()


# -- flaws -------------------------------------------------------------------------------------------------------------
Flaw = Callable[[Random, Entry], Entry]


def _alike(rng: Random, entry: Entry) -> Entry:
    pair = rng.choice((("A.", "B."), ("Ice cream.", "Ice Cream."), ("T.V. set.", "Set."), ("Banana.", "Banana. ")))
    others = [c for c in entry["categories"][:2] if c not in ("A.", "ice cream.", "Banana.")]
    categories = [*pair, *others]
    rng.shuffle(categories)
    return {"categories": categories, "answer": pair[1]}


def _worded(*texts: str) -> Flaw:
    """Suggestions that say one of these texts instead."""
    return lambda rng, entry: {"options": _with_abstention(rng, [rng.choice(texts)])}


def _repair(text: str) -> Flaw:
    return lambda rng, entry: {"options": _with_abstention(rng, [text]), "quality_answer": text}


def _without_edge(rng: Random, entry: Entry) -> Entry:
    edge = rng.choice(("top", "left", "height", "width"))
    return {"crop": {name: value for name, value in entry["crop"].items() if name != edge}}


def _past_letters(rng: Random, entry: Entry) -> Entry:
    """The 33rd option's letter is a small ``a``, which reads like the first one's."""
    ask = next(option for option in entry["options"] if not _abstains(option))
    return {"options": [ABSTENTIONS[0], *(f"Way {i}: {ask}" for i in range(34))]}


def _set(**fields: Any) -> Flaw:
    return lambda rng, entry: copy.deepcopy(fields)


FLAWS: dict[str, tuple[tuple[str, ...], Flaw]] = {
    "categories that read alike": (SCENARIOS, _alike),
    "suggestion without a cue": (("ROD", "VSOD", "MVP-N", "QD"), _worded("Please help me.", "Ask a friend.")),
    "suggestion of another scenario": (("ROD", "VSOD", "MVP-N", "QD"), _worded("Denoise the image.")),
    "suggestion with both moves, left and right": (("ROD",), _worded("Move it to the left or to the right.")),
    "suggestion with both moves, rewind and wait": (("VSOD",), _worded("Wait for the end and rewind the video.")),
    "suggestion with two cues of one move": (("QD",), _worded("Add more details to the drawing.")),
    "repair with two cues": (("IN-C",), _repair("Remove the compression artifacts.")),
    "repair without a cue": (("IN-C",), _repair("Make it better.")),
    "repair that is the abstention": (("IN-C",), _set(options=["I cannot tell.", *REPAIRS[:2]], quality_answer="I cannot tell.")),
    "repair that is no option": (("IN-C",), _set(quality_answer="Sharpen it.")),
    "33 options and more, the abstention first": (("ROD", "VSOD", "MVP-N", "QD"), _past_letters),
    "levels below 1": (("IN-C",), _set(num_images=5, first_image=2)),
    "strokes beyond the last": (("QD",), lambda rng, entry: {"num_images": 5, "first_image": rng.randint(1, 4)}),
    "fewer views than turns": (("MVP-N",), _set(num_images=5, valid_images=[4, 2], first_image=4)),
    "video shorter than a step": (("CIT",), _set(num_images=3, step_size=5, first_image=1, max_steps=9)),
    "no rewinding among the options": (("CIT",), _set(options=["Wait for the end.", "I cannot tell."], first_image=0)),
    "zoom whose axes end apart": (
        ("COCO",), lambda rng, e: {"direction": "zoom", "options": ["Move farther from the object.", "I do not know."],
                                   "horizontal_step": rng.uniform(1, 50), "vertical_step": rng.uniform(1, 50)},
    ),
    "zoom without its suggestion": (
        ("COCO",), _set(direction="zoom", options=["I do not know."], horizontal_step=0, vertical_step=0),
    ),
    "suggestion against the direction": (
        ("COCO",), _set(direction="left", granularity=5, options=["Move the camera to the right.", "I do not know."],
                        horizontal_step=3, vertical_step=3),
    ),
    "crop without an edge": (("COCO",), _without_edge),
    "answer that is no category": (SCENARIOS, _set(answer="Nowhere.")),
    "no pictures": (("ROD", "VSOD", "MVP-N", "QD", "IN-C"), _set(num_images=0)),
    "template with an unknown field": (SCENARIOS[:-1], _set(image_template="a/{picture}.jpg")),
    "template with a nameless field": (SCENARIOS[:-1], _set(image_template="a/{}.jpg")),
    "template with an open brace": (SCENARIOS[:-1], _set(image_template="a/{image.jpg")),
    "template that formats a text as a number": (("VSOD", "MVP-N", "QD"), _set(image_template="a/{image:04d}.jpg")),
    "options that are null": (SCENARIOS, _set(options=None)),
    "number that is a text": (("ROD", "VSOD", "MVP-N", "QD", "CIT"), _set(num_images="7")),
    "field that is missing": (SCENARIOS, lambda rng, entry: {"-": rng.choice(sorted(entry.keys() - {"id", "attribute"}))}),
}  # fmt: skip


PLAYED_ON = frozenset((
    "sound fields", "categories that read alike", "levels below 1", "strokes beyond the last", "video shorter than a step",
    "zoom whose axes end apart",
))  # fmt: skip
"""Causes in which our game goes on where the package raises (docs/decisions/0001); a line with another flaw is refused."""
UNREADABLE = frozenset(("options that are null", "number that is a text", "field that is missing"))
"""Causes of which no sample can be made at all, so that there is nothing to replay."""


def flawed_entry(rng: Random, scenario: str, cause: str) -> Entry:
    """An entry with the one flaw that ``cause`` names (a key of ``FLAWS`` that lists the scenario)."""
    entry = entries(rng, scenario)
    while entry.get("step_size", 0) * 2 > entry["num_images"]:  # a video too short is a cause of its own
        entry = entries(rng, scenario)
    changed = {**entry, **FLAWS[cause][1](rng, entry)}
    removed = changed.pop("-", None)
    return {name: value for name, value in changed.items() if name != removed}


def _directed(*directions: str) -> Flaw:
    """Another spelling of a direction, with a suggestion for each word in it."""

    def change(rng: Random, entry: Entry) -> Entry:
        direction = rng.choice(directions)
        words = ("left", "right", "up.", "down", "farther")
        wanted = "farther" if "zoom" in direction else direction + "."
        suggestions = [
            text for text, word in zip(SUGGESTIONS["COCO"], words, strict=True) if word.rstrip(".") in wanted
        ]
        return {"direction": direction, "options": _with_abstention(rng, suggestions)}

    return change


def _without_abstention(rng: Random, entry: Entry) -> Entry:
    return {"options": [option for option in entry["options"] if not _abstains(option)]}


def _wrong_alike(rng: Random, entry: Entry) -> Entry:
    pair = rng.choice((("A.", "B."), ("Ice cream.", "Ice Cream."), ("Banana.", "Banana. ")))
    return {"categories": rng.choice((["Fork.", *pair, "Knife."], [*pair, "Fork."])), "answer": "Fork."}


def _answer_before_its_twin(rng: Random, entry: Entry) -> Entry:
    return {"categories": ["Fork.", "Ice cream.", "Ice Cream."], "answer": "Ice cream."}


UNUSUAL: dict[str, tuple[tuple[str, ...], Flaw]] = {
    "words of a direction in another order": (
        ("COCO",),
        _directed("left_up", "right_down", "down_up", "upleft", "left_"),
    ),
    "another zoom": (("COCO",), _directed("zoom_out", "zoom_left", "zooming")),
    "granularity as a float": (("COCO",), lambda rng, entry: {"granularity": float(entry["granularity"])}),
    "first picture beyond the last, COCO": (("COCO",), _set(first_image=3, num_images=9)),
    "no abstention": (SCENARIOS, _without_abstention),
    "wrong categories that read alike": (SCENARIOS, _wrong_alike),
    "a wrong category that reads like the answer, after it": (SCENARIOS, _answer_before_its_twin),
}
"""Lines that look wrong and that the package plays to their end: none of them may be refused."""


def unusual_entry(rng: Random, scenario: str, kind: str) -> Entry:
    """An entry with the one peculiarity that ``kind`` names (a key of ``UNUSUAL`` that lists the scenario)."""
    entry = entries(rng, scenario)
    while len(entry["options"]) > 12:  # more options than letters are a flaw of their own
        entry = entries(rng, scenario)
    return {**entry, **UNUSUAL[kind][1](rng, entry)}


# -- replies -----------------------------------------------------------------------------------------------------------
ODD = (
    "", " ", "\n", "\t", " \n \n", "\r\n", ".", "..", " . ", "#", "#.", "I", "AA", "A.A.", "[", "\\.", "?", "1", "0.",
    "\x00", "\x1c", "\x85", "\xa0", "\u200b", "\u2028", "\ufeff", "\u212a", "\u212a.", "\u0130", "\u0130.", "\u0131",
    "\u017f", "\uff21", "\uff22.", "e\u0301", "A\u0301.", "À.", "ß", "🐈", "A🐈", "I don't know",
    "I cannot answer this question", "none of the above",
    "N/A", "The image shows nothing.", "None.", "{}", "{image}", "%s", "\\1", "\\g<0>", "<|im_end|>", "</s>", "null",
    "A, B", "A/B", "A or B", "A. B. C. D.", "Z. Z. Z.", "x" * 3000, "A" * 500, "A. " * 200, "no idea " * 300, "\n" * 50 + "A",
)  # fmt: skip


def _mark(index: int) -> str:
    return chr(65 + index)


PLAIN: dict[str, Callable[[str, str], str]] = {
    "text": lambda text, mark: text,
    "letter": lambda text, mark: mark,
    "letter and dot": lambda text, mark: f"{mark}.",
    "both": lambda text, mark: f"{mark}. {text}",
    "small letters": lambda text, mark: text.lower(),
    "small letter": lambda text, mark: mark.lower(),
    "small letter and dot": lambda text, mark: f"{mark.lower()}.",
    "more spaces": lambda text, mark: f"  {mark}.   {text.replace(' ', '   ')} ",
    "spaced out": lambda text, mark: " ".join(text),
    "last line feed": lambda text, mark: f"{text}\n",
    "letter and line feeds": lambda text, mark: f"{mark}.\n\n",
    "letter among spaces": lambda text, mark: f"  {mark} ",
    "dot apart": lambda text, mark: f"{mark} . {text}",
    "tabs": lambda text, mark: f"\t{mark}.\t{text}\t",
}
"""Ways to say an option that the package mostly understands."""

TWISTED: dict[str, Callable[[str, str], str]] = {
    "in brackets": lambda text, mark: f"({mark})",
    "bracket after": lambda text, mark: f"{mark}) {text}",
    "bold letter": lambda text, mark: f"**{mark}**",
    "bold both": lambda text, mark: f"**{mark}. {text}**",
    "quoted": lambda text, mark: f'"{text}"',
    "answer letter": lambda text, mark: f"Answer: {mark}",
    "answer both": lambda text, mark: f"Answer: {mark}. {text}",
    "sentence": lambda text, mark: f"The correct answer is {mark}.",
    "sentence and both": lambda text, mark: f"Sure! I think the answer is {mark}. {text}",
    "capitals": lambda text, mark: text.upper(),
    "swapped case": lambda text, mark: text.swapcase(),
    "small both": lambda text, mark: f"{mark.lower()}. {text.lower()}",
    "no dot": lambda text, mark: text.rstrip("."),
    "two dots": lambda text, mark: f"{text}.",
    "letter colon": lambda text, mark: f"{mark}: {text}",
    "because": lambda text, mark: f"{text}\nBecause it looks so.",
    "letter, then a line": lambda text, mark: f"{mark}\n{text}",
    "line before": lambda text, mark: f"Let me think.\n{mark}. {text}",
    "empty line before": lambda text, mark: f"\n{mark}. {text}",
    "text on the second line": lambda text, mark: f"{mark}.\n\n{text}",
    "carriage return": lambda text, mark: f"{mark}. {text}\r\n",
    "many letters": lambda text, mark: f"Not A. Not B. {mark}. {text}",
    "doubled": lambda text, mark: f"{mark}. {mark}. {text}",
    "twice": lambda text, mark: f"{mark}. {text} {mark}. {text}",
    "hard space": lambda text, mark: f"{mark}.\u00a0{text}",
    "hard spaces within": lambda text, mark: text.replace(" ", "\u00a0"),
    "full width": lambda text, mark: f"{chr(ord(mark) - 65 + 0xFF21)}. {text}",
    "full width letter": lambda text, mark: chr(ord(mark) - 65 + 0xFF21),
    "taken apart": lambda text, mark: unicodedata.normalize("NFD", text),
    "put together": lambda text, mark: unicodedata.normalize("NFKC", text),
    "accent on the letter": lambda text, mark: f"{mark}\u0301. {text}",
    "kelvin": lambda text, mark: text.replace("K", "\u212a").replace("k", "\u212a"),
    "dotted i": lambda text, mark: text.replace("i", "\u0130").replace("I", "\u0130"),
    "accented capital": lambda text, mark: f"É. {text}",
    "digit": lambda text, mark: f"{ord(mark) - 64}. {text}",
    "zero width": lambda text, mark: f"\u200b{text}",
    "group separator": lambda text, mark: f"\x1d{text}\x1f",
    "long before": lambda text, mark: "Well, " * 400 + f"{mark}. {text}",
    "long after": lambda text, mark: f"{text} " + "and so on " * 300,
}
"""Ways to say an option that common sense understands, and the package at times not."""


def reply(rng: Random, options: list[str], entry: Entry, bold: float = 0.7) -> str:
    """A reply to the options and categories shown; with probability ``bold`` it asks on, so that long episodes arise."""
    names = options[len(options) - len(entry["categories"]) :]
    asks = [o for o in options[: len(options) - len(names)] if not _abstains(o)]
    if asks and rng.random() < bold:
        repair = entry.get("quality_answer")
        target = repair if repair in asks and rng.random() < 0.95 else rng.choice(asks)
        return _say(rng, options, target, PLAIN)
    roll = rng.random()
    if roll < 0.25:
        return _say(rng, options, entry["answer"] if entry["answer"] in names else rng.choice(names), PLAIN)
    if roll < 0.4:
        return _say(rng, options, rng.choice(options), PLAIN)
    if roll < 0.7:
        return _say(rng, options, rng.choice((entry["answer"], *options[:3], *names)), TWISTED)
    if roll < 0.8:
        return f"{_mark(rng.randrange(len(options)))}. {rng.choice(options)}"
    if roll < 0.86:
        beyond = _mark(len(options) + rng.randrange(8))
        return rng.choice((beyond, f"{beyond}.", f"{beyond}. {rng.choice(options)}", beyond.lower()))
    return rng.choice(ODD)


def _say(rng: Random, options: list[str], target: str, ways: dict[str, Callable[[str, str], str]]) -> str:
    mark = _mark(options.index(target)) if target in options else "A"
    return ways[rng.choice(list(ways))](target, mark)
