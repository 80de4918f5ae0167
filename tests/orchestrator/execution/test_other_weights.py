"""A killed run goes on with the weights that it began with, or says in one sentence that they have changed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from actors.engine.weights import hash_folder
from orchestrator.inspection.certificate import read_certificates
from orchestrator.storage.episode_store import episodes
from orchestrator.storage.loaded_weights import LoadedWeights
from tests.conftest import ROOT, Cli
from tests.orchestrator.execution.test_attempt import wait_for_parts

pytestmark = [pytest.mark.slow, pytest.mark.long]
ENTRY = """data = "{data}"
tracking = {{ uri = "none" }}
conditions = ["history", "hint", "zero-shot"]
[[model]]
name = "mine"
source = "{source}"
backend = "transformers"
gpus = 0
dtype = "float32"
"""


def copy_embedded(folder: Path) -> Path:
    return shutil.copytree(
        ROOT / "extras/demo/proactive_demo/embedded",
        folder,
        ignore=shutil.ignore_patterns("training", "*.py", "__pycache__"),
    )


def start_and_kill(cli: Cli, file: Path, out: Path) -> int:
    """Kill a run once it has stored a part; return its number of episodes."""
    first = cli.start("run", file, "--output", out)
    wait_for_parts(out, first)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    stored = episodes(out).collect().height
    assert 0 < stored < 3 * 70
    return stored


def run_alone(cli: Cli, file: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Run on this machine, without a cluster."""
    alone = {name: value for name, value in cli.environment.items() if name != "RAY_ADDRESS"}
    return Cli(alone).run("run", file, "--output", out)


def test_weights_that_changed_between_kill_and_resume_are_refused(cli: Cli, demo_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="pip install 'proactive-sweep[transformers]'")
    model, out, file = copy_embedded(tmp_path / "model"), tmp_path / "run", tmp_path / "mine.toml"
    file.write_text(ENTRY.format(data=demo_data, source=model))
    stored, before = start_and_kill(cli, file, out), LoadedWeights(out).models["mine"]["weights"]
    assert before.startswith(hash_folder(model))
    certificate = read_certificates(out)["mine"]
    assert (certificate.status, certificate.weights, len(certificate.requests)) == ("equal", before, 3 * 7)
    config = model / "generation_config.json"
    config.write_text(config.read_text().replace("{", "{ ", 1))

    refused = run_alone(cli, file, out)
    on_cluster = cli.run("run", file, "--output", out)

    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    told = refused.stderr.splitlines()[-1]
    assert all(part in told for part in (str(out), before[:19], hash_folder(model)[:19], "restore its files")), told
    assert on_cluster.returncode != 0 and "restore its files" in on_cluster.stderr
    assert episodes(out).collect().height == stored

    config.write_text(config.read_text().replace("{ ", "{", 1))
    assert cli.run("run", file, "--output", out, timeout=500).returncode == 0
    assert episodes(out).collect().height == 3 * 70
    assert read_certificates(out) == {"mine": certificate}
