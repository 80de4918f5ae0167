"""Pictures that are missing, cut, empty, huge or no pictures end their own episodes with a reason, and nobody else's."""

from __future__ import annotations

import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from envs import SCENARIOS
from envs.samples import load_samples
from envs.types import Mode
from orchestrator.storage.episode_store import episodes

pytest.importorskip("proactive_demo", reason="the extra `demo` is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.long]


def write_bomb(path: Path) -> None:
    """A few bytes that decode to 3.6 thousand million pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b""))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def link_outside(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "truncated": truncate,
    "text": lambda path: path.write_text("<html>404</html>"),
    "huge": write_bomb,
    "outside": link_outside,
}


def sweep(path: Path, data: Path, workers: int) -> Path:
    path.write_text(
        f'# A test.\nname = "pictures"\ndata = "{data}"\nconditions = ["reference"]\nscenarios = ["QD", "ROD"]\n'
        f'models = ["embedded"]\ntracking = {{ uri = "none" }}\ncluster = {{ workers = {workers} }}\n'
    )
    return path


def test_damaged_pictures_end_their_own_episodes_only(ground, check_survival, demo_data, tmp_path):
    pytest.importorskip("transformers", reason="pip install 'proactive-sweep[transformers]'")
    intact = tmp_path / "intact"
    assert ground.run("run", sweep(tmp_path / "i.toml", demo_data, 2), "--output", intact).returncode == 0
    data_folder, hurt = tmp_path / "data", {}
    shutil.copytree(demo_data, data_folder)
    game = SCENARIOS["QD"]
    for sample, (name, damage) in zip(load_samples(data_folder, "QD", True), DAMAGE.items(), strict=False):
        hurt[sample.id] = name
        damage(data_folder / game.view(sample, game.initial(sample, Mode.REFERENCE)).image.path)
    results = []
    for workers in (1, 2):
        out = tmp_path / f"run-{workers}"
        done = ground.run("run", sweep(tmp_path / f"{workers}.toml", data_folder, workers), "--output", out)
        assert done.returncode == 0, done.stderr
        results.append((out / "results.json").read_bytes())

    columns = ["scenario", "sample_id", "ending", "turns", "error"]
    damaged, before = (episodes(run).select(columns).collect() for run in (out, intact))
    lost = damaged.filter(pl.col("ending") == "unprocessable")
    reasons = {hurt[row["sample_id"]]: row["error"] for row in lost.iter_rows(named=True)}
    assert set(reasons) == set(DAMAGE) and lost["scenario"].unique().to_list() == ["QD"]
    assert all(text and str(tmp_path) not in text and "Traceback" not in text for text in reasons.values()), reasons
    unaffected = damaged.join(lost, on=["scenario", "sample_id"], how="anti").sort(columns[:2])
    assert unaffected.equals(before.join(lost, on=["scenario", "sample_id"], how="anti").sort(columns[:2]))
    check_survival("pictures missing, empty, cut, huge, none, outside", out, results[0] == results[1], planned=20)
