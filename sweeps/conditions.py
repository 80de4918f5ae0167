"""How a model is prompted: the paper's conditions, and variants that change one thing each."""

from __future__ import annotations

from typing import Any

from envs.types import Mode
from sweeps.values import Frozen


class Condition(Frozen):
    """How a model is prompted (protocol.md, 'Conditions'; paper sections 4 and 5)."""

    name: str
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
    resized: bool = True
    """History shrinks its pictures as the package does; false keeps their size."""
    shuffled: bool = False
    """Options change places among themselves, and categories among themselves, drawn by seed."""
    lenient: bool = False
    """A reply that names nothing is read again as a forgiving reader would."""
    budget: bool = False
    """The question says how many answers are left."""

    @property
    def many_images(self) -> bool:
        """Whether one prompt can hold several pictures."""
        return self.history or self.shots > 0

    @property
    def identity(self) -> dict[str, Any]:
        """What changes answers; what came after the first release counts only where it is used, so old keys hold."""
        since = {"source", "resized", "shuffled", "lenient", "budget"}
        whole = self.model_dump(mode="json", exclude={"name", "scenarios", *since})
        return whole | self.model_dump(mode="json", include=since, exclude_defaults=True)


WITH_EXAMPLES = ("ROD", "MVP-N")
"""The scenarios for which the package has solved examples (``get_icl_example``)."""

CONDITIONS: dict[str, Condition] = {
    condition.name: condition
    for condition in (
        Condition(name="zero-shot"),
        Condition(name="hint", hint=True),
        Condition(name="history", history=True),
        Condition(name="icl-1", shots=1, scenarios=WITH_EXAMPLES),
        Condition(name="icl-3", shots=3, scenarios=WITH_EXAMPLES),
        Condition(name="random-proactive", mode=Mode.RANDOM),
        Condition(name="reference", mode=Mode.REFERENCE),
    )
}
"""The paper's conditions: what ``conditions = "all"`` means."""

VARIANTS: dict[str, Condition] = {
    condition.name: condition
    for condition in (
        Condition(name="icl-2", shots=2, scenarios=WITH_EXAMPLES),
        Condition(name="icl-1-cot", shots=1, reasoned=True, scenarios=WITH_EXAMPLES),
        Condition(name="icl-3-cot", shots=3, reasoned=True, scenarios=WITH_EXAMPLES),
        Condition(name="history-full-size", history=True, resized=False),
        Condition(
            name="random-from-IN-C",
            mode=Mode.RANDOM,
            source="IN-C",
            scenarios=("ROD", "VSOD", "MVP-N", "QD", "CIT", "COCO"),
        ),
        Condition(name="random-from-VSOD", mode=Mode.RANDOM, source="VSOD", scenarios=("ROD", "MVP-N", "QD", "COCO")),
        Condition(name="shuffled", shuffled=True),
        Condition(name="lenient", lenient=True),
        Condition(name="budget", budget=True),
        Condition(name="hint-budget", hint=True, budget=True),
    )
}
"""One change each, for ablations (sweeps/ablations)."""
