"""Builds the conversation of a turn: a pure function of view, condition, earlier turns and examples, equal for every engine.

``version`` is part of every episode's key: raise the protocol's when all of its messages change, else that of the conditions
whose messages do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from actors.engine.backend import Message
from envs import SCENARIOS
from envs.chance import chance
from envs.disguise import replace_suggestions
from envs.stimulus import OPEN_ENDED_HINT, lettered, multiple_choice
from envs.tool_wording import VERSION as TOOLS_VERSION
from envs.types import NO_PICTURE, ImageRef, Mode, Sample, State, View
from sweeps.conditions import OPTIONS, QUESTION, Condition
from sweeps.spec import Protocol

VERSIONS = {Protocol.MCQA: "mcqa-1", Protocol.OEG: "oeg-1", Protocol.OEG_MULTI: "oeg-1", Protocol.TOOLS: TOOLS_VERSION}
EXAMPLES_VERSION = "examples-2"
"""2: the pictures of solved examples keep their own size."""
DISGUISE_VERSION = "disguise-2"
"""2: stand-ins for suggestions are drawn from the data folder."""
LENIENT_VERSION = "lenient-2"
"""2: thoughts and markup are taken off, plain statements are read (envs/lenient.py)."""


def version(protocol: Protocol, condition: Condition) -> str:
    """The version of a condition's messages, and of the reading where it is lenient."""
    lenient = condition.lenient and protocol is Protocol.MCQA
    changed = {
        EXAMPLES_VERSION: condition.shots > 0,
        DISGUISE_VERSION: condition.mode is Mode.RANDOM,
        LENIENT_VERSION: lenient,
    }
    return "+".join([VERSIONS[protocol], *(name for name, holds in changed.items() if holds)])


RESIZED, FEWER_STEPS_FROM = ("ROD",), 3
"""For Phi-4: the scenarios whose example pictures shrink, and the number of examples from which steps are left out."""

Past = tuple[View, str]
"""An earlier turn of the same episode: what was seen, what was answered."""


def apply_condition(sample: Sample, condition: Condition, seed: int) -> Sample:
    """The sample as a condition shows it: suggestions disguised, options in another order; the same for every model."""
    if condition.mode is Mode.RANDOM:
        sample = replace_suggestions(sample, seed, condition.source or None)
    if not (condition.shuffled or condition.order):
        return sample
    purpose = f"order-{condition.order}" if condition.order else "order"
    order = chance(seed, sample.scenario, sample.id, purpose)
    options, categories = (tuple(order.sample(side, len(side))) for side in (sample.options, sample.categories))
    return replace(sample, options=options, categories=categories)


def turn_view(sample: Sample, state: State, condition: Condition) -> View:
    """What is shown and asked at a state, the answers left included where the condition tells them."""
    game = SCENARIOS[sample.scenario]
    view = game.view(sample, state, condition.hint)
    budget = answers_left(game.limit(sample) - state.turn) if condition.budget else ""
    options = () if condition.every_frame else view.options
    question = worded(view.prompt, condition) + budget
    return View(turn_image(view, sample, condition), question, options, view.categories)


def turn_image(view: View, sample: Sample, condition: Condition) -> ImageRef:
    """What stands for the sample's picture; ValueError where none was drawn for it to be swapped with."""
    if condition.picture == "blank":
        return replace(view.image, grey=True)
    if condition.picture == "none":
        return NO_PICTURE
    if condition.picture == "own":
        return view.image
    if sample.swapped is None:
        raise ValueError(f"no picture was drawn to be swapped with that of sample {sample.scenario}/{sample.id}")
    return sample.swapped.image


def worded(question: str, condition: Condition) -> str:
    """The question with the preface and the hint of a condition of one's own (``[[condition]]``)."""
    parts = (condition.preface, question, condition.hint_text)
    return " ".join(part for part in parts if part)


def answers_left(number: int) -> str:
    """The sentence that tells the budget; ours, the paper has none."""
    plural = "answer" if number == 1 else "answers"
    return f" You have {number} {plural} left, this one included; a request for help uses one."


def messages(
    sample: Sample, view: View, condition: Condition, past: Sequence[Past] = (), examples: Sequence[Message] = ()
) -> tuple[Message, ...]:
    """The conversation that asks about ``view``: examples, then earlier turns if the condition keeps them, then it."""
    before = (*system_messages(condition), *examples)
    if not condition.history:
        return (*before, question_message(view, None, condition.template))
    edge = SCENARIOS[sample.scenario].history_edge if condition.resized else None
    remembered = past[-condition.history_turns :] if condition.history_turns else past
    earlier = [
        message
        for past_view, past_reply in remembered
        for message in exchange(past_view, past_reply, edge, condition.template)
    ]
    return (*before, *earlier, question_message(view, edge, condition.template))


def system_messages(condition: Condition) -> tuple[Message, ...]:
    """The system message of a condition that has one."""
    return (Message("system", condition.system, ()),) if condition.system else ()


def open_view(sample: Sample, state: State, condition: Condition) -> View:
    """What is shown and asked in open-ended generation; its hint is the same for all scenarios.

    Source: the package's example ``tests/oeg.py``; the clear picture keeps its own question (docs/decisions/0003).
    """
    view = SCENARIOS[sample.scenario].view(sample, state)
    return replace(view, prompt=view.prompt + OPEN_ENDED_HINT) if condition.hint else view


def open_question(view: View) -> Message:
    """The question with its picture and without any option."""
    return Message("user", view.prompt, (view.image,))


def question_message(view: View, short_edge: int | None = None, template: str = "") -> Message:
    """One question with its picture, if it has one, as the paper's template has it, or a template of one's own."""
    options = view.options + view.categories
    text = fill_template(template, view.prompt, options) if template else multiple_choice(view.prompt, options)
    images = () if view.image == NO_PICTURE else (resize_image(view.image, short_edge),)
    return Message("user", text, images)


def fill_template(template: str, question: str, options: tuple[str, ...]) -> str:
    """The template with question and lettered options, which may themselves look like one."""
    before, mark, after = re.split(r"(\{question\}|\{options\})", template, maxsplit=1)
    inserted = {QUESTION: question, OPTIONS: lettered(options)}
    second = OPTIONS if mark == QUESTION else QUESTION
    middle, _, end = after.partition(second)
    return before + inserted[mark] + middle + inserted[second] + end


def exchange(view: View, reply: str, short_edge: int | None, template: str = "") -> tuple[Message, Message]:
    """A question and its answer."""
    return question_message(view, short_edge, template), Message("assistant", reply)


def resize_image(image: ImageRef, short_edge: int | None) -> ImageRef:
    """The same picture at another size; None leaves it alone."""
    return image if short_edge is None or image == NO_PICTURE else replace(image, short_edge=short_edge)


def examples(
    sample: Sample, pool: Sequence[Sample], condition: Condition, seed: int, small: bool = False
) -> tuple[Message, ...]:
    """``condition.shots`` solved conversations about other samples of the scenario, pictures in their own size.

    Drawn by (seed, sample): the same for every model, never the sample itself. ``small`` is what the paper did for Phi-4 alone
    (appendix E): pictures of ROD with a short edge of 512, and of three examples of MVP-N the first and last step. Raises
    ValueError when the pool holds too few others.
    """
    if not condition.shots:
        return ()
    others = [candidate for candidate in pool if candidate.id != sample.id]
    if len(others) < condition.shots:
        raise ValueError(
            f"{condition.name} needs {condition.shots} other {sample.scenario} samples, the data has {len(others)}"
        )
    chosen = chance(seed, sample.scenario, sample.id, "examples").sample(others, condition.shots)
    game, reduced = SCENARIOS[sample.scenario], small and condition.shots >= FEWER_STEPS_FROM
    edge = game.example_edge if condition.small_examples or (small and sample.scenario in RESIZED) else None
    return tuple(
        message
        for other in chosen
        for view, reply in game.example(other, seed, condition.hint, condition.reasoned, reduced)
        for message in exchange(view, reply, edge, condition.template)
    )
