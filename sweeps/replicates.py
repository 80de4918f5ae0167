"""The repeats of each multiple-choice episode, which show what accuracy owes to wording, order of options and draw."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, model_validator

from sweeps.conditions import Condition
from sweeps.sampling import Whole
from sweeps.values import Frozen
from sweeps.wordings import FIRST_OWN, SHIPPED, Wording, shipped_wording


class Replicates(Frozen):
    """The repeats of each multiple-choice episode: every wording, under every order of the options and every seed.

    Tables show the first one; the others measure the effect of wording, order and draw.
    """

    orders: Annotated[Whole, Field(ge=1, le=100)] = 1
    """Orders of the options: the published one, then seeded ones. ``replicates = 3`` means three orders."""
    seeds: Annotated[Whole, Field(ge=1, le=100)] = 1
    """Seeds of the decoding and of random moves, for each order."""
    wordings: Annotated[Whole, Field(ge=1, le=1 + SHIPPED)] = 1
    """Wordings of message and hints: the published one, then ours. Conditions with a ``template`` keep theirs."""
    own_wordings: Annotated[tuple[Wording, ...], Field(max_length=100)] = ()
    """Your wordings, beside these."""

    @model_validator(mode="before")
    @classmethod
    def _expand_number(cls, fields: Any) -> Any:
        return {"orders": fields} if isinstance(fields, int) and not isinstance(fields, bool) else fields

    def expand(self, condition: Condition) -> tuple[Condition, ...]:
        """Return the condition and its replicates; a decision map has none, and ``every_state`` counts its own orders."""
        if condition.every_frame:
            return (condition,)
        if condition.every_state:
            return tuple(condition.replicate(order, 0) for order in range(1 + condition.orders))
        return tuple(
            reworded.replicate(order, seed)
            for reworded in self._reword(condition)
            for order in range(self.orders)
            for seed in range(self.seeds)
        )

    def _reword(self, condition: Condition) -> Iterator[Condition]:
        """Yield the condition in each wording, its own first; one with a ``template`` has no other."""
        yield condition
        if condition.template:
            return
        for number in range(1, self.wordings):
            yield condition.reword(number, *shipped_wording(number))
        for number, wording in enumerate(self.own_wordings, start=FIRST_OWN):
            yield condition.reword(number, wording.template, wording.hint_wordings())
