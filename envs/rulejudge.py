"""The rule judge: an accepted answer counts if one sentence has its words, or words of its idea, without a negation.

Equal answers give equal replies, so you can score open-ended answers without a model. It knows no synonym of a category and
no irony. Words and rules are this project's own.
"""

import json
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from hashlib import sha256
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


VERSION = "rules-1"
"""Raise it when a rule below changes; the words have their own hash."""
MOST = 100_000
"""Most characters read of an answer: half from its beginning, half from its end."""
REACH = 7
"""Largest distance in words between the verb and the object of an idea."""
LOOK_BACK = 3
"""Number of words before a match among which a negation cancels the match."""
SENTENCES = re.compile(r"[.!?;:\n]+|\bbut\b|\bhowever\b|\binstead\b")
VERDICTS = re.compile(r"\b[01](?:\s*,\s*[01]\b)+")
"""Lists of 0 and 1, which are addressed to a judge and must not count as numbers."""
WORDS = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
APOSTROPHES = str.maketrans("", "", "'’")


def fingerprint() -> str:
    """Identify the rules and words in use."""
    tables = [{name: [p.pattern for p in idea] for name, idea in table.items()} for table in (IDEAS, REPAIRS)]
    return _hash(json.dumps([*tables, sorted(NEGATIONS), NUMBERS, REACH, LOOK_BACK, MOST], sort_keys=True))


def turn_fingerprint() -> str:
    """Identify the rules and words that read one answer of several."""
    return _hash(json.dumps([fingerprint(), sorted(REFUSALS), sorted(KNOWING)]))


def _hash(rules: str) -> str:
    return f"{VERSION}:{sha256(rules.encode()).hexdigest()[:16]}"


def reply(answers: Sequence[str], suggestions: int, answer: str) -> str:
    """Return a judge's reply about ``answer``: a reason per accepted answer, then the line of 0 and 1.

    The first ``suggestions`` accepted answers also match by their idea, the others only by their words.
    """
    sentences = split_sentences(answer)
    marks = [
        says(sentences, accepted, find_idea(accepted) if number < suggestions else None)
        for number, accepted in enumerate(answers)
    ]
    return format_reply(answers, marks, ("not said", "said"))


def format_reply(lines: Sequence[str], marks: Sequence[bool], words: tuple[str, str]) -> str:
    """Return one reason per line, in the ``words`` for False and True, then the line of 0 and 1."""
    reasons = [f"- {line}: {words[mark]}" for line, mark in zip(lines, marks, strict=True)]
    return "\n".join([*reasons, ",".join(str(int(mark)) for mark in marks)])


def split_sentences(answer: str) -> list[list[str]]:
    """Split an answer into sentences of normalized words."""
    if len(answer) > MOST:
        answer = f"{answer[: MOST // 2]}\n{answer[-MOST // 2 :]}"
    folded = unicodedata.normalize("NFKC", answer).casefold()
    return [words for part in SENTENCES.split(VERDICTS.sub(" ", folded)) if (words := split_words(part))]


def split_words(text: str) -> list[str]:
    """Return the words without apostrophes and punctuation, number words as digits."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = (word.translate(APOSTROPHES) for word in WORDS.findall(folded))
    return [NUMBERS.get(word, word) for word in words]


def turn_marks(
    asks: Sequence[str], others: Sequence[str], categories: Sequence[str], answer: str
) -> tuple[list[bool], bool, bool, list[bool]]:
    """Return which asks an answer makes, whether it makes another request, whether it declines, and which categories it names.

    An ask that occurs word for word excludes those that only share its idea. ``others`` are suggestions that do not count
    now; they are other requests, as is any idea of any scenario. An answer declines only if it says nothing else.
    """
    sentences = split_sentences(answer)
    verbatim = [says(sentences, ask) for ask in asks]
    ask_marks = verbatim if any(verbatim) else [says(sentences, ask, find_idea(ask)) for ask in asks]
    category_marks = [says(sentences, category) for category in categories]
    other_request = not any(ask_marks) and (
        any(says(sentences, other, find_idea(other)) for other in others)
        or any(says(sentences, "", idea) for idea in (*IDEAS.values(), *REPAIRS.values()))
    )
    says_nothing = not (other_request or any(ask_marks) or any(category_marks))
    return ask_marks, other_request, says_nothing and any(map(_declines, sentences)), category_marks


def _declines(sentence: list[str]) -> bool:
    """Return True if a sentence declines to answer."""
    return any(
        word in REFUSALS or (word in NEGATIONS and KNOWING & set(sentence[index + 1 : index + 1 + LOOK_BACK]))
        for index, word in enumerate(sentence)
    )


def says(sentences: list[list[str]], accepted: str, idea: Idea | None = None) -> bool:
    """Return True if any sentence has the accepted words or the idea without a negation."""
    phrase = split_words(accepted)
    return any(
        not NEGATIONS & set(sentence[max(0, index - LOOK_BACK) : index])
        for sentence in sentences
        for index in (*_find_phrase(sentence, phrase), *(_find_verbs(sentence, idea) if idea else ()))
    )


def find_idea(suggestion: str) -> Idea | None:
    """Return the idea of an accepted suggestion, if the tables have one."""
    lowered = suggestion.casefold()
    ideas = (idea for cue, idea in IDEAS.items() if lowered.startswith(cue))
    return next(ideas, None) or next((idea for word, idea in REPAIRS.items() if word in lowered), None)


def _find_phrase(sentence: list[str], phrase: list[str]) -> list[int]:
    """Return the positions of a phrase; its last word may be a plural."""
    if not phrase:
        return []
    *first, last = phrase
    size = len(phrase)
    endings = {last, f"{last}s", f"{last}es"}
    return [
        index
        for index in range(len(sentence) - size + 1)
        if sentence[index + size - 1] in endings and sentence[index : index + size - 1] == first
    ]


def _find_verbs(sentence: list[str], idea: Idea) -> list[int]:
    """Return the positions of the idea's verbs that have an object in reach or need none."""
    alone = [index for index, word in enumerate(sentence) if idea.alone.match(word)]
    verbs = [index for index, word in enumerate(sentence) if idea.verbs.match(word)]
    objects = [index for index, word in enumerate(sentence) if idea.objects.match(word)]
    return alone + [verb for verb in verbs if _is_near(objects, verb)]


def _is_near(indexes: list[int], index: int) -> bool:
    """Return True if another one of the sorted indexes is in reach."""
    window = indexes[bisect_left(indexes, index - REACH) : bisect_right(indexes, index + REACH)]
    return any(neighbor != index for neighbor in window)
