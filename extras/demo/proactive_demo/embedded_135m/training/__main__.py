"""Train the picture model: ``python -m proactive_demo.embedded_135m.training --language FOLDER``.

``models fetch smollm2-135m`` makes FOLDER. The command draws pictures, trains one layer and the connector (``look``), the whole
tower with them (``refine``), an adapter on simulated picture tokens (``speak``), and the adapter on the tower's own (``ask``,
``finish``). It saves what was trained and assembles the model. Repeat it to continue an interrupted run.
"""

import argparse
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

os.environ.update({"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"})

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import AutoModelForImageTextToText, PreTrainedTokenizerBase

from proactive_demo.embedded.training.pictures import FIRST_SEED, HELD_OUT, LAP, Bank, draw_bank
from proactive_demo.embedded.training.stages import Labels
from proactive_demo.embedded.training.trainer import LoggedRun, ProcessGroup, Schedule, train
from proactive_demo.embedded_135m.assemble import EMBEDDED, assemble, load_language, load_tokenizer
from proactive_demo.embedded_135m.training.conversations import ASKING, FINISHING, SPEAKING, Mixture
from proactive_demo.embedded_135m.training.looking_stage import (
    LookingStage,
    PictureEncoder,
    Targets,
    Words,
    word_accuracy,
)
from proactive_demo.embedded_135m.training.speaking_stage import EncodeRows, SpeakingStage, add_adapter

SPEAKING_SEED = FIRST_SEED + 100
"""First seed of the pictures for the adapter; the tower was not trained on them."""


@dataclass
class TrainingRun(LoggedRun):
    """The parameters of a run; every field but the folders changes the model."""

    language: Path
    work: Path
    out: Path
    seed: int
    laps: int
    speaking_laps: int
    lap: int
    looking: Schedule
    refining: Schedule
    speaking: Schedule
    asking: Schedule
    finishing: Schedule

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The language half's tokenizer."""
        return load_tokenizer(self.language)

    @cached_property
    def model(self) -> nn.Module:
        """The language half."""
        return load_language(self.language, self.tokenizer)

    @cached_property
    def adapter(self) -> nn.ParameterDict:
        """The adapter; the first access inserts it into the language half."""
        return add_adapter(self.model, self.seed)

    @cached_property
    def held_out(self) -> Bank:
        """Pictures that only measure progress."""
        return draw_bank(self.work / "held-out", 1, HELD_OUT + 50_000, min(30, self.lap))

    @property
    def group(self) -> ProcessGroup:
        """The only process."""
        return ProcessGroup(0, 1, self.work)

    def words(self) -> Words:
        """Return the embeddings that picture tokens are trained towards."""
        return Words(self.tokenizer, self.model.get_input_embeddings().weight.detach())

    def encoder(self) -> PictureEncoder:
        """Return the embedded model's tower with a fresh bridge to the language half."""
        torch.manual_seed(self.seed)
        embeddings = self.model.get_input_embeddings().weight
        embedded = AutoModelForImageTextToText.from_pretrained(EMBEDDED, dtype=torch.float32)
        return PictureEncoder(embedded.model.vision_model, embeddings.shape[1], float(embeddings.detach().std()))

    def trained_encoder(self, schedule: Schedule) -> PictureEncoder:
        """Return the tower and bridge as a stage left them."""
        encoder = self.encoder()
        encoder.load_state_dict(self.state(schedule)["modules"])
        return encoder

    def state(self, schedule: Schedule) -> dict[str, Any]:
        """Return the last checkpoint of a stage."""
        state: dict[str, Any] = torch.load(self.work / f"{schedule.name}.pt", weights_only=True)
        return state

    def looking_bank(self) -> Bank:
        """Return the pictures of the tower."""
        return draw_bank(self.work / "looking", self.laps, FIRST_SEED, self.lap)

    @cached_property
    def speaking_bank(self) -> Bank:
        """The pictures of the adapter."""
        return draw_bank(self.work / "speaking", self.speaking_laps, SPEAKING_SEED, self.lap)

    def encode_rows(self) -> EncodeRows:
        """Return the trained tower as a function of rows of the adapter's pictures."""
        bank, encoder = self.speaking_bank, self.trained_encoder(self.refining)
        return lambda rows: encoder.encode(bank.pixels[rows])


def look(run: TrainingRun) -> None:
    """Run stage 1."""
    train_encoder(run, run.looking, run.encoder(), run.seed)


def refine(run: TrainingRun) -> None:
    """Run stage 2: as stage 1, and the tower's other layers learn too."""
    encoder = run.trained_encoder(run.looking)
    encoder.lower.requires_grad_(True)
    train_encoder(run, run.refining, encoder, run.seed + 1)


def train_encoder(run: TrainingRun, schedule: Schedule, encoder: PictureEncoder, seed: int) -> None:
    """Train tower and bridge, and log the accuracy on held-out pictures."""
    words = run.words()
    stage = LookingStage(run.looking_bank(), words, seed)
    train(schedule, run.group, encoder, lambda step: stage.losses(encoder, step), run.log)
    accuracy = word_accuracy(encoder, run.held_out, words)
    run.log(f"{schedule.name}, share of held-out pictures whose first token is the right word: {accuracy}")


def speak(run: TrainingRun) -> None:
    """Run stage 3."""
    bank = run.speaking_bank
    tokens = run.words().simulate(Targets.of(Labels(bank)).slots(), run.seed)
    train_adapter(run, run.speaking, lambda rows: tokens[rows], SPEAKING)


def ask(run: TrainingRun) -> None:
    """Run stage 4."""
    train_adapter(run, run.asking, run.encode_rows(), ASKING, after=run.speaking)


def finish(run: TrainingRun) -> None:
    """Run stage 5."""
    train_adapter(run, run.finishing, run.encode_rows(), FINISHING, after=run.asking)


def train_adapter(
    run: TrainingRun, schedule: Schedule, encode_rows: EncodeRows, mixture: Mixture, after: Schedule | None = None
) -> None:
    """Train the adapter on the picture tokens of ``encode_rows``, starting from the result of the stage ``after``."""
    stage = SpeakingStage(
        run.speaking_bank, run.lap, encode_rows, run.model, run.tokenizer, run.work, mixture,
        f"{run.seed}/{schedule.name}-135m",
    )  # fmt: skip
    if after is not None:
        run.adapter.load_state_dict(run.state(after)["modules"])
    train(schedule, run.group, run.adapter, stage.losses, run.log)


def save(run: TrainingRun) -> None:
    """Save what was trained, in half precision, and the assembled folder."""
    encoder, state = run.trained_encoder(run.refining), run.state(run.finishing)
    weights = {f"tower.{name}": weight for name, weight in encoder.tower_state().items()}
    weights["connector.modality_projection.proj.weight"] = encoder.bridge.weight.detach()
    weights |= {f"adapter.{name.replace('/', '.')}": weight for name, weight in state["modules"].items()}
    save_file({name: weight.half().contiguous() for name, weight in weights.items()}, run.out / "trained.safetensors")
    (run.out / "trained.safetensors").chmod(0o644)
    assemble(run.language, run.out / "trained.safetensors", run.work / "assembled")
    run.log(f"saved after {state['step']} steps of {run.finishing.name}")


PARTS = {"look": look, "refine": refine, "speak": speak, "ask": ask, "finish": finish, "save": save}


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m proactive_demo.embedded_135m.training", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--language", type=Path, required=True, help="SmolLM2-135M-Instruct as a transformers folder")
    parser.add_argument(
        "--out", type=Path, default=Path("outputs/embedded-135m"), help="where what was trained is saved"
    )
    parser.add_argument("--work", type=Path, default=Path("outputs/embedded-135m"), help="pictures and checkpoints")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--laps", type=int, default=80, help="seeds of samples to draw for the tower")
    parser.add_argument("--speaking-laps", type=int, default=16, help="seeds of samples to draw for the adapter")
    parser.add_argument("--lap", type=int, default=LAP, help="samples per scenario and seed")
    parser.add_argument("--look-steps", type=int, default=350)
    parser.add_argument("--refine-steps", type=int, default=4000)
    parser.add_argument("--speak-steps", type=int, default=165)
    parser.add_argument("--ask-steps", type=int, default=400)
    parser.add_argument("--finish-steps", type=int, default=300)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=tuple(PARTS), help="parts of the run")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    run = TrainingRun(
        options.language, work, options.out, options.seed, options.laps, options.speaking_laps, options.lap,
        Schedule("looking", options.look_steps, 1e-3, warm=40, decay=0.02, save_every=25, half=False),
        Schedule("refining", options.refine_steps, 6e-4, warm=40, decay=0.02, save_every=25, half=False),
        Schedule("speaking", options.speak_steps, 1.5e-3, warm=5, decay=0.01, save_every=5, half=False),
        Schedule("asking", options.ask_steps, 8e-4, warm=10, decay=0.01, save_every=5, half=False),
        Schedule("finishing", options.finish_steps, 6e-4, warm=10, decay=0.01, save_every=5, half=False),
    )  # fmt: skip
    for name in options.only:
        PARTS[name](run)


if __name__ == "__main__":
    main()
