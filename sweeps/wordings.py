"""Other wordings of the benchmark's message and hints, for replicates: how much does accuracy depend on them?

The sentences are ours; options, and the question that comes with a sample, stay unchanged. Published strings are in
``envs.stimulus``. Changing a sentence changes the keys of the episodes that use it.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from envs import SCENARIOS, stimulus
from sweeps.values import Frozen, read_table

QUESTION, OPTIONS = "{question}", "{options}"
"""Placeholders of a template."""
Text = Annotated[str, Field(max_length=10_000)]
FIRST_OWN = 11
"""Number of a user's first own wording; lower numbers are ours."""


def _check_template(value: str) -> str:
    """Return the template unchanged; raises ValueError unless it is empty or holds each placeholder once."""
    if value and not all(value.count(part) == 1 for part in (QUESTION, OPTIONS)):
        raise ValueError(f"must hold {QUESTION} and {OPTIONS} once each")
    return value


Template = Annotated[Text, AfterValidator(_check_template)]
"""A message with ``{question}`` and ``{options}``; empty where another wording stays."""


class Wording(Frozen):
    """A wording of the message and, for conditions with hints, of the hints."""

    template: Annotated[Template, Field(min_length=1)]
    hints: Mapping[str, Text] = {}
    """Scenario -> the sentence that replaces each of its hints; other scenarios keep the published hints."""

    @field_validator("hints")
    @classmethod
    def _check_hints(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        if unknown := sorted(value.keys() - SCENARIOS.keys()):
            raise ValueError(f"{unknown[0]} is no scenario; type {', '.join(SCENARIOS)}")
        return value

    def hint_wordings(self) -> dict[str, str]:
        """Return published hint -> its wording here."""
        two_hints = {"COCO": (stimulus.COCO_HINT, stimulus.COCO_ZOOM_HINT)}
        hints = {name: two_hints.get(name) or (SCENARIOS[name].hint,) for name in self.hints}
        return {hint: text for name, text in self.hints.items() for hint in hints[name]}


_SHIPPED = read_table("wordings.toml")
SHIPPED = len(_SHIPPED["wording"])


def shipped_wording(number: int) -> tuple[str, dict[str, str]]:
    """Return the template of our wording ``number`` (1 to ``SHIPPED``), and its hints by published hint."""
    wording = _SHIPPED["wording"][number - 1]
    hints = {getattr(stimulus, name): wording["hint"].format(**parts) for name, parts in _SHIPPED["advice"].items()}
    return wording["template"], hints
