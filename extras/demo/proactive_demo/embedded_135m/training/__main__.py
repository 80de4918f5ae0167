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

os.environ.update({"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"})

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import AutoModelForImageTextToText, PreTrainedTokenizerBase

from proactive_demo.embedded.training.pictures import FIRST_SEED, HELD_OUT, LAP, Bank, draw_bank
from proactive_demo.embedded.training.trainer import Schedule, TrainingRun, add_options, run_fields
from proactive_demo.embedded_135m.assemble import EMBEDDED, assemble, load_language, load_tokenizer
from proactive_demo.embedded_135m.training.conversations import ASKING, FINISHING, SPEAKING, Mixture
from proactive_demo.embedded_135m.training.looking_stage import LookingStage, PictureEncoder, Words, word_accuracy
from proactive_demo.embedded_135m.training.speaking_stage import EncodeRows, SpeakingStage, add_adapter

SPEAKING_SEED = FIRST_SEED + 100
"""First seed of the pictures for the adapter; the tower was not trained on them."""
STAGES = {
    "look": Schedule("looking", 350, 1e-3, warm=40, decay=0.02, save_every=25, half=False),
    "refine": Schedule("refining", 4000, 6e-4, warm=40, decay=0.02, save_every=25, half=False),
    "speak": Schedule("speaking", 165, 1.5e-3, warm=5, decay=0.01, save_every=5, half=False),
    "ask": Schedule("asking", 400, 8e-4, warm=10, decay=0.01, save_every=5, half=False),
    "finish": Schedule("finishing", 300, 6e-4, warm=10, decay=0.01, save_every=5, half=False),
}


@dataclass
class PictureRun(TrainingRun):
    """A run with the language half in the folder ``language``."""

    language: Path
    speaking_laps: int
    lap: int

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

    def words(self) -> Words:
        """Return the embeddings that picture tokens are trained towards."""
        return Words(self.tokenizer, self.model.get_input_embeddings().weight.detach())

    def encoder(self) -> PictureEncoder:
        """Return the embedded model's tower with a fresh bridge to the language half."""
        torch.manual_seed(self.seed)
        embeddings = self.model.get_input_embeddings().weight
        embedded = AutoModelForImageTextToText.from_pretrained(EMBEDDED, dtype=torch.float32)
        return PictureEncoder(embedded.model.vision_model, embeddings.shape[1], float(embeddings.detach().std()))

    def trained_encoder(self, stage: str) -> PictureEncoder:
        """Return the tower and bridge as a stage left them."""
        encoder = self.encoder()
        encoder.load_state_dict(self.state(stage)["modules"])
        return encoder

    @cached_property
    def speaking_bank(self) -> Bank:
        """The pictures of the adapter."""
        return draw_bank(self.work / "speaking", self.speaking_laps, SPEAKING_SEED, self.lap)

    def encode_rows(self) -> EncodeRows:
        """Return the trained tower as a function of rows of the adapter's pictures."""
        bank, encoder = self.speaking_bank, self.trained_encoder("refine")
        return lambda rows: encoder.encode(bank.pixels[rows])


def look(run: PictureRun) -> None:
    """Run stage 1."""
    train_encoder(run, "look", run.encoder(), run.seed)


def refine(run: PictureRun) -> None:
    """Run stage 2: as stage 1, and the tower's other layers learn too."""
    encoder = run.trained_encoder("look")
    encoder.lower.requires_grad_(True)
    train_encoder(run, "refine", encoder, run.seed + 1)


def train_encoder(run: PictureRun, name: str, encoder: PictureEncoder, seed: int) -> None:
    """Train tower and bridge, and log the accuracy on held-out pictures."""
    words = run.words()
    stage = LookingStage(draw_bank(run.work / "looking", run.laps, FIRST_SEED, run.lap), words, seed)
    run.train(name, encoder, lambda step, _: stage.losses(encoder, step))
    accuracy = word_accuracy(encoder, run.held_out, words)
    run.log(f"{run.stages[name].name}, share of held-out pictures whose first token is the right word: {accuracy}")


def speak(run: PictureRun) -> None:
    """Run stage 3."""
    tokens = run.words().simulate(run.speaking_bank, run.seed)
    train_adapter(run, "speak", lambda rows: tokens[rows], SPEAKING)


def ask(run: PictureRun) -> None:
    """Run stage 4."""
    train_adapter(run, "ask", run.encode_rows(), ASKING, after="speak")


def finish(run: PictureRun) -> None:
    """Run stage 5."""
    train_adapter(run, "finish", run.encode_rows(), FINISHING, after="ask")


def train_adapter(
    run: PictureRun, name: str, encode_rows: EncodeRows, mixture: Mixture, after: str | None = None
) -> None:
    """Train the adapter on the picture tokens of ``encode_rows``, starting from the result of the stage ``after``."""
    stage = SpeakingStage(
        run.speaking_bank, run.lap, encode_rows, run.model, run.tokenizer, run.work, mixture,
        f"{run.seed}/{run.stages[name].name}-135m",
    )  # fmt: skip
    if after is not None:
        run.adapter.load_state_dict(run.state(after)["modules"])
    run.train(name, run.adapter, lambda step, _: stage.losses(step))


def save(run: PictureRun) -> None:
    """Save what was trained, in half precision, and the assembled folder."""
    encoder, state = run.trained_encoder("refine"), run.state("finish")
    weights = {f"tower.{name}": weight for name, weight in encoder.tower_state().items()}
    weights["connector.modality_projection.proj.weight"] = encoder.bridge.weight.detach()
    weights |= {f"adapter.{name.replace('/', '.')}": weight for name, weight in state["modules"].items()}
    save_file({name: weight.half().contiguous() for name, weight in weights.items()}, run.out / "trained.safetensors")
    (run.out / "trained.safetensors").chmod(0o644)
    assemble(run.language, run.out / "trained.safetensors", run.work / "assembled")
    run.log(f"saved after {state['step']} steps of {run.stages['finish'].name}")


PARTS = {"look": look, "refine": refine, "speak": speak, "ask": ask, "finish": finish, "save": save}


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m proactive_demo.embedded_135m.training", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--language", type=Path, required=True, help="SmolLM2-135M-Instruct as a transformers folder")
    parser.add_argument("--speaking-laps", type=int, default=16, help="as --laps, for the adapter")
    parser.add_argument("--lap", type=int, default=LAP, help="samples per scenario and seed")
    add_options(parser, "outputs/embedded-135m", "outputs/embedded-135m", 80, STAGES)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    own = {name: getattr(options, name) for name in ("language", "speaking_laps", "lap")}
    run = PictureRun(**run_fields(options, STAGES), **own)
    for name in options.only:
        PARTS[name](run)


if __name__ == "__main__":
    main()
