"""The ``[train]`` table of a sweep file: model, states, rewards and steps. Defaults are the paper's where it states them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from orchestrator.storage.run_folder import flatten
from sweeps.load import SweepError, build, find_model
from sweeps.packages import find_scenarios
from sweeps.sampling import Whole
from sweeps.spec import ModelSpec, Sweep
from sweeps.sweep_file import override_key, read_sweep
from sweeps.validation import validate_table
from sweeps.values import Frozen

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[Whole, Field(ge=1)]


class TrainError(SweepError):
    """An error in the settings, data or files of a training that the user must correct."""


class Lora(Frozen):
    """Low-rank adapters of the language model (paper, appendix C)."""

    r: Annotated[Whole, Field(ge=1, le=512)] = 16
    alpha: Count = 16
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    targets: tuple[str, ...] = ("q_proj", "k_proj")
    """Last name components of the linear layers that get an adapter."""


class States(Frozen):
    """The weight of each kind of state; any weights, 0 leaves a kind out."""

    hidden: Annotated[float, Field(ge=0)] = 1.0
    """First views: the answer is not visible yet."""
    middle: Annotated[float, Field(ge=0)] = 1.0
    """Views between the first and the last."""
    clear: Annotated[float, Field(ge=0)] = 1.0
    """Last views of a player who asks until the answer is visible."""

    @model_validator(mode="after")
    def _check_states(self) -> Self:
        if self.hidden + self.middle + self.clear == 0:
            raise ValueError("draws no state; give at least one of hidden, middle and clear a weight above 0")
        return self


class Exploration(Frozen):
    """Sources of variety for replies that would otherwise be equal; none is in the paper."""

    hint: Share = 0.0
    """Share of each group that is sampled from the hinted question; gradients are those of the question without hint."""
    until: Share = 0.5
    """Share of the steps that sample hinted replies, counted from the first step."""
    clone: Annotated[Whole, Field(ge=0)] = 0
    """Steps before the first one that train the right reply itself (cross entropy)."""


class Train(Frozen):
    """The settings of one training."""

    model: ModelSpec
    data: str
    """A folder in the published format, or one with the published train split (``data fetch --split train``)."""
    scenarios: tuple[str, ...] = ("QD", "COCO")
    samples: Count | None = None
    """Samples per scenario, drawn by seed; None takes all."""
    engine: Literal["native", "trl"] = "native"
    """``native``: exploration, credit by episode, one process. ``trl``: TRL's GRPOTrainer as in the paper, on several GPUs."""
    sampler: Literal["transformers", "vllm"] = "transformers"
    """Engine that samples the replies; ``vllm`` requires ``native`` and a vllm entry whose options leave memory for both."""
    workers: Count = 1
    """Processes of Ray Train, with a GPU each if the model uses one; for ``trl`` only."""
    zero: Literal[0, 2, 3] = 0
    """DeepSpeed's ZeRO stage (paper: 3); for ``trl`` only."""
    rp: Share = 0.5
    """Reward of a valid suggestion; the right category earns 1, any other reply 0."""
    states: States = States()
    rollouts: Annotated[Whole, Field(ge=2)] = 8
    """Replies per state; they form a group."""
    batch: Count = 512
    """Replies per step."""
    steps: Annotated[Whole, Field(ge=0)] = 0
    """0: one pass over the states."""
    at_once: Count = 16
    """States per forward pass; it bounds memory and changes results only by rounding."""
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 2e-5
    warmup: Annotated[Whole, Field(ge=0)] = 0
    """Steps in which the learning rate grows to its full value."""
    final_rate: Share = 0.0
    """Final learning rate of the cosine, as a share of the full one."""
    full: bool = False
    """Train all weights instead of adapters (``lora``)."""
    lora: Lora = Lora()
    temperature: Annotated[float, Field(gt=0, le=2)] = 1.0
    max_tokens: Count = 50
    """Token limit of a reply."""
    exploration: Exploration = Exploration()
    credit: Literal["turn", "episode"] = "turn"
    """``turn``: each reply's own reward, as in the paper. ``episode``: 1 if the episode ends right, discounted per turn."""
    gamma: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Discount per turn, for credit by episode."""
    kl: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the KL divergence from the model before training."""
    shuffle_rewards: bool = False
    """A control: rewards are shuffled within each group, so that the task cannot be learned."""
    seed: Whole = 0
    checkpoint_every: Count = 20
    evaluate_every: Annotated[Whole, Field(ge=0)] = 0
    """Steps between two evaluations on the sweep's own data; 0 turns them off."""
    evaluate_samples: Count = 10
    """Samples per scenario in an evaluation."""

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        if self.batch % self.rollouts:
            raise ValueError(f"batch = {self.batch} is not a multiple of rollouts = {self.rollouts}")
        if round(self.exploration.hint * self.rollouts) == self.rollouts:
            raise ValueError("exploration.hint leaves no reply to the question without hint; take a smaller share")
        return self

    @model_validator(mode="after")
    def _check_engine(self) -> Self:
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
        if self.engine == "trl" and (unsupported := self._native_settings()):
            raise ValueError(
                f'engine = "trl" asks one question per group, each state equally often, and does not support '
                f'{", ".join(unsupported)}; leave it out, or set engine = "native"'
            )
        return self

    def _native_settings(self) -> list[str]:
        """Return the settings in use that only the native engine supports."""
        weights = {weight for weight in self.states.model_dump().values() if weight}
        settings = {
            "exploration.hint": self.exploration.hint,
            "exploration.clone": self.exploration.clone,
            'credit = "episode"': self.credit == "episode",
            "shuffle_rewards": self.shuffle_rewards,
            "unequal weights of states": len(weights) > 1,
        }
        return [name for name, in_use in settings.items() if in_use]

    @property
    def groups(self) -> int:
        """States per step."""
        return self.batch // self.rollouts

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings that change the trained weights, flat: ``{"lora.r": 16}``; checkpoints and evaluations do not."""
        nested = self.model_dump(
            mode="json", exclude={"model", "evaluate_every", "evaluate_samples", "checkpoint_every"}
        )
        return {"model": self.model.identity, **dict(flatten(nested))}


class Training(NamedTuple):
    """A sweep file with a ``[train]`` table."""

    sweep: Sweep
    """The sweep played before and after training; the training must not use its data."""
    train: Train


def load(path: Path, overrides: Iterable[str] = ()) -> Training:
    """Read a sweep file that has a ``[train]`` table; raises SweepError."""
    table = read_sweep(path)
    for override in overrides:
        override_key(table, override)
    return Training(build(table, str(path)), train_table(table, str(path)))


def train_table(table: dict[str, Any], where: str) -> Train:
    """Validate the ``[train]`` table of a sweep's table; ``where`` names the file in errors."""
    where_train, fields = f"{where}: train", table.get("train")
    if not isinstance(fields, dict):
        raise TrainError(f"{where} has no [train] table; see sweeps/demo-learning.toml")
    fields = dict(fields)
    if "model" in fields:
        model = find_model(fields["model"], table.get("model", []), where_train)
        if revision := table.get("revisions", {}).get(model.name):  # the table was checked with the sweep
            model = model.model_copy(update={"revision": revision})
        fields["model"] = model
    if "scenarios" in fields:
        fields["scenarios"] = find_scenarios(fields["scenarios"], where_train)
    train = validate_table(Train, fields, where_train)
    if train.model.backend in ("builtin", "openai"):
        raise TrainError(
            f"{where_train}: {train.model.name} has no local weights; name a model of transformers or vLLM"
        )
    if "no pictures" in train.model.limits:
        raise TrainError(
            f"{where_train}: {train.model.name} reads text only, and training shows pictures; name a model with pictures"
        )
    if train.model.requirements:
        raise TrainError(
            f"{where_train}: {train.model.name} has packages of its own, and training uses the installed ones; leave"
            " requirements out"
        )
    if train.model.lora:
        raise TrainError(
            f"{where_train}: {train.model.name} has an adapter already ({train.model.lora}); name the model without it"
        )
    return train
