"""The protocols by which episodes are played and scored."""

from enum import StrEnum

ZERO_SHOT = "zero-shot"
"""Name of the baseline condition: each turn is asked afresh, without hint or examples."""
HEADLINE = "proactivebench-mcqa-zero-shot v1"
"""Name and version of the score: accuracy and suggestions in zero-shot multiple choice, averaged over the seven scenarios, on the
samples that the paper's filter keeps. A change of samples, prompts, reading of replies or average raises the version."""


class Protocol(StrEnum):
    """The rules by which an episode is played and scored."""

    MCQA = "mcqa"
    """Multiple choice, many turns."""
    OEG = "oeg"
    """Open-ended generation, one turn, judged."""
    OEG_MULTI = "oeg-multi"
    """Open-ended generation, many turns: a judge reads each answer before the next picture is shown."""
    TOOLS = "tools"
    """Multiple choice whose options are functions to call."""

    @property
    def label(self) -> str:
        """Return the protocol's name for use in a sentence."""
        return LABELS[self]

    @property
    def is_open_ended(self) -> bool:
        """Return True if answers are free text."""
        return self in OPEN_ENDED_CONDITIONS


LABELS = {
    Protocol.MCQA: "multiple choice",
    Protocol.OEG: "open-ended generation",
    Protocol.OEG_MULTI: "open-ended generation over several turns",
    Protocol.TOOLS: "tool calls",
}
OPEN_ENDED_CONDITIONS = {
    Protocol.OEG: (ZERO_SHOT, "hint", "reference", "text-only"),
    Protocol.OEG_MULTI: (ZERO_SHOT, "hint"),
}
"""The conditions of open-ended protocols; several turns exclude ``reference``, whose clear picture leaves nothing to ask."""
