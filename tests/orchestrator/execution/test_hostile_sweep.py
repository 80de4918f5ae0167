"""All hostile modes in one sweep: two honest models end byte for byte as undisturbed, no worker is lost, and no key gets out."""

import json
import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.engine.openai.backend import OpenAIBackend
from actors.text.printable import UNSAFE
from orchestrator.storage.episode_store import episodes, turns
from sweeps.load import load
from tests.actors.hostile import BODIES, FINAL, KEY, MODES, pieces
from tests.actors.service import completion, service
from tests.orchestrator.cli.test_cli import call
from tests.orchestrator.report import runs

pytestmark = [pytest.mark.slow, pytest.mark.long]
HONEST = ("honest-1", "honest-2")
FINALS = {f"final-{number}": mode for number, mode in enumerate(FINAL)}
"""Model -> the mode that stops it."""
RELENTS = 1
"""Times that a mode which a caller waits out is played to one request, before an honest answer."""


class Playing:
    """Gives each new conversation of the hostile model a mode of its own, and repeats it when asked again."""

    def __init__(self) -> None:
        self.modes = [name for name in MODES if name not in FINAL]
        self.times: Counter[str] = Counter()
        self.mode_of: dict[str, str] = {}

    def __call__(self, number: int, body: dict):
        if body["model"] in HONEST:
            return completion("ABCD"[body["seed"] % 4])
        if body["model"] in FINALS:
            return MODES[FINALS[body["model"]]].answer
        about = json.dumps([body["messages"], body["seed"]])
        mode = self.mode_of.setdefault(about, self.modes[len(self.mode_of) % len(self.modes)])
        self.times[about] += 1
        return completion("A") if mode in BODIES and self.times[about] > RELENTS else MODES[mode].answer


def sweep(path: Path, data: Path, url: str, names) -> Path:
    entry = '[[model]]\nname = "{0}"\nsource = "{0}"\nin_flight = 32\n'
    entry += 'endpoint = {{ base_url = "{1}", key_env = "HOSTILE_KEY", deadline = 20.0 }}\n'
    text = f'# A test.\nname = "hostile"\ndata = "{data}"\nconditions = ["zero-shot", "hint"]\ntracking = {{ uri = "sqlite" }}\n'
    path.write_text(text + "".join(entry.format(name, url) for name in names))
    return path


def play_undisturbed(folder: Path, data: Path, file: Path) -> Path:
    """The honest models alone, played in this process."""
    alone = load(file)
    return runs.play_sweep(folder, alone, backends={model.name: OpenAIBackend(model, data) for model in alone.models})


def rows(folder: Path) -> tuple[str, str]:
    """What is stored of the honest models, less the time that it took."""
    honest = episodes(folder).filter(pl.col("model").is_in(HONEST)).drop("seconds").sort("key").collect()
    replies = turns(folder).join(honest.lazy().select("key"), on="key", how="semi").sort("key", "turn").collect()
    return honest.write_json(), replies.drop("seconds", strict=False).write_json()


def all_bytes(folder: Path) -> bytes:
    """Every byte of every file of a folder, MLflow's store among them, tables decoded as well."""
    raw = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    return raw + b"".join(pl.read_parquet(path).write_ndjson().encode() for path in folder.rglob("*.parquet"))


def test_all_modes_in_one_sweep_beside_two_honest_models(cli, demo_data, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("HOSTILE_KEY", KEY)
    cli.environment["HOSTILE_KEY"] = KEY
    playing, out = Playing(), tmp_path / "run"
    with service(playing) as server:
        baseline = play_undisturbed(
            tmp_path / "whole", demo_data, sweep(tmp_path / "a.toml", demo_data, server.url, HONEST)
        )
        file = sweep(tmp_path / "b.toml", demo_data, server.url, (*HONEST, "hostile", *FINALS))
        done = cli.run("run", file, "--output", out)
    outcomes = [call("status", out), call("report", out, "--brief"), call("track", out)]
    printed = "".join([done.stdout, done.stderr, *(outcome.output for outcome in outcomes), *capfd.readouterr()])
    driver = (out / "logs/attempt-0001/driver.log").read_text()
    stored = episodes(out).filter(pl.col("model") == "hostile").collect()

    assert set(playing.mode_of.values()) == set(playing.modes), "every mode was played"
    codes = (done.returncode, *(outcome.exit_code for outcome in outcomes))
    assert codes == (1, 0, 0, 0) and "Traceback" not in printed, printed
    assert rows(out) == rows(baseline), "honest models are undisturbed"
    assert stored.height == stored["key"].n_unique() == 140 and "failed" not in set(stored["ending"])
    assert stored.filter(ending="unprocessable")["error"].str.contains("cannot be read").any()
    assert episodes(out).filter(pl.col("model").is_in(list(FINALS))).collect().is_empty()
    lost = re.findall(r"worker \d+ of (\S+) is lost", driver)
    assert sorted(lost) == sorted(FINALS), "only a final refusal stops a worker, once"
    assert [piece for piece in pieces(KEY) if piece in all_bytes(out) + printed.encode()] == []
    logs = "".join(path.read_text() for path in (out / "logs").rglob("*.log"))
    assert not UNSAFE.search(printed + logs) and (out / "mlflow.db").stat().st_size
