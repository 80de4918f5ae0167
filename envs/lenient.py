"""The lenient reading of replies that the benchmark cannot parse; scores use them only under the condition ``lenient``.

``python -m tests.envs.lenient_score`` measures the rules on replies that were not used to write them.
"""

import re
from collections.abc import Iterable, Sequence
from unicodedata import normalize

from envs import SCENARIOS
from envs.answers import FIRST_LETTER, letter
from envs.types import Action, Sample, State

LONGEST = 4_000
"""Most characters read of a reply."""
LETTERS = 26
SHORTEST_LIST = 3
"""Fewest marked letters that make a repeated option list, which names nothing by itself."""
LONGEST_STATEMENT = 18
"""Most words of a sentence that names an option by its text; longer ones mention what they do not choose."""

_THOUGHT = re.compile(r"^.*</think(?:ing)?>", re.DOTALL)
_MARKUP = re.compile(r"\\(?:boxed|text|mathbf|mathrm|textbf)\b|</?\w{1,12}>|[*_`$\\{}]")
"""LaTeX, tags and Markdown around an answer: ``\\boxed{\\text{F}}``, ``<answer>D</answer>``, ``**C**``."""
_ALONE = re.compile(r"\W{0,8}([A-Za-z])\W{0,8}")
"""A letter alone in any punctuation: ``(A)``, ``[c].``, ``=> C``."""
_LEADING = re.compile(
    r"\W{0,8}(?:([A-Z])(?:\s{0,2}[).:\];=(]|,? (?:because|since|as)\b|\s?[-=]>|\n|\t)|([a-z])[):\]]\s)"
)
"""A letter with its mark before the text: ``B) Rewind the video.``, ``F, because ...``, ``f) 3``."""
_LISTED = re.compile(r"(?<![\w'])([A-Z])[).:](?=\s\S)")
"""A letter with its mark before a text: an entry of a repeated option list, or the answer itself."""
_ANNOUNCED = re.compile(
    r"(?<![a-z])(?:answer|ans\.|final|option|choice|choose|pick|select|letter|say|guess|go with|so|thus|therefore|it(?: i|')s)"
    r"(?: to the question)?(?: (?:here|must|would|should|be|is|option|letter|choice|the))*"
    r"[\s:=\"'(\[,-]{1,8}([A-Z]|[a-z](?=\W{0,2}$))(?!\w|'\w)(?! [a-z])"
    r"|(?<![\w'])([A-Z]) (?:it is|is (?:the )?(?:correct|right|best|(?:more|most) (?:likely|plausible)))\b"
)
"""``Answer: C``, ``The answer is D``, ``I would go with (B)``, ``E is correct``."""
_DENIED = re.compile(
    r"\b(?:not|no|never|neither|nor|cannot|wrong|without|incorrect|unlikely|impossible|rul\w+ out|exclud\w+|eliminat\w+"
    r"|except|anything but|(?:more|less|rather|other) than|if|or|either|between|could|might)\b"
)
"""Words that deny an answer in their clause, or leave a choice open."""
_CORRECTED = re.compile(r"\b(?:wait|actually|reflection|second thought|correction|instead|kidding)\b|\bno,")
"""Words after which another answer may follow."""
_CLAUSE = re.compile(r"[.!?;\n]+|\",|,? (?:so|thus|therefore|but) ")


def read_leniently(reply: str, shown: int = LETTERS, texts: Sequence[str] = ()) -> int | None:
    """Return the index of the option that a reply names, or None; ``shown`` is the number of lettered options.

    After thoughts and markup are removed, the first of these counts: a letter alone in any punctuation, also as the last
    line; a letter with its mark at the start; a letter announced as the answer; the one of ``texts`` in a sentence that
    neither denies it nor leaves a choice open. A reply with two different letters or texts names nothing.
    """
    text = _strip_markup(reply[:LONGEST])
    last = text.rpartition("\n")[2]
    leading, marked, letters = _LEADING.match(text), set(_LISTED.findall(text)), set(_announced(text))
    if alone := _ALONE.fullmatch(text) or _ALONE.fullmatch(last):
        letters.add(alone[1])
    elif leading:
        marked.add((leading[1] or leading[2]).upper())
        letters |= marked if len(marked) < SHORTEST_LIST else set()
    if letters:
        indexes = (ord(mark.upper()) - FIRST_LETTER for mark in letters)
        return _only(index if index < min(shown, LETTERS) else None for index in indexes)
    named = _by_text(text, texts)
    return named if named is not None and marked <= {letter(named)} else None


def names_another(reply: str, index: int, texts: Sequence[str]) -> bool:
    """Return True if the reply names another option by its text than the one that was read from it."""
    named = _by_text(_strip_markup(reply[:LONGEST]), texts)
    return named is not None and named != index


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


def _strip_markup(reply: str) -> str:
    """Return the reply without thoughts, markup and contractions; empty if the thoughts never end."""
    text = _THOUGHT.sub("", reply)
    if "<think" in text:
        return ""
    text = text.replace("\u2019", "'").replace("can't", "cannot").replace("n't", " not").replace("\uff1a", ": ")
    return _MARKUP.sub("", normalize("NFKC", text)).strip()


def _announced(text: str) -> list[str]:
    """Return the letters announced as the answer in clauses that do not deny them."""
    plain = re.sub(r"\w{2,}", lambda word: word[0].lower(), text)
    return [
        match[1] or match[2]
        for match in _ANNOUNCED.finditer(plain)
        if not _DENIED.search(_CLAUSE.split(plain[: match.end()])[-1]) and not _CORRECTED.search(plain, match.end())
    ]


def _by_text(text: str, texts: Sequence[str]) -> int | None:
    """Return the option that equals the text, or else the only option that plain statements name."""
    options = [_words(option) for option in texts]
    if (core := _words(text)) in options:
        return _only(index for index, option in enumerate(options) if option == core)
    return _only(
        index
        for sentence in map(_words, _CLAUSE.split(text))
        if sentence.count(" ") < LONGEST_STATEMENT
        for index, option in enumerate(options)
        if f" {option} " in f" {sentence} " and not _DENIED.search(sentence.replace(option, ""))
    )


def _words(text: str) -> str:
    """Return the words in lower case, without an article before them."""
    return re.sub(r"^(?:a|an|the) ", "", " ".join(re.findall(r"[a-z0-9]+", text.lower())))


def _only(indexes: Iterable[int | None]) -> int | None:
    distinct = set(indexes)
    return distinct.pop() if len(distinct) == 1 else None
