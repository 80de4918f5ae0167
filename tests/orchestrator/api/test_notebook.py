"""The cells of docs/notebook.md run as written in a kernel, whose event loop is running; an interrupt stops in order."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.elsewhere import working_folder

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/notebook.md"
SLOW_SWEEP = """
import os, pathlib, signal, threading, time
def interrupt():
    while not pathlib.Path("outputs/stopped/plan.json").exists():
        time.sleep(0.02)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
from orchestrator import open_run, run, load_sweep
sweep = load_sweep("baselines", data="demo-data", output="outputs/stopped")
try:
    run(sweep)
    print("went on")
except KeyboardInterrupt:
    print("stopped:", open_run("outputs/stopped").status()["finished"])
"""


def cells():
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)


def execute_cells(sources, folder, monkeypatch, ray_address):
    """Run the cells in a kernel of this interpreter in ``folder``; return a list of outputs for each."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for name, value in {
        **working_folder(folder),
        "RAY_ADDRESS": ray_address,
        "JUPYTER_PATH": str(Path(sys.prefix) / "share/jupyter"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "IPYTHONDIR": str(folder / "ipython"),
    }.items():
        monkeypatch.setenv(name, value)
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    place = {"metadata": {"path": str(folder)}}
    kernel = nbclient.NotebookClient(book, timeout=120, kernel_name="python3", resources=place)
    return [cell.outputs for cell in kernel.execute().cells]


def text(outputs):
    """Return all that the outputs show, as plain text."""
    texts = [out.get("text", "") or str(out.get("data", {}).get("text/plain", "")) for out in outputs]
    return "\n".join(texts)


@pytest.mark.slow
@pytest.mark.long
def test_page_runs_and_interrupted_cell_stops_cleanly(tmp_path, monkeypatch, ray_address):
    pages = cells()
    outputs = execute_cells([*pages, SLOW_SWEEP], tmp_path, monkeypatch, ray_address)

    assert len(pages) == 6
    assert "shape: (168, 7)" in text(outputs[1])
    assert "168 cells" in text(outputs[2]) and "840 of 840 episodes" in text(outputs[2])
    assert "played 840 episodes" in text(outputs[2][:-1])
    assert text(outputs[5]) == "True"
    assert "stopped: False" in text(outputs[6])
