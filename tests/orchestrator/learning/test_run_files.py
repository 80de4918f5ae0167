"""The files of a training, written without a model: settings, rollouts, their measures, and the trained model's entry."""

from dataclasses import replace
from hashlib import blake2b

import polars as pl
import pytest

from envs.types import Action
from orchestrator.learning import run_files
from orchestrator.learning.rollouts import Rollout
from orchestrator.learning.run_files import (
    ROLLOUT_SCHEMA,
    claim,
    has_steps,
    model_entry,
    publish,
    read_train_table,
    remove_rollouts,
    rollout_measures,
    rollout_rows,
    vllm_lora_rank,
    weights_digest,
    write_rollouts,
)
from orchestrator.learning.settings import TrainError, train_table
from orchestrator.learning.states import ReplyOutcome, SampledReply, load_states
from tests.orchestrator.learning.rollout_files import read_rollouts


@pytest.fixture(scope="module")
def state(demo_data):
    return load_states(demo_data, ("QD",), 1, 0)[0]


def train(**more):
    return train_table({"train": {"model": "embedded", "data": "d", "steps": 10, **more}}, "x.toml")


def rollout(state, group=0, **changed):
    outcome = ReplyOutcome(Action.CATEGORY, True, False)
    plain = Rollout(state, group, "plain", SampledReply((5, 2, 9), -1.5), "B", outcome, 1.0, 0.5)
    return replace(plain, **changed)


def test_a_row_holds_a_reply_and_what_became_of_it(state):
    ask = ReplyOutcome(Action.SUGGESTION, False, True)
    first, second = rollout_rows(
        7, [rollout(state, 3), rollout(state, 4, variant="hint", outcome=ask, reward=0.25, advantage=None)]
    )

    assert first == {
        "step": 7, "group": 3, "state": state.key, "scenario": "QD", "kind": state.kind, "variant": "plain", "reply": "B",
        "action": "category", "right": True, "asked": False, "reward": 1.0, "advantage": 0.5, "logprob": -1.5, "tokens": 3,
    }  # fmt: skip
    assert [second[name] for name in ("group", "variant", "action", "right", "asked", "reward", "advantage")] == [
        4, "hint", "suggestion", False, True, 0.25, None,
    ]  # fmt: skip
    assert list(first) == list(ROLLOUT_SCHEMA)


def test_parts_of_a_killed_attempt_are_removed_from_its_last_checkpoint_on(state, tmp_path):
    for first in (0, 5, 10, 15):
        write_rollouts(tmp_path, first, first + 4, rollout_rows(first, [rollout(state)]))
    write_rollouts(tmp_path, 20, 24, [])
    names = [path.name for path in sorted((tmp_path / "rollouts").iterdir())]
    assert names == [f"steps-{first:06d}-{first + 4:06d}.parquet" for first in (0, 5, 10, 15)]

    remove_rollouts(tmp_path, 10)
    assert read_rollouts(tmp_path)["step"].to_list() == [0, 5]
    remove_rollouts(tmp_path / "nowhere", 0)
    assert read_rollouts(tmp_path).schema == pl.Schema(ROLLOUT_SCHEMA)


def test_measures_are_of_plain_questions_and_live_groups(state):
    rows = pl.DataFrame(rollout_rows(0, [rollout(state)] * 8), schema=ROLLOUT_SCHEMA).with_columns(
        group=pl.Series([0, 0, 1, 1, 2, 2, 2, 2]),
        kind=pl.Series(["hidden"] * 4 + ["clear"] * 4),
        variant=pl.Series(["plain", "plain", "plain", "hint", "plain", "plain", "hint", "plain"]),
        action=pl.Series(
            ["suggestion", "category", "suggestion", "suggestion", "category", "category", "category", "suggestion"]
        ),
        right=pl.Series([False, True, False, True, True, False, True, False]),
        reward=pl.Series([1.0, 0.5, 0.0, 0.5, 1.0, 0.0, 1.0, 0.0]),
        advantage=pl.Series([0.5, None, None, None, 0.1, 0.1, 0.1, 0.1]),
    )

    assert rollout_measures(rows) == {
        "reward": 0.5, "live_groups": pytest.approx(2 / 3), "asks_hidden": pytest.approx(200 / 3),
        "right_hidden": pytest.approx(100 / 3), "asks_clear": pytest.approx(100 / 3), "right_clear": pytest.approx(100 / 3),
    }  # fmt: skip
    assert rollout_measures(rows.filter(kind="hidden")).keys() == {
        "reward",
        "live_groups",
        "asks_hidden",
        "right_hidden",
    }


def test_a_folder_belongs_to_one_set_of_settings(tmp_path):
    claim(tmp_path, train())
    claim(tmp_path, train(rp=0.5))
    assert read_train_table(tmp_path)["rp"] == 0.5, "without a step, other settings take the folder"
    assert not has_steps(tmp_path)
    (tmp_path / "checkpoint-5").mkdir()
    claim(tmp_path, train(rp=0.5))
    with pytest.raises(TrainError) as refusal:
        claim(tmp_path, train(rp=1.0))
    assert str(refusal.value) == (
        f"{tmp_path} holds a training with other settings: rp was 0.5, now it is 1.0; pass another --output"
    )
    (tmp_path / "train.resolved.toml").write_text("x = 1")
    with pytest.raises(
        TrainError, match=r"train\.resolved\.toml cannot be read as settings of a training; pass another --out"
    ):
        claim(tmp_path, train())
    with pytest.raises(TrainError, match="has no training; `proactive-sweep train` writes one"):
        read_train_table(tmp_path)


@pytest.mark.parametrize("name", ["checkpoint.pt", "model.toml", "checkpoint-12"])
def test_a_checkpoint_of_either_engine_or_a_model_is_a_sign_of_steps(name, tmp_path):
    (tmp_path / "rollouts").mkdir()
    assert not has_steps(tmp_path)
    (tmp_path / name).mkdir()
    assert has_steps(tmp_path)


def test_at_most_six_differences_are_named(tmp_path):
    (tmp_path / "model.toml").touch()
    claim(tmp_path, train())
    changed = {
        "rp": 0.1,
        "seed": 5,
        "batch": 40,
        "rollouts": 4,
        "steps": 3,
        "credit": "episode",
        "shuffle_rewards": True,
    }
    with pytest.raises(TrainError) as refusal:
        claim(tmp_path, train(**changed))
    assert str(refusal.value).count("; ") == 6 and str(refusal.value).count(", now it is ") == 6


def write_weights(content):
    def save(folder):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(content)
        (folder / "adapter_config.json").write_bytes(b"{}")

    return save


def test_other_weights_are_another_folder_and_replace_the_older(tmp_path):
    paths = []
    for content in (b"one", b"two", b"two"):
        assert publish(tmp_path, train(), write_weights(content)) == tmp_path / "model.toml"
        paths.append([path.name for path in tmp_path.iterdir() if path.is_dir()])
    digests = [blake2b(content, digest_size=8).hexdigest() for content in (b"one", b"two")]

    assert paths == [[f"adapter-{digests[0]}"], [f"adapter-{digests[1]}"], [f"adapter-{digests[1]}"]]
    assert f"adapter-{digests[1]}" in (tmp_path / "model.toml").read_text()
    assert weights_digest(tmp_path / paths[1][0]) == digests[1]


def test_weights_in_parts_are_hashed_in_the_order_of_their_names(tmp_path):
    for name, content in (("b", b"two" * 500_000), ("a", b"one")):
        (tmp_path / f"{name}.safetensors").write_bytes(content)
    (tmp_path / "notes.txt").write_text("x")

    assert weights_digest(tmp_path) == blake2b(b"one" + b"two" * 500_000, digest_size=8).hexdigest()


def test_a_trained_model_is_its_base_with_an_adapter_or_new_weights(tmp_path):
    folder = tmp_path / "my run+1"
    weights = folder / "adapter-0"
    adapter = model_entry(folder, train(rp=0.75, seed=3), weights)
    whole = model_entry(folder, train(full=True), weights)

    assert adapter["name"] == whole["name"] == "embedded-my-run+1"
    assert (adapter["source"], adapter["lora"]) == ("builtin:embedded", str(weights)) and "options" not in adapter
    assert adapter["note"].startswith("embedded trained on ") and adapter["note"].endswith(" with rp 0.75, seed 3")
    assert whole["source"] == str(weights) and "lora" not in whole and "revision" not in whole and "paper" not in whole


@pytest.mark.parametrize(("r", "rank"), [(1, 16), (16, 16), (17, 32), (256, 256), (257, 320), (512, 512)])
def test_vllm_holds_an_adapter_in_the_next_rank_it_knows(r, rank):
    assert vllm_lora_rank(r) == rank


def test_files_have_the_names_that_older_trainings_wrote():
    names = (run_files.RESOLVED, run_files.CHECKPOINT, run_files.ROLLOUTS, run_files.MODEL)
    assert names == ("train.resolved.toml", "checkpoint.pt", "rollouts", "model.toml")
