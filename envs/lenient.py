"""Lenient and fuzzy readings of replies that the benchmark cannot parse; scores use them only under the condition ``lenient``.

``python -m tests.envs.lenient_score`` measures the rules on replies that were not used to write them.
"""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from envs import SCENARIOS
from envs.answers import FIRST_LETTER, letter
from envs.types import Action, Sample, State

LONGEST = 4_000
"""Most characters read of a reply."""
LONGEST_COMPARED = 500
"""Most characters compared for similarity, whose time grows with the square of the length."""
LETTERS = 26

_THOUGHT = re.compile(r"^.*</think(?:ing)?>", re.DOTALL)
_MARKUP = re.compile(r"\\(?:boxed|text|mathbf|textbf)\b|</?\w{1,12}>|[*_`$\\{}]")
"""LaTeX, tags and Markdown around an answer: ``\\boxed{\\text{F}}``, ``<answer>D</answer>``, ``**C**``."""
_WRAPPED = re.compile(r"[\W_]{0,8}([A-Za-z])[\W_]{0,8}")
"""A letter alone in any punctuation: ``(A)``, ``[c].``, ``=> C``."""
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
"""Least letters of the beginning of an option that identify it."""


def read_leniently(reply: str, shown: int = LETTERS, texts: Sequence[str] = ()) -> int | None:
    """Return the index of the option that a reply names, or None; ``shown`` options were lettered.

    Without thoughts and markup, the first of these counts: a letter alone in any punctuation, also as the last line; a
    letter with its mark at the start; a letter announced as the answer; the one of ``texts`` in a sentence that neither
    denies it nor leaves a choice open. Two different letters or texts name nothing.
    """
    text = _strip_markup(reply[:LONGEST])
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


def nearest_option(reply: str, texts: Sequence[str]) -> int | None:
    """Return the lenient reading, or else the index of the text that is most similar to the reply, as fuzzy evaluations do.

    Similarity is ``difflib.SequenceMatcher.ratio`` in lower case with single spaces; the first of equally similar texts
    counts. None if the reply has no letter or digit, or without texts.
    """
    index = read_leniently(reply, len(texts), texts)
    plain_reply = " ".join(reply[:LONGEST_COMPARED].lower().split())
    if index is not None or not texts or not any(map(str.isalnum, plain_reply)):
        return index
    matcher = SequenceMatcher(None, b=plain_reply, autojunk=False)
    ratios = []
    for text in texts:
        matcher.set_seq1(" ".join(text.lower().split()))
        ratios.append(matcher.ratio())
    return max(range(len(texts)), key=ratios.__getitem__)


def _strip_markup(reply: str) -> str:
    """Return the reply without thoughts and markup; empty if the thoughts never end."""
    text = _THOUGHT.sub("", reply)
    if "<think" in text:
        return ""
    return _MARKUP.sub("", text.replace("\uff1a", ": ")).strip()


def _announced(text: str) -> list[str]:
    """Return the letters announced as the answer in sentences that do not deny them."""
    plain = _lower_words(_expand_contractions(text))
    letters = []
    for match in _ANNOUNCED.finditer(plain):
        before = _SENTENCE.split(plain[: match.end()].rstrip(".!?;\n"))[-1]
        if not _NEGATED.search(before):
            letters.append(match[1] or match[2])
    return letters


def repair_reply(sample: Sample, state: State, reply: str) -> str:
    """Return the letter that the lenient reading finds in an unparsable reply; any other reply unchanged."""
    game = SCENARIOS[sample.scenario]
    _, turn = game.step(sample, state, reply)
    if turn.action is not Action.UNPARSABLE:
        return reply
    view = game.view(sample, state)
    options = (*view.options, *view.categories)
    index = read_leniently(reply, len(options), options)
    return reply if index is None else letter(index)


def _index(mark: str, shown: int) -> int | None:
    index = ord(mark.upper()) - FIRST_LETTER
    return index if index < min(shown, LETTERS) else None


def _lower_words(text: str) -> str:
    """Lower the case of words but not of single letters: ``The Answer Is D`` -> ``the answer is D``."""
    return re.sub(r"\w{2,}", lambda word: word[0].lower(), text)


def _expand_contractions(text: str) -> str:
    for short, full in _CONTRACTED:
        text = text.replace(short, full)
    return text


def _by_text(text: str, texts: Sequence[str]) -> int | None:
    """Return the option that the text equals or begins, or else the only one that a plain statement names."""
    core, options = _ARTICLE.sub("", _normalize(text)), [_ARTICLE.sub("", _normalize(option)) for option in texts]
    equal = [index for index, option in enumerate(options) if core and option == core]
    if not equal and len(core) >= SHORTEST and not core.isdigit():
        equal = [index for index, option in enumerate(options) if option.startswith(f"{core} ")]
    if equal:
        return equal[0] if len(equal) == 1 else None
    sentences = [f" {_normalize(sentence)} " for sentence in _SENTENCE.split(text)]
    indexes = {index for sentence in sentences for index in _stated_options(sentence, options)}
    return indexes.pop() if len(indexes) == 1 else None


def _stated_options(sentence: str, options: Sequence[str]) -> list[int]:
    """Return the options in a sentence that neither denies them (an abstention may) nor leaves a choice open."""
    sentence = _NUMBERED.sub("x", sentence)
    indexes = [index for index, option in enumerate(options) if option and f" {option} " in sentence]
    rest = sentence
    for index in indexes:
        rest = rest.replace(options[index], "")
    return indexes if not _NEGATED.search(rest) and (len(indexes) > 1 or not _UNSURE.search(rest)) else []


def _normalize(text: str) -> str:
    return _NOISE.sub(" ", _expand_contractions(text).lower()).strip()
