"""The conditions under which a model is prompted: the paper's seven, and variants that change one thing each.

``identity`` holds what changes a model's answers and goes into keys; name, description and scenarios do not.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from envs.types import Mode
from sweeps.protocol import ZERO_SHOT
from sweeps.sampling import Whole
from sweeps.values import NAME, Frozen

QUESTION, OPTIONS = "{question}", "{options}"
"""Where a template of one's own wants the question and the lettered options."""
REPLICATE = re.compile(r"-(order|seed)\d+$")
"""Suffixes of the names of replicates."""
LONGEST_TEXT = 10_000
Words = Annotated[str, Field(max_length=LONGEST_TEXT)]


class Condition(Frozen):
    """A way to prompt a model (protocol.md, 'Conditions'; paper sections 4 and 5)."""

    name: str
    description: str = Field(default="", exclude=True)
    """One line for ``ls conditions``; never stored, and two conditions that differ in it alone are equal."""
    hint: bool = False
    """The scenario's hint is appended to the question."""
    history: bool = False
    """Earlier turns of the episode precede the current one."""
    shots: int = 0
    """Solved examples before the question."""
    reasoned: bool = False
    """Examples carry the chain-of-thought wording."""
    mode: Mode = Mode.PLAY
    scenarios: tuple[str, ...] = ()
    """Where the condition exists; empty means everywhere."""
    source: str = ""
    """The one scenario that random-proactive suggestions come from; empty draws from all others."""
    small_examples: bool = False
    """Pictures of solved examples shrink to the package's ``resize`` option: 512 pixels in ROD, 112 in MVP-N."""
    resized: bool = True
    """History shrinks its pictures as the package does; false keeps their size."""
    shuffled: bool = False
    """Options change places among themselves, and categories among themselves, drawn by seed."""
    lenient: bool = False
    """A reply that names no option is read again by more tolerant rules (envs/lenient.py)."""
    budget: bool = False
    """The question says how many answers are left."""
    hint_text: Words = ""
    """A hint of one's own after the question, in place of the scenario's."""
    preface: Words = ""
    """Text before the question."""
    system: Words = ""
    """A system message before everything else; the model's chat template must take one."""
    template: Words = ""
    """The whole message, with ``{question}`` and ``{options}``, in place of the package's wording."""
    history_turns: Annotated[Whole, Field(ge=0)] = 0
    """The last so many turns precede the question; 0 keeps all of them. Needs ``history``."""
    picture: Literal["own", "blank", "swapped", "none"] = "own"
    """The picture shown in every question: itself, a grey one of its size, the first picture of another
    sample with another answer (drawn by seed), or nothing. Solved examples keep theirs."""
    every_frame: bool = False
    """No game: the categories alone are asked of every picture that an episode could reach (``envs.frames``)."""
    order: int = Field(default=0, ge=0)
    """Of a replicate: which order of the options, 0 the condition's own (``Sweep.replicates``)."""
    draw: int = Field(default=0, ge=0)
    """Of a replicate: which seed of its episodes, 0 the sweep's own."""

    @field_validator("template")
    @classmethod
    def _complete(cls, value: str) -> str:
        if value and not all(value.count(part) == 1 for part in (QUESTION, OPTIONS)):
            raise ValueError(f"must hold {QUESTION} and {OPTIONS} once each")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Condition:
        if self.hint and self.hint_text:
            raise ValueError("hint = true is the scenario's own hint; leave it out beside hint_text")
        if self.history_turns and not self.history:
            raise ValueError("history_turns needs history = true")
        if self.every_frame and (
            self.history or self.lenient or self.budget or self.hides_picture or self.mode is not Mode.PLAY
        ):
            raise ValueError(
                "every_frame asks each picture afresh; leave out history, lenient, budget, picture and mode"
            )
        return self

    def __eq__(self, other: object) -> bool:
        """Return True if both prompt a model in the same way under the same name."""
        if not isinstance(other, Condition):
            return NotImplemented
        return {**self.__dict__, "description": ""} == {**other.__dict__, "description": ""}

    def __hash__(self) -> int:
        return hash(self.name)

    def replicate(self, order: int, draw: int) -> Condition:
        """The same condition with other options first, or another draw; ``hint-order1-seed2``, or itself for 0 and 0."""
        number = (f"-order{order}" if order else "") + (f"-seed{draw}" if draw else "")
        return self.model_copy(update={"name": self.name + number, "order": order, "draw": draw})

    @property
    def is_replicate(self) -> bool:
        """Return True if it repeats another condition."""
        return bool(self.order or self.draw)

    @property
    def many_images(self) -> bool:
        """Return True if one prompt can hold several pictures."""
        return self.history or self.shots > 0

    @property
    def hides_picture(self) -> bool:
        """Return True if it hides the sample's own picture, so that what is answered rightly was not seen."""
        return self.picture != "own"

    @property
    def identity(self) -> dict[str, Any]:
        """Return the fields that change answers; fields newer than the first release count only if used, so old keys hold."""
        since = {
            "small_examples", "source", "resized", "shuffled", "lenient", "budget", "order", "draw",
            "hint_text", "preface", "system", "template", "history_turns", "picture",
            "every_frame",
        }  # fmt: skip
        whole = self.model_dump(mode="json", exclude={"name", "scenarios", *since})
        return whole | self.model_dump(mode="json", include=since, exclude_defaults=True)


class OwnCondition(Condition):
    """A ``[[condition]]`` of a sweep file: any of a condition's fields, under a name that no other has."""

    name: Annotated[str, Field(pattern=NAME, max_length=60)]

    @model_validator(mode="after")
    def _free(self) -> OwnCondition:
        if self.name in {**CONDITIONS, **VARIANTS} or self.name == "all":
            raise ValueError(f"{self.name} is the name of a condition that ships; choose another")
        if REPLICATE.search(self.name) or self.is_replicate:
            raise ValueError("order and draw, and names that end like -order1 or -seed1, are of replicates")
        return self

    @property
    def plain(self) -> Condition:
        """The condition itself, as sweeps hold it."""
        return Condition(**dict(self))


class Replicates(Frozen):
    """The repeats of each multiple-choice episode: every order of the options under every seed.

    The first is what every table shows; the others tell how much order and draw change.
    """

    orders: Annotated[Whole, Field(ge=1, le=100)] = 1
    """Orders of the options: the published one, then seeded ones. ``replicates = 3`` means three orders."""
    seeds: Annotated[Whole, Field(ge=1, le=100)] = 1
    """Seeds of the decoding and of random moves, for each order."""

    @model_validator(mode="before")
    @classmethod
    def _counted(cls, fields: Any) -> Any:
        return {"orders": fields} if isinstance(fields, int) and not isinstance(fields, bool) else fields

    def expand(self, condition: Condition) -> tuple[Condition, ...]:
        """The condition and its replicates; a decision map has none."""
        if condition.every_frame:
            return (condition,)
        return tuple(condition.replicate(order, seed) for order in range(self.orders) for seed in range(self.seeds))


WITH_EXAMPLES = ("ROD", "MVP-N")
"""The scenarios for which the package has solved examples (``get_icl_example``)."""

CONDITIONS: dict[str, Condition] = {
    condition.name: condition
    for condition in (
        Condition(name=ZERO_SHOT, description="each turn is asked afresh, without memory of earlier ones"),
        Condition(name="hint", description="the scenario's hint is appended to the question", hint=True),
        Condition(name="history", description="the earlier turns of the episode precede the question", history=True),
        Condition(
            name="icl-1", description="one solved example precedes the question", shots=1, scenarios=WITH_EXAMPLES
        ),
        Condition(
            name="icl-3", description="three solved examples precede the question", shots=3, scenarios=WITH_EXAMPLES
        ),
        Condition(
            name="random-proactive",
            description="suggestions of other scenarios replace the valid ones",
            mode=Mode.RANDOM,
        ),
        Condition(name="reference", description="the clear image, categories only, one turn", mode=Mode.REFERENCE),
    )
}
"""The paper's conditions: what ``conditions = "all"`` means."""

VARIANTS: dict[str, Condition] = {
    condition.name: condition
    for condition in (
        Condition(name="icl-2", description="ablation: two solved examples", shots=2, scenarios=WITH_EXAMPLES),
        Condition(
            name="icl-1-cot",
            description="ablation: one solved example with chain of thought",
            shots=1,
            reasoned=True,
            scenarios=WITH_EXAMPLES,
        ),
        Condition(
            name="icl-3-cot",
            description="ablation: three solved examples with chain of thought",
            shots=3,
            reasoned=True,
            scenarios=WITH_EXAMPLES,
        ),
        *(
            Condition(
                name=f"icl-{shots}-small",
                description=f"ablation: solved examples ({shots}) with small pictures (ROD 512, MVP-N 112 pixels)",
                shots=shots,
                small_examples=True,
                scenarios=WITH_EXAMPLES,
            )
            for shots in (1, 3)
        ),
        Condition(
            name="history-full-size",
            description="ablation: history, pictures at their own size",
            history=True,
            resized=False,
        ),
        Condition(
            name="random-from-IN-C",
            description="ablation: random-proactive, all suggestions taken from IN-C",
            mode=Mode.RANDOM,
            source="IN-C",
            scenarios=("ROD", "VSOD", "MVP-N", "QD", "CIT", "COCO"),
        ),
        Condition(
            name="random-from-VSOD",
            description="ablation: random-proactive, all suggestions taken from VSOD",
            mode=Mode.RANDOM,
            source="VSOD",
            scenarios=("ROD", "MVP-N", "QD", "COCO"),
        ),
        Condition(
            name="shuffled", description="ablation: options and categories in another order (seeded)", shuffled=True
        ),
        Condition(
            name="lenient",
            description="ablation: a reply that names no option is read again by more tolerant rules",
            lenient=True,
        ),
        Condition(name="budget", description="ablation: the question says how many answers are left", budget=True),
        Condition(
            name="hint-budget", description="ablation: hint, and how many answers are left", hint=True, budget=True
        ),
        Condition(name="blank", description="probe: a grey picture of the same size", picture="blank"),
        Condition(name="swapped", description="probe: the first picture of another sample (seeded)", picture="swapped"),
        Condition(name="text-only", description="probe: the question without its picture", picture="none"),
        Condition(
            name="every-frame",
            description="decision map: the categories alone, asked of every picture that an episode could reach",
            every_frame=True,
        ),
    )
}
"""One change each, for ablations (sweeps/ablations)."""
