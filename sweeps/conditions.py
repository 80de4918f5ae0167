"""The conditions under which a model is prompted: the paper's seven, and variants that change one thing each.

``identity`` holds the fields that change answers and are part of keys; name, description and scenarios are not.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator

from envs import SCENARIOS
from envs.stimulus import PROMPTS
from envs.types import Mode
from sweeps.sampling import Whole
from sweeps.values import NAME, Frozen, Names, read_table

ORDERS = 4
"""Seeded orders of the options of ``every_state``."""
REPLICATE = re.compile(r"-(wording|order|seed)\d+$")
"""Suffixes of the names of replicates."""
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


class Condition(Frozen):
    """A way to prompt a model (protocol.md, 'Conditions'; paper sections 4 and 5)."""

    name: str
    description: str = Field(default="", exclude=True)
    """One line for ``ls conditions``; never stored, and two conditions that differ in it alone are equal."""
    hint: bool = False
    """The question ends with the scenario's hint."""
    history: bool = False
    """Earlier turns of the episode precede the current one."""
    shots: Annotated[Whole, Field(ge=0)] = 0
    """Solved examples before the question."""
    reasoned: bool = False
    """Examples include the chain-of-thought wording."""
    mode: Mode = Mode.PLAY
    scenarios: tuple[str, ...] = ()
    """Scenarios of the condition; empty means all."""
    source: str = ""
    """The only scenario of random-proactive suggestions; empty draws from all others."""
    small_examples: bool = False
    """Pictures of solved examples shrink to the package's ``resize`` option: 512 pixels in ROD, 112 in MVP-N."""
    resized: bool = True
    """History shrinks its pictures as the package does; false keeps their size."""
    shuffled: bool = False
    """Options and categories are each shuffled by seed."""
    lenient: bool = False
    """More tolerant rules read a reply that names no option (envs/lenient.py)."""
    budget: bool = False
    """The question states the number of answers left."""
    hint_text: Text = ""
    """Your own hint after the question, instead of the scenario's."""
    preface: Text = ""
    """Text before the question."""
    system: Text = ""
    """A system message, which the model's chat template must support."""
    template: Template = ""
    """The message with ``{question}`` and ``{options}``, instead of the package's wording."""
    history_turns: Annotated[Whole, Field(ge=0)] = 0
    """Most earlier turns before the question; 0 keeps all of them. Needs ``history``."""
    picture: Literal["own", "blank", "swapped", "none"] = "own"
    """The picture of every question: its own, a gray one of its size, the first picture of another sample with another
    answer (drawn by seed), or none. Solved examples keep theirs."""
    picture_later: Literal["own", "blank"] = "own"
    """``blank`` turns every picture but the first one gray, so that asking shows nothing new."""
    every_frame: bool = False
    """Instead of a game, ask only the categories of every picture that an episode could reach (extra ``operating``)."""
    every_state: bool = False
    """Instead of a game, ask for the probability of every option at every question that play can reach (``operating``)."""
    orders: Annotated[Whole, Field(ge=0, le=100)] = ORDERS
    """Seeded orders of the options beside the published one. Needs ``every_state``; not part of keys."""
    thoughts: Annotated[Whole, Field(ge=0, le=100)] = 0
    """Thoughts that a reasoning model writes before each question's options are scored. Needs ``every_state``."""
    order: int = Field(default=0, ge=0)
    """The order of a replicate's options, 0 for the condition's own (``Sweep.replicates``)."""
    draw: int = Field(default=0, ge=0)
    """The seed of a replicate's episodes, 0 for the sweep's own."""
    wording: int = Field(default=0, ge=0)
    """The wording of a replicate's messages, 0 for the condition's own; ours come first, yours from ``FIRST_OWN`` on."""
    hint_wordings: Mapping[str, Text] = {}
    """Published hint -> its text in a replicate."""

    def _faults(self) -> Iterator[str]:
        replays, plays = self.history or self.lenient or self.budget, self.mode is Mode.PLAY
        if self.hint and self.hint_text:
            yield "hint = true adds the scenario's own hint; with hint_text, leave it out"
        if self.history_turns and not self.history:
            yield "history_turns needs history = true"
        if self.every_frame and (replays or self.hides_picture or not plays):
            yield "every_frame asks each picture afresh; leave out history, lenient, budget, picture and mode"
        if self.every_state and (self.history or self.every_frame or self.shuffled or not plays):
            yield "every_state asks each state afresh; leave out history, every_frame, shuffled and mode"
        if (self.orders != ORDERS or self.thoughts) and not self.every_state:
            yield "orders and thoughts need every_state = true"

    def __eq__(self, other: object) -> bool:
        """Compare all fields except the description."""
        return isinstance(other, Condition) and {**vars(self), "description": ""} == {**vars(other), "description": ""}

    def __hash__(self) -> int:
        return hash(self.name)

    def replicate(self, order: int, draw: int) -> Self:
        """Return the condition with another order and draw, named ``hint-order1-seed2``; itself for 0 and 0."""
        suffix = (f"-order{order}" if order else "") + (f"-seed{draw}" if draw else "")
        return self.model_copy(update={"name": self.name + suffix, "order": order, "draw": draw})

    def reword(self, number: int, template: str, hints: Mapping[str, str]) -> Self:
        """Return the condition in another wording, named ``hint-wording2``; ``hints``: published hint -> text."""
        update = {"name": f"{self.name}-wording{number}", "wording": number, "template": template}
        return self.model_copy(update=update | ({"hint_wordings": dict(hints)} if self.hint and hints else {}))

    @property
    def is_replicate(self) -> bool:
        """Return True if it repeats another condition."""
        return bool(self.order or self.draw or self.wording)

    @property
    def rules(self) -> str:
        """Return the name of a package's rules, by which it asks instead of playing, unscored; empty if it plays the game."""
        return "every-state" if self.every_state else "every-frame" if self.every_frame else ""

    @property
    def many_images(self) -> bool:
        """Return True if one prompt can hold several pictures."""
        return self.history or self.shots > 0

    @property
    def shows_pictures(self) -> bool:
        """Return True if its prompts hold pictures; solved examples always do."""
        return self.picture != "none" or self.shots > 0

    @property
    def hides_picture(self) -> bool:
        """Return True if it hides pictures of the sample."""
        return self.picture != "own" or self.picture_later != "own"

    @property
    def identity(self) -> dict[str, Any]:
        """Return the fields that change answers; newer fields only if they are set, so that old keys stay valid."""
        first = {"hint", "history", "shots", "reasoned", "mode"}
        newer = self.model_dump(mode="json", exclude={"name", "scenarios", "orders", *first}, exclude_defaults=True)
        return self.model_dump(mode="json", include=first) | newer


class OwnCondition(Condition):
    """A ``[[condition]]`` of a sweep file: any of a condition's fields, under a name that no other has."""

    name: Annotated[str, Field(pattern=NAME, max_length=60)]
    scenarios: Names = ()

    def _faults(self) -> Iterator[str]:
        yield from super()._faults()
        if self.name in {**CONDITIONS, **VARIANTS} or self.name == "all":
            yield f"{self.name} is the name of a condition that ships; choose another"
        if self.source not in ("", *SCENARIOS):
            yield f"source = {self.source!r} is none of {', '.join(SCENARIOS)}"
        if REPLICATE.search(self.name) or self.is_replicate or self.hint_wordings:
            yield "order, draw, wording, hint_wordings, and names that end like -order1 or -seed2, are for replicates"


_SHIPPED = read_table("conditions.toml")
CONDITIONS = {name: Condition(name=name, **fields) for name, fields in _SHIPPED["paper"].items()}
"""The paper's conditions, which ``conditions = "all"`` means."""
VARIANTS = {name: Condition(name=name, **fields) for name, fields in _SHIPPED["variant"].items()}
"""One change each, for ablations (sweeps/ablations)."""


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
        two_hints = {"COCO": (PROMPTS["COCO_HINT"], PROMPTS["COCO_ZOOM_HINT"])}
        hints = {name: two_hints.get(name) or (SCENARIOS[name].hint,) for name in self.hints}
        return {hint: text for name, text in self.hints.items() for hint in hints[name]}


_WORDINGS = read_table("wordings.toml")
"""Our sentences, for replicates; to change one is to change the keys of the episodes that use it."""
SHIPPED_WORDINGS = len(_WORDINGS["wording"])


def shipped_wording(number: int) -> tuple[str, dict[str, str]]:
    """Return the template of our wording ``number`` (1 to ``SHIPPED_WORDINGS``), and its hints by published hint."""
    wording = _WORDINGS["wording"][number - 1]
    hints = {PROMPTS[name]: wording["hint"].format(**parts) for name, parts in _WORDINGS["advice"].items()}
    return wording["template"], hints
