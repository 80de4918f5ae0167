"""New checkpoints are scored once, in the order of their steps, and compared with the first on the same samples."""

import shutil
from pathlib import Path

import pytest

import proactive_demo
from envs.errors import UserError
from proactive_bridges.watch import describe_score, find_checkpoints, read_scores, watch


def test_complete_checkpoints_are_listed_by_step(tmp_path):
    for step in (10, 2, 30):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}/config.json").write_text("{}")
    for step in (10, 2):
        (tmp_path / f"checkpoint-{step}/model.safetensors").write_bytes(b"w")

    assert [path.name for path in find_checkpoints(tmp_path, 0.0)] == ["checkpoint-2", "checkpoint-10"]
    assert find_checkpoints(tmp_path, 60.0) == [], "still being written"
    with pytest.raises(UserError, match="is no folder"):
        watch(tmp_path / "nowhere")


@pytest.mark.slow
@pytest.mark.long
def test_equal_checkpoints_have_no_change(demo_data, tmp_path, capsys):
    weights = Path(proactive_demo.__file__).parent / "embedded"
    for step in (1, 2):
        shutil.copytree(weights, tmp_path / f"checkpoint-{step}", ignore=shutil.ignore_patterns("training", "*.py"))
    options = {"data": str(demo_data), "condition": "zero-shot", "scenarios": "QD", "limit": 3, "base": ""}
    for _ in range(2):
        watch(tmp_path, once=True, **options)
    first, second = read_scores(tmp_path)

    assert (second["first"], second["change"]["difference"], second["change"]["n"]) == ("checkpoint-1", 0.0, 3)
    assert capsys.readouterr().out.splitlines() == [describe_score(first), describe_score(second)]
