"""The [train] table is strict, and a folder belongs to one set of settings."""

import tomllib

import pytest
from typer.testing import CliRunner

from orchestrator.cli.main import build_app
from proactive_learn import commands, run_files, settings
from proactive_learn.commands import SWEEPS
from proactive_learn.run_files import RESOLVED, publish, read_train_table
from proactive_learn.settings import REMOVED, TrainError, train_table
from sweeps.load import SweepError, load
from sweeps.sweep_file import read_toml

DEMO = SWEEPS / "demo-learning.toml"
TABLE = tomllib.loads(DEMO.read_text())
OWN = {"name": "m", "source": "builtin:embedded", "backend": "transformers"}


def read(**changed):
    return train_table({**TABLE, "train": {**TABLE["train"], **changed}}, "x.toml")


@pytest.mark.parametrize("model", ["qwen2.5-vl-3b", "llava-next-mistral-7b"])
def test_defaults_and_the_papers_file_are_the_papers_training(model):
    by_file = settings.load(DEMO.with_name("paper-learning.toml"), [f"train.model={model}", "train.rp=0.75"]).train
    by_default = train_table({"train": {"model": model, "data": "data/ProactiveBench/train", "rp": 0.75}}, "x.toml")

    assert by_file.model_copy(update={"at_once": 16}) == by_default
    assert (by_file.groups, by_file.rollouts, by_file.batch, by_file.learning_rate) == (64, 8, 512, 2e-5)
    assert by_file.lora.model_dump() == {"r": 16, "alpha": 16, "dropout": 0.1, "targets": ("q_proj", "k_proj")}
    assert (by_file.steps, by_file.kl, by_file.exploration.hint, by_file.scenarios) == (0, 0, 0, ("QD", "COCO"))


MISTAKES = {
    "rp above 1": ({"rp": 1.5}, "less than or equal to 1"),
    "a misspelt key": ({"learning_rat": 1}, "did you mean 'learning_rate'"),
    "an unknown scenario": ({"scenarios": ["QDD"]}, "did you mean 'QD'"),
    "a policy": ({"model": "oracle"}, "no local weights"),
    "packages of its own": ({"model": {**OWN, "requirements": ["transformers==5.18.0"]}}, "leave requirements out"),
    "an odd batch": ({"batch": 100}, "not a multiple of rollouts"),
    "hints alone": ({"exploration": {"hint": 1.0}}, "take a smaller share"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_with_its_key(name):
    changed, message = MISTAKES[name]
    with pytest.raises(SweepError) as error:
        read(**changed)

    assert message in str(error.value) and str(error.value).startswith("x.toml: ") and "\n" not in str(error.value)


@pytest.mark.parametrize("key", REMOVED)
def test_a_key_of_an_earlier_release_is_refused_by_name(key):
    with pytest.raises(TrainError, match=rf"train: leave {key} out, which 0\.2\.0 was the last to take"):
        read(**({"exploration": {key: 1}} if key == "clone" else {key: 1}))


def test_settings_hold_what_changes_weights():
    assert read().settings == read(checkpoint_every=7).settings
    for changed in ({"rp": 0.75}, {"seed": 1}, {"exploration": {"hint": 0.25}}, {"lora": {"r": 4}}, {"kl": 0.1}):
        assert read(**changed).settings != read().settings
    overridden = settings.load(DEMO, ["train.rp=0.75", "train.lora.r=4", "data=elsewhere"])
    assert (overridden.train.rp, overridden.train.lora.r, overridden.sweep.data) == (0.75, 4, "elsewhere")


def test_a_folder_belongs_to_the_settings_of_its_first_step(tmp_path):
    run_files.claim(tmp_path, read(rp=0.75))
    run_files.claim(tmp_path, read())
    assert read_train_table(tmp_path)["rp"] == 0.5, "without a step, other settings take the folder"
    for name in ("checkpoint-2", "checkpoint.pt", "model.toml"):
        (tmp_path / name).mkdir()
        with pytest.raises(TrainError, match=r"rp was 0\.5, now it is 0\.75; pass another --output"):
            run_files.claim(tmp_path, read(rp=0.75))
        run_files.claim(tmp_path, read())
        (tmp_path / name).rmdir()
    (tmp_path / "model.toml").touch()
    (tmp_path / RESOLVED).write_text("x = 1")
    with pytest.raises(TrainError, match="pass another --output"):
        run_files.claim(tmp_path, read())
    with pytest.raises(TrainError, match="has no training"):
        read_train_table(tmp_path)


def test_other_weights_are_another_folder_and_another_model(tmp_path):
    checkpoint = tmp_path / "checkpoint-3"
    checkpoint.mkdir()
    (tmp_path / "checkpoint-9").mkdir()  # killed before its state was written
    (checkpoint / "trainer_state.json").write_text('{"global_step": 3}')
    (checkpoint / "optimizer.pt").write_bytes(b"x")
    identities = []
    for content in (b"one", b"two", b"two"):
        (checkpoint / "adapter_model.safetensors").write_bytes(content)
        path = publish(tmp_path, read(rp=0.75))
        (adapter,) = tmp_path.glob("adapter-*")
        assert [file.name for file in adapter.iterdir()] == ["adapter_model.safetensors"]
        entry = load(DEMO, [], read_toml(path)["model"]).models[1]
        assert (entry.name, entry.source, entry.lora) == (f"embedded-{tmp_path.name}", "builtin:embedded", str(adapter))
        identities.append(entry.identity)
    assert identities[0] != identities[1] == identities[2]


def test_commands_report_mistakes_without_traceback(demo_data, tmp_path):
    app = build_app()
    app.command("train")(commands.train)
    own = ("--set", f"data={demo_data}", "--set", f"train.data={demo_data}")
    for arguments, message in {
        (DEMO, "--output", "s3://a/b"): "s3://a/b is a bucket",
        ("sweeps/demo.toml",): "has no [train] table",
        (DEMO, *own, "--output", tmp_path / "run"): "name a folder without test samples",
    }.items():
        done = CliRunner().invoke(app, ["train", *map(str, arguments)])
        assert done.exit_code == 2 and message in done.output and "Traceback" not in done.output, done.output
