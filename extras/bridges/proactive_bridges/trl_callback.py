"""A callback for TRL and every other trainer on transformers' ``Trainer``: ``callbacks=[ScoreCheckpoints(data="demo-data")]``."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from proactive_bridges.watch import read_scores


class ScoreCheckpoints(TrainerCallback):
    """Scores every saved checkpoint by ``proactive-sweep watch`` in another process, and adds it to the trainer's history.

    With several processes the others wait for the score: raise ``ddp_timeout`` (1,800 s) if it takes longer.
    """

    def __init__(
        self, data: str, condition: str = "zero-shot", scenarios: str = "", limit: int = 10, base: str = ""
    ) -> None:
        """Take the options of ``watch``: ``data`` is the benchmark folder, ``limit`` counts samples of each scenario."""
        self.options = {"data": data, "condition": condition, "scenarios": scenarios, "limit": limit, "base": base}

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Wait for the score of what was just saved; a failure is printed and stops no training."""
        if not state.is_world_process_zero:
            return
        named = [word for name, value in self.options.items() if value != "" for word in (f"--{name}", str(value))]
        program = "from orchestrator.cli.main import main; main()"
        command = [sys.executable, "-c", program, "watch", args.output_dir, "--once", *named]
        failed = subprocess.run(command, check=False).returncode
        scores = {} if failed else {score["checkpoint"]: score for score in read_scores(Path(args.output_dir))}
        if (score := scores.get(f"checkpoint-{state.global_step}")) is None:
            print("the checkpoint has no score; the training continues", file=sys.stderr, flush=True)
            return
        logged = {"proactive_accuracy": score["acc"], "proactive_suggestions": score["ps"]}
        state.log_history.append({**logged, "step": state.global_step})
