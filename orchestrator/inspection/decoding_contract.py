"""What a checkpoint's ``generation_config.json`` says of its replies, and whether the engines can follow it."""

from collections.abc import Sequence

from actors.engine.decoding import unfollowed_fields, unknown_fields
from actors.text.printable import list_first
from sweeps.checkpoint import Checkpoint
from sweeps.sampling import Sampling

SHOWN = ("temperature", "top_p", "top_k")
"""Fields of sampled replies that the cell shows."""


def decoding_cell(checkpoint: Checkpoint, samplings: Sequence[Sampling] = ()) -> str:
    """Return the table cell of a checkpoint's own decoding: ``no`` if a sweep decodes by fields that no engine follows."""
    if checkpoint.folder is None:
        return "unknown"
    fields = checkpoint.generation
    if fault := _fault(checkpoint, samplings):
        return f"no: {fault}"
    samples = bool(fields.get("do_sample"))
    own = "".join(f", {name} {fields[name]}" for name in SHOWN if samples and fields.get(name) is not None)
    penalty = fields.get("repetition_penalty")
    own += f", repetition_penalty {penalty}" if penalty not in (None, 1) else ""
    unfollowed = _unfollowed(checkpoint, Sampling(checkpoint=True))
    refused = f'; sampling = "checkpoint" is refused: {unfollowed}' if unfollowed else ""
    unknown = unknown_fields(fields)
    ignored = f"; unknown to the engines: {list_first(unknown)}" if unknown else ""
    return f"ok: {'sampled' if samples else 'greedy'}{own}{refused}{ignored}"


def _fault(checkpoint: Checkpoint, samplings: Sequence[Sampling]) -> str:
    """Return why a model cannot be decoded as these say; empty if it can."""
    unfollowed = next(filter(None, (_unfollowed(checkpoint, each) for each in samplings if each.checkpoint)), "")
    if not unfollowed:
        return ""
    return (
        f'sampling = "checkpoint" cannot follow {unfollowed} of generation_config.json; state the sampling in the sweep'
    )


def _unfollowed(checkpoint: Checkpoint, sampling: Sampling) -> str:
    try:
        fields = unfollowed_fields(
            checkpoint.generation, bool(sampling.sampled or checkpoint.generation.get("do_sample"))
        )
    except (TypeError, ValueError):  # a value of another type, at which the engine's package stops too
        return "the values"
    return ", ".join(fields)
