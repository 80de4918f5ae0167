"""A model is played by one line without a sweep file: its entry, its data, the file that is written, and the same line again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envs.errors import UserError
from orchestrator.cli import sweep_source
from orchestrator.storage import lock
from sweeps.checkpoint import Checkpoint
from sweeps.load import load
from sweeps.own_model import Machine, choose_engine, read_entries
from tests.orchestrator.cli.test_cli import call

GB = 10**9


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Return the folder of a checkpoint without weights worth the name."""
    (folder := tmp_path / "my llava").mkdir()
    (folder / "config.json").write_text(json.dumps({"architectures": ["LlavaForConditionalGeneration"]}))
    (folder / "model.safetensors").write_bytes(b"x" * 1000)
    return folder


def test_a_folder_has_its_architecture_and_the_engine_of_the_machine(checkpoint: Path) -> None:
    (alone,) = read_entries(str(checkpoint), Machine(), pytest.fail)
    (served,) = read_entries(str(checkpoint), Machine((80 * GB,), has_vllm=True), pytest.fail)

    assert alone == {
        "name": "my-llava", "source": str(checkpoint), "backend": "transformers", "gpus": 0,
        "architecture": "LlavaForConditionalGeneration",
    }  # fmt: skip
    assert served == {**alone, "backend": "vllm", "gpus": 1}


@pytest.mark.parametrize(
    ("weights", "gpus", "has_vllm", "chosen"),
    [
        (16, (), True, ("transformers", 0)), (16, (80,), False, ("transformers", 1)), (16, (80, 80, 80), True, ("vllm", 1)),
        (144, (80,) * 4, True, ("vllm", 4)), (144, (80, 80), True, ("vllm", 2)), (16, (80, 12), True, ("vllm", 1)),
    ],
)  # fmt: skip
def test_weights_get_as_many_gpus_as_hold_them(
    weights: int, gpus: tuple[int, ...], has_vllm: bool, chosen: tuple[str, int]
) -> None:
    assert choose_engine(weights * GB, Machine(tuple(size * GB for size in gpus), has_vllm)) == chosen


def test_a_hub_id_is_pinned_and_a_shipped_source_keeps_its_settings() -> None:
    files = Checkpoint({"architectures": ["NewForConditionalGeneration"]}, None, 4 * GB, "abc")
    (own,) = read_entries("me/New-4B", Machine(), lambda source: files)
    (shipped,) = read_entries("Qwen/Qwen2.5-VL-7B-Instruct", Machine((80 * GB,), True), lambda source: files)

    assert (own["name"], own["source"], own["revision"]) == ("New-4B", "me/New-4B", "abc")  # type: ignore[index]
    assert shipped["name"] == "qwen2.5-vl-7b" and shipped["paper"]  # type: ignore[index]


def test_a_service_gets_a_key_only_if_it_is_openais() -> None:
    (near,) = read_entries("http://localhost:8000/v1#org/my model", Machine(), pytest.fail)
    (openai,) = read_entries("https://api.openai.com/v1#gpt-4.1", Machine(), pytest.fail)

    assert near == {
        "name": "org-my-model", "source": "org/my model",
        "endpoint": {"base_url": "http://localhost:8000/v1", "key_env": ""},
    }  # fmt: skip
    assert openai["endpoint"]["key_env"] == "OPENAI_API_KEY"  # type: ignore[index]
    assert read_entries("oracle", Machine(), pytest.fail) == ["oracle"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nothing", "OWNER/NAME"),
        *((address, "http://HOST/v1#NAME") for address in ("http://host/v1", "http://[::1/v1#m", "http://#m")),
        ("one.toml", r"model = .*\[\[model\]\]"),
        ("nameless.toml", "model 1: 'name' is missing"),
        (".", "no readable config.json"),
        ("a/config.json", "name its folder .*/a"),
        ("x.toml", "x.toml"),
    ],
)
def test_what_is_no_model_is_refused(source: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").mkdir()
    Path("a/config.json").write_text("{}")
    Path("one.toml").write_text('[model]\nname = "m"\nsource = "org/m"\n')
    Path("nameless.toml").write_text('[[model]]\nsource = "org/m"\n')
    with pytest.raises(UserError, match=words):
        read_entries(source, Machine(), pytest.fail)


def test_the_line_writes_a_sweep_that_the_same_line_resumes_and_another_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: Path, demo_data: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    options: dict[str, Any] = {"limit": 3, "scenarios": "ROD,QD", "data": str(demo_data)}
    file = sweep_source.write_line(["my llava"], options, None)
    sweep = load(file)

    assert str(file) == "outputs/my-llava.toml" and sweep.output == "outputs/my-llava"
    assert file.read_text().startswith("# proactive-sweep run --model 'my llava' --limit 3 --scenarios ROD,QD --data ")
    assert (sweep.data, sweep.selection.limit, sweep.scenarios) == (str(demo_data), 3, ("ROD", "QD"))
    assert [condition.name for condition in sweep.conditions] == ["zero-shot", "hint"]
    (tmp_path / "two\nlines").symlink_to(checkpoint)
    assert load(sweep_source.write_line(["two\nlines"], {**options, "output": "two"}, None)).output == "two"
    with lock.hold(Path("outputs/my-llava")), pytest.raises(UserError, match="to go on"):
        sweep_source.write_line(["my llava"], {**options, "limit": 4}, None)
    assert load(sweep_source.write_line(["my llava"], {**options, "limit": 4}, None)).selection.limit == 4
    file.write_text(edited := file.read_text().replace("limit = 4", "limit = 3"))
    for source in (f"{checkpoint}/", "../" + tmp_path.name + "/my llava"):
        assert sweep_source.write_line([source], {**options, "limit": 4}, None).read_text() == edited
    with pytest.raises(UserError, match=r"type `proactive-sweep run outputs/my-llava\.toml --limit 20 --update`"):
        sweep_source.write_line(["my llava"], {**options, "limit": None}, None)
    with pytest.raises(UserError, match=r"type `proactive-sweep run outputs/my-llava\.toml` to go on"):
        sweep_source.write_line(["my llava"], {**options, "data": str(tmp_path)}, None)
    for wrong, overrides in ({"data": str(tmp_path)}, []), ({"scenarios": "QDD"}, []), ({}, ["foo=1"]):
        with pytest.raises(UserError, match=r"_preprocessed\.jsonl|QDD|foo"):
            sweep_source.write_line(["oracle"], {**options, **wrong}, None, overrides)
    assert not Path("outputs/oracle.toml").exists()


def test_a_limit_is_of_the_protocols_that_a_sweep_plays() -> None:
    choice, answers = (sweep_source.load_sweep(Path(name), [], None, (), 2) for name in ("baselines", "paper-oeg"))
    typed = sweep_source.load_sweep(Path("baselines"), ["selection.limit=3"], None, (), 2)

    assert (choice.selection.limit, answers.open_ended.selection.limit, typed.selection.limit) == (2, 2, 3)
    assert answers.selection.limit is choice.open_ended.selection.limit is None


def test_data_are_named_or_in_the_environment_or_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sweep_source.DATA_VARIABLE, "s3://bucket/data")
    assert sweep_source.find_data("here", tmp_path) == str(Path("here").absolute())
    assert sweep_source.find_data("", tmp_path) == "s3://bucket/data"
    monkeypatch.delenv(sweep_source.DATA_VARIABLE)
    monkeypatch.setattr(sweep_source, "offers", lambda kind: {})
    with pytest.raises(UserError, match=r"--data DIR or PROACTIVE_SWEEP_DATA.*extras/demo"):
        sweep_source.find_data("", tmp_path)


def test_init_writes_the_sweep_of_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: Path, demo_data: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(sweep_source.DATA_VARIABLE, str(demo_data))
    done = call("init", "mine.toml", "--model", "my llava")
    assert done.exit_code == 0 and "proactive-sweep run mine.toml" in done.stdout
    assert "my-llava" in call("plan", "mine.toml").stdout and load(Path("mine.toml")).output == "outputs/mine"
    both = call("plan", "mine.toml", "--model", "oracle")
    assert "my-llava" in both.stdout and "oracle" in both.stdout
    twice = call("plan", "baselines", "--model", "my llava", "--model", checkpoint)
    assert twice.exit_code == 2 and "two models have the name 'my-llava'" in twice.stderr


@pytest.mark.slow
def test_a_line_plays_and_is_resumed(cli: Any, demo_data: Path, tmp_path: Path) -> None:
    output = tmp_path / "My Drive" / "run"
    options = ("--limit", 1, "--data", demo_data, "--output", output, "--tracking-uri", "none")
    first, second, full = (cli.call("run", "--model", "uniform", *options[at:]) for at in (0, 0, 2))
    more = cli.call("run", f"{output}.toml", "--limit", 20, "--update", "--tracking-uri", "none")

    assert first.returncode == second.returncode == more.returncode == 0, first.stderr + more.stderr
    assert "14 pending" in first.stdout and "played 14 episodes" in first.stderr + first.stdout
    assert "0 pending" in second.stdout and f"proactive-sweep report '{output}'" in second.stdout
    assert "--limit 20 --update` to go on" in full.stderr and f"--reuse '{output}'" in full.stderr
    assert "14 finished" in more.stdout and "played 126 episodes" in more.stderr + more.stdout
