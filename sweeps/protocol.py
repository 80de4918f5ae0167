"""The protocols by which an episode is played: a module of its own, so that to name one loads nothing else."""

from enum import StrEnum


class Protocol(StrEnum):
    """How an episode is played and scored."""

    MCQA = "mcqa"
    """Multiple choice, many turns."""
    OEG = "oeg"
    """Open-ended generation, one turn, judged."""
    OEG_MULTI = "oeg-multi"
    """Open-ended generation, many turns: a judge reads each answer before the next picture is shown."""
    TOOLS = "tools"
    """Multiple choice whose options are functions to call."""

    @property
    def told(self) -> str:
        """Its name in a sentence."""
        names = {
            Protocol.MCQA: "multiple choice", Protocol.OEG: "open-ended generation", Protocol.TOOLS: "tool calls",
        }  # fmt: skip
        return names.get(self, "open-ended generation over several turns")

    @property
    def in_words(self) -> bool:
        """Whether answers are free text."""
        return self in IN_WORDS


OPEN_ENDED = ("zero-shot", "hint", "reference")
"""The conditions of open-ended generation (protocol.md, last section)."""
IN_WORDS = {Protocol.OEG: OPEN_ENDED, Protocol.OEG_MULTI: ("zero-shot", "hint")}
"""The same by protocol: on the clear picture there is nothing left to ask for."""
