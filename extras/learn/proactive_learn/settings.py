"""The ``[train]`` table of a sweep file: model, states, rewards and steps. Defaults are the paper's where it states them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from orchestrator.storage.run_folder import flatten
from sweeps.load import SweepError, build
from sweeps.packages import find_scenarios, resolve_source
from sweeps.registry import read_model, resolve_model
from sweeps.sampling import Whole
from sweeps.spec import ModelSpec, Sweep
from sweeps.sweep_file import override_key, read_sweep
from sweeps.validation import read_named_tables, validate_table
from sweeps.values import Frozen

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[Whole, Field(ge=1)]
REMOVED = {
    "engine": "TRL is the only engine",
    "sampler": "TRL samples with transformers",
    "workers": "`accelerate launch -m orchestrator train` starts several processes",
    "zero": "`accelerate launch --use_deepspeed` spreads weights over GPUs",
    "clone": "exploration.hint shows the right replies",
    "full": "adapters (`lora`) are trained, as in the paper",
    **dict.fromkeys(("credit", "gamma"), "each reply earns its own reward, as in the paper"),
    **dict.fromkeys(("evaluate_every", "evaluate_samples"), "`proactive-sweep run` plays the trained model"),
}
"""Keys of earlier releases, and what does their work."""


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
    """The kinds of states to train on: 1 takes a kind, 0 leaves it out."""

    hidden: Annotated[Whole, Field(ge=0, le=1)] = 1
    """First views: the answer is not visible yet."""
    middle: Annotated[Whole, Field(ge=0, le=1)] = 1
    """Views between the first and the last."""
    clear: Annotated[Whole, Field(ge=0, le=1)] = 1
    """Last views of a player who asks until the answer is visible."""

    def _faults(self) -> Iterator[str]:
        if not self.hidden + self.middle + self.clear:
            yield "takes no state; set at least one of hidden, middle and clear to 1"


class Exploration(Frozen):
    """A source of variety for replies that would otherwise be equal; not in the paper."""

    hint: Share = 0.0
    """Share of each group that is sampled from the hinted question; gradients are those of the question without hint."""
    until: Share = 0.5
    """Share of the steps that sample hinted replies, counted from the first step."""


class Train(Frozen):
    model: ModelSpec
    data: str
    """A folder in the published format, or one with the published train split (``data split``)."""
    scenarios: tuple[str, ...] = ("QD", "COCO")
    samples: Count | None = None
    """Samples per scenario, or rows of the published split in all, drawn by seed; None takes all."""
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
    lora: Lora = Lora()
    temperature: Annotated[float, Field(gt=0, le=2)] = 1.0
    max_tokens: Count = 50
    exploration: Exploration = Exploration()
    kl: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the KL divergence from the model before training."""
    shuffle_rewards: bool = False
    """A control: rewards are shuffled within each group, so that the task cannot be learned."""
    seed: Whole = 0
    checkpoint_every: Count = 20

    def _faults(self) -> Iterator[str]:
        if self.batch % self.rollouts:
            yield f"batch = {self.batch} is not a multiple of rollouts = {self.rollouts}"
        if self.hinted == self.rollouts:
            yield "exploration.hint leaves no reply to the question without hint; take a smaller share"

    @property
    def groups(self) -> int:
        """States per step."""
        return self.batch // self.rollouts

    @property
    def hinted(self) -> int:
        """Replies of a group that are sampled from the hinted question while hints are given."""
        return round(self.exploration.hint * self.rollouts)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings that change the trained weights, flat: ``{"lora.r": 16}``; checkpoints do not."""
        nested = self.model_dump(mode="json", exclude={"model", "checkpoint_every"}, exclude_none=True)
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
        raise TrainError(f"{where} has no [train] table; see demo-learning.toml of proactive-sweep-learn")
    fields = dict(fields)
    _refuse_removed(fields, where_train)
    if "model" in fields:
        own_models = read_named_tables(table.get("model", []), "model", where_train, read_model)
        model = resolve_model(fields["model"], own_models, where_train)
        if revision := table.get("revisions", {}).get(model.name):  # the table was checked with the sweep
            model = model.model_copy(update={"revision": revision})
        fields["model"] = model
    if "scenarios" in fields:
        fields["scenarios"] = find_scenarios(fields["scenarios"], where_train)
    train = validate_table(Train, fields, where_train)
    if reason := _unfit(train.model):
        raise TrainError(f"{where_train}: {train.model.name} {reason}")
    return train


def _refuse_removed(fields: dict[str, Any], where: str) -> None:
    """Raise TrainError for a key of an earlier release."""
    exploration = fields.get("exploration")
    keys = [*fields, *(exploration if isinstance(exploration, dict) else ())]
    if removed := [key for key in keys if key in REMOVED]:
        raise TrainError(f"{where}: leave {removed[0]} out, which 0.2.0 was the last to take: {REMOVED[removed[0]]}")


def _unfit(model: ModelSpec) -> str:
    """Return why a model cannot be trained; empty if it can."""
    if model.backend in ("builtin", "openai"):
        return "has no local weights; name a model of transformers or vLLM"
    if "no pictures" in model.limits:
        return "reads text only, and training shows pictures; name a model with pictures"
    if model.requirements:
        return "has packages of its own, and training uses the installed ones; leave requirements out"
    if model.lora:
        return f"has an adapter already ({model.lora}); name the model without it"
    return ""


def transformers_spec(model: ModelSpec) -> ModelSpec:
    """Return the model's entry for transformers, without options of vLLM."""
    resolved = resolve_source(model)
    return resolved if resolved.backend == "transformers" else resolved.model_copy(update={"options": {}})
