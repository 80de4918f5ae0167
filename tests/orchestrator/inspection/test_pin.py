"""``models pin`` finds commits in the Hub's cache or on a Hub, and writes them into the user's file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from orchestrator.inspection.pin import Pin, describe_unpinned, pin_sweep, unpinned
from sweeps.registry import registry
from sweeps.spec import ModelSpec
from sweeps.sweep_file import SweepError
from tests.actors.engine.test_weights import COMMITS, cached
from tests.conftest import ROOT
from tests.orchestrator.hubserver import COMMIT, Hub, serving

SWEEP = """# A test.
data = "data"  # nothing is read of it
models = ["uniform", "mine", "other"]
scenarios = ["ROD"]

[[model]]
name = "mine"
source = "org/name"   # a comment

[[model]]
name = "other"
source = "someone/tiny"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    cached(tmp_path / "cache")
    path = tmp_path / "mine.toml"
    path.write_text(SWEEP)
    return path


def pin(file: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "orchestrator", "models", "pin", str(file), *options]
    own = {name: value for name, value in os.environ.items() if not name.startswith("HF_") or name == "HF_HUB_CACHE"}
    return subprocess.run(
        command, cwd=ROOT, env={**own, **environment}, capture_output=True, text=True, timeout=120, check=False
    )


def test_what_the_cache_has_is_pinned_offline_and_the_rest_is_named(file: Path) -> None:
    pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
    done = pin(file, HF_HUB_OFFLINE="1")

    assert done.returncode == 1, done.stderr
    assert f"mine: org/name: {COMMITS[0]} (in this machine's cache)" in done.stdout
    assert "other: someone/tiny: not pinned: " in done.stdout and "1 written to [revisions]" in done.stdout
    assert file.read_text().startswith(SWEEP)
    assert tomllib.loads(file.read_text())["revisions"] == {"mine": COMMITS[0]}


def test_the_hub_is_asked_for_the_others(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
    (tmp_path / "published").mkdir()
    with serving(Hub(tmp_path / "published", "someone/tiny", "models")) as hub:
        done = pin(file, "--json", HF_ENDPOINT=hub.address, HF_HUB_DISABLE_TELEMETRY="1")
    again = pin(file, HF_HUB_OFFLINE="1")

    assert done.returncode == 0, done.stderr
    assert [(row["model"], row["commit"]) for row in json.loads(done.stdout)] == [
        ("mine", COMMITS[0]),
        ("other", COMMIT),
    ]
    assert tomllib.loads(file.read_text())["revisions"] == {"mine": COMMITS[0], "other": COMMIT}
    assert (again.returncode, "every model is pinned" in again.stdout) == (0, True)


def test_a_sweep_that_ships_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SweepError, match="init FILE --from demo"):
        list(pin_sweep(Path("demo")))


def test_a_pin_is_a_line_with_its_revision_and_source() -> None:
    entry = ModelSpec(name="m", source="org/m")
    branch = entry.model_copy(update={"revision": "v2"})
    assert str(Pin(entry, "abc", "on the Hub")) == "m: org/m: abc (on the Hub)"
    assert str(Pin(branch, "abc", "in this machine's cache")) == "m: org/m at v2: abc (in this machine's cache)"
    assert str(Pin(entry, "", "it is offline")) == "m: org/m: not pinned: it is offline"
    assert unpinned([entry, registry()["uniform"], branch]) == [branch]


def test_plan_names_the_models_that_may_change() -> None:
    models = registry()
    some = [
        models[name]
        for name in ("uniform", "embedded", "llava-1.5-7b", "phi-4-multimodal", "idefics3-8b", "internvl3-1b")
    ]

    (sentence,) = describe_unpinned(some, "mine.toml")
    assert sentence == (
        "not pinned: llava-1.5-7b, phi-4-multimodal, idefics3-8b and 1 more: a new run loads whatever commit the Hub has then;"
        " `proactive-sweep models pin mine.toml` writes the present commits into the sweep file"
    )
    assert describe_unpinned(some[:2], "mine.toml") == []
