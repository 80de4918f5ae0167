"""A run with hostile replies, for tests of the report and of ``view``."""

from __future__ import annotations

from pathlib import Path

from actors.engine.backend import Backend, Reply
from envs.render import UnreadablePicture
from tests.orchestrator.report.runs import play_sweep, sweep

HOSTILE = (
    "<script>alert('reply')</script><img src=x onerror=alert(1)>",
    "</script></style><script>alert('out')</script>",
    "A. fine\u202egnp.exe\x00\x1b[31m\u2028\u200bend",
    "x" * 1_000_000,
    "",
    "**B**, since `this` <b>is</b> [so](javascript:alert(1)) {{ 7 * 7 }} ${alert(1)}",
)
CONDITIONS = ["zero-shot", "hint", "history", "random-proactive", "reference"]
MODEL = {"name": "uniform", "source": "nobody/hostile", "backend": "transformers", "gpus": 0}
"""A model, and no baseline."""
ALARM = "window.alert = window.confirm = window.prompt = (text) => { window.fired = text; };"


class HostileModel(Backend):
    """A model with hostile replies that cannot process the pictures of one scenario."""

    def __init__(self) -> None:
        self.said = 0

    async def reply(self, request) -> Reply:
        if request.situation.sample.scenario == "QD":
            raise UnreadablePicture("QD: <b>refused</b> \u202eby the processor")
        self.said += 1
        return Reply(HOSTILE[self.said % len(HOSTILE)])

    async def close(self) -> None:
        return None


def hostile_run(output: Path, data_folder: Path, model: str | dict = MODEL) -> Path:
    """Play two baselines and a hostile model over four scenarios."""
    wanted = sweep(data_folder, ["oracle", "always-ask", model], CONDITIONS, scenarios=["ROD", "VSOD", "QD", "COCO"])
    return play_sweep(output, wanted, backends={model if isinstance(model, str) else model["name"]: HostileModel()})
