"""The rule judge: an accepted answer counts if a sentence has its words, or a verb near an object of its idea, not negated.

Equal answers give equal replies, so you can score open-ended answers without a model. It knows no synonym of a category and
no irony. Words and rules are this project's own.
"""

import re
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from unicodedata import normalize

from envs import SCENARIOS
from envs.dialogue import plain, turn_choices
from envs.openended import THRESHOLDS, accepted_answers
from envs.scenario import suggestions
from envs.types import Sample, State

MOST = 100_000
"""Most characters read of an answer: half from its beginning, half from its end."""
LOOK_BACK, NEAR = 3, 60
"""Words, and characters, before a match among which a negation cancels the match."""


def _near(objects: str, verbs: str = "", alone: str = r"(?!)") -> str:
    """Return a pattern of words that begin like a verb and an object with at most six words between, or like ``alone``.

    ``verbs`` are those of a change without others.
    """
    verb, other = (rf"\b(?:{'|'.join(stems.split())})\w*" for stems in (verbs or WORDS["change"], objects))
    return rf"{verb}(?: \w+){{0,6}}? {other}|{other}(?: \w+){{0,6}}? {verb}|\b(?:{alone})\w*"


WORDS = tomllib.loads(Path(__file__).with_name("rulejudge.toml").read_text("utf-8"))
IDEAS = {cue: _near(**words) for cue, words in WORDS["ideas"].items()}
"""Words of a suggestion, lower case -> a pattern of other ways to ask for it."""
NEGATIONS, DECLINES = (re.compile(rf"\b(?:{'|'.join(WORDS[name])})\b") for name in ("negations", "declines"))
NUMBERS = dict(zip(WORDS["numbers"], "123456789", strict=True))
SENTENCES = re.compile(r"[.!?;:\n]+|\bbut\b|\bhowever\b|\binstead\b")
VERDICTS = re.compile(r"\b[01](?:\s*,\s*[01]\b)+")
"""Lists of 0 and 1, which are addressed to a judge and must not count as numbers."""


def fingerprint() -> str:
    """Identify the rules and words in use; raise the number when a rule below changes."""
    words = (IDEAS, NEGATIONS.pattern, DECLINES.pattern, NUMBERS, SENTENCES.pattern, LOOK_BACK, MOST)
    return f"rules-2:{sha256(repr(words).encode()).hexdigest()[:16]}"


def judge_answer(sample: Sample, answer: str, reference: bool = False) -> str:
    """Return a judge's reply about an answer: a reason per accepted answer, then the line of 0 and 1.

    Suggestions also match by their idea, categories only by their words.
    """
    accepted, sentences = accepted_answers(sample, reference), split_sentences(answer)
    count = THRESHOLDS.get(sample.scenario, len(accepted) - 1)
    marks = [says(sentences, text, number < count) for number, text in enumerate(accepted)]
    return _write_reply(accepted, marks, ("not said", "said"))


def judge_turn(sample: Sample, state: State, answer: str) -> str:
    """Return a judge's reply about one answer of several: a reason per line of ``TurnChoices``, then the line of 0 and 1.

    An ask that occurs word for word excludes those that only share its idea. Suggestions that do not count now are other
    requests, as is any idea of any scenario. An answer declines only if it says nothing else.
    """
    choices, sentences = turn_choices(sample, state), split_sentences(answer)
    verbatim = [says(sentences, ask) for ask in choices.asks]
    asks = verbatim if any(verbatim) else [says(sentences, ask, by_idea=True) for ask in choices.asks]
    named = [says(sentences, category) for category in choices.categories]
    offered, names = suggestions(SCENARIOS[sample.scenario].offered(sample, state)), set(map(plain, sample.categories))
    texts = (text for text in (*offered, *accepted_answers(sample)) if plain(text) not in names)
    others = (says(sentences, text, by_idea=True) for text in texts if text not in choices.asks)
    ideas = (_affirms(sentences, re.compile(idea)) for idea in IDEAS.values())
    has_other = not any(asks) and (any(others) or any(ideas))
    declines = not (has_other or any(asks) or any(named)) and any(map(DECLINES.search, sentences))
    return _write_reply(choices.lines, (*asks, has_other, declines, *named), ("no", "yes"))


def _write_reply(lines: Sequence[str], marks: Sequence[bool], words: tuple[str, str]) -> str:
    """Return one reason per line, in the ``words`` for False and True, then the line of 0 and 1."""
    reasons = [f"- {line}: {words[mark]}" for line, mark in zip(lines, marks, strict=True)]
    return "\n".join([*reasons, ",".join(str(int(mark)) for mark in marks)])


def says(sentences: Sequence[str], accepted: str, by_idea: bool = False) -> bool:
    """Return True if any sentence has the accepted words, or their idea, without a negation."""
    return _affirms(sentences, _pattern(accepted, by_idea))


def _affirms(sentences: Sequence[str], pattern: re.Pattern[str]) -> bool:
    """Return True if any sentence has a match without a negation before it."""
    matches = ((sentence, match.start()) for sentence in sentences for match in pattern.finditer(sentence))
    words = (text[max(0, start - NEAR) : start].split()[-LOOK_BACK:] for text, start in matches)
    return any(not NEGATIONS.search(" ".join(before)) for before in words)


@lru_cache(maxsize=4096)
def _pattern(accepted: str, by_idea: bool) -> re.Pattern[str]:
    """Return a pattern of the accepted words, whose last may be a plural, and of the idea that they stand for."""
    ideas = [idea for cue, idea in IDEAS.items() if cue in accepted.casefold()][:1] if by_idea else []
    return re.compile("|".join([rf"\b{normalize_words(accepted) or '(?!)'}(?:e?s)?\b", *ideas]))


def split_sentences(answer: str) -> list[str]:
    """Split an answer into sentences of normalized words."""
    if len(answer) > MOST:
        answer = f"{answer[: MOST // 2]}\n{answer[-MOST // 2 :]}"
    parts = SENTENCES.split(VERDICTS.sub(" ", normalize("NFKC", answer).casefold()))
    return [words for part in parts if (words := normalize_words(part))]


def normalize_words(text: str) -> str:
    """Return the words in lower case without apostrophes and punctuation, number words as digits."""
    words = re.findall(r"[^\W_]+(?:['’][^\W_]+)*", normalize("NFKC", text).casefold())
    return " ".join(NUMBERS.get(word, word) for word in (re.sub("['’]", "", word) for word in words))
