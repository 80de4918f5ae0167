"""The ``[train]`` table of a sweep file: who learns, from which states, by which rewards and steps.

A table that cannot be trained as written is one sentence; every default that the paper states is the paper's.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from sweeps.load import SweepError, build, find_model, find_scenarios
from sweeps.sampling import Whole
from sweeps.spec import ModelSpec, Sweep
from sweeps.sweep_file import override_key, read_sweep
from sweeps.validation import validate_table
from sweeps.values import Frozen

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[Whole, Field(ge=1)]


class TrainError(SweepError):
    """A training that the user must correct."""


class Lora(Frozen):
    """Low-rank adapters of the language model (paper, appendix C)."""

    r: Annotated[Whole, Field(ge=1, le=512)] = 16
    alpha: Count = 16
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    targets: tuple[str, ...] = ("q_proj", "k_proj")
    """Last names of the linear layers that get an adapter."""


class States(Frozen):
    """The weight of each kind of state; any weights, 0 leaves a kind out."""

    hidden: Annotated[float, Field(ge=0)] = 1.0
    """First views: nothing of what is asked can be seen yet."""
    middle: Annotated[float, Field(ge=0)] = 1.0
    """Views between the first and the last."""
    clear: Annotated[float, Field(ge=0)] = 1.0
    """Last views of a player who asks until the answer can be known."""

    @model_validator(mode="after")
    def _some(self) -> States:
        if self.hidden + self.middle + self.clear == 0:
            raise ValueError("draws no state; give at least one of hidden, middle and clear a weight above 0")
        return self


class Exploration(Frozen):
    """Sources of variety for replies that would otherwise all be equal; none is in the paper."""

    hint: Share = 0.0
    """Share of each group that is sampled from the hinted question, and trained under the one without hint."""
    until: Share = 0.5
    """Part of the steps that have such replies."""
    clone: Annotated[Whole, Field(ge=0)] = 0
    """Steps before the first one in which the right reply itself is learnt (cross entropy)."""


class Train(Frozen):
    """One training. What the paper does not state is documented as ours."""

    model: ModelSpec
    data: str
    """A folder in the published format, or one with the published train split (``data fetch --split train``)."""
    scenarios: tuple[str, ...] = ("QD", "COCO")
    samples: Count | None = None
    """Samples a scenario to learn from, drawn by seed; None takes all."""
    engine: Literal["native", "trl"] = "native"
    """``native``: exploration, credit by episode, one process. ``trl``: TRL's GRPOTrainer, as the paper; several GPUs."""
    sampler: Literal["transformers", "vllm"] = "transformers"
    """The engine that samples the replies; ``vllm`` requires ``native`` and a vllm entry whose options leave memory for both."""
    workers: Count = 1
    """Processes of Ray Train, with a GPU each where the model takes one; for ``trl`` alone."""
    zero: Literal[0, 2, 3] = 0
    """DeepSpeed's ZeRO stage (paper: 3); for ``trl`` alone."""
    rp: Share = 0.5
    """Reward of a valid suggestion; the right category is worth 1, all else 0."""
    states: States = States()
    rollouts: Annotated[Whole, Field(ge=2)] = 8
    """Replies to one state: a group."""
    batch: Count = 512
    """Replies of one step."""
    steps: Annotated[Whole, Field(ge=0)] = 0
    """0: one pass over the states."""
    at_once: Count = 16
    """States that are computed together; it bounds memory and changes no figure but by rounding."""
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 2e-5
    warmup: Annotated[Whole, Field(ge=0)] = 0
    """Steps in which the learning rate grows to its full value."""
    final_rate: Share = 0.0
    """Part of the learning rate that the cosine ends at."""
    full: bool = False
    """Train every weight; else adapters (``lora``)."""
    lora: Lora = Lora()
    temperature: Annotated[float, Field(gt=0, le=2)] = 1.0
    max_tokens: Count = 50
    """New tokens a reply may have."""
    exploration: Exploration = Exploration()
    credit: Literal["turn", "episode"] = "turn"
    """``turn``: each reply's own reward, as in the paper. ``episode``: 1 where the episode ends right, discounted a turn."""
    gamma: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Discount a turn, where credit is by episode."""
    kl: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the divergence from the model before training."""
    shuffle_rewards: bool = False
    """A control: rewards change places within each group, so that nothing about the task can be learnt."""
    seed: Whole = 0
    checkpoint_every: Count = 20
    evaluate_every: Annotated[Whole, Field(ge=0)] = 0
    """Steps between two evaluations on the sweep's own data; 0 makes none."""
    evaluate_samples: Count = 10
    """Samples a scenario in such an evaluation."""

    @model_validator(mode="after")
    def _groups(self) -> Train:
        if self.batch % self.rollouts:
            raise ValueError(f"batch = {self.batch} is no multiple of rollouts = {self.rollouts}")
        if round(self.exploration.hint * self.rollouts) == self.rollouts:
            raise ValueError("exploration.hint leaves no reply to the question without hint; take a smaller share")
        return self

    @model_validator(mode="after")
    def _engine(self) -> Train:
        if self.engine == "native" and (self.workers > 1 or self.zero):
            raise ValueError('workers and zero are settings of engine = "trl"; the native engine trains in one process')
        if self.zero and (self.workers == 1 or not self.model.gpus):
            raise ValueError(
                f"zero = {self.zero} spreads weights over the GPUs of several workers; set workers above 1 for a model that "
                "takes gpus, or leave zero out"
            )
        if self.sampler == "vllm" and (self.engine != "native" or self.model.backend != "vllm" or self.full):
            raise ValueError(
                'sampler = "vllm" samples for engine = "native" with adapters (full = false), from a model whose entry has '
                'backend = "vllm"; leave sampler out, or change that'
            )
        if self.batch % (self.rollouts * self.workers):
            raise ValueError(
                f"batch = {self.batch} does not give each of {self.workers} workers whole groups of {self.rollouts}"
            )
        if self.engine == "trl" and (strange := self._not_of_trl()):
            raise ValueError(
                f'engine = "trl" asks one question a group, each state equally often, and takes no {", ".join(strange)}; leave '
                'it out, or set engine = "native"'
            )
        return self

    def _not_of_trl(self) -> list[str]:
        """Settings that the native engine alone follows."""
        weights = {weight for weight in self.states.model_dump().values() if weight}
        requested = {
            "exploration.hint": self.exploration.hint,
            "exploration.clone": self.exploration.clone,
            'credit = "episode"': self.credit == "episode",
            "shuffle_rewards": self.shuffle_rewards,
            "unequal weights of states": len(weights) > 1,
        }
        return [name for name, wanted in requested.items() if wanted]

    @property
    def groups(self) -> int:
        """States of one step."""
        return self.batch // self.rollouts

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings that change the trained weights, flat: ``{"lora.r": 16}``; not the intervals of checkpoints."""
        nested = self.model_dump(
            mode="json", exclude={"model", "evaluate_every", "evaluate_samples", "checkpoint_every"}
        )
        flat = {"model": self.model.identity}
        for name, value in nested.items():
            if isinstance(value, dict):
                flat |= {f"{name}.{inner}": part for inner, part in value.items()}
            else:
                flat[name] = value
        return flat


class Training(NamedTuple):
    """A sweep file with a ``[train]`` table, read."""

    sweep: Sweep
    """The sweep played before and after training; its data must not be learned from."""
    train: Train


def load(path: Path, overrides: Iterable[str] = ()) -> Training:
    """Read a sweep file that has a ``[train]`` table; raises SweepError."""
    table = read_sweep(path)
    for override in overrides:
        override_key(table, override)
    return Training(build(table, str(path)), train_table(table, str(path)))


def train_table(table: dict[str, Any], where: str) -> Train:
    """The ``[train]`` table of a sweep's table; raises TrainError or SweepError, ``where`` names the file in them."""
    where_train = f"{where}: train"
    table_of_train = table.get("train")
    if not isinstance(table_of_train, dict):
        raise TrainError(f"{where} has no [train] table; sweeps/demo-learning.toml is a file that has one")
    fields = dict(table_of_train)
    if "model" in fields:
        fields["model"] = find_model(fields["model"], table.get("model", []), where_train)
    if "scenarios" in fields:
        fields["scenarios"] = find_scenarios(fields["scenarios"], where_train)
    train = validate_table(Train, fields, where_train)
    if train.model.backend in ("builtin", "openai"):
        raise TrainError(f"{where_train}: {train.model.name} has no weights here; name a model of transformers or vLLM")
    if train.model.lora:
        raise TrainError(
            f"{where_train}: {train.model.name} has an adapter already ({train.model.lora}), and no second one is put on it; "
            "name the model without it"
        )
    return train
