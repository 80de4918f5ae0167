"""New checkpoints are scored once, in the order of their steps, and compared with the first on the same samples."""

import json
import os
import shutil
from pathlib import Path

import pytest

import proactive_demo
from actors.engine.registry import open_engine
from envs.errors import UserError
from proactive_bridges import watch as watching
from proactive_bridges.watch import describe_score, find_checkpoints, read_scores, watch

OPTIONS = {"data": "", "condition": "zero-shot", "scenarios": "QD", "limit": 3, "base": ""}


def save(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"{}")


def test_complete_checkpoints_are_listed_by_step(tmp_path):
    for step in (10, 2, 30):
        save(tmp_path / f"checkpoint-{step}", "config.json", *(["model.safetensors"] if step < 30 else []))

    assert [path.name for path in find_checkpoints(tmp_path, 0.0)] == ["checkpoint-2", "checkpoint-10"]
    assert find_checkpoints(tmp_path, 60.0) == {}, "still being written"
    with pytest.raises(UserError, match="is no folder"):
        watch(tmp_path / "nowhere")


def test_what_a_training_saves_at_its_end_comes_last(tmp_path):
    """TRL's ``save_model`` writes into the folder itself, and ``train`` into one that is named by a hash."""
    adapter = "adapter_config.json", "adapter_model.safetensors"
    names = ["stage2", "checkpoint-900", "checkpoint-100000", "adapter-3f09c1d2"]
    for folder in (tmp_path, *(tmp_path / name for name in names)):
        save(folder, *adapter)

    assert list(find_checkpoints(tmp_path, 0.0)) == [*(tmp_path / name for name in names), tmp_path]


def test_a_checkpoint_that_is_removed_before_its_turn_is_skipped(tmp_path, capsys):
    """``save_total_limit`` keeps only the last ones; a broken checkpoint that is still there is an error."""
    for step in (1, 2):
        save(tmp_path / f"checkpoint-{step}", "adapter_config.json", "adapter_model.bin")
    (removed, left), options = find_checkpoints(tmp_path, 0.0).items(), {**OPTIONS, "conditions": "zero-shot"}
    shutil.rmtree(removed[0])
    watching._score_unless_removed(tmp_path / "watch/checkpoint-1", *removed, options, "")

    assert capsys.readouterr().out.startswith("checkpoint-1: removed by the training before it was scored (")
    with pytest.raises(UserError, match="names no base model; name it by --base"):
        watching._score_unless_removed(tmp_path / "watch/checkpoint-2", *left, options, "")


def test_a_second_training_does_not_get_the_scores_of_the_first(tmp_path):
    save(checkpoint := tmp_path / "checkpoint-5", "config.json", "model.safetensors")
    (tmp_path / "watch").mkdir()
    score = {"checkpoint": checkpoint.name, "saved": watching.saved_at(checkpoint)}
    (tmp_path / "watch/scores.jsonl").write_text(json.dumps(score) + "\n{torn")
    watch(tmp_path, once=True, **OPTIONS)
    os.utime(checkpoint / "model.safetensors", (1, 1))

    assert read_scores(tmp_path) == [score]
    with pytest.raises(UserError, match="was saved again"):
        watch(tmp_path, once=True, **OPTIONS)


def save_embedded(folder):
    weights = Path(proactive_demo.__file__).parent / "embedded"
    shutil.copytree(weights, folder, ignore=shutil.ignore_patterns("training", "adapter-*", "*.py"), dirs_exist_ok=True)


@pytest.mark.slow
@pytest.mark.long
def test_a_training_logs_its_scores_and_goes_on_without_one(demo_data, tmp_path, capsys):
    transformers = pytest.importorskip("transformers", reason="the extra `transformers` is not installed")
    from proactive_bridges.trl_callback import ScoreCheckpoints

    save_embedded(tmp_path / "checkpoint-7")
    state = transformers.TrainerState(global_step=7)
    arguments = transformers.TrainingArguments(tmp_path, use_cpu=True, report_to="none")
    for limit in (0, 2):
        callback = ScoreCheckpoints(str(demo_data), scenarios="QD", limit=limit)
        callback.on_save(arguments, state, transformers.TrainerControl())
        assert len(state.log_history) == bool(limit), "no sample is no default number of samples"

    (score,) = read_scores(tmp_path)
    logged = {"proactive_accuracy": score["acc"], "proactive_suggestions": score["ps"], "step": 7}
    assert state.log_history == [logged] and "the training continues" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.long
def test_equal_checkpoints_have_no_change_and_a_removed_one_is_skipped(demo_data, tmp_path, capsys, monkeypatch):
    folders = {name: tmp_path / name for name in ("checkpoint-1", "checkpoint-2", "checkpoint-3", "")}
    for folder in folders.values():
        save_embedded(folder)

    def open_removed(model, data):
        if model.source.endswith("checkpoint-2"):
            shutil.rmtree(folders["checkpoint-2"])
        return open_engine(model, data)

    monkeypatch.setattr(watching, "open_engine", open_removed)
    for _ in range(2):
        watch(tmp_path, once=True, **OPTIONS | {"data": str(demo_data)})
    first, third, final = read_scores(tmp_path)

    assert (third["first"], third["change"]["difference"], third["change"]["n"]) == ("checkpoint-1", 0.0, 3)
    assert (final["checkpoint"], final["change"]["difference"]) == ("final", 0.0)
    skipped, *rest = sorted(capsys.readouterr().out.splitlines(), key=lambda line: "skipped" not in line)
    assert skipped.startswith("checkpoint-2: removed by the training before it was scored (")
    assert rest == [describe_score(score) for score in (first, third, final)]
