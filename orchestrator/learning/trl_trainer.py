"""TRL's GRPOTrainer on states of the game; tokens, pixels and the parsing of replies are those of a sweep."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import polars as pl
import torch
from accelerate.utils import gather_object
from datasets import Dataset
from torch import Tensor
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from trl.models import unwrap_model_for_generation

from actors.engine.chat_format import conversation
from orchestrator.learning import evaluation, run_files
from orchestrator.learning.plan import state_order
from orchestrator.learning.progress import TrainingProgress
from orchestrator.learning.rollouts import PLAIN, Rollout
from orchestrator.learning.settings import Train, Training
from orchestrator.learning.states import SampledReply, TrainingState
from orchestrator.learning.student import Student, lora_config


class SamplingRecord:
    """A forward hook that records the log-probabilities of sampled tokens; it holds the scores of one pass only."""

    def __init__(self) -> None:
        self.logprobs: list[Tensor] = []
        """One tensor [rows] per pass except the last: the log-probabilities of the sampled tokens."""
        self.scores: Tensor | None = None
        """[rows, vocabulary], the scores of the last pass."""

    def __call__(self, network: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        """Record a pass; its input ends with the tokens sampled by the pass before."""
        if self.scores is not None:
            self.logprobs.append(token_logprobs(self.scores, kwargs["input_ids"][:, -1]))
        self.scores = output.logits[:, -1].detach()

    def sums(self, replies: Sequence[Sequence[int]]) -> list[float]:
        """Return the log-probability of each reply, end token included; call it once, after the generation."""
        if self.scores is None:
            return []
        longest = len(self.logprobs) + 1
        ends = [reply[-1] if len(reply) == longest else 0 for reply in replies]
        logprobs = torch.stack([*self.logprobs, token_logprobs(self.scores, torch.tensor(ends))], 1)
        return [float(row[: len(reply)].sum()) for row, reply in zip(logprobs, replies, strict=True)]


def token_logprobs(scores: Tensor, tokens: Tensor) -> Tensor:
    """Return the log-probability of each row's token, [rows], from scores of [rows, vocabulary]."""
    return scores.float().log_softmax(-1).gather(-1, tokens[:, None].to(scores.device))[:, 0].cpu()


@contextmanager
def record_sampling(network: Any) -> Iterator[SamplingRecord]:
    """Record the sampling of the network during the block."""
    record = SamplingRecord()
    hook = network.register_forward_hook(record, with_kwargs=True)
    try:
        yield record
    finally:
        hook.remove()


MAX_CHECKPOINTS = 2
"""Checkpoints to keep: after a kill, the last one may be incomplete."""
ZERO = {"overlap_comm": True, "contiguous_gradients": True, "stage3_gather_16bit_weights_on_model_save": True}


class VerdictTrainer(GRPOTrainer):
    """GRPOTrainer whose reward is the game's verdict."""

    def __init__(
        self,
        training: Training,
        arguments: GRPOConfig,
        states: Sequence[TrainingState],
        progress: TrainingProgress,
        stop: Event,
    ) -> None:
        train = training.train
        self.sweep, self.settings, self.states, self.progress = training.sweep, train, states, progress
        self.student = Student(train)
        self.rows: list[dict[str, Any]] = []
        """Rollouts since the last checkpoint, of all processes."""
        self.checkpoint_loaded = False
        """Set at the first step; an error before it means that the checkpoint is damaged."""
        self.logprobs: list[float] = []
        """Log-probabilities of the last sampled replies of this process."""
        network = self.student.network
        super().__init__(
            model=network,
            args=arguments,
            reward_funcs=self.rewards,
            train_dataset=question_dataset(states, state_order(len(states), train)),
            processing_class=self.student.model.processor,
            peft_config=None if train.full else lora_config(network, train.lora, train.model.name),
            callbacks=[StepCallback(self, stop)],
        )
        self.remove_callback(PrinterCallback)

    def rewards(self, completion_ids: Sequence[Sequence[int]], state_index: Sequence[int], **_: Any) -> list[float]:
        """Return the reward of each reply."""
        replies = zip(state_index, completion_ids, strict=True)
        return [self._outcome(index, tokens)[1].reward(self.settings.rp) for index, tokens in replies]

    def _outcome(self, index: int, tokens: Sequence[int]) -> tuple[str, Any]:
        text = self.student.text(tokens)
        return text, self.states[index].outcome(text)

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
        with record_sampling(self.student.network) as record:
            replies, logprobs = super()._generate_single_turn(*args, **kwargs)
        self.logprobs = record.sums(replies)
        return replies, logprobs

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        generated: dict[str, Any] = super()._generate_and_score_completions(inputs)
        rows = run_files.rollout_rows(
            self.state.global_step, self._rollouts([row["state_index"] for row in inputs], generated)
        )
        self.rows += gather_object(rows)
        return generated

    def _rollouts(self, indices: Sequence[int], generated: dict[str, Any]) -> list[Rollout]:
        """Return the replies of this process with TRL's advantages; None in a group with equal rewards."""
        size = self.settings.rollouts
        first_group = self.accelerator.process_index * len(indices) // size
        columns = (generated["completion_ids"], generated["completion_mask"], generated["advantages"].tolist())
        rollouts = []
        for number, (index, ids, mask, advantage) in enumerate(zip(indices, *columns, strict=True)):
            tokens = ids[mask.bool()].tolist()
            text, outcome = self._outcome(index, tokens)
            reward, completion = outcome.reward(self.settings.rp), SampledReply(tuple(tokens), self.logprobs[number])
            group = first_group + number // size
            rollouts.append(Rollout(self.states[index], group, PLAIN, completion, text, outcome, reward, advantage))
        groups = (rollouts[start : start + size] for start in range(0, len(rollouts), size))
        return [rollout for group in groups for rollout in _without_dead_advantages(group)]

    def evaluate_scenarios(self) -> dict[str, float]:
        """Return measures of greedy episodes on the sweep's own data; every process plays its share of the scenarios."""
        train, accelerator = self.settings, self.accelerator
        share = self.sweep.scenarios[accelerator.process_index :: accelerator.num_processes]
        with unwrap_model_for_generation(self.model_wrapped, accelerator, self.args.ds3_gather_for_generation):
            self.student.network.eval()
            scenarios = evaluation.evaluate(
                self.student, Path(self.sweep.data), share, train.evaluate_samples, self.sweep.seed
            )
            self.student.network.train()
        all_scenarios = {name: outcome for part in gather_object([scenarios]) for name, outcome in part.items()}
        return evaluation.measures(all_scenarios, train.scenarios)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write rollouts, then the checkpoint: a resumed training removes rollouts newer than its checkpoint."""
        if self.args.should_save and self.rows:
            first, last = self.rows[0]["step"], self.rows[-1]["step"]
            run_files.write_rollouts(Path(self.args.output_dir), first, last, self.rows)
            self.progress.log.send()
        self.rows = []
        super()._save_checkpoint(model, trial)


class StepCallback(TrainerCallback):
    """Records each step, and stops the training on request."""

    def __init__(self, trainer: VerdictTrainer, stop: Event) -> None:
        self.trainer, self.stop, self.start = trainer, stop, 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Note the first step of this attempt."""
        self.start = state.global_step

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Note that the checkpoint is loaded."""
        self.trainer.checkpoint_loaded = True

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Evaluate, record and print the step; stop on request."""
        step, trainer = state.global_step - 1, self.trainer
        every = trainer.settings.evaluate_every
        evaluated = trainer.evaluate_scenarios() if every and state.global_step % every == 0 else {}
        if args.should_save:
            rows = [row for row in trainer.rows if row["step"] == step]
            measures = run_files.rollout_measures(pl.DataFrame(rows, schema=run_files.ROLLOUT_SCHEMA))
            trainer.progress.record(step, {**measures, **evaluated})
            trainer.progress.print_step(self.start, step)
        if self.stop.is_set():
            control.should_save = control.should_training_stop = True
        return control


def _without_dead_advantages(group: Sequence[Rollout]) -> list[Rollout]:
    """Return the group, without advantages if all of its rewards are equal."""
    is_live = len({rollout.reward for rollout in group}) > 1
    return list(group) if is_live else [replace(rollout, advantage=None) for rollout in group]


def question_dataset(states: Sequence[TrainingState], indices: Sequence[int]) -> Dataset:
    """Return one row per group, in the order of the steps; pictures are opened when a row is read."""

    def load_rows(batch: dict[str, list[int]]) -> dict[str, list[Any]]:
        jobs = [states[index].job() for index in batch["state_index"]]
        conversations = [job.request.messages for job in jobs]
        return {
            "state_index": batch["state_index"],
            "prompt": [conversation(messages, lambda image: {"type": "image"}) for messages in conversations],
            "images": [
                [job.pictures[image] for message in messages for image in message.images]
                for job, messages in zip(jobs, conversations, strict=True)
            ],
        }

    return Dataset.from_dict({"state_index": list(indices)}).with_transform(load_rows)


def grpo_config(train: Train, output: Path) -> GRPOConfig:
    """Return the trainer's arguments; settings that neither the paper nor the ``[train]`` table states are TRL's defaults."""
    replies = train.batch // train.workers
    at_once = max(n for n in range(1, train.at_once * train.rollouts + 1) if replies % n == 0)
    on_gpu = bool(train.model.gpus) and torch.cuda.is_available()
    rate = {"min_lr_rate": train.final_rate} if train.final_rate else {}
    return GRPOConfig(
        output_dir=str(output),
        max_steps=train.steps,
        per_device_train_batch_size=at_once,
        gradient_accumulation_steps=replies // at_once,
        num_generations=train.rollouts,
        max_completion_length=train.max_tokens,
        temperature=train.temperature,
        chat_template_kwargs=train.model.chat or None,
        beta=train.kl,
        learning_rate=train.learning_rate,
        weight_decay=0.0,
        lr_scheduler_type="cosine_with_min_lr" if rate else "cosine",
        lr_scheduler_kwargs=rate,
        warmup_steps=train.warmup,
        seed=train.seed,
        shuffle_dataset=False,
        use_cpu=not on_gpu,
        bf16=on_gpu,
        deepspeed=deepspeed_config(train.zero),
        save_steps=train.checkpoint_every,
        save_total_limit=MAX_CHECKPOINTS,
        report_to="none",
        logging_strategy="no",
        disable_tqdm=True,
    )


def deepspeed_config(stage: int) -> dict[str, Any] | None:
    """Return DeepSpeed's configuration of a ZeRO stage; the trainer fills in the sizes."""
    if not stage:
        return None
    sizes = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping")
    return {"zero_optimization": {"stage": stage, **ZERO}, "bf16": {"enabled": "auto"}, **dict.fromkeys(sizes, "auto")}
