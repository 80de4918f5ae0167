"""The work to run, as data: a sweep names models, scenarios, conditions and protocols; its cells are their possible products.

No model, no cluster and no file is touched here. Keys hash what changes an answer, and nothing else.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from envs import SCENARIOS
from envs.types import Mode
from sweeps.conditions import Condition, Replicates
from sweeps.model import ModelSpec as ModelSpec
from sweeps.precision import Precision
from sweeps.protocol import OPEN_ENDED_CONDITIONS
from sweeps.protocol import Protocol as Protocol
from sweeps.running import Cluster, Staging, Tracking
from sweeps.sampling import Completed, Sampling, Whole
from sweeps.tools import uncallable_reason
from sweeps.values import NAME, Frozen, digest

PLACES = ("hf", "http", "https", "s3", "gs")
"""Schemes of addresses that data may have."""


class Cell(Frozen):
    """Model x scenario x condition x protocol: what one table entry reports."""

    model: ModelSpec
    scenario: str
    condition: Condition
    protocol: Protocol = Protocol.MCQA
    sampling: Sampling = Sampling()
    package: str = ""
    """``package@digest`` of the installed package that the scenario is from; empty for the paper's."""

    @property
    def key(self) -> str:
        """``qwen2.5-vl-7b/ROD/hint``; open-ended cells say so in the last part."""
        suffix = "" if self.protocol is Protocol.MCQA else f"-{self.protocol}"
        return f"{self.model.name}/{self.scenario}/{self.condition.name}{suffix}"

    def fingerprint(self, prompt_version: str) -> str:
        """Hash of what changes this cell's answers (16 hex digits): model identity, prompt text, condition, sampling."""
        identity = [
            self.model.identity,
            self.scenario,
            self.condition.identity | ({"small": True} if self.model.small_examples and self.condition.shots else {}),
            self.protocol.value,
            self.sampling.identity,
            prompt_version,
            *([self.package] if self.package else []),
        ]
        return digest(json.dumps(identity, sort_keys=True))


class Selection(Frozen):
    """The samples of each scenario to play."""

    limit: Annotated[Whole, Field(ge=1)] | None = None
    """Samples a scenario, drawn by seed; a larger limit contains the smaller. None takes all."""
    filtered: bool = True
    """Keep the 7,557 samples that the paper evaluates; false keeps every line."""
    ids: dict[str, list[Whole]] = Field(default_factory=dict)
    """Scenario -> ids; a scenario named here plays just these. A file's ``ids_file`` becomes these (``sweeps.ids_file``)."""
    subset: Literal["all", "open-ended"] = "all"
    """``open-ended``: the paper's 100 samples a scenario (kept entries, file order, shuffled by seed 0)."""


PICTURE_NEEDED = ("InstructBlipForConditionalGeneration",)
"""Architectures whose ``generate`` takes no question without a picture."""


class OpenEnded(Completed):
    """Settings of open-ended cells: sampled, long replies on the paper's subset (package ``tests/oeg.py``)."""

    sampling: Sampling = Sampling(temperature=1.0, top_k=50, max_tokens=4096)
    """transformers' own; ``sampling = "checkpoint"`` is what the package does, with up to 32,768 new tokens."""
    selection: Selection = Selection(subset="open-ended")


class Judge(Completed):
    """Who reads open-ended answers: part of every verdict's key, and of episodes' in ``oeg-multi`` (decisions 0003, 0010)."""

    model: ModelSpec
    instruction: Literal["ours", "paper"] = "ours"
    """``paper`` takes the wording of the installed package ``proactivebench``."""
    sampling: Sampling = Sampling(temperature=0.6, top_p=0.95, top_k=20, max_tokens=8192)
    """Qwen3's own recommendation for thinking; ``"checkpoint"`` is the same from its file, with up to 32,768 new tokens."""
    attempts: Annotated[Whole, Field(ge=1, le=16)] = 3
    """Times an answer is put to the judge before it counts as unjudged."""
    replicas: Annotated[Whole, Field(ge=1)] | None = None
    """Replicas at most; default: as many as its share of the cluster holds."""

    @property
    def needs_workers(self) -> bool:
        """Return True if its engine needs workers of its own; rules and services are asked from wherever an answer is."""
        return self.model.backend not in ("builtin", "openai")

    @field_validator("model")
    @classmethod
    def _reads_at_once(cls, value: ModelSpec) -> ModelSpec:
        if value.batch:
            raise ValueError(f"{value.name} has batch = true, and a judge reads answers as they come; leave batch out")
        return value


class Only(Frozen):
    """Conditions that some models alone play."""

    conditions: tuple[str, ...]
    models: tuple[str, ...]
    """Names; ``models = "in-history"`` in a file means the paper's ten."""

    def forbids(self, model: ModelSpec, condition: Condition) -> bool:
        """Return True if this rule keeps the model from the condition."""
        return condition.name in self.conditions and model.name not in self.models


class Sweep(Frozen):
    """A whole sweep; every default is the paper's choice."""

    name: Annotated[str, Field(pattern=NAME)]
    data: str
    """The benchmark folder: seven JSONL files beside their picture folders; or where each node gets it from
    (``hf://OWNER/NAME[@REVISION][/FOLDER]``, ``https://HOST/FOLDER``, ``s3://BUCKET/FOLDER``, ``gs://BUCKET/FOLDER``)."""
    output: str = ""
    """The run folder; default ``outputs/<name>``."""
    models: tuple[ModelSpec, ...]
    scenarios: tuple[str, ...]
    conditions: tuple[Condition, ...]
    protocols: tuple[Protocol, ...] = (Protocol.MCQA,)
    seed: Whole = 0
    sampling: Sampling = Sampling()
    selection: Selection = Selection()
    skip_bad: Annotated[bool, Field(strict=True)] = False
    """True if bad lines of the data are left out, counted and named; else the first one stops the sweep (``--skip-bad``)."""
    replicates: Replicates = Replicates()
    precision: Precision | None = None
    """When multiple choice is known precisely enough to stop; None plays everything. Never part of a key."""
    open_ended: OpenEnded = OpenEnded()
    """Sampling and selection of cells with protocol ``oeg`` or ``oeg-multi``."""
    judge: Judge | None = None
    """Who reads the answers of those cells; None leaves those of ``oeg`` unjudged."""
    tracking: Tracking = Tracking()
    cluster: Cluster = Cluster()
    staging: Staging = Staging()
    packages: dict[str, str] = Field(default_factory=dict)
    """Scenario -> ``package@digest``, of those that installed packages offer; filled when the file is read."""
    measures: tuple[str, ...] = ()
    """Measures of installed packages that the results show beside acc and ps; never part of a key."""
    only: tuple[Only, ...] = ()
    """Rules that limit conditions to some of the models; without one, every model plays every condition."""

    @field_validator("data")
    @classmethod
    def _placed(cls, value: str) -> str:
        scheme, found, rest = value.partition("://")
        if found and scheme not in PLACES:
            raise ValueError(f"is neither a folder nor an address that begins with {', '.join(PLACES)}://")
        if found and scheme != "hf" and ("@" in rest.split("/")[0] or "?" in rest):
            raise ValueError("may hold no password and no signature: a run folder keeps it")
        return value

    @field_validator("cluster")
    @classmethod
    def _priced(cls, value: Cluster, info: ValidationInfo) -> Cluster:
        free = [
            one.name for one in info.data.get("models", ()) if one.backend == "openai" and not one.endpoint.cost_known
        ]
        if value.max_cost is not None and free:
            raise ValueError(f"max_cost needs the prices of {free[0]}: prompt_price and reply_price of its endpoint")
        return value

    @field_validator("precision")
    @classmethod
    def _reachable(cls, value: Precision | None, info: ValidationInfo) -> Precision | None:
        names = [condition.name for condition in info.data.get("conditions", ())]
        choice = Protocol.MCQA in info.data.get("protocols", (Protocol.MCQA,))
        models = len(info.data.get("models", ()))
        if value and (reason := value.unfit(choice, info.data.get("replicates") != Replicates(), names, models)):
            raise ValueError(reason)
        return value

    @field_validator("models", "scenarios", "conditions", "protocols")
    @classmethod
    def _some(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        if not value:
            raise ValueError("names nothing; give at least one")
        return value

    def cells(self) -> tuple[Cell, ...]:
        """Every possible cell, models first, then scenarios, conditions and protocols, as the sweep names them."""
        openly = self.open_ended.sampling
        return tuple(
            Cell(
                model=model,
                scenario=scenario,
                condition=replicate,
                protocol=protocol,
                sampling=openly if protocol.is_open_ended else self.sampling,
                package=self.packages.get(scenario, ""),
            )
            for model in self.models
            for scenario in self.scenarios
            for condition in self.conditions
            for protocol in self.protocols
            for replicate in (self.replicates.expand(condition) if protocol is Protocol.MCQA else (condition,))
            if not unplayable_reason(model, scenario, condition, self.only, protocol)
        )

    @property
    def replicated_conditions(self) -> tuple[Condition, ...]:
        """The replicates of its conditions, the conditions themselves left out."""
        return tuple(
            one for condition in self.conditions for one in self.replicates.expand(condition) if one.is_replicate
        )

    @property
    def draws_suggestions(self) -> bool:
        """Return True if random-proactive is played, which draws suggestions from every scenario's file."""
        return any(condition.mode is Mode.RANDOM for condition in self.conditions)

    @property
    def swaps_pictures(self) -> bool:
        """Return True if some questions show another sample's picture."""
        return any(condition.picture == "swapped" for condition in self.conditions)

    @property
    def is_judged(self) -> bool:
        """Return True if some cells end with an open-ended answer and somebody reads it."""
        return self.judge is not None and Protocol.OEG in self.protocols

    def selection_for(self, protocol: Protocol) -> Selection:
        """Return the selection of samples that a protocol's cells play."""
        return self.open_ended.selection if protocol.is_open_ended else self.selection

    @property
    def turn_judge(self) -> Judge | None:
        """Who reads answers while their episodes wait; None where no episode does."""
        return self.judge if Protocol.OEG_MULTI in self.protocols else None

    @property
    def serving_judge(self) -> Judge | None:
        """The ``turn_judge`` whose engine has workers of its own; None where there is none."""
        judge = self.turn_judge
        return judge if judge and judge.needs_workers else None


def unplayable_reason(
    model: ModelSpec,
    scenario: str,
    condition: Condition,
    only: tuple[Only, ...] = (),
    protocol: Protocol = Protocol.MCQA,
) -> str:
    """Why this product is no cell, or an empty string."""
    if protocol.is_open_ended and scenario not in SCENARIOS:
        return f"open-ended answers are judged by the paper's rules, which have none for {scenario}"
    if protocol is Protocol.TOOLS and (reason := uncallable_reason(model.backend, scenario, condition)):
        return reason
    if condition.name not in OPEN_ENDED_CONDITIONS.get(protocol, (condition.name,)):
        plays = ", ".join(OPEN_ENDED_CONDITIONS[protocol])
        return f"{condition.name} does not exist for {protocol.label}, which plays {plays}"
    if condition.scenarios and scenario not in condition.scenarios:
        return f"{condition.name} exists only for {' and '.join(condition.scenarios)}, not for {scenario}"
    if condition.many_images and model.max_images == 1:
        return f"{model.name} takes one picture a prompt, {condition.name} needs several"
    if condition.picture == "none" and model.architecture in PICTURE_NEEDED:
        return f"{model.name} takes no question without a picture, {condition.name} shows none"
    if any(rule.forbids(model, condition) for rule in only):
        return f"{condition.name} is kept from {model.name} by [[only]]"
    return ""
