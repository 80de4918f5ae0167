"""Train the embedded model again: ``python -m proactive_demo.embedded.training``.

The command draws the pictures, trains in three stages and saves the folder that the sweep loads; a sweep over other seeds
examines it. Repeat the command to continue an interrupted run from its last checkpoint.
"""

import argparse
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

QUIET = {"OMP_NUM_THREADS": "1", "GOMP_SPINCOUNT": "0", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
"""Threads that wait must not spin: two processes share two cores."""
os.environ.update(QUIET)

import torch  # noqa: E402
import torch.multiprocessing  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from proactive_demo.embedded.training import text_processor  # noqa: E402
from proactive_demo.embedded.training.model import Heads, build  # noqa: E402
from proactive_demo.embedded.training.pictures import FIRST_SEED, HELD_OUT, Bank, draw_bank  # noqa: E402
from proactive_demo.embedded.training.stages import (  # noqa: E402
    LanguageStage,
    VisionStage,
    recognition_accuracy,
)
from proactive_demo.embedded.training.trainer import LoggedRun, ProcessGroup, Schedule, train  # noqa: E402
from proactive_demo.embedded.training.training_data import SCENARIO_WEIGHTS, TrainingData, wordings  # noqa: E402
from proactive_demo.embedded_135m.assemble import IMAGE, save_processor  # noqa: E402

PROCESSES = 2


@dataclass(frozen=True, slots=True)
class TrainingRun(LoggedRun):
    """The parameters of a run; every field but the two folders changes the model."""

    work: Path
    out: Path
    seed: int
    laps: int
    looking: Schedule
    speaking: Schedule
    polishing: Schedule

    def bank(self) -> Bank:
        """Return the training pictures."""
        return draw_bank(self.work / "training", self.laps, FIRST_SEED)

    def held_out(self) -> Bank:
        """Return pictures that only measure progress."""
        return draw_bank(self.work / "held-out", 2, HELD_OUT + 50_000, 30)


def build_modules(plan: TrainingRun) -> nn.ModuleDict:
    """Return the model and the temporary heads, initialized from the seed."""
    tokenizer = load_tokenizer(plan)
    torch.manual_seed(plan.seed)
    tokens = (IMAGE, text_processor.PAD, text_processor.END)
    ids = [text_processor.token_id(tokenizer, token) for token in tokens]
    return nn.ModuleDict({"model": build(tokenizer.get_vocab_size(), *ids), "heads": Heads()})


def look(rank: int, plan: TrainingRun) -> None:
    """Run stage 1 in one of the processes."""
    modules = build_modules(plan)
    for name, parameter in modules.named_parameters():
        parameter.requires_grad = is_visual(name)
    run_stage(rank, plan, plan.looking, modules, VisionStage(plan.bank(), plan.seed, rank, PROCESSES))


def is_visual(name: str) -> bool:
    """Return True if a parameter belongs to the vision side or to the heads of stage 1."""
    return "vision" in name or "connector" in name or name.startswith("heads")


def speak(rank: int, plan: TrainingRun) -> None:
    """Run stage 2 in one of the processes, starting from the vision side of stage 1."""
    weights = load_weights(plan, plan.looking)
    modules = build_modules(plan)
    modules.load_state_dict({name: weight for name, weight in weights.items() if is_visual(name)}, strict=False)
    stage = LanguageStage(plan.bank(), load_tokenizer(plan), plan.seed, rank, PROCESSES)
    run_stage(rank, plan, plan.speaking, modules, stage)


def polish(rank: int, plan: TrainingRun) -> None:
    """Run stage 3 in one of the processes: like stage 2, with other examples and more of the hard scenarios."""
    modules = build_modules(plan)
    modules.load_state_dict(load_weights(plan, plan.speaking), strict=False)
    stage = LanguageStage(plan.bank(), load_tokenizer(plan), plan.seed + 1, rank, PROCESSES, SCENARIO_WEIGHTS)
    run_stage(rank, plan, plan.polishing, modules, stage)


def load_weights(plan: TrainingRun, schedule: Schedule) -> dict[str, Tensor]:
    """Return the weights that a stage saved last."""
    weights: dict[str, Tensor] = torch.load(plan.work / f"{schedule.name}.pt", weights_only=True)["modules"]
    return weights


def run_stage(
    rank: int, plan: TrainingRun, schedule: Schedule, modules: nn.ModuleDict, stage: VisionStage | LanguageStage
) -> None:
    """Train in one of the processes, and log the accuracy on held-out pictures."""
    torch.set_num_threads(1)
    group = ProcessGroup(rank, PROCESSES, plan.work)
    group.gather()
    train(schedule, group, modules, lambda step: stage.losses(modules, step), plan.log)
    if rank == 0:
        accuracy = recognition_accuracy(modules, plan.held_out())
        plan.log(f"{schedule.name}, accuracy on held-out clear pictures: {accuracy}")
    group.leave()


def load_tokenizer(plan: TrainingRun) -> Tokenizer:
    """Return the tokenizer of this run, trained once on the wording of its own examples."""
    path = plan.work / "tokenizer.json"
    if not path.exists():
        text_processor.train_tokenizer(wordings(TrainingData(plan.bank()))).save(str(path))
    return Tokenizer.from_file(str(path))


def save(plan: TrainingRun) -> None:
    """Save the folder that transformers and vLLM load: weights in half precision, configuration, tokenizer, processor."""
    modules = build_modules(plan)
    checkpoint = torch.load(plan.work / f"{plan.polishing.name}.pt", weights_only=True)
    modules.load_state_dict(checkpoint["modules"])
    modules["model"].half().save_pretrained(plan.out)
    (plan.out / "model.safetensors").chmod(0o644)
    config = plan.out / "config.json"
    content = {**json.loads(config.read_text("utf-8")), "dtype": "float32"}
    config.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    save_processor(text_processor.processor(load_tokenizer(plan)), plan.out)
    plan.log(f"saved after {checkpoint['step']} steps of {plan.polishing.name}")
    shutil.copyfile(plan.work / "training.log", plan.out / "training.log")


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m proactive_demo.embedded.training", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--out", type=Path, default=Path("extras/demo/proactive_demo/embedded"), help="where the model is saved"
    )
    parser.add_argument(
        "--work", type=Path, default=Path("outputs/embedded"), help="pictures, checkpoints and log; resumable"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--laps", type=int, default=45, help="seeds of 40 samples a scenario to draw")
    parser.add_argument("--look-steps", type=int, default=1000)
    parser.add_argument("--speak-steps", type=int, default=1800)
    parser.add_argument("--polish-steps", type=int, default=1000)
    parser.add_argument("--only", choices=("look", "speak", "polish", "save"), help="one part of the run")
    options = parser.parse_args(arguments)
    plan = TrainingRun(
        options.work.resolve(),
        options.out,
        options.seed,
        options.laps,
        Schedule("looking", options.look_steps, 2.5e-3),
        Schedule("speaking", options.speak_steps, 2e-3),
        Schedule("polishing", options.polish_steps, 1.2e-3),
    )
    run(plan, (options.only,) if options.only else ("look", "speak", "polish", "save"))


def run(plan: TrainingRun, steps: tuple[str, ...]) -> None:
    """Run these parts in order."""
    plan.work.mkdir(parents=True, exist_ok=True)
    plan.bank(), plan.held_out(), load_tokenizer(plan)
    for name, stage in (("look", look), ("speak", speak), ("polish", polish)):
        if name in steps:
            (plan.work / "rendezvous").unlink(missing_ok=True)
            torch.multiprocessing.spawn(stage, (plan,), PROCESSES)
    if "save" in steps:
        save(plan)


if __name__ == "__main__":
    main()
