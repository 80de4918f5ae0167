"""TRL's GRPOTrainer over states of the game: what it is given, and every rollout that comes of it.

The tokens and pixels of a question are those that a sweep gives the model; a reply is read as a sweep reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import torch
from accelerate.utils import gather_object
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from trl.models import unwrap_model_for_generation

from actors.engine.chat_format import conversation
from orchestrator.learning import evaluation, run_files
from orchestrator.learning.plan import order
from orchestrator.learning.progress import StopRequest, TrainingProgress
from orchestrator.learning.rollouts import PLAIN, Rollout
from orchestrator.learning.sampling_record import recorded
from orchestrator.learning.settings import Train, Training
from orchestrator.learning.states import SampledReply, TrainingState
from orchestrator.learning.student import Student, adapters

CHECKPOINTS = 2
"""That are kept: the last one may be torn."""
ZERO = {"overlap_comm": True, "contiguous_gradients": True, "stage3_gather_16bit_weights_on_model_save": True}


class VerdictTrainer(GRPOTrainer):
    """GRPOTrainer whose reward is the game's verdict."""

    def __init__(
        self,
        training: Training,
        arguments: GRPOConfig,
        states: Sequence[TrainingState],
        progress: TrainingProgress,
        stop: StopRequest,
    ) -> None:
        train = training.train
        self.sweep, self.settings, self.states, self.progress = training.sweep, train, states, progress
        self.student = Student(train)
        self.rolled: list[dict[str, Any]] = []
        """Rollouts since the last checkpoint, of all processes."""
        self.stepped = False
        """True if a step has begun: what a checkpoint held was taken up then."""
        self.logprobs: list[float] = []
        """Of the replies that this process sampled last."""
        network = self.student.network
        super().__init__(
            model=network,
            args=arguments,
            reward_funcs=self.verdicts,
            train_dataset=questions(states, order(len(states), train)),
            processing_class=self.student.mind.processor,
            peft_config=None if train.full else adapters(network, train.lora, train.model.name),
            callbacks=[AfterStep(self, stop)],
        )
        self.remove_callback(PrinterCallback)

    def verdicts(self, completion_ids: Sequence[Sequence[int]], place: Sequence[int], **_: Any) -> list[float]:
        """The reward of each reply."""
        said = zip(place, completion_ids, strict=True)
        return [self._outcome(state, tokens)[1].reward(self.settings.rp) for state, tokens in said]

    def _outcome(self, place: int, tokens: Sequence[int]) -> tuple[str, Any]:
        text = self.student.text(tokens)
        return text, self.states[place].read(text)

    def _generate_single_turn(self, *given: Any, **named: Any) -> Any:
        with recorded(self.student.network) as record:
            replies, weighed = super()._generate_single_turn(*given, **named)
        self.logprobs = record.sums(replies)
        return replies, weighed

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        generated: dict[str, Any] = super()._generate_and_score_completions(inputs)
        rows = run_files.rows(self.state.global_step, self._rollouts([row["place"] for row in inputs], generated))
        self.rolled += gather_object(rows)
        return generated

    def _rollouts(self, places: Sequence[int], generated: dict[str, Any]) -> list[Rollout]:
        """The replies of this process with TRL's advantages; None in a group whose rewards are all equal."""
        size = self.settings.rollouts
        first = self.accelerator.process_index * len(places) // size
        rollouts = []
        parts = zip(
            places,
            generated["completion_ids"],
            generated["completion_mask"],
            generated["advantages"].tolist(),
            strict=True,
        )
        for number, (place, ids, mask, advantage) in enumerate(parts):
            tokens = ids[mask.bool()].tolist()
            text, outcome = self._outcome(place, tokens)
            reward, said = outcome.reward(self.settings.rp), SampledReply(tuple(tokens), self.logprobs[number])
            group = first + number // size
            rollouts.append(Rollout(self.states[place], group, PLAIN, said, text, outcome, reward, advantage))
        return [one for start in range(0, len(rollouts), size) for one in live(rollouts[start : start + size])]

    def evaluated(self) -> dict[str, float]:
        """Measures of greedy episodes on the sweep's own data; every process plays its share of the scenarios."""
        train, place = self.settings, self.accelerator
        share = self.sweep.scenarios[place.process_index :: place.num_processes]
        with unwrap_model_for_generation(self.model_wrapped, place, self.args.ds3_gather_for_generation):
            self.student.network.eval()
            own_share = evaluation.evaluate(
                self.student, Path(self.sweep.data), share, train.evaluate_samples, self.sweep.seed
            )
            self.student.network.train()
        rollouts = {name: played for part in gather_object([own_share]) for name, played in part.items()}
        return evaluation.measures(rollouts, train.scenarios)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Rollouts first: the checkpoint is the commit."""
        if self.args.should_save and self.rolled:
            first, last = self.rolled[0]["step"], self.rolled[-1]["step"]
            run_files.write_rollouts(Path(self.args.output_dir), first, last, self.rolled)
            self.progress.log.send()
        self.rolled = []
        super()._save_checkpoint(model, trial)


class AfterStep(TrainerCallback):
    """Measures each step, tells of it, and ends the training where that was asked for."""

    def __init__(self, trainer: VerdictTrainer, stop: StopRequest) -> None:
        self.trainer, self.stop, self.start = trainer, stop, 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Where the training goes on from."""
        self.start = state.global_step

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """All of a checkpoint is read by now."""
        self.trainer.stepped = True

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """After each step."""
        step, trainer = state.global_step - 1, self.trainer
        every = trainer.settings.evaluate_every
        evaluated = trainer.evaluated() if every and state.global_step % every == 0 else {}
        if args.should_save:
            rows = [row for row in trainer.rolled if row["step"] == step]
            measured = run_files.measures(pl.DataFrame(rows, schema=run_files.ROLLOUT))
            trainer.progress.step(step, {**measured, **evaluated})
            trainer.progress.tell(self.start, step)
        if self.stop.asked:
            control.should_save = control.should_training_stop = True
        return control


def live(group: Sequence[Rollout]) -> list[Rollout]:
    """The group; without advantages where all of its rewards are equal."""
    teaches = len({rollout.reward for rollout in group}) > 1
    return list(group) if teaches else [replace(rollout, advantage=None) for rollout in group]


def questions(states: Sequence[TrainingState], places: Sequence[int]) -> Dataset:
    """One row a group, in the order of the steps; a picture is opened when its row is asked for."""

    def shown(batch: dict[str, list[int]]) -> dict[str, list[Any]]:
        jobs = [states[place].job() for place in batch["place"]]
        conversations = [job.request.messages for job in jobs]
        return {
            "place": batch["place"],
            "prompt": [conversation(messages, lambda image: {"type": "image"}) for messages in conversations],
            "images": [
                [job.pictures[image] for message in messages for image in message.images]
                for job, messages in zip(jobs, conversations, strict=True)
            ],
        }

    return Dataset.from_dict({"place": list(places)}).with_transform(shown)


def config(train: Train, output: Path) -> GRPOConfig:
    """The trainer's arguments; what neither the paper nor the ``[train]`` table states is TRL's default."""
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
        deepspeed=zero(train.zero),
        save_steps=train.checkpoint_every,
        save_total_limit=CHECKPOINTS,
        report_to="none",
        logging_strategy="no",
        disable_tqdm=True,
    )


def zero(stage: int) -> dict[str, Any] | None:
    """DeepSpeed's configuration of a ZeRO stage; sizes are the trainer's."""
    if not stage:
        return None
    sizes = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping")
    return {"zero_optimization": {"stage": stage, **ZERO}, "bf16": {"enabled": "auto"}, **dict.fromkeys(sizes, "auto")}
