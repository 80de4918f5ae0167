"""A run started inside a stranger's folder imports nothing from there, in no process of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("proactive_demo", reason="the extra `demo` is not installed")

pytestmark = pytest.mark.slow

PROGRAM = Path(sys.executable).with_name("proactive-sweep")
SHADOWS = (
    "actors", "aiohttp", "mlflow", "numpy", "orchestrator", "packaging", "PIL", "pip", "polars", "pydantic", "ray", "random",
    "sqlalchemy", "sweeps", "tokenizers", "torch", "transformers", "typing_extensions",
)  # fmt: skip
"""Modules that a run imports, of ours, of others and of Python's own, each waiting in the stranger's folder."""
SWEEP = """
data = "{data}"
models = ["embedded"]
conditions = ["zero-shot"]
scenarios = ["QD"]
selection = {{ limit = 2 }}
"""


@pytest.mark.skipif(not PROGRAM.is_file(), reason="the command proactive-sweep is not installed beside this Python")
def test_modules_in_the_working_folder_are_not_imported(demo_data, empty, tmp_path):
    folder, mark = tmp_path / "received", tmp_path / "imported"
    (folder / "run").mkdir(parents=True)
    shutil.copy(empty, folder / "run" / "mlflow.db")  # making its tables takes seconds
    for name in SHADOWS:
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r} + chr(10))\n")
    (tmp_path / "sweep.toml").write_text(SWEEP.format(data=demo_data))
    environment = {name: value for name, value in os.environ.items() if name not in ("RAY_ADDRESS", "PYTHONPATH")}

    command = [PROGRAM, "run", "../sweep.toml", "--output", "run"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, mark.exists() and mark.read_text().split()) == (0, False), done.stdout + done.stderr
