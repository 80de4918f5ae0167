"""Builds the conversation of a turn: a pure function of view, condition, earlier turns and examples, the same for every engine.

``version`` is part of every episode's key. Raise the protocol's version if all of its messages change, else the version of the
conditions whose messages change.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from actors.engine.backend import Message
from envs import SCENARIOS
from envs.chance import chance
from envs.foreign_suggestions import replace_suggestions
from envs.stimulus import PROMPTS, lettered, multiple_choice
from envs.tool_calls import NATIVE, TOOLS_VERSION, Function, write_functions
from envs.types import NO_PICTURE, ImageRef, Mode, Sample, State, View
from sweeps.conditions import OPTIONS, QUESTION, Condition
from sweeps.spec import Protocol

VERSIONS = {Protocol.MCQA: "mcqa-1", Protocol.OEG: "oeg-1", Protocol.OEG_MULTI: "oeg-1", Protocol.TOOLS: TOOLS_VERSION}
EXAMPLES_VERSION = "examples-2"
"""2: the pictures of solved examples keep their own size."""
DISGUISE_VERSION = "disguise-2"
"""2: replacements of suggestions are drawn from the data folder."""
LENIENT_VERSION = "lenient-3"
"""3: fewer rules (envs/lenient.py): positions, corrections and other languages are not read."""


def version(protocol: Protocol, condition: Condition) -> str:
    """Return the version of a condition's messages, and of its lenient parser if it has one."""
    versions = {
        VERSIONS[protocol]: True,
        EXAMPLES_VERSION: condition.shots > 0,
        DISGUISE_VERSION: condition.mode is Mode.RANDOM,
        LENIENT_VERSION: condition.lenient and protocol is Protocol.MCQA,
    }
    return "+".join(name for name, applies in versions.items() if applies)


SMALL_PICTURES_IN, FEWER_STEPS_FROM = ("ROD",), 3
"""For Phi-4: scenarios whose example pictures shrink, and the number of examples from which steps are omitted."""

Past = tuple[View, str]
"""An earlier turn of the same episode: the view and the reply."""


def apply_condition(sample: Sample, condition: Condition, seed: int) -> Sample:
    """Return the sample as a condition shows it, with suggestions replaced and options shuffled; equal for every model."""
    if condition.mode is Mode.RANDOM:
        sample = replace_suggestions(sample, seed, condition.source or None)
    if not (condition.shuffled or condition.order):
        return sample
    purpose = f"order-{condition.order}" if condition.order else "order"
    order = chance(seed, sample.scenario, sample.id, purpose)
    options, categories = (tuple(order.sample(side, len(side))) for side in (sample.options, sample.categories))
    return replace(sample, options=options, categories=categories)


def turn_view(sample: Sample, state: State, condition: Condition) -> View:
    """Return the view of a state, with the number of answers left if the condition states it."""
    game = SCENARIOS[sample.scenario]
    view = game.view(sample, state, condition.hint)
    question = " ".join(filter(None, (condition.preface, reword_hint(view.prompt, condition), condition.hint_text)))
    if condition.budget:  # the paper has no such sentence
        left = game.limit(sample) - state.turn
        question += f" You have {left} answer{'s' * (left != 1)} left, this one included; a request for help uses one."
    return View(turn_image(view, sample, condition), question, view.options, view.categories)


def reword_hint(question: str, condition: Condition) -> str:
    """Return the question; a published hint at its end is replaced by the condition's wording."""
    for published, text in condition.hint_wordings.items():
        if question.endswith(published):
            return question.removesuffix(published) + text
    return question


def turn_image(view: View, sample: Sample, condition: Condition) -> ImageRef:
    """Return the picture that the condition shows; raises ValueError if it swaps pictures and the sample has no swapped one."""
    if condition.picture == "blank":
        return replace(view.image, grey=True)
    if condition.picture == "none":
        return NO_PICTURE
    if condition.picture == "own":
        if condition.picture_later != "blank":
            return view.image
        game = SCENARIOS[sample.scenario]
        is_first = view.image == game.image(sample, game.initial(sample))
        return view.image if is_first else replace(view.image, grey=True)
    if sample.swapped is None:
        raise ValueError(f"no picture was drawn to be swapped with that of sample {sample.scenario}/{sample.id}")
    return sample.swapped.image


def messages(
    sample: Sample, view: View, condition: Condition, past: Sequence[Past] = (), examples: Sequence[Message] = ()
) -> tuple[Message, ...]:
    """Return the conversation that ends with ``view``, after the examples and the turns that the condition keeps."""
    edge = SCENARIOS[sample.scenario].history_edge if condition.history and condition.resized else None
    recent = past[-condition.history_turns :] if condition.history else ()  # [-0:] is the whole history
    earlier = (message for turn in recent for message in exchange(*turn, edge, condition.template))
    return (*system_messages(condition), *examples, *earlier, question_message(view, edge, condition.template))


def system_messages(condition: Condition) -> tuple[Message, ...]:
    """Return the condition's system message, if it has one."""
    return (Message("system", condition.system),) if condition.system else ()


def open_view(sample: Sample, state: State, condition: Condition) -> View:
    """Return the view of open-ended generation; its hint is the same for all scenarios.

    Source: the package's example ``tests/oeg.py``; the clear picture keeps its own question (docs/decisions/0003).
    """
    view = SCENARIOS[sample.scenario].view(sample, state)
    hint = PROMPTS["OPEN_ENDED_HINT"] if condition.hint else ""
    return view._replace(prompt=view.prompt + hint, image=turn_image(view, sample, condition))


def pictured(view: View, text: str, short_edge: int | None = None) -> Message:
    """Return a user's message with the view's picture, unless the condition shows none."""
    images = (resize_image(view.image, short_edge),) if view.image.path else ()
    return Message("user", text, images)


def question_message(view: View, short_edge: int | None = None, template: str = "") -> Message:
    """Return a question with its picture, in the paper's template or in the ``template`` of a condition."""
    options = view.options + view.categories
    text = fill_template(template, view.prompt, options) if template else multiple_choice(view.prompt, options)
    return pictured(view, text, short_edge)


def fill_template(template: str, question: str, options: tuple[str, ...]) -> str:
    """Fill in the question and the lettered options, which may themselves contain placeholders."""
    inserted = {QUESTION: question, OPTIONS: lettered(options)}
    return re.sub(r"\{question\}|\{options\}", lambda placeholder: inserted[placeholder[0]], template)


def exchange(view: View, reply: str, short_edge: int | None, template: str = "") -> tuple[Message, Message]:
    return question_message(view, short_edge, template), Message("assistant", reply)


def resize_image(image: ImageRef, short_edge: int | None) -> ImageRef:
    """Return a picture at another size; None keeps its size, and no picture has none."""
    return replace(image, short_edge=short_edge) if short_edge and image.path else image


def examples(
    sample: Sample, pool: Sequence[Sample], condition: Condition, seed: int, small: bool = False
) -> tuple[Message, ...]:
    """Return ``condition.shots`` solved conversations about other samples of the scenario, equal for every model.

    ``small`` applies what the paper did for Phi-4 alone (appendix E): ROD's pictures get a short edge of 512, and each of three
    examples of MVP-N keeps its first and last step. Raises ValueError if the pool has too few other samples.
    """
    if not (shots := condition.shots):
        return ()
    others = [candidate for candidate in pool if candidate.id != sample.id]
    if len(others) < shots:
        raise ValueError(f"{condition.name} needs {shots} other {sample.scenario} samples, the data has {len(others)}")
    chosen = chance(seed, sample.scenario, sample.id, "examples").sample(others, shots)
    game, reduced = SCENARIOS[sample.scenario], small and shots >= FEWER_STEPS_FROM
    edge = game.example_edge if condition.small_examples or (small and sample.scenario in SMALL_PICTURES_IN) else None
    conversation = list[Message]()
    for other in chosen:
        for view, reply in game.example(other, seed, condition.hint, condition.reasoned, reduced):
            reworded = view._replace(prompt=reword_hint(view.prompt, condition))
            conversation += exchange(reworded, reply, edge, condition.template)
    return tuple(conversation)


def tool_messages(view: View, functions: Sequence[Function], condition: Condition, native: bool) -> tuple[Message, ...]:
    """Return the conversation that asks for one call; its text lists the functions unless they are sent as tools (``native``)."""
    text = view.prompt + (NATIVE if native else write_functions(functions))
    return (*system_messages(condition), pictured(view, text))
