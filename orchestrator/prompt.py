"""What a model is sent, as text: the same messages that a sweep builds, with picture names in place of pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from actors.backend import Message
from actors.prompts import Past, examples, messages, posed, staged
from envs import SCENARIOS
from envs.samples import BadData, load
from envs.types import Mode, Sample
from sweeps.conditions import Condition
from sweeps.spec import ModelSpec


def conversation(
    sample: Sample, pool: Sequence[Sample], condition: Condition, seed: int = 0, turn: int = 0
) -> tuple[Message, ...]:
    """The conversation at a turn; the turns before it are answered with right suggestions.

    Raises BadData when right suggestions end the episode before that turn.
    """
    shown = staged(sample, condition, seed)
    game, past = SCENARIOS[sample.scenario], list[Past]()
    state = game.initial(shown, condition.mode, seed)
    while state.turn < turn:
        asks = game.askable(shown, state) if condition.mode is not Mode.REFERENCE else ()
        if not asks:
            raise BadData(f"sample {sample.id} of {sample.scenario} has no turn {turn}: turn {state.turn} is its last")
        past.append((posed(shown, state, condition), asks[0]))
        state, _ = game.step(shown, state, asks[0])
        if state.ending is not None:
            raise BadData(
                f"sample {sample.id} of {sample.scenario} has no turn {turn}: turn {state.turn - 1} is its last"
            )
    return messages(shown, posed(shown, state, condition), condition, past, examples(sample, pool, condition, seed))


def written(conversation: Sequence[Message]) -> str:
    """The conversation as plain text, one block a message."""
    blocks = [
        "\n".join([f"[{message.role}]", *(f"<picture {image.key}>" for image in message.images), message.text])
        for message in conversation
    ]
    return "\n\n".join(blocks)


def find(data: Path, scenario: str, sample_id: int) -> tuple[Sample, list[Sample]]:
    """A sample by id, kept by the filter or not, and the pool its examples are drawn from; raises BadData."""
    every = load(data, scenario, filtered=False)
    sample = next((sample for sample in every if sample.id == sample_id), None)
    if sample is None:
        raise BadData(f"{scenario} has no sample with id {sample_id}; ids run from {every[0].id} to {every[-1].id}")
    return sample, load(data, scenario)


def templated(model: ModelSpec, conversation: Sequence[Message]) -> str | None:
    """The text after the model's own chat template, or None when the model is not on this disk."""
    if model.backend not in ("vllm", "transformers"):
        return None
    try:
        from actors.hf_template import template_text
    except ModuleNotFoundError:
        return None
    return template_text(model, conversation)
