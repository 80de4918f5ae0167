"""A model with packages of its own beside one with the installed ones, on real Ray: its own versions play, killed and resumed."""

from __future__ import annotations

import os
import signal
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from orchestrator.inspection.certificate import read_certificates
from orchestrator.storage.episode_store import episodes
from tests.orchestrator.execution.test_attempt import assert_stored_once

pytest.importorskip("proactive_demo", reason="the extra `demo` is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.long]

PLANNED = 2 * 2 * 7 * 10
"""Episodes of two models under two conditions: ten samples in each of seven scenarios."""
OTHER, ABSENT = "transformers==5.18.0", "transformers==5.18.99"
ENTRY = """[[model]]
name = "{name}"
source = "builtin:embedded"
backend = "transformers"
gpus = 0
dtype = "float32"
in_flight = 1
requirements = {requirements}
"""


def sweep(path: Path, data: Path) -> Path:
    entries = {"installed": [], "other": [OTHER], "absent": [ABSENT]}
    path.write_text(
        f'# A test.\ndata = "{data}"\nconditions = ["zero-shot", "reference"]\n'
        'tracking = { uri = "none" }\n[selection]\nlimit = 10\n'
        + "".join(ENTRY.format(name=name, requirements=requirements) for name, requirements in entries.items())
    )
    return path


def wait_for_episodes(out: Path, process) -> None:
    """Wait until the packages are installed and an episode is stored: the model with its own packages is starting."""
    deadline = time.monotonic() + 900
    while not (list(out.parent.glob("cache/packages/[0-9a-f]*[0-9a-f]/transformers")) and list(out.glob("episodes/*"))):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)


def test_another_release_plays_beside_the_installed_one(cli, demo_data, tmp_path):
    pytest.importorskip("transformers", reason="pip install 'proactive-sweep[transformers]'")
    assert f"transformers=={version('transformers')}" != OTHER
    cli.environment["PROACTIVE_SWEEP_CACHE"] = str(tmp_path / "cache")
    file, out = sweep(tmp_path / "s.toml", demo_data), tmp_path / "run"

    process = cli.start("run", file, "--output", out)
    try:
        wait_for_episodes(out, process)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    (module,) = tmp_path.glob("cache/packages/*/transformers/__init__.py")
    installed = module.stat()
    before = episodes(out).collect().height
    done = cli.run("run", file, "--output", out, timeout=900)

    assert done.returncode == 1, "one model could not play"
    assert f"{ABSENT} cannot be installed on " in done.stdout + done.stderr
    assert f'pip says "No matching distribution found for {ABSENT}"' in done.stdout + done.stderr
    assert 0 < before < PLANNED
    assert_stored_once(out, PLANNED)
    assert episodes(out).collect()["error"].null_count() == PLANNED
    certificates = read_certificates(out)
    assert certificates["other"].packages["transformers"] == "5.18.0" and certificates["other"].requirements == (OTHER,)
    assert certificates["installed"].packages["transformers"] == version("transformers")
    assert {certificates[name].status for name in ("other", "installed")} == {"equal"}
    assert list(tmp_path.glob("cache/packages/*/transformers/__init__.py")) == [module]
    assert (module.stat().st_ino, module.stat().st_ctime_ns) == (installed.st_ino, installed.st_ctime_ns), (
        "the resumed run uses the same folder"
    )
