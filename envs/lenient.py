"""The lenient reading of replies that the benchmark cannot parse; scores use them only under the condition ``lenient``.

``python -m tests.envs.lenient_score`` measures the rules on replies that were not used to write them.
"""

import re
from collections.abc import Sequence, Set
from unicodedata import normalize

from envs import SCENARIOS
from envs.answers import FIRST_LETTER, letter
from envs.types import Action, Sample, State

LONGEST = 4_000
"""Most characters read of a reply."""
LETTERS = 26

_THOUGHT = re.compile(r"^.*</think(?:ing)?>", re.DOTALL)
_MARKUP = re.compile(r"\\(?:boxed|text|mathbf|mathrm|textbf)\b|</?\w{1,12}>|[*_`$\\{}]")
"""LaTeX, tags and Markdown around an answer: ``\\boxed{\\text{F}}``, ``<answer>D</answer>``, ``**C**``."""
_WRAPPED = re.compile(r"[\W_]{0,8}([A-Za-z])[\W_]{0,8}")
"""A letter alone in any punctuation: ``(A)``, ``[c].``, ``=> C``."""
_LEADING = re.compile(
    r"[^\w\s]{0,8}\s?(?:([A-Z])\s{0,2}(?:[).:\],;=(]|->|=>|[-\u2013\u2014]+\s|\n|\t"
    r"|\s(?:because|since|as|is (?:the )?(?:correct|right|best)|(?:not|rather than|over|instead of) \(?[A-Z])\b)|([a-z])[):\]]\s)"
)
"""A letter with its mark before the text: ``B) Rewind the video.``, ``F, because ...``, ``E\\nBaseball``, ``f) 3``."""
_SEVERAL = re.compile(
    r"(?<![\w'])[A-Z]\b\W{0,3}(?:\s|/|,)\s{0,2}(?:or\s|and\s)?\W{0,2}[A-Z](?![\w'])(?!\s(?!(?:and|or|can|are)\b)[a-z])"
)
_LISTED = re.compile(r"(?<![\w'])([A-Z])[).:](?=\s\S)")
"""A letter with its mark before a text: an entry of a repeated option list, or the answer itself."""
_FIELD = re.compile(
    r"[\"'](?:final_?)?(?:answer|choice|option|letter|selection)[\"']\s*:\s*[\"']\(?([A-Za-z])(?:[).:]|[\"'])"
)
"""An answer in JSON or a dictionary: ``{'answer': 'G'}``."""
_ANNOUNCED = re.compile(
    r"(?:\b(?:(?:answer|ans|final|option|choice|choose|choosing|chose|select|selection|pick|letter|guess|response|output|say|so|thus|hence"
    r"|therefore|leaving|go(?:ing)? with|it is|it must be|this is|prefer)\b|ans\.)"
    r"(?:\sto (?:the|this|your)(?: given)? (?:question|query))?"
    r"(?:\s(?:here|must|would|should))?(?:\s(?:be|is|option|letter|choice|the))*"
    r"(?:[:=]\s{0,2}|[^\S\n]|[\-\u2013\"'(\[,]){1,8}([A-Z]|[a-z](?=\W{0,2}$))(?!\w|'\w)(?!\s(?!over\b)[a-z])"
    r"(?!\W{0,4}\s?(?:or|and)\s|[\s\"']{0,2}[/,&][\s\"']{0,2}[A-Z]\b)"
    r"|(?<![\w'])([A-Z]) (?:it is|is (?:the )?(?:correct|right|best|(?:more|most) (?:likely|plausible)))\b"
    r"|(?<=\w):\s\(?([A-Z])\)?(?=\W{0,3}$))"
)
"""``Answer: C``, ``The answer is D``, ``I would go with (B)``, ``E is correct``, ``Option C it is``."""
_FOREIGN = re.compile(
    r"(?:\b(?:r\u00e9ponse|respuesta|antwort|risposta|resposta|antwoord|\u043e\u0442\u0432\u0435\u0442)\b(?:\s(?:\w*corr?et\w*|correct\w*"
    r"|est|es|ist|is|\u00e8|\u00e9|la|die|de|a|letra|lettre|letter|option))*|\u7b54\u6848|\u9009\u62e9|\u7b54\u3048|\u6b63\u89e3)"
    r"[\s:=\"'(\u662f\u4e3a\u306f]{0,8}([A-Z])(?![A-Za-z0-9'])"
)
"""``la r\u00e9ponse B``, ``die Antwort ist C``, the same in Spanish, Italian, Portuguese, Dutch, Russian, Chinese, Japanese."""
_FOREIGN_NO = re.compile(r"\b(?:pas|nicht|kein\w*|n\u00e3o|niet|\u043d\u0435)\b|\u4e0d|\u306a\u3044")
_POSITION = re.compile(
    r"\b(first|second|third|fourth|fifth|sixth|last) (?:option|choice|answer|one(?! (?:is|was|looks)))\b", re.IGNORECASE
)
_POSITIONS = ("first", "second", "third", "fourth", "fifth", "sixth")
_CORRECTED = re.compile(
    r"\b(?:wait|actually|reflection|second thought|correction|rather|instead|just kidding|scratch that)\b|\bno,"
)
"""Words after which a later answer replaces an earlier one."""
_LAST_LETTER = re.compile(
    r"[.,;!?]?\s?(?:but|no,|wait)?[^.!?;\n]{0,20}\b(?:reflection|second thought|actually|rather|wait|instead),?\s"
    r"(?:it is |option )?\(?([A-Z])\)?(?=\W*$)"
)
"""``I'd first say D, but on reflection E.``: the end of a reply that corrects an announced answer."""
_NOT_BUT = re.compile(
    r"\b(?:not|nicht) (?:option )?\(?[A-Z]\)?,? (?:but|sondern) (?:rather |instead )?(?:option )?\(?([A-Z])\)?"
    r"(?!\w|'\w)(?!\s[a-z])"
)
_CONTRAST = re.compile(r"\bnot\b[^.!?;\n]{1,80}?[,\s]but\s")
"""``not X but``, which is left out of a sentence because it denies X; what follows is meant."""
_CLAUSE = re.compile(
    r",\s(?:so|thus|hence|therefore|leaving|but)\b|\s(?:so|thus|hence|therefore),\s|,\s(?=it (?:is|must)\b)"
)
"""The beginning of a conclusion; a negation before it does not deny the conclusion."""
_NEGATED = re.compile(
    r"\b(?:not|no(?! (?:doubt|question))|never|neither|nor|cannot|wrong|without(?! (?:a )?doubt)"
    r"|incorrect|unlikely|impossible|rul(?:e|es|ed|ing) out|exclud(?:e|es|ed)"
    r"|eliminat(?:e|es|ed)|except|anything but|(?:more|less|fewer|greater|other|rather) than|at (?:least|most))\b"
)
_UNSURE = re.compile(
    r"\b(?:or|either|between|nor|choose from|(?:could|might) (?:it|this|that))\b|^ (?:is|was) (?:it|this|that)\b"
)
_CONDITION = re.compile(r"\bif\b")
_SENTENCE = re.compile(r"[.!?;\n]+")
_NUMBERED = re.compile(r"\b(?:frame|option|step|turn|image|video) (?=\d)")
_NUMBERS = {
    word: str(number)
    for number, word in enumerate(("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), start=2)
}
_CONTRACTED = (("\u2019", "'"), ("can't", "cannot"), ("n't", " not"), ("'s", " is"))
_NOISE = re.compile(r"[^a-z0-9]+")
_ARTICLE = re.compile(r"^(?:a|an|the) ")
SHORTEST_LIST = 3
"""Fewest marked letters that make a repeated option list, which an announced answer may follow; fewer contradict each other."""
LONGEST_STATEMENT = 18
"""Most words of a sentence that names an option by its text; longer ones mention what they do not choose."""
SHORTEST = 4
"""Fewest characters of an option's beginning that identify it."""


def read_leniently(reply: str, shown: int = LETTERS, texts: Sequence[str] = ()) -> int | None:
    """Return the index of the option that a reply names, or None; ``shown`` is the number of lettered options.

    After thoughts and markup are removed, the first of these counts: a letter alone in any punctuation, also as the last
    line; a letter with its mark at the start; a letter announced as the answer; the one of ``texts`` in a sentence that
    neither denies it nor leaves a choice open. A reply with two different letters or texts names nothing.
    """
    if fields := {_index(letter, shown) for letter in _FIELD.findall(_THOUGHT.sub("", reply[:LONGEST]))}:
        return _only(fields)
    text = _strip_markup(reply[:LONGEST])
    if alone := _WRAPPED.fullmatch(text):
        return _index(alone[1], shown)
    marked = {_index(letter, shown) for letter in _LISTED.findall(text)}
    announced = {_index(letter, shown) for letter in _announced(text)}
    lines = text.splitlines()
    if lines and (last := _WRAPPED.fullmatch(lines[-1].strip())):
        is_cut_list = len(marked) >= SHORTEST_LIST
        return None if is_cut_list else _only({*announced, _index(last[1], shown)})
    if leading := _LEADING.match(text):
        first = _index(leading[1] or leading[2], shown)
        if marked <= {first} and not _SEVERAL.match(text):
            return first if announced <= {first} else None
        if len(marked | {first}) < SHORTEST_LIST:
            return None
    if announced:
        return _only(announced)
    if leading or len(marked) >= SHORTEST_LIST:
        return None
    position = _by_position(text, len(texts))
    named = _by_text(text, texts) if position is None else position
    return named if marked <= {named} else None


def names_another(reply: str, index: int, texts: Sequence[str]) -> bool:
    """Return True if the reply names another option by its text than the one that was read from it."""
    named = _by_text(_strip_markup(reply[:LONGEST]), texts)
    return named is not None and named != index


def _strip_markup(reply: str) -> str:
    """Return the reply without thoughts and markup; empty if the thoughts never end."""
    text = _THOUGHT.sub("", reply)
    if "<think" in text:
        return ""
    return _MARKUP.sub("", normalize("NFKC", text.replace("\uff1a", ": "))).strip()


def _announced(text: str) -> list[str]:
    """Return the letters announced as the answer in clauses that do not deny them; after a correction, only the last one."""
    plain = _lower_words(_expand_contractions(text))
    letters: list[str] = []
    last_end = 0
    for match in _ANNOUNCED.finditer(plain):
        if _is_denied(plain[: match.end()]):
            continue
        if letters and _CORRECTED.search(plain[last_end : match.start()]):
            letters.clear()
        letters.append(match[1] or match[2] or match[3])
        last_end = match.end()
    if letters and (correction := _LAST_LETTER.search(plain, last_end)):
        return [correction[1]]
    contrast = [match[1] for match in _NOT_BUT.finditer(plain)]
    foreign = [
        match[1]
        for match in _FOREIGN.finditer(plain)
        if not _FOREIGN_NO.search(_SENTENCE.split(plain[: match.end()])[-1])
    ]
    return letters or contrast or foreign


def _is_denied(before: str) -> bool:
    """Return True if the last clause of a text denies what it ends with, or makes it depend on a condition."""
    sentence = _SENTENCE.split(before.rstrip(".!?;\n"))[-1]
    return bool(_NEGATED.search(_CLAUSE.split(sentence)[-1]) or _CONDITION.search(sentence))


def _by_position(text: str, options: int) -> int | None:
    """Return the option that a plain sentence names by its position, such as ``the third option``."""
    positions = {match[1].lower() for match in _POSITION.finditer(text)}
    if (
        len(positions) != 1
        or not options
        or _NEGATED.search(_expand_contractions(text.lower()))
        or _UNSURE.search(text)
    ):
        return None
    position = positions.pop()
    index = options - 1 if position == "last" else _POSITIONS.index(position)
    return index if index < options else None


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


def _only(indexes: Set[int | None]) -> int | None:
    return next(iter(indexes)) if len(indexes) == 1 else None


def _index(mark: str, shown: int) -> int | None:
    index = ord(mark.upper()) - FIRST_LETTER
    return index if index < min(shown, LETTERS) else None


def _lower_words(text: str) -> str:
    """Lower the case of words but not of single letters: ``The Answer Is D`` -> ``the answer is D``."""
    return re.sub(r"[^\W\u3000-\u9fff]{2,}", lambda word: word[0].lower(), text)


def _expand_contractions(text: str) -> str:
    for short, full in _CONTRACTED:
        text = text.replace(short, full)
    return text


def _by_text(text: str, texts: Sequence[str]) -> int | None:
    """Return the option that begins with the text, or else the only option that a plain statement names."""
    core, options = _ARTICLE.sub("", _normalize(text)), [_ARTICLE.sub("", _normalize(option)) for option in texts]
    equal = [index for index, option in enumerate(options) if core and option == core]
    if not equal and len(core) >= SHORTEST and not core.isdigit():
        equal = [index for index, option in enumerate(options) if option.startswith(f"{core} ")]
    if equal:
        return equal[0] if len(equal) == 1 else None
    sentences = [f" {_normalize(sentence)} " for sentence in _SENTENCE.split(text)]
    sentences = [sentence for sentence in sentences if sentence.count(" ") <= LONGEST_STATEMENT + 1]
    indexes = {index for sentence in sentences for index in _stated_options(sentence, options)}
    return _only(indexes)


def _stated_options(sentence: str, options: Sequence[str]) -> list[int]:
    """Return the options in a sentence that neither denies them nor leaves a choice open; their own negations do not count."""
    sentence = _NUMBERED.sub("x", _CONTRAST.sub(" ", sentence, count=1))
    indexes = [index for index, option in enumerate(options) if option and f" {option} " in sentence]
    rest = sentence
    for index in indexes:
        rest = rest.replace(options[index], "")
    return indexes if not _NEGATED.search(rest) and (len(indexes) > 1 or not _UNSURE.search(rest)) else []


def _normalize(text: str) -> str:
    """Return the words in lower case, with digits for number words from two on."""
    words = _NOISE.sub(" ", _expand_contractions(text).lower()).split()
    return " ".join(_NUMBERS.get(word, word) for word in words)
