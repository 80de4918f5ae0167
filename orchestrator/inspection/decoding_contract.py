"""How a checkpoint's ``generation_config.json`` decodes replies, and whether the engines can follow it."""

from collections.abc import Sequence

from actors.engine.decoding import unfollowed_fields, unknown_fields
from actors.text.printable import list_first
from sweeps.checkpoint import Checkpoint
from sweeps.sampling import Sampling

SHOWN = ("temperature", "top_p", "top_k")
"""Sampling fields that the cell shows if the checkpoint samples its replies."""


def decoding_cell(checkpoint: Checkpoint, samplings: Sequence[Sampling] = ()) -> str:
    """Return the table cell of a checkpoint's own decoding: ``no`` if a sweep decodes by fields that no engine follows."""
    if checkpoint.folder is None:
        return "unknown"
    fields = checkpoint.generation
    faults = (_unfollowed(checkpoint, sampling) for sampling in samplings if sampling.checkpoint)
    if fault := next(filter(None, faults), ""):
        remedy = "state the sampling in the sweep"
        return f'no: sampling = "checkpoint" cannot follow {fault} of generation_config.json; {remedy}'
    samples = bool(fields.get("do_sample"))
    own = "".join(f", {name} {fields[name]}" for name in SHOWN if samples and fields.get(name) is not None)
    penalty = fields.get("repetition_penalty")
    own += f", repetition_penalty {penalty}" if penalty not in (None, 1) else ""
    unfollowed = _unfollowed(checkpoint, Sampling(checkpoint=True))
    refused = f'; sampling = "checkpoint" is refused: {unfollowed}' if unfollowed else ""
    unknown = unknown_fields(fields)
    ignored = f"; unknown to the engines: {list_first(unknown)}" if unknown else ""
    return f"ok: {'sampled' if samples else 'greedy'}{own}{refused}{ignored}"


def _unfollowed(checkpoint: Checkpoint, sampling: Sampling) -> str:
    try:
        fields = unfollowed_fields(
            checkpoint.generation, bool(sampling.sampled or checkpoint.generation.get("do_sample"))
        )
    except (TypeError, ValueError):  # a value of the wrong type, which the engine rejects too
        return "the values"
    return ", ".join(fields)
