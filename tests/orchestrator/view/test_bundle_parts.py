"""The files of a bundle, without a browser: numbers of pictures, columns, and what the page is told about them."""

from __future__ import annotations

import html
import json
import re
import zlib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from envs.errors import RunFolderError
from orchestrator.storage.episode_store import episodes, turns
from orchestrator.view import bundle
from orchestrator.view.bundle import BundleTotals, PictureWriter, write_bundle
from orchestrator.view.part_columns import ACTIONS, FLAGS, KINDS
from tests.orchestrator.report.runs import play_sweep, sweep


@pytest.fixture(scope="module")
def run(demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    wanted = sweep(demo_data, ["oracle", "uniform"], ["hint"], scenarios=["ROD", "QD"], selection={"limit": 2})
    return play_sweep(tmp_path_factory.mktemp("bundled") / "run", wanted)


def page_facts(target: Path) -> dict[str, Any]:
    """Return what the page's script reads of the bundle."""
    page = (target / "index.html").read_text("utf-8")
    (content,) = re.findall(r'<script type="application/json" id="content">(.*?)</script>', page)
    facts: dict[str, Any] = json.loads(content)
    return facts


def test_pictures_are_numbered_across_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "FILE_PICTURES", 2)
    writer = PictureWriter(tmp_path)
    assert [writer.add(bytes([number])) for number in range(5)] == [0, 1, 2, 3, 4]
    assert (writer.total, len(writer.file_sizes)) == (5, 2)
    writer.flush()
    writer.flush()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"pictures-000{number}.parquet" for number in range(3)]
    stored = [pl.read_parquet(tmp_path / name)["picture"].to_list() for name in names]
    assert stored == [[b"\0", b"\1"], [b"\2", b"\3"], [b"\4"]]
    assert writer.file_sizes == [(tmp_path / name).stat().st_size for name in names]


def test_a_bundle_has_every_episode_once_and_the_page_knows_its_parts(
    run: Path, demo_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "FILE_EPISODES", 3)
    target = tmp_path / "new" / "out"
    states = list(write_bundle({"<run>": run}, demo_data, target))
    stored = episodes(run).collect()
    assert [state.episodes for state in states] == [3, 6, 8, 8]
    assert states[-1] == BundleTotals(8, states[-1].pictures, sum(path.stat().st_size for path in target.iterdir()))
    assert states[-1].pictures > 0 and [state.bytes for state in states] == sorted(state.bytes for state in states)

    parts = [pl.read_parquet(target / f"episodes-000{number}.parquet") for number in range(3)]
    assert [part.height for part in parts] == [3, 3, 2] and parts[0].columns == ["view", "replies"]
    views = [json.loads(text)["episode"] for part in parts for text in part["view"]]
    assert {view["key"] for view in views} == set(stored["key"]) and {view["run"] for view in views} == {"<run>"}
    replies = dict(turns(run).sort("key", "turn").group_by("key").agg("reply").collect().iter_rows())
    texts = [text for part in parts for text in part["replies"]]
    assert texts == ["\0".join(replies[view["key"]]) for view in views]

    rows = pl.read_parquet(target / "list.parquet")
    assert rows.columns == [
        "cell", "sample", "kind", "right", "turns", "flags", "seconds", "read", "written", "hash",
    ]  # fmt: skip
    assert rows["hash"].to_list() == [zlib.crc32(view["key"].encode()) for view in views]
    facts = page_facts(target)
    about = facts["bundle"]
    assert facts["labeler"] == "" and about["version"] == f"{zlib.crc32((target / 'list.parquet').read_bytes()):08x}"
    assert {name: about[name] for name in ("total", "planned", "file_episodes", "file_pictures", "kinds", "outcomes")} == {
        "total": 8, "planned": 8, "file_episodes": 3, "file_pictures": 2048, "kinds": list(KINDS),
        "outcomes": {"right": 1, "not right": 0, "without a score": -1},
    }  # fmt: skip
    assert about["list_bytes"] == (target / "list.parquet").stat().st_size
    assert about["episode_bytes"] == [(target / f"episodes-000{number}.parquet").stat().st_size for number in range(3)]
    assert about["actions"] == {label: int(flag) for flag, label in ACTIONS.items()}
    assert about["flags"] == {label: int(flag) for flag, label in FLAGS.items()}
    assert about["orders"] == {
        "run": ["<run>"], "model": about["orders"]["model"], "scenario": ["ROD", "QD"], "condition": ["hint"],
        "protocol": ["mcqa"],
    }  # fmt: skip
    assert sorted(about["orders"]["model"]) == ["oracle", "uniform"] and len(about["cells"]) == 4
    assert about["cells"][0].keys() == {"run", "model", "scenario", "condition", "protocol"}
    page = (target / "index.html").read_text("utf-8")
    assert f"{bundle.POLICY}; style-src 'sha256-" in html.unescape(page) and "<run>" not in page
    assert (target / "README.md").read_text() == bundle.README


def test_a_bundle_without_pictures_has_no_file_of_them(run: Path, demo_data: Path, tmp_path: Path) -> None:
    (*_, last) = write_bundle({"run": run}, demo_data, tmp_path / "out", with_pictures=False)
    assert last.pictures == 0 and not list((tmp_path / "out").glob("pictures-*"))
    assert page_facts(tmp_path / "out")["bundle"]["picture_bytes"] == []


def test_a_bundle_is_written_into_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("")
    for target in (tmp_path / "full", tmp_path / "full/file"):
        with pytest.raises(RunFolderError) as refused:
            bundle._make_folder(target)
        assert str(refused.value) == f"{target} already exists; name a new folder for --bundle"
    with pytest.raises(RunFolderError) as refused:
        bundle._make_folder(tmp_path / "full/file/out")
    assert str(refused.value) == f"{tmp_path / 'full/file/out'} cannot be written: Not a directory"
    (tmp_path / "empty").mkdir()
    bundle._make_folder(tmp_path / "empty")
    bundle._make_folder(tmp_path / "a/b")
    assert (tmp_path / "a/b").is_dir()
