"""Every string of the protocol ``tools`` that a model reads in addition to the benchmark's question and options.

The wording is ours: the paper has no such protocol (docs/decisions/0014-tool-calls.md). Functions are described by the
benchmark's suggestions.
"""

VERSION = "tools-1"
"""Part of the key of every such episode: raise it when a string here, a function's name or the reading of calls changes."""

ABSTAIN, ANSWER, CATEGORY = "abstain", "answer", "category"
"""The two functions of every scenario, and the parameter of the second."""
ANSWERS = "Answers the question, which ends the task."
"""The description of ``answer``."""

NATIVE = "\nCall exactly one of the functions."
"""Follows the question if the functions are sent separately."""
LISTED = "\nCall exactly one of these functions:\n"
"""Stands between the question and the functions if they are part of the text."""
WRITTEN = (
    'Reply with the call alone, without any other words: name() or name(parameter="value"), or the same as JSON: '
    '{"name": "name", "arguments": {"parameter": "value"}}'
)
"""The format of a call that is read from the text."""
