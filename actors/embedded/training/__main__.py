"""Makes the embedded model anew: ``python -m actors.embedded.training``. Seeded throughout.

It draws its pictures, trains in three stages, saves the folder that the sweep loads, and examines it on held-out seeds.
An interrupted run goes on from its last checkpoint when the command is given again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUIET = {"OMP_NUM_THREADS": "1", "GOMP_SPINCOUNT": "0", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
"""Threads that wait must not spin: two processes share two cores."""
os.environ.update(QUIET)

import torch  # noqa: E402
import torch.multiprocessing  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from actors.embedded.training import text_processor  # noqa: E402
from actors.embedded.training.language_stage import LanguageStage  # noqa: E402
from actors.embedded.training.model import Heads, build  # noqa: E402
from actors.embedded.training.pictures import FIRST_SEED, HELD_OUT, Bank, draw  # noqa: E402
from actors.embedded.training.trainer import ProcessGroup, Schedule, train  # noqa: E402
from actors.embedded.training.training_data import SCENARIO_WEIGHTS, TrainingData, wordings  # noqa: E402
from actors.embedded.training.vision_stage import VisionStage, recognised  # noqa: E402

PROCESSES = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is made of; every field changes the model but the two folders."""

    work: Path
    out: Path
    seed: int
    laps: int
    looking: Schedule
    speaking: Schedule
    polishing: Schedule

    def bank(self) -> Bank:
        """The training pictures."""
        return draw(self.work / "training", self.laps, FIRST_SEED)

    def held_out(self) -> Bank:
        """Pictures that are only looked at to see how it goes."""
        return draw(self.work / "held-out", 2, HELD_OUT + 50_000, 30)

    def tell(self, line: str) -> None:
        """A line of the log, on the screen too."""
        stamped = f"{time.strftime('%H:%M:%S')} {line}"
        print(stamped, flush=True)
        with (self.work / "training.log").open("a", encoding="utf-8") as log:
            log.write(stamped + "\n")


def parts(plan: Plan, tokenizer: Tokenizer) -> nn.ModuleDict:
    """The model and the throw-away heads, fresh from the seed."""
    torch.manual_seed(plan.seed)
    ids = [
        text_processor.token_id(tokenizer, token)
        for token in (text_processor.IMAGE, text_processor.PAD, text_processor.END)
    ]
    return nn.ModuleDict({"model": build(tokenizer.get_vocab_size(), *ids), "heads": Heads()})


def look(rank: int, plan: Plan) -> None:
    """Stage 1, in one of the processes."""
    torch.set_num_threads(1)
    modules = parts(plan, words(plan))
    for name, parameter in modules.named_parameters():
        parameter.requires_grad = sees(name)
    group = ProcessGroup(rank, PROCESSES, plan.work)
    group.gather()
    stage = VisionStage(plan.bank(), plan.seed, rank, PROCESSES)
    train(plan.looking, group, modules, lambda step: stage.losses(modules, step), plan.tell)
    if rank == 0:
        plan.tell(f"{plan.looking.name}, held-out clear pictures told: {recognised(modules, plan.held_out())}")
    group.leave()


def sees(name: str) -> bool:
    """Whether a parameter belongs to the vision side or to the heads of stage 1."""
    return "vision" in name or "connector" in name or name.startswith("heads")


def speak(rank: int, plan: Plan) -> None:
    """Stage 2, in one of the processes."""
    learned = torch.load(plan.work / f"{plan.looking.name}.pt", weights_only=True)["modules"]
    taught(rank, plan, plan.speaking, {name: value for name, value in learned.items() if sees(name)})


def polish(rank: int, plan: Plan) -> None:
    """Stage 3, in one of the processes: as stage 2, on other examples, the hard scenarios more often."""
    learned = torch.load(plan.work / f"{plan.speaking.name}.pt", weights_only=True)["modules"]
    taught(rank, plan, plan.polishing, learned, plan.seed + 1, SCENARIO_WEIGHTS)


def taught(
    rank: int,
    plan: Plan,
    schedule: Schedule,
    learned: dict[str, Tensor],
    seed: int | None = None,
    weights: dict[str, float] | None = None,
) -> None:
    """Training examples, beginning with what was learned before."""
    torch.set_num_threads(1)
    modules = parts(plan, words(plan))
    modules.load_state_dict(learned, strict=False)
    group = ProcessGroup(rank, PROCESSES, plan.work)
    group.gather()
    stage = LanguageStage(plan.bank(), words(plan), plan.seed if seed is None else seed, rank, PROCESSES, weights)
    train(schedule, group, modules, lambda step: stage.losses(modules, step), plan.tell)
    if rank == 0:
        plan.tell(f"{schedule.name}, held-out clear pictures told: {recognised(modules, plan.held_out())}")
    group.leave()


def words(plan: Plan) -> Tokenizer:
    """The tokenizer of this run, learned once from the wording of its own examples."""
    kept = plan.work / "tokenizer.json"
    if not kept.exists():
        text_processor.learned(wordings(TrainingData(plan.bank()))).save(str(kept))
    return Tokenizer.from_file(str(kept))


def save(plan: Plan) -> None:
    """The folder that transformers and vLLM load: weights in half precision, configuration, tokenizer, processor."""
    modules = parts(plan, words(plan))
    kept = torch.load(plan.work / f"{plan.polishing.name}.pt", weights_only=True)
    modules.load_state_dict(kept["modules"])
    modules["model"].half().save_pretrained(plan.out)
    text_processor.processor(words(plan)).save_pretrained(plan.out)
    (plan.out / "model.safetensors").chmod(0o644)
    amended(plan.out / "config.json", lambda config: config.update(dtype="float32"))
    amended(
        plan.out / "processor_config.json",
        lambda config: config["image_processor"].update(image_processor_type="Idefics3ImageProcessorPil"),
    )
    plan.tell(f"saved after {kept['step']} steps of {plan.polishing.name}")


def amended(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Says in a saved file what the libraries would guess otherwise: compute in float32, pictures by pillow."""
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m actors.embedded.training", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("actors/embedded"), help="where the model is saved")
    parser.add_argument(
        "--work", type=Path, default=Path("outputs/embedded"), help="pictures, checkpoints and log; resumable"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--laps", type=int, default=45, help="seeds of 40 samples a scenario to draw")
    parser.add_argument("--look-steps", type=int, default=1000)
    parser.add_argument("--speak-steps", type=int, default=1800)
    parser.add_argument("--polish-steps", type=int, default=1000)
    parser.add_argument("--only", choices=("look", "speak", "polish", "save", "exam"), help="one part of the run")
    given = parser.parse_args(arguments)
    plan = Plan(
        given.work.resolve(),
        given.out,
        given.seed,
        given.laps,
        Schedule("looking", given.look_steps, 2.5e-3),
        Schedule("speaking", given.speak_steps, 2e-3),
        Schedule("polishing", given.polish_steps, 1.2e-3),
    )
    run(plan, (given.only,) if given.only else ("look", "speak", "polish", "save", "exam"))


def run(plan: Plan, steps: tuple[str, ...]) -> None:
    """The parts of a run, in order."""
    plan.work.mkdir(parents=True, exist_ok=True)
    plan.bank(), plan.held_out(), words(plan)
    for name, stage in (("look", look), ("speak", speak), ("polish", polish)):
        if name in steps:
            (plan.work / "rendezvous").unlink(missing_ok=True)
            torch.multiprocessing.spawn(stage, (plan,), PROCESSES)
    if "save" in steps:
        save(plan)
    if "exam" in steps:
        from actors.embedded.training.model_card import written

        written(plan.out, plan.work / "training.log", plan.tell)


if __name__ == "__main__":
    main()
