"""A sweep as data: models, scenarios, conditions and protocols, whose playable combinations are its cells.

Keys hash exactly what changes an answer.
"""

import json
from collections.abc import Iterator
from functools import cached_property
from itertools import product
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field, field_validator

from envs.types import Mode
from sweeps.conditions import CONDITIONS, Condition
from sweeps.model import ModelSpec as ModelSpec
from sweeps.protocol import LABELS, ZERO_SHOT, Only, unplayable_reason
from sweeps.protocol import Protocol as Protocol
from sweeps.sampling import Completed, Sampling, Whole
from sweeps.sections import Cluster, Evidence, Precision, Replicates, Staging, Tracking
from sweeps.values import NAME, Frozen, Names, digest, split_names

SCHEMES = ("http", "https", "hf", "s3", "gs")
"""Schemes of data addresses; run folders of 0.2.0 have the first two."""
Entry = TypeVar("Entry")
NonEmpty = Annotated[tuple[Entry, ...], BeforeValidator(split_names), Field(min_length=1)]


class Cell(Frozen):
    """Model x scenario x condition x protocol: the unit of one table entry."""

    model: ModelSpec
    scenario: str
    condition: Condition
    protocol: Protocol = Protocol.MCQA
    sampling: Sampling = Sampling()
    package: str = ""
    """``package@digest`` of the scenario's installed package; empty for the paper's."""

    @cached_property
    def key(self) -> str:
        """Return ``qwen2.5-vl-7b/ROD/hint``, with a suffix for protocols other than multiple choice."""
        suffix = "" if self.protocol is Protocol.MCQA else f"-{self.protocol}"
        return f"{self.model.name}/{self.scenario}/{self.condition.name}{suffix}"

    def fingerprint(self, prompt_version: str) -> str:
        """Hash what changes this cell's answers (16 hex digits): model identity, prompt text, condition, sampling."""
        # sampling = "checkpoint" takes the end tokens from the same file as ``faithful``
        ends_faithfully = self.model.faithful and self.model.is_local and not self.sampling.checkpoint
        identity = [
            self.model.identity,
            self.scenario,
            self.condition.identity | ({"small": True} if self.model.small_examples and self.condition.shots else {}),
            self.protocol.value,
            self.sampling.identity | ({"faithful": True} if ends_faithfully else {}),
            prompt_version,
            *([self.package] if self.package else []),
        ]
        return digest(json.dumps(identity, sort_keys=True))


class Selection(Frozen):
    """The samples of each scenario to play."""

    limit: Annotated[Whole, Field(ge=1)] | None = None
    """Samples per scenario, drawn by seed; a larger limit draws the same samples and more. None takes all."""
    filtered: bool = True
    """Keep the 7,557 samples that the paper evaluates; false keeps every line."""
    ids: dict[str, list[Whole]] = Field(default_factory=dict)
    """Scenario -> the only ids that it plays. The key ``ids_file`` reads them from a file."""
    subset: Literal["all", "open-ended"] = "all"
    """``open-ended``: the paper's 100 samples per scenario (filtered entries, file order, shuffled by seed 0)."""


class OpenEnded(Completed):
    """Settings of open-ended cells: sampled, long replies on the paper's subset (package ``tests/oeg.py``)."""

    sampling: Sampling = Sampling(temperature=1.0, top_k=50, max_tokens=4096)
    """transformers' defaults; ``sampling = "checkpoint"`` is what the package does, with up to 32,768 new tokens."""
    selection: Selection = Selection(subset="open-ended")


class Judge(Completed):
    """The reader of open-ended answers: part of every verdict's key, and of episodes' in ``oeg-multi`` (decisions 0003, 0010)."""

    model: ModelSpec
    instruction: Literal["ours", "paper"] = "ours"
    """``paper`` uses the wording of the installed package ``proactivebench``."""
    sampling: Sampling = Sampling(temperature=0.6, top_p=0.95, top_k=20, max_tokens=8192)
    """Qwen3's recommendation for thinking; ``"checkpoint"`` reads it from the model's file, with up to 32,768 new tokens."""
    attempts: Annotated[Whole, Field(ge=1, le=16)] = 3
    """Attempts per answer before it counts as unjudged."""
    replicas: Annotated[Whole, Field(ge=1)] | None = None
    """Most replicas; default: as many as its share of the cluster holds."""
    gold_check: Annotated[bool, Field(strict=True)] = True
    """True makes it read about 280 answers with known verdicts first, once per run folder; never part of a key."""
    min_kappa: Annotated[float, Field(ge=0, le=1)] | None = None
    """Least agreement with those verdicts (Cohen's kappa of the worse bit); a judge below it reads no answer of a model."""

    @property
    def needs_workers(self) -> bool:
        """Return True if its engine needs separate workers; rules and services need none."""
        return self.model.backend not in ("builtin", "openai")


class Sweep(Frozen):
    """A whole sweep; every default is the paper's choice."""

    name: Annotated[str, Field(pattern=NAME)]
    data: str
    """The benchmark folder (seven JSONL files and their picture folders), or the address that each node downloads it from
    (``hf://OWNER/NAME[@REVISION][/FOLDER]``, ``s3://BUCKET/FOLDER``, ``gs://BUCKET/FOLDER``)."""
    output: str = ""
    """The run folder; default ``outputs/<name>``."""
    faithful: Annotated[bool, Field(strict=True)] = False
    """True gives every local model what the package would, also where the default knows better (``ls differences``)."""
    models: NonEmpty[ModelSpec]
    scenarios: NonEmpty[str]
    conditions: NonEmpty[Condition]
    protocols: NonEmpty[Protocol] = (Protocol.MCQA,)
    seed: Whole = 0
    sampling: Sampling = Sampling()
    selection: Selection = Selection()
    skip_bad: Annotated[bool, Field(strict=True)] = False
    """True skips and reports bad lines of the data; otherwise the first one stops the sweep (``--set skip_bad=true``)."""
    replicates: Replicates = Replicates()
    precision: Precision | None = None
    """The precision at which multiple choice stops; None plays everything. Never part of a key."""
    evidence: Evidence | None = None
    """The main question and the margin of equivalence; None declares no question. Never part of a key."""
    open_ended: OpenEnded = OpenEnded()
    """Sampling and selection of cells with protocol ``oeg`` or ``oeg-multi``."""
    judge: Judge | None = None
    """The judge of the answers of those cells; None leaves answers of ``oeg`` unjudged."""
    tracking: Tracking = Tracking()
    cluster: Cluster = Cluster()
    staging: Staging = Staging()
    packages: dict[str, str] = Field(default_factory=dict)
    """Scenario -> ``package@digest`` of the installed package that offers it; filled when the file is read."""
    measures: Names = ()
    """Measures of installed packages in the results; never part of a key."""
    only: tuple[Only, ...] = ()
    """Rules that limit conditions to some of the models."""

    @field_validator("data")
    @classmethod
    def _check_address(cls, value: str) -> str:
        scheme, separator, rest = value.partition("://")
        if separator and scheme not in SCHEMES:
            raise ValueError(f"is neither a folder nor an address that begins with {', '.join(SCHEMES[-3:])}://")
        if separator and scheme != "hf" and ("@" in rest.split("/")[0] or "?" in rest):
            raise ValueError("must hold no password and no signature, because the run folder stores the address")
        return value

    def _faults(self) -> Iterator[str]:
        names, models = {condition.name for condition in self.conditions}, [model.name for model in self.models]
        choice, repeated, rule = Protocol.MCQA in self.protocols, self.replicates != Replicates(), self.precision
        if len(set(models)) < len(models):
            yield f"a model is named twice in models: {max(models, key=models.count)!r}"
        primary = self.evidence.primary if self.evidence else ""
        if primary and (primary == ZERO_SHOT or not {primary, ZERO_SHOT} <= names):
            remedy = "name another condition" if primary == ZERO_SHOT else "name both in conditions"
            yield f"evidence: primary = {primary!r} is compared with {ZERO_SHOT}; {remedy}"
        if repeated and not choice:
            yield "replicates repeat multiple choice, which is not played here; leave them out"
        if Protocol.OEG_MULTI in self.protocols and self.judge is None:
            yield 'protocol = "oeg-multi" needs a judge between turns; add [judge] with a model, or with "rule-judge"'
        if self.turn_judge and self.turn_judge.instruction != "ours":
            yield 'judge.instruction = "paper" is for one-turn answers; write "ours" for protocol = "oeg-multi"'
        if rule and not choice:
            yield "precision: stops multiple choice, which is not played here; leave it out"
        if rule and repeated:
            yield "precision: stops cells early, and replicates repeat whole cells; leave one of the two out"
        if rule and rule.difference is not None and (ZERO_SHOT not in names or len(names) < 2):
            yield f"precision: difference compares conditions with {ZERO_SHOT}; name {ZERO_SHOT} and another in conditions"

    def cells(self) -> tuple[Cell, ...]:
        """Return every possible cell: models first, then scenarios, conditions and protocols, in the sweep's order."""
        products = product(self.models, self.scenarios, self.conditions, self.protocols)
        return tuple(
            Cell(
                model=model,
                scenario=scenario,
                condition=replicate,
                protocol=protocol,
                sampling=self.sampling_for(protocol),
                package=self.packages.get(scenario, ""),
            )
            for model, scenario, condition, protocol in products
            for replicate in (self.replicates.expand(condition) if protocol is Protocol.MCQA else (condition,))
            if not unplayable_reason(model, scenario, condition, self.only, protocol)
        )

    @property
    def replicated_conditions(self) -> tuple[Condition, ...]:
        """Return the replicates of its conditions, without the conditions themselves."""
        return tuple(c for condition in self.conditions for c in self.replicates.expand(condition) if c.is_replicate)

    @property
    def reference_conditions(self) -> tuple[str, ...]:
        """Return the names of its conditions, replicates included, under which nothing can be asked."""
        played = (*self.conditions, *self.replicated_conditions)
        return tuple(condition.name for condition in played if condition.mode is Mode.REFERENCE)

    @property
    def draws_suggestions(self) -> bool:
        """Return True if it plays random-proactive, which draws suggestions from every scenario's file."""
        return any(condition.mode is Mode.RANDOM for condition in self.conditions)

    @property
    def is_judged(self) -> bool:
        """Return True if a judge reads the answers of some cells after their episodes."""
        return self.judge is not None and Protocol.OEG in self.protocols

    def samplings(self, model: str) -> tuple[Sampling, ...]:
        """Return the samplings of the model or judge of this name, or of both."""
        judged = [self.judge.sampling] if self.judge and self.judge.model.name == model else []
        plays = not judged or any(player.name == model for player in self.models)
        played = map(self.sampling_for, self.protocols) if plays else ()
        return tuple(dict.fromkeys((*played, *judged)))

    def sampling_for(self, protocol: Protocol) -> Sampling:
        """Return the decoding of a protocol's replies."""
        return self.open_ended.sampling if protocol.is_open_ended else self.sampling

    def selection_for(self, protocol: Protocol) -> Selection:
        """Return the selection of a protocol's samples."""
        return self.open_ended.selection if protocol.is_open_ended else self.selection

    @property
    def extensions(self) -> tuple[str, ...]:
        """Return its conditions, protocols and measures that are not the paper's."""
        conditions = (condition.name for condition in self.conditions if condition.name not in CONDITIONS)
        return (*conditions, *(LABELS[p] for p in self.protocols if p is Protocol.TOOLS), *self.measures)

    @property
    def turn_judge(self) -> Judge | None:
        """Return the judge that reads answers while their episodes wait, if there is one."""
        return self.judge if Protocol.OEG_MULTI in self.protocols else None

    @property
    def baselines(self) -> frozenset[str]:
        """Return the names of the built-in policies, which need no model."""
        return frozenset(model.name for model in self.models if model.backend == "builtin")

    @property
    def models_and_judge(self) -> tuple[ModelSpec, ...]:
        return (*self.models, *([self.judge.model] if self.judge else []))

    @property
    def serving_judge(self) -> Judge | None:
        """Return the ``turn_judge`` if its engine has separate workers."""
        judge = self.turn_judge
        return judge if judge and judge.needs_workers else None
