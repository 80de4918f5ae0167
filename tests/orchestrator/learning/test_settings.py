"""The [train] table is strict and reports each mistake in one clear sentence."""

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli.main import app
from orchestrator.learning import run_files, settings
from orchestrator.learning.run_files import model_entry
from orchestrator.learning.settings import train_table
from sweeps.load import SweepError, build

DEMO = Path(__file__).parents[3] / "sweeps" / "demo-learning.toml"
TABLE = tomllib.loads(DEMO.read_text())
OWN = {"name": "m", "source": "builtin:embedded", "backend": "transformers"}


def read(**changed):
    return train_table({**TABLE, "train": {**TABLE["train"], **changed}}, "x.toml")


def test_the_demo_is_read_as_written():
    train = read()

    assert (train.model.name, train.scenarios, train.rp) == ("embedded", ("QD", "COCO"), 0.5)
    assert (train.groups, train.rollouts, train.steps) == (16, 8, 120)
    assert train.lora.alpha == 32 and train.states.middle == 0


def test_defaults_match_paper():
    train = train_table({"train": {"model": "qwen2.5-vl-3b", "data": "d"}}, "x.toml")

    assert (train.rollouts, train.batch, train.learning_rate, train.warmup, train.final_rate) == (8, 512, 2e-5, 0, 0.0)
    assert train.lora.model_dump() == {"r": 16, "alpha": 16, "dropout": 0.1, "targets": ("q_proj", "k_proj")}
    assert train.scenarios == ("QD", "COCO") and train.credit == "turn" and train.steps == 0
    assert train.exploration.hint == 0 and train.exploration.clone == 0 and train.kl == 0


def test_paper_file_has_paper_training():
    path = DEMO.with_name("paper-learning.toml")
    for model, overrides in (("qwen2.5-vl-3b", ()), ("llava-next-mistral-7b", ("train.workers=16",))):
        for rp in (0.5, 0.75, 1.0):
            train = settings.load(path, [f"train.model={model}", f"train.rp={rp}", *overrides]).train

            assert (train.engine, train.zero, train.rp, train.model.name) == ("trl", 3, rp, model)
            assert (train.groups, train.rollouts, train.batch, train.learning_rate) == (64, 8, 512, 2e-5)
            assert train.lora.model_dump() == {"r": 16, "alpha": 16, "dropout": 0.1, "targets": ("q_proj", "k_proj")}
            assert (train.steps, train.warmup, train.final_rate, train.kl, train.states.middle) == (0, 0, 0, 0, 1)


def test_vllm_entry_has_maximum_adapter_rank(tmp_path):
    def trained_entry(**changed):
        table = {"train": {"model": "llava-next-mistral-7b", "data": "d", **changed}}
        return model_entry(tmp_path, train_table(table, "x.toml"), tmp_path / "adapter-0")

    assert trained_entry()["options"] == {"max_model_len": 32768, "max_lora_rank": 16}
    assert trained_entry(lora={"r": 33})["options"]["max_lora_rank"] == 64
    assert "options" not in model_entry(tmp_path, read(), tmp_path / "adapter-0") and "lora" not in trained_entry(
        full=True
    )


TRL = {"engine": "trl", "exploration": {}}
MISTAKES = {
    "rp above 1": ({"rp": 1.5}, "train: rp = 1.5: input should be less than or equal to 1"),
    "rp below 0": ({"rp": -0.1}, "rp = -0.1: input should be greater than or equal to 0"),
    "a key misspelt": ({"learning_rat": 1}, "unknown key 'learning_rat'; did you mean 'learning_rate'?"),
    "a nested key misspelt": ({"lora": {"rank": 4}}, "unknown key 'lora.rank'"),
    "an unknown scenario": ({"scenarios": ["QDD"]}, "there is no scenario 'QDD'; did you mean 'QD'?"),
    "an unknown model": ({"model": "embeded"}, "there is no model 'embeded'; did you mean 'embedded'?"),
    "a policy": ({"model": "oracle"}, "oracle has no local weights"),
    "an adapter on an adapter": ({"model": "embedded-asks"}, "has an adapter already (adapter-asks)"),
    "packages of its own": (
        {"model": {**OWN, "requirements": ["transformers==5.18.0"]}},
        "m has packages of its own, and training uses the installed ones",
    ),
    "an odd batch": ({"batch": 100}, "batch = 100 is not a multiple of rollouts = 8"),
    "hints alone": ({"exploration": {"hint": 1.0}}, "exploration.hint leaves no reply to the question without hint"),
    "no state": ({"states": {"hidden": 0, "middle": 0, "clear": 0}}, "draws no state"),
    "one reply a group": ({"rollouts": 1}, "rollouts = 1: input should be greater than or equal to 2"),
    "hints with trl": ({"engine": "trl"}, 'engine = "trl" asks one question per group'),
    "episodes with trl": (
        {**TRL, "credit": "episode"},
        'does not support credit = "episode"; leave it out, or set engine',
    ),
    "views of unequal weight with trl": (
        {**TRL, "states": {"hidden": 2}},
        "does not support unequal weights of states",
    ),
    "workers of the native engine": ({"workers": 2}, 'workers and zero are settings of engine = "trl"'),
    "half groups": ({**TRL, "workers": 3}, "does not give each of 3 workers whole groups of 8"),
    "ZeRO in one process": (
        {**TRL, "zero": 3, "model": "qwen2.5-vl-3b"},
        "zero = 3 spreads weights over the GPUs of several workers",
    ),
    "ZeRO without GPUs": (
        {**TRL, "zero": 3, "workers": 2},
        "set workers above 1 for a model that takes gpus, or leave zero out",
    ),
    "an unknown stage": ({**TRL, "zero": 1}, "zero = 1"),
    "an unknown credit": ({"credit": "token"}, "credit = 'token'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_refused_in_one_line(name):
    changed, message = MISTAKES[name]
    with pytest.raises(SweepError) as error:
        read(**changed)

    assert message in str(error.value) and str(error.value).startswith("x.toml: ") and "\n" not in str(error.value)


def test_file_without_train_table_is_refused():
    with pytest.raises(SweepError, match=r"x.toml has no \[train\] table"):
        train_table({}, "x.toml")


def test_run_plays_a_file_with_a_train_table():
    assert [model.name for model in build(TABLE, "x.toml").models] == ["embedded"]


def test_overrides_reach_the_table():
    training = settings.load(DEMO, ["train.rp=0.75", "train.lora.r=4", "data=elsewhere"])

    assert (training.train.rp, training.train.lora.r, training.sweep.data) == (0.75, 4, "elsewhere")


def test_settings_hold_what_changes_weights_without_intervals():
    assert read().settings == read(checkpoint_every=7, evaluate_every=3, evaluate_samples=2).settings
    for changed in ({"rp": 0.75}, {"seed": 1}, {"exploration": {"hint": 0.25}}, {"lora": {"r": 4}}, {"kl": 0.1}):
        assert read(**changed).settings != read().settings


def test_folder_belongs_to_settings_of_first_checkpoint(tmp_path):
    run_files.claim(tmp_path, read(lora={"targets": ["q_porj"]}))
    run_files.claim(tmp_path, read())
    for name in ("checkpoint-2", "checkpoint.pt", "model.toml"):
        (tmp_path / name).mkdir()
        with pytest.raises(
            SweepError, match=r"holds a training with other settings: rp was 0\.5, now it is 0\.75; pass another"
        ):
            run_files.claim(tmp_path, read(rp=0.75))
        run_files.claim(tmp_path, read())
        (tmp_path / name).rmdir()


def run_command(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_commands_report_mistakes_without_traceback(tmp_path):
    for arguments, message in {
        ("train", DEMO, "--set", "train.rp=2"): "rp = 2: input should be less than or equal to 1",
        ("train", DEMO, "--output", "s3://a/b"): "s3://a/b is a bucket",
        ("train", "sweeps/baselines.toml"): "has no [train] table",
        ("report", "--learned", tmp_path): "holds no run",
        ("run", DEMO, "--model", tmp_path / "m.toml"): "there is no sweep file",
        ("data", "fetch", tmp_path / "d", "--split", "dev"): "--split 'dev' is neither test nor train",
        ("data", "demo", tmp_path / "d2", "--scenarios", "QX"): "there is no scenario 'QX'",
    }.items():
        done = run_command(*arguments)
        assert done.exit_code == 2 and message in done.output and "Traceback" not in done.output, done.output


def test_training_on_test_samples_is_refused_before_model_loads(demo_data, tmp_path):
    options = ("--set", f"data={demo_data}", "--set", f"train.data={demo_data}", "--output", tmp_path / "run")
    done = run_command("train", DEMO, *options)

    assert done.exit_code == 2 and "name a folder without test samples as train.data" in done.output
    assert not (tmp_path / "run/checkpoint.pt").exists()


@pytest.mark.parametrize("changed", [{"engine": "trl"}, {"model": "embedded"}, {"full": True}])
def test_vllm_samples_only_for_adapters_of_its_own_models_in_the_native_engine(changed):
    table = {"model": "qwen2.5-vl-3b", "data": "d", "sampler": "vllm"}

    assert train_table({"train": table}, "x.toml").sampler == "vllm"
    with pytest.raises(SweepError, match='sampler = "vllm" samples for engine = "native" with adapters'):
        train_table({"train": {**table, **changed}}, "x.toml")


def test_settings_of_a_training_left_to_its_defaults():
    train = train_table({"train": {"model": "qwen2.5-vl-3b", "data": "d"}}, "x.toml")

    assert {name: value for name, value in train.settings.items() if name != "model"} == {
        "data": "d", "scenarios": ["QD", "COCO"], "samples": None, "engine": "native", "sampler": "transformers", "workers": 1,
        "zero": 0, "rp": 0.5, "states.hidden": 1.0, "states.middle": 1.0, "states.clear": 1.0, "rollouts": 8, "batch": 512,
        "steps": 0, "at_once": 16, "learning_rate": 2e-5, "warmup": 0, "final_rate": 0.0, "full": False, "lora.r": 16,
        "lora.alpha": 16, "lora.dropout": 0.1, "lora.targets": ["q_proj", "k_proj"], "temperature": 1.0, "max_tokens": 50,
        "exploration.hint": 0.0, "exploration.until": 0.5, "exploration.clone": 0, "credit": "turn", "gamma": 0.95, "kl": 0.0,
        "shuffle_rewards": False, "seed": 0,
    }  # fmt: skip
    assert (train.checkpoint_every, train.evaluate_every, train.evaluate_samples) == (20, 0, 10)


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [("rp", 0, 1), ("temperature", None, 2), ("learning_rate", None, 1), ("gamma", None, 1), ("final_rate", 0, 1),
     ("kl", 0, None), ("warmup", 0, None), ("steps", 0, None), ("evaluate_every", 0, None), ("workers", 1, None)],
)  # fmt: skip
def test_numbers_of_a_training_are_accepted_up_to_their_bounds(field, least, most):
    table = {"model": "qwen2.5-vl-3b", "data": "d"}
    for value, beyond in (
        (least, -1e-9 if field in ("rp", "kl", "final_rate") else (least or 0) - 1),
        (most, (most or 0) + 1e-9),
    ):
        if value is not None:
            assert getattr(train_table({"train": {**table, field: value}}, "x.toml"), field) == value
            with pytest.raises(SweepError, match=field):
                train_table({"train": {**table, field: beyond}}, "x.toml")
    if least is None:
        with pytest.raises(SweepError, match="greater than 0"):
            train_table({"train": {**table, field: 0}}, "x.toml")
