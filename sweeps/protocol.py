"""The protocols by which an episode is played: a module of its own, so that to name one loads nothing else."""

from enum import StrEnum

ZERO_SHOT = "zero-shot"
"""Name of the condition that every other one is compared with: each turn is asked afresh, without hint or examples."""


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
        """Its name in a sentence."""
        names = {
            Protocol.MCQA: "multiple choice", Protocol.OEG: "open-ended generation", Protocol.TOOLS: "tool calls",
        }  # fmt: skip
        return names.get(self, "open-ended generation over several turns")

    @property
    def is_open_ended(self) -> bool:
        """Return True if answers are free text."""
        return self in OPEN_ENDED_CONDITIONS


OPEN_ENDED = (ZERO_SHOT, "hint", "reference")
"""The conditions of open-ended generation (protocol.md, last section)."""
OPEN_ENDED_CONDITIONS = {Protocol.OEG: OPEN_ENDED, Protocol.OEG_MULTI: (ZERO_SHOT, "hint")}
"""The same by protocol: on the clear picture there is nothing left to ask for."""
