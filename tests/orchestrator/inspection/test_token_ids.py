"""``prompt --token-ids`` prints what the engine's own input path makes of a prompt; a mistake is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestrator.cli.main import app

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")


def run_prompt(*args: object) -> Any:
    return CliRunner().invoke(app, [str(arg) for arg in ("prompt", *args)])


@pytest.mark.slow
@pytest.mark.parametrize(("condition", "turn"), [("zero-shot", 0), ("history", 2)])
def test_the_ids_are_those_of_the_package_call(demo_data: Path, condition: str, turn: int) -> None:
    from actors.engine.hf.package_call import PackageCall
    from actors.engine.image_loader import PictureLoader
    from orchestrator.inspection.prompt_preview import conversation, find_sample
    from sweeps.conditions import CONDITIONS
    from sweeps.package_models import resolve_source
    from sweeps.registry import registry

    outcome = run_prompt(
        "QD", 0, "--data", demo_data, "--model", "embedded", "--token-ids", "--condition", condition, "--turn", turn
    )
    assert outcome.exit_code == 0, outcome.output
    report = json.loads(outcome.stdout)

    sample, pool = find_sample(demo_data, "QD", 0)
    messages = conversation(sample, pool, CONDITIONS[condition], turn=turn)
    pictures = PictureLoader(demo_data)
    rendered = {image: pictures.renderer.picture(image) for message in messages for image in message.images}
    ids = PackageCall(resolve_source(registry()["embedded"])).ids(messages, rendered)
    assert len(rendered) == turn + 1
    assert report == {"model": "embedded", "backend": "transformers", "tokens": len(ids), "ids": ids}


@pytest.mark.slow
def test_a_checkpoint_is_named_by_its_folder_and_needs_no_weights(demo_data: Path) -> None:
    """The embedded model's folder; the engine is built from shapes alone, so its ids are those of the entry."""
    folder = Path(__file__).parents[3] / "actors" / "embedded"
    by_folder = json.loads(run_prompt("ROD", 0, "--data", demo_data, "--model", folder, "--token-ids").stdout)
    by_name = json.loads(run_prompt("ROD", 0, "--data", demo_data, "--model", "embedded", "--token-ids").stdout)

    assert by_folder == by_name


def test_a_model_of_the_sweep_file_is_named_as_in_the_file(demo_data: Path, tmp_path: Path) -> None:
    sweep = tmp_path / "mine.toml"
    entry = '[[model]]\nname = "blind"\nsource = "org/blind"\nbackend = "vllm"\nlimits = ["no pictures"]\n'
    sweep.write_text(f'data = "{demo_data}"\nmodels = ["blind", "oracle"]\nconditions = ["text-only"]\n{entry}')
    asks = ("ROD", 0, "--data", demo_data, "--sweep", sweep)

    assert "blind reads text only, but zero-shot shows pictures" in run_prompt(*asks, "--model", "blind").output
    assert run_prompt(*asks, "--model", "blind", "--condition", "text-only").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--token-ids",), "--token-ids requires --model NAME, or --model FOLDER of a checkpoint"),
        (("--token-ids", "--model", "oracle"), "oracle runs on builtin, which has no token ids here"),
        (("--model", "embedded", "--backend", "tgi"), "--backend must be transformers or vllm, not 'tgi'"),
        (("--token-ids", "--model", "EMPTY"), "is a folder without config.json; name the folder of a checkpoint"),
    ],
)
def test_a_mistake_is_one_sentence(demo_data: Path, tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    outcome = run_prompt(
        "ROD", 0, "--data", demo_data, *(str(tmp_path) if argument == "EMPTY" else argument for argument in arguments)
    )

    assert outcome.exit_code == 2
    assert sentence in outcome.stderr and outcome.stderr.count("\n") == 1
