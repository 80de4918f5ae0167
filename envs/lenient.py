"""Lenient reading: more tolerant rules for what a reply chose; no score uses them unless a condition says so.

Only a reply that the benchmark could not parse is read again. What the rules are worth on replies that nobody looked at
while writing them: ``python -m tests.envs.lenient_score``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from envs import SCENARIOS
from envs.answers import FIRST_LETTER, letter
from envs.types import Action, Sample, State

LONGEST = 4_000
"""Characters that are read: a reply may be a megabyte."""
LETTERS = 26

_THOUGHT = re.compile(r"^.*</think(?:ing)?>", re.DOTALL)
_MARKUP = re.compile(r"\\(?:boxed|text|mathbf|textbf)\b|</?\w{1,12}>|[*_`$\\{}]")
"""LaTeX, tags and Markdown round an answer: ``\\boxed{\\text{F}}``, ``<answer>D</answer>``, ``**C**``."""
_WRAPPED = re.compile(r"[\W_]{0,8}([A-Za-z])[\W_]{0,8}")
"""A letter alone, whatever stands round it: ``(A)``, ``[c].``, ``=> C``."""
_LEADING = re.compile(
    r"[^\w\s]{0,8}\s?(?:([A-Z])\s{0,2}(?:[).:\],;=(]|->|=>|[-\u2013\u2014]+\s|\n|\t"
    r"|\s(?:because|since|as|is (?:the )?(?:correct|right|best))\b)|([a-z])[):\]]\s)"
)
"""A letter with its mark before the text: ``B) Rewind the video.``, ``F, because ...``, ``E\\nBaseball``, ``f) 3``."""
_SEVERAL = re.compile(r"(?<![\w'])[A-Z]\b\W{0,3}(?:\s|/|,)\s{0,2}(?:or\s|and\s)?\W{0,2}[A-Z](?![\w'])(?!\s[a-z])")
"""Two letters in a row: a reply that lists options chooses none."""
_LISTED = re.compile(r"(?<![\w'])([A-Z])[).:]")
_ANNOUNCED = re.compile(
    r"(?:\b(?:answer|option|choice|choose|chose|select|selection|pick|letter|guess|response|output|say|so|thus|hence|therefore"
    r"|go(?:ing)? with|it is|this is)\b(?:\s(?:here|must|would|should))?(?:\s(?:be|is|option|letter|choice|the))*"
    r"[\s:=\-\u2013\"'(\[,]{1,8}([A-Z]|[a-z](?=\W{0,2}$))(?![\w'])(?!\s[a-z])(?!\W{0,4}\s?(?:or|and)\s|\s{0,2}[/,&]\s{0,2}[A-Z]\b)"
    r"|(?<![\w'])([A-Z]) is (?:the )?(?:correct|right|best))"
)
"""``Answer: C``, ``The answer is D``, ``I would go with (B)``, ``E is correct``."""
_NEGATED = re.compile(r"\b(?:not|no|never|neither|nor|cannot|wrong|without)\b")
_UNSURE = re.compile(r"\b(?:or|either|between|nor)\b")
_SENTENCE = re.compile(r"[.!?;\n]+")
_NUMBERED = re.compile(r"\b(?:frame|option|step|turn|image|video) (?=\d)")
_CONTRACTED = (("\u2019", "'"), ("can't", "cannot"), ("n't", " not"), ("'s", " is"))
_NOISE = re.compile(r"[^a-z0-9]+")
_ARTICLE = re.compile(r"^(?:a|an|the) ")
SHORTEST = 4
"""Letters of the beginning of an option that stand for it."""


def read_leniently(reply: str, shown: int = LETTERS, texts: Sequence[str] = ()) -> int | None:
    """The index of the option that a forgiving reader takes a reply for, or None; ``shown`` options were lettered.

    Thoughts and markup are taken off first. Then, in order: a letter alone in any wrapping, also as the last line; a
    letter with its mark at the start; a letter announced as the answer; the one of ``texts`` that the reply says, in a
    sentence that neither denies it nor leaves a choice open. Two different letters or texts name nothing.
    """
    text = _bare(reply[:LONGEST])
    if alone := _WRAPPED.fullmatch(text):
        return _index(alone[1], shown)
    lines = text.splitlines()
    if lines and (last := _WRAPPED.fullmatch(lines[-1].strip())):
        return _index(last[1], shown)
    if leading := _LEADING.match(text):
        single = len(set(_LISTED.findall(text))) < 2 and not _SEVERAL.match(text)
        return _index(leading[1] or leading[2], shown) if single else None
    announced = {_index(letter, shown) for letter in _announced(text)}
    if announced:
        return announced.pop() if len(announced) == 1 else None
    return _by_text(text, texts)


def _bare(reply: str) -> str:
    """The reply without its thoughts and without markup; empty where the thoughts never end."""
    text = _THOUGHT.sub("", reply)
    if "<think" in text:
        return ""
    return _MARKUP.sub("", text.replace("\uff1a", ": ")).strip()


def _announced(text: str) -> list[str]:
    """Letters announced as the answer, those in a sentence that denies them left out."""
    plain = _capitalless(_expanded(text))
    found = []
    for match in _ANNOUNCED.finditer(plain):
        before = _SENTENCE.split(plain[: match.end()].rstrip(".!?;\n"))[-1]
        if not _NEGATED.search(before):
            found.append(match[1] or match[2])
    return found


def repair_reply(sample: Sample, state: State, reply: str) -> str:
    """The letter that a forgiving reader takes an unparsable reply for; any other reply as it stands."""
    game = SCENARIOS[sample.scenario]
    _, turn = game.step(sample, state, reply)
    if turn.action is not Action.UNPARSABLE:
        return reply
    view = game.view(sample, state)
    options = (*view.options, *view.categories)
    index = read_leniently(reply, len(options), options)
    return reply if index is None else letter(index)


def _index(found: str, shown: int) -> int | None:
    index = ord(found.upper()) - FIRST_LETTER
    return index if index < min(shown, LETTERS) else None


def _capitalless(text: str) -> str:
    """Words in lower case, letters that stand alone as they were: ``The Answer Is D`` -> ``the answer is D``."""
    return re.sub(r"\w{2,}", lambda word: word[0].lower(), text)


def _expanded(text: str) -> str:
    for short, full in _CONTRACTED:
        text = text.replace(short, full)
    return text


def _by_text(text: str, texts: Sequence[str]) -> int | None:
    """The option that the whole text is or begins, or else the only one that a plain statement names."""
    meant, options = _core(text), [_core(option) for option in texts]
    equal = [index for index, option in enumerate(options) if meant and option == meant]
    if not equal and len(meant) >= SHORTEST and not meant.isdigit():
        equal = [index for index, option in enumerate(options) if option.startswith(f"{meant} ")]
    if equal:
        return equal[0] if len(equal) == 1 else None
    sentences = [f" {_plain(_expanded(one))} " for one in _SENTENCE.split(text)]
    found = {index for sentence in sentences for index in _named(sentence, options)}
    return found.pop() if len(found) == 1 else None


def _named(sentence: str, options: Sequence[str]) -> list[int]:
    """Options that a sentence says; none where it denies or leaves open, but an abstention may deny."""
    sentence = _NUMBERED.sub("x", sentence)
    found = [index for index, option in enumerate(options) if option and f" {option} " in sentence]
    rest = sentence
    for index in found:
        rest = rest.replace(options[index], "")
    return found if not _NEGATED.search(rest) and (len(found) > 1 or not _UNSURE.search(rest)) else []


def _core(text: str) -> str:
    return _ARTICLE.sub("", _plain(_expanded(text)))


def _plain(text: str) -> str:
    return _NOISE.sub(" ", text.lower()).strip()
