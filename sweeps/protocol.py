"""The protocols by which an episode is played: a module of its own, so that to name one loads nothing else."""

from enum import StrEnum


class Protocol(StrEnum):
    """How an episode is played and scored."""

    MCQA = "mcqa"
    """Multiple choice, many turns."""
    OEG = "oeg"
    """Open-ended generation, one turn, judged."""
