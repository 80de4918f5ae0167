"""TRL's GRPOTrainer on states of the game; tokens, pixels and the parsing of replies are those of a sweep.

With ``exploration.hint``, some replies of a group are sampled from the hinted question and trained under the plain one: without
them, most groups of a model that never asks have equal rewards, and no gradient.
"""

import re
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import polars as pl
import torch
from accelerate.utils import gather_object
from datasets import Dataset
from peft import LoraConfig
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from actors.engine.batching import Job
from actors.engine.chat_format import conversation
from actors.engine.hf.backend import ModelAndProcessor
from proactive_learn import run_files
from proactive_learn.progress import TrainingProgress
from proactive_learn.settings import Lora, Train, TrainError, Training, transformers_spec
from proactive_learn.states import TrainingState, state_order

MAX_CHECKPOINTS = 2
"""Checkpoints to keep: after a kill, the last one may be incomplete."""
BETA2 = 0.95
"""Second beta of AdamW; the paper states none."""


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
        self.settings, self.game_states, self.progress = train, states, progress
        self.student = ModelAndProcessor(transformers_spec(train.model))
        torch.use_deterministic_algorithms(True)
        torch.manual_seed(train.seed)  # for the initial weights of adapters
        self.rows: list[dict[str, Any]] = []
        """Replies since the last checkpoint, of all processes."""
        self.checkpoint_loaded = False
        """Set at the first step; any other error before it than a TrainError may mean that the checkpoint is damaged."""
        self.asked_states: list[TrainingState] = []
        """The state of each reply of this process in the running step."""
        network = self.student.network
        super().__init__(
            model=network,
            args=arguments,
            reward_funcs=self.rewards,
            train_dataset=question_dataset(states, state_order(len(states), train)),
            processing_class=self.student.processor,
            peft_config=lora_config(network, train.lora, train.model.name),
            callbacks=[StepCallback(self, stop)],
        )
        self.remove_callback(PrinterCallback)

    def rewards(self, completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
        """Return the reward of each reply; as a control (``shuffle_rewards``), those of a group change places."""
        train = self.settings
        rewards = [
            state.outcome(self._text(tokens)).reward(train.rp)
            for state, tokens in zip(self.asked_states, completion_ids, strict=True)
        ]
        if not train.shuffle_rewards:
            return rewards
        groups = [rewards[start : start + train.rollouts] for start in range(0, len(rewards), train.rollouts)]
        for number, group in enumerate(groups, self._first_group):
            Random(f"{train.seed}/learning/{self.state.global_step}/{number}/shuffle").shuffle(group)
        return [reward for group in groups for reward in group]

    def _text(self, tokens: Sequence[int]) -> str:
        """Decode a reply without its end token."""
        without_stop = tokens[:-1] if tokens and tokens[-1] in self.student.stops else tokens
        return self.student.decode(list(without_stop))

    @property
    def _first_group(self) -> int:
        """Return the number of this process's first group."""
        return self.accelerator.process_index * len(self.asked_states) // self.settings.rollouts

    @property
    def _hinted(self) -> int:
        """Return how many of a group's replies are sampled from the hinted question at this step."""
        train = self.settings
        return train.hinted if self.state.global_step < train.exploration.until * train.steps else 0

    def _is_hinted(self, number: int) -> bool:
        return number % self.settings.rollouts >= self.settings.rollouts - self._hinted

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self.asked_states = [self.game_states[row["state_index"]] for row in inputs]
        generated: dict[str, Any] = super()._generate_and_score_completions(inputs)
        self.rows += gather_object(self._rows(generated))
        return generated

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        """Sample replies, and return them as replies to the plain questions."""
        if not self._hinted:
            return super()._generate(prompts)
        asked = [
            open_prompt(state.job(hint=True)) if self._is_hinted(number) else prompt
            for number, (state, prompt) in enumerate(zip(self.asked_states, prompts, strict=True))
        ]
        generated = super()._generate(asked)
        plain_ids, pictures, _ = self._tokenize_prompts(prompts)
        return (plain_ids, *generated[1:6], pictures, generated[7])

    def _rows(self, generated: dict[str, Any]) -> list[dict[str, Any]]:
        """Return a row per reply of this process (``run_files.ROLLOUT_SCHEMA``) with TRL's advantages."""
        rows = []
        columns = (generated["completion_ids"], generated["completion_mask"], generated["advantages"].tolist())
        for number, (state, ids, mask, advantage) in enumerate(zip(self.asked_states, *columns, strict=True)):
            tokens = ids[mask.bool()].tolist()
            text = self._text(tokens)
            action, right, asked = outcome = state.outcome(text)
            group = self._first_group + number // self.settings.rollouts
            row = (
                self.state.global_step, group, state.key, state.scenario, state.kind,
                "hint" if self._is_hinted(number) else "plain", text, action.value, right, asked,
                outcome.reward(self.settings.rp), advantage, len(tokens),
            )  # fmt: skip
            rows.append(dict(zip(run_files.ROLLOUT_SCHEMA, row, strict=True)))
        return rows

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write rollouts, then the checkpoint: a resumed training removes rollouts newer than its checkpoint."""
        if self.args.should_save and self.rows:
            run_files.write_rollouts(Path(self.args.output_dir), self.rows)
            self.progress.send()
        self.rows = []
        super()._save_checkpoint(model, trial)


class StepCallback(TrainerCallback):
    """Records each step, and stops the training on request."""

    def __init__(self, trainer: VerdictTrainer, stop: Event) -> None:
        self.trainer, self.stop, self.start = trainer, stop, 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Note the first step of this attempt, and when it began."""
        self.start, self.trainer.progress.start_time = state.global_step, time.perf_counter()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Note that the checkpoint is loaded."""
        self.trainer.checkpoint_loaded = True

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Record and print the step; stop on request."""
        step, trainer = state.global_step - 1, self.trainer
        if args.should_save:
            rows = [row for row in trainer.rows if row["step"] == step]
            measures = run_files.rollout_measures(pl.DataFrame(rows, schema=run_files.ROLLOUT_SCHEMA))
            trainer.progress.record(step, measures)
            trainer.progress.print_step(self.start, step)
        if self.stop.is_set():
            control.should_save = control.should_training_stop = True
        return control


def open_prompt(job: Job) -> Any:
    """Return a question as the trainer tokenizes it, its pictures within."""
    return conversation(job.request.messages, lambda image: {"type": "image", "image": job.pictures[image]})


def question_dataset(states: Sequence[TrainingState], indices: Sequence[int]) -> Dataset:
    """Return one row per group, in the order of the steps; pictures are opened when a row is read."""

    def load_rows(batch: dict[str, list[int]]) -> dict[str, list[Any]]:
        jobs = [states[index].job() for index in batch["state_index"]]
        return {
            "state_index": batch["state_index"],
            "prompt": [conversation(job.request.messages, lambda image: {"type": "image"}) for job in jobs],
            "images": [
                [job.pictures[image] for message in job.request.messages for image in message.images] for job in jobs
            ],
        }

    return Dataset.from_dict({"state_index": list(indices)}).with_transform(load_rows)


def grpo_config(train: Train, output: Path, processes: int) -> GRPOConfig:
    """Return the trainer's arguments; settings that neither the paper nor the ``[train]`` table states are TRL's defaults.

    ``processes`` is the number of processes that ``accelerate launch`` has started. Raises TrainError.
    """
    if train.batch % (train.rollouts * processes):
        raise TrainError(
            f"train.batch = {train.batch} does not give each of {processes} processes whole groups of {train.rollouts} replies;"
            " change train.batch or the number of processes"
        )
    replies = train.batch // processes
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
        adam_beta2=BETA2,
        lr_scheduler_type="cosine_with_min_lr" if rate else "cosine",
        lr_scheduler_kwargs=rate,
        warmup_steps=train.warmup,
        seed=train.seed,
        shuffle_dataset=False,
        use_cpu=not on_gpu,
        bf16=on_gpu,
        save_steps=train.checkpoint_every,
        save_total_limit=MAX_CHECKPOINTS,
        report_to="none",
        logging_strategy="no",
        disable_tqdm=True,
    )


def lora_config(network: Any, lora: Lora, name: str) -> LoraConfig:
    """Return adapters on the language model's layers in ``lora.targets``; raise TrainError for a missing layer."""
    decoder = network.get_decoder()
    prefix = next(module_name for module_name, module in network.named_modules() if module is decoder)
    linear = {
        module_name.rpartition(".")[2]
        for module_name, module in network.named_modules()
        if module_name.startswith(f"{prefix}.") and isinstance(module, torch.nn.Linear)
    }
    if missing := [target for target in lora.targets if target not in linear]:
        raise TrainError(
            f"the language model of {name} has no layer {' or '.join(missing)}; name some of {', '.join(sorted(linear))} as "
            "train.lora.targets"
        )
    targets = rf"{re.escape(prefix)}\..*\.({'|'.join(map(re.escape, lora.targets))})"
    return LoraConfig(r=lora.r, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=targets)
