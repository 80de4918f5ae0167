"""The rule judge: an accepted answer counts where its words, or words of its idea, stand in one sentence unnegated.

The same answer gives the same reply for ever, on any machine, so a table of open-ended answers exists without a model.
It knows no synonym of a category and no irony. Words and rules are this project's own.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from hashlib import sha256

from envs.rulewords import IDEAS, KNOWING, NEGATIONS, NUMBERS, REFUSALS, REPAIRS, Idea

VERSION = "rules-1"
"""Raised when a rule below changes; the words have a hash of their own."""
MOST = 100_000
"""Characters of an answer that are read: half from its beginning, half from its end."""
REACH = 7
"""Words between the two parts of an idea, at most."""
LOOK_BACK = 3
"""Words before a match in which a negation takes it back."""
SENTENCES = re.compile(r"[.!?;:\n]+|\bbut\b|\bhowever\b|\binstead\b")
VERDICTS = re.compile(r"\b[01](?:\s*,\s*[01]\b)+")
"""Lists of 0 and 1 count nothing, least of all people: they are meant for a judge."""
WORDS = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
APOSTROPHES = str.maketrans("", "", "'’")


def fingerprint() -> str:
    """Identify the rules and words in use; others may reach another verdict."""
    tables = [{name: [p.pattern for p in idea] for name, idea in table.items()} for table in (IDEAS, REPAIRS)]
    told = json.dumps([*tables, sorted(NEGATIONS), NUMBERS, REACH, LOOK_BACK, MOST], sort_keys=True)
    return f"{VERSION}:{sha256(told.encode()).hexdigest()[:16]}"


def turn_fingerprint() -> str:
    """Identify the rules and words that read one answer of several."""
    more = json.dumps([fingerprint(), sorted(REFUSALS), sorted(KNOWING)])
    return f"{VERSION}:{sha256(more.encode()).hexdigest()[:16]}"


def reply(answers: Sequence[str], suggestions: int, answer: str) -> str:
    """A judge's reply about ``answer``: what was found for each accepted answer, then the line of 0 and 1.

    The first ``suggestions`` accepted answers are also found by their idea, the others by their words alone.
    """
    said = sentences(answer)
    found = [
        says(said, accepted, idea_of(accepted) if number < suggestions else None)
        for number, accepted in enumerate(answers)
    ]
    reasons = [f"- {accepted}: {'said' if yes else 'not said'}" for accepted, yes in zip(answers, found, strict=True)]
    return "\n".join([*reasons, ",".join(str(int(yes)) for yes in found)])


def sentences(answer: str) -> list[list[str]]:
    """The answer as sentences of normalised words."""
    if len(answer) > MOST:
        answer = f"{answer[: MOST // 2]}\n{answer[-MOST // 2 :]}"
    folded = unicodedata.normalize("NFKC", answer).casefold()
    return [spelled for part in SENTENCES.split(VERDICTS.sub(" ", folded)) if (spelled := words(part))]


def words(text: str) -> list[str]:
    """Words without apostrophes, number words as digits; punctuation is dropped."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    spelled = (word.translate(APOSTROPHES) for word in WORDS.findall(plain))
    return [NUMBERS.get(word, word) for word in spelled]


def turn_marks(
    asks: Sequence[str], others: Sequence[str], categories: Sequence[str], answer: str
) -> tuple[list[bool], bool, bool, list[bool]]:
    """Return what one answer of several does: asks said, something else asked for, declined, categories said.

    An ask that stands there word for word keeps those out that share only its idea. ``others`` are suggestions that are not
    possible now; an idea of any scenario counts as one. Declined is an answer that says nothing else.
    """
    said = sentences(answer)
    word_for_word = [says(said, ask) for ask in asks]
    asked = word_for_word if any(word_for_word) else [says(said, ask, idea_of(ask)) for ask in asks]
    ideas = (*IDEAS.values(), *REPAIRS.values())
    other = any(says(said, one, idea_of(one)) for one in others) or any(says(said, "", idea) for idea in ideas)
    named = [says(said, category) for category in categories]
    other = other and not any(asked)
    declined = not (other or any(asked) or any(named)) and any(_declines(sentence) for sentence in said)
    return asked, other, declined, named


def _declines(sentence: list[str]) -> bool:
    """Return True if a sentence says that something cannot be told."""
    return any(
        word in REFUSALS or (word in NEGATIONS and KNOWING & set(sentence[place + 1 : place + 1 + LOOK_BACK]))
        for place, word in enumerate(sentence)
    )


def says(said: list[list[str]], accepted: str, idea: Idea | None = None) -> bool:
    """Return True if any sentence says it, by its words or by its idea, and does not take it back."""
    phrase = words(accepted)
    for sentence in said:
        places = _phrase(sentence, phrase) if phrase else []
        places += _places(sentence, idea) if idea else []
        if any(not NEGATIONS & set(sentence[max(0, place - LOOK_BACK) : place]) for place in places):
            return True
    return False


def idea_of(suggestion: str) -> Idea | None:
    """The idea behind an accepted suggestion, where the tables know one."""
    lowered = suggestion.casefold()
    named = (idea for cue, idea in IDEAS.items() if lowered.startswith(cue))
    return next(named, None) or next((idea for word, idea in REPAIRS.items() if word in lowered), None)


def _phrase(sentence: list[str], phrase: list[str]) -> list[int]:
    """Where the phrase stands as whole words; its last word may carry a plural."""
    *first, last = phrase
    size = len(phrase)
    endings = {last, f"{last}s", f"{last}es"}
    return [
        place
        for place in range(len(sentence) - size + 1)
        if sentence[place + size - 1] in endings and sentence[place : place + size - 1] == first
    ]


def _places(sentence: list[str], idea: Idea) -> list[int]:
    """Where the idea's deed stands with one of its things in reach; a deed that needs no thing stands alone."""
    alone = [place for place, word in enumerate(sentence) if idea.alone.match(word)]
    deeds = [place for place, word in enumerate(sentence) if idea.deeds.match(word)]
    things = [place for place, word in enumerate(sentence) if idea.things.match(word)]
    return sorted(alone + [deed for deed in deeds if _near(things, deed)])


def _near(places: list[int], place: int) -> bool:
    """Return True if one of the sorted places, other than this one, is in reach."""
    window = places[bisect_left(places, place - REACH) : bisect_right(places, place + REACH)]
    return any(other != place for other in window)
