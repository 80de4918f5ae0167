"""Every string of the protocol ``tools`` that a model reads beside the benchmark's own question and options.

The wording is ours: the paper has no such protocol (docs/decisions/0014-tool-calls.md). What a function does is told by the
benchmark's own suggestion, so the functions say what the options of multiple choice say.
"""

VERSION = "tools-1"
"""Part of the key of every such episode: raise it when a string here, a function's name or the reading of calls changes."""

ABSTAIN, ANSWER, CATEGORY = "abstain", "answer", "category"
"""The two functions that every scenario has, and the parameter of the second."""
ANSWERS = "Answers the question, which ends the task."
"""The description of ``answer``."""

NATIVE = "\nCall exactly one of the functions."
"""Appended to the question where the functions travel beside it."""
LISTED = "\nCall exactly one of these functions:\n"
"""Between the question and the functions where they stand in the text."""
WRITTEN = (
    'Reply with the call alone, without any other words: name() or name(parameter="value"), or the same as JSON: '
    '{"name": "name", "arguments": {"parameter": "value"}}'
)
"""The format of a call that is read from the text."""
