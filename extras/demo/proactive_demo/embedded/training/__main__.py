"""Train the embedded model again: ``python -m proactive_demo.embedded.training``.

The command draws the pictures, trains in three stages and saves the folder that the sweep loads; a sweep over other seeds
examines it. Repeat the command to continue an interrupted run from its last checkpoint.
"""

import argparse
import json
import os
from functools import cached_property
from shutil import copyfile

os.environ.update({"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"})

import torch
from tokenizers import Tokenizer
from torch import nn

from proactive_demo.embedded.training import text_processor
from proactive_demo.embedded.training.model import Heads, build
from proactive_demo.embedded.training.pictures import FIRST_SEED, HELD_OUT, Bank, draw_bank
from proactive_demo.embedded.training.stages import BATCH_PARTS, LanguageStage, VisionStage, recognition_accuracy
from proactive_demo.embedded.training.trainer import Schedule, TrainingRun, add_options, run_fields
from proactive_demo.embedded.training.training_data import SCENARIO_WEIGHTS, TrainingData, wordings
from proactive_demo.embedded_135m.assemble import IMAGE, save_processor

STAGES = {
    "look": Schedule("looking", 1000, 2.5e-3),
    "speak": Schedule("speaking", 1800, 2e-3),
    "polish": Schedule("polishing", 1000, 1.2e-3),
}


class EmbeddedRun(TrainingRun):
    """The pictures, the tokenizer and the modules of a run."""

    @cached_property
    def bank(self) -> Bank:
        """The training pictures."""
        return draw_bank(self.work / "training", self.laps, FIRST_SEED)

    @cached_property
    def held_out(self) -> Bank:
        """Pictures that only measure progress."""
        return draw_bank(self.work / "held-out", 2, HELD_OUT + 50_000, 30)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, trained once on the wording of the run's own examples."""
        path = self.work / "tokenizer.json"
        if not path.exists():
            text_processor.train_tokenizer(wordings(TrainingData(self.bank))).save(str(path))
        return Tokenizer.from_file(str(path))

    def modules(self) -> nn.ModuleDict:
        """Return the model and the temporary heads, initialized from the seed."""
        torch.manual_seed(self.seed)
        tokens = (IMAGE, text_processor.PAD, text_processor.END)
        ids = [text_processor.token_id(self.tokenizer, token) for token in tokens]
        return nn.ModuleDict({"model": build(self.tokenizer.get_vocab_size(), *ids), "heads": Heads()})


def look(run: EmbeddedRun) -> None:
    """Run stage 1."""
    modules = run.modules()
    for name, parameter in modules.named_parameters():
        parameter.requires_grad = is_visual(name)
    train_modules(run, "look", modules, VisionStage(run.bank, run.seed))


def is_visual(name: str) -> bool:
    """Return True if a parameter belongs to the vision side or to the heads of stage 1."""
    return "vision" in name or "connector" in name or name.startswith("heads")


def speak(run: EmbeddedRun) -> None:
    """Run stage 2, starting from the vision side of stage 1."""
    weights, modules = run.state("look")["modules"], run.modules()
    modules.load_state_dict({name: weight for name, weight in weights.items() if is_visual(name)}, strict=False)
    train_modules(run, "speak", modules, LanguageStage(run.bank, run.tokenizer, run.seed))


def polish(run: EmbeddedRun) -> None:
    """Run stage 3: like stage 2, with other examples and more of the hard scenarios."""
    modules = run.modules()
    modules.load_state_dict(run.state("speak")["modules"], strict=False)
    train_modules(run, "polish", modules, LanguageStage(run.bank, run.tokenizer, run.seed + 1, SCENARIO_WEIGHTS))


def train_modules(run: EmbeddedRun, name: str, modules: nn.ModuleDict, stage: VisionStage | LanguageStage) -> None:
    """Train the modules, and log the accuracy on held-out pictures."""
    run.train(name, modules, lambda step, part: stage.losses(modules, step, part), BATCH_PARTS)
    accuracy = recognition_accuracy(modules, run.held_out)
    run.log(f"{run.stages[name].name}, accuracy on held-out clear pictures: {accuracy}")


def save(run: EmbeddedRun) -> None:
    """Save the folder that transformers and vLLM load: weights in half precision, configuration, tokenizer, processor."""
    modules, state = run.modules(), run.state("polish")
    modules.load_state_dict(state["modules"])
    modules["model"].half().save_pretrained(run.out)
    (run.out / "model.safetensors").chmod(0o644)
    config = run.out / "config.json"
    content = {**json.loads(config.read_text("utf-8")), "dtype": "float32"}
    config.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    save_processor(text_processor.processor(run.tokenizer), run.out)
    run.log(f"saved after {state['step']} steps of {run.stages['polish'].name}")
    copyfile(run.work / "training.log", run.out / "training.log")


PARTS = {"look": look, "speak": speak, "polish": polish, "save": save}


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m proactive_demo.embedded.training", description=__doc__.split("\n")[0]
    )
    add_options(parser, "extras/demo/proactive_demo/embedded", "outputs/embedded", 45, STAGES)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    run = EmbeddedRun(**run_fields(options, STAGES))
    for name in options.only:
        PARTS[name](run)


if __name__ == "__main__":
    main()
