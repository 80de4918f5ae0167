"""Tables of a sweep file that say how much is played and on what: evidence, precision, replicates, cluster and tracking."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from envs.plural import pluralize
from sweeps.conditions import FIRST_OWN, SHIPPED_WORDINGS, Condition, Wording, shipped_wording
from sweeps.sampling import Whole
from sweeps.values import Frozen

MARGIN = 2.0
"""Points of accuracy up to which a difference does not matter."""


class Evidence(Frozen):
    """The main question, and the difference that would not matter."""

    primary: str = ""
    """The condition whose average accuracy against zero-shot is the primary endpoint, tested separately; empty for none."""
    margin: Annotated[float, Field(gt=0, le=50)] = MARGIN
    """Points of accuracy up to which a difference does not matter in tests of equivalence."""


Points = Annotated[float, Field(ge=0.1, le=25, strict=True)]


class Precision(Frozen):
    """Half-widths of 95% intervals, in points; multiple-choice cells stop once all of them are reached."""

    half_width: Points | None = None
    """Half-width of accuracy."""
    per: Literal["average", "cell"] = "average"
    """What ``half_width`` refers to: a model's average over scenarios, or each cell."""
    difference: Points | None = None
    """Half-width of the paired difference in the average over scenarios between each condition and zero-shot."""

    def _faults(self) -> Iterator[str]:
        if self.half_width is None and self.difference is None:
            yield "give half_width or difference, in points"
        if self.half_width is None and self.per == "cell":
            yield 'per = "cell" refers to half_width; give that too, or leave per out'

    @property
    def description(self) -> str:
        """Return the rule in words: ``+-1 points on the average over scenarios``."""
        parts = []
        if self.half_width is not None:
            scope = "in every cell" if self.per == "cell" else "on the average over scenarios"
            parts.append(f"+-{self.half_width:g} points {scope}")
        if self.difference is not None:
            parts.append(f"+-{self.difference:g} points between conditions")
        return " and ".join(parts)

    def describe_savings(self, cells: Sequence[Mapping[str, Any]]) -> str:
        """Return a sentence with the rule and the episodes that it saved; cells have planned and full."""
        full_size = sum(cell.get("full", cell["planned"]) for cell in cells)
        saved = full_size - sum(cell["planned"] for cell in cells)
        stopped = sum(cell["planned"] < cell.get("full", 0) for cell in cells)
        stopped_text = f"{stopped:,} of {pluralize(len(cells), 'cell')} stopped"
        saved_text = f"{saved:,} of {pluralize(full_size, 'episode')} not needed"
        return f"precision {self.description}: {stopped_text}, {saved_text}"


class Replicates(Frozen):
    """The repeats of each multiple-choice episode: every wording, under every order of the options and every seed.

    Tables show the first one; the others measure the effect of wording, order and draw.
    """

    orders: Annotated[Whole, Field(ge=1, le=100)] = 1
    """Orders of the options: the published one, then seeded ones. ``replicates = 3`` means three orders."""
    seeds: Annotated[Whole, Field(ge=1, le=100)] = 1
    """Seeds of the decoding and of random moves, for each order."""
    wordings: Annotated[Whole, Field(ge=1, le=1 + SHIPPED_WORDINGS)] = 1
    """Wordings of message and hints: the published one, then ours. Conditions with a ``template`` keep theirs."""
    own_wordings: Annotated[tuple[Wording, ...], Field(max_length=100)] = ()
    """Your own wordings, in addition to these."""

    @model_validator(mode="before")
    @classmethod
    def _expand_number(cls, fields: Any) -> Any:
        return {"orders": fields} if isinstance(fields, int) and not isinstance(fields, bool) else fields

    def expand(self, condition: Condition) -> tuple[Condition, ...]:
        """Return the condition and its replicates; a decision map has none, and ``every_state`` brings its own orders."""
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


class Tracking(Frozen):
    """Where a sweep is recorded, by default in MLflow."""

    uri: str = "sqlite"
    """``sqlite`` (a file under the output folder), a server's address, or ``none``."""
    experiment: str = ""
    """Defaults to the sweep's name."""


class Cluster(Frozen):
    """The share of the cluster that a sweep may use."""

    workers: Annotated[Whole, Field(ge=1)] | None = None
    """Most replicas of a model without GPU; default: one per CPU."""
    gpus: Annotated[Whole, Field(ge=1)] | None = None
    """Most GPUs of the models at once; default: all."""
    silence: Annotated[float, Field(gt=0)] = 900.0
    """Seconds without a message after which a busy worker counts as hung; long reasoning may need more."""
    wait_hours: Annotated[float, Field(ge=0, le=10_000)] = 2.0
    """Hours that a model waits on a joined cluster for a node with enough GPUs, after the last node joined or left; 0: none."""
    judge_gpus: Annotated[Whole, Field(ge=1)] | None = None
    """Most GPUs of the judges at once; default: all."""
    max_cost: Annotated[float, Field(gt=0)] | None = None
    """Budget of all workers and attempts for services, in the currency of their prices; once spent, episodes stay pending."""

    @property
    def shares(self) -> dict[str, int]:
        """Return the most GPUs per pool, for pools with a limit."""
        limits = {"models": self.gpus, "judges": self.judge_gpus}
        return {pool: gpus for pool, gpus in limits.items() if gpus is not None}


class Staging(Frozen):
    """The transfer of remote data to each node."""

    cache: str = ""
    """Folder on each node; default: ``PROACTIVE_SWEEP_CACHE`` there, or the user's cache folder."""
