"""``models prove`` on real processors: equal to the package's call, and unequal once the checkpoint has changed."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.engine.backend import ModelInput, Overflow, Request
from actors.trial.certificate import Certificate
from actors.trial.certify import record_inputs
from envs.types import ImageRef
from orchestrator.cli.main import app
from orchestrator.inspection.certificate import read_certificates
from orchestrator.planning.build_plan import build_plan
from sweeps.load import build
from sweeps.registry import registry
from tests.actors.architectures import write
from tests.actors.scripted_backend import ScriptedBackend
from tests.conftest import ROOT

pytest.importorskip("transformers", reason="pip install 'proactive-sweep[transformers]'")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("training", "*.py", "__pycache__")
    return shutil.copytree(ROOT / "extras/demo/proactive_demo/embedded", tmp_path / "mine", ignore=ignored)


def prove(checkpoint: Path, data: Path, output: Path, code: int) -> dict[str, object]:
    typed = ["models", "try", "--prove", str(checkpoint), "--data", str(data), "--output", str(output), "--json"]
    done = CliRunner().invoke(app, typed)
    assert done.exit_code == code, done.output
    (row,) = json.loads(done.stdout)
    return dict(row)


def test_one_byte_of_the_processors_configuration_is_noticed(checkpoint: Path, demo_data: Path, tmp_path: Path) -> None:
    first = prove(checkpoint, demo_data, tmp_path / "out", 0)
    again = prove(checkpoint, demo_data, tmp_path / "out", 0)
    config = checkpoint / "processor_config.json"
    text = config.read_text()
    config.write_text(text.replace('"image_mean": [\n      0.5', '"image_mean": [\n      0.4', 1))
    changed = prove(checkpoint, demo_data, tmp_path / "out", 1)

    assert len(text) == len(config.read_text()) and text != config.read_text()
    assert first["status"] == again["status"] == "equal" and first["changed"] == again["changed"] == []
    assert first["outcome"] == "ids and every tensor of 21 requests equal the package's call"
    assert changed["status"] == "equal", "the package reads the same file"
    assert (first["verdict"], changed["verdict"]) == ("equal", "unequal to its certificate")
    files, weights, pixels = changed["changed"]  # type: ignore[misc]
    assert files == "changed files: processor_config.json"
    assert weights.startswith("weights: sha256:") and pixels.startswith("pixel_values of ROD/zero-shot, ")
    assert read_certificates(tmp_path / "out/transformers")["mine"].weights == first["weights"]


def test_fitted_pictures_histories_and_questions_without_a_picture_equal_the_packages(
    checkpoint: Path, demo_data: Path, tmp_path: Path
) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        f'data = "{demo_data}"\nscenarios = ["QD"]\nconditions = ["history", "text-only"]\n[[model]]\nname = "own"\n'
        f'source = "{checkpoint}"\nbackend = "transformers"\ngpus = 0\nfit_pictures = true\n'
    )
    assert prove(file, demo_data, tmp_path / "out", 0)["verdict"] == "equal"
    requests = read_certificates(tmp_path / "out/transformers")["own"].requests
    assert {cell: request.pictures for cell, request in requests.items()} == {"QD/history": 3, "QD/text-only": 0}


def test_an_engine_that_shows_other_pixels_is_unequal(
    checkpoint: Path, demo_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from actors.trial import certify as recording

    plain = recording.load_package_pictures

    async def mirrored(loader: object, messages: object) -> dict[ImageRef, object]:
        from PIL import ImageOps

        return {ref: ImageOps.mirror(picture) for ref, picture in (await plain(loader, messages)).items()}  # type: ignore[arg-type]

    monkeypatch.setattr(recording, "load_package_pictures", mirrored)
    row = prove(checkpoint, demo_data, tmp_path / "out", 1)

    assert row["status"] == "unequal"
    assert str(row["outcome"]).startswith("21 of 21 requests differ from the package's call, first pixel_values of ")


def test_a_folder_without_processor_has_a_reason(checkpoint: Path, demo_data: Path, tmp_path: Path) -> None:
    (checkpoint / "tokenizer.json").unlink()
    row = prove(checkpoint, demo_data, tmp_path / "out", 1)

    assert row["status"] == "incomplete"
    assert str(row["outcome"]).startswith("not complete: ") and "\n" not in str(row["outcome"])


def test_a_prompt_without_the_token_of_its_pictures_is_refused(demo_data: Path, tmp_path: Path) -> None:
    source, text = write("llava-1.5", tmp_path / "m"), "{% if c.type == 'text' %}{{ c.text }}{% else %}<img>{% endif %}"
    text = f"{{% for m in messages %}}{{% for c in m.content %}}{text}{{% endfor %}}{{% endfor %}}"
    (source / "chat_template.jinja").write_text(text)
    row = prove(source, demo_data, tmp_path / "out", 1)

    assert row["status"] == "incomplete" and "no token for its pictures" in str(row["outcome"])


def test_a_request_that_the_engine_refuses_as_too_long_is_marked(demo_data: Path) -> None:
    class Short(ScriptedBackend):
        async def model_input(self, request: Request) -> ModelInput | None:
            raise Overflow("the prompt has 40000 tokens, the model takes 32768")

    found = record_scripted(demo_data, Short(lambda request: "A"))
    assert found.requests and all(asked.overflows and "40000" in asked.error for asked in found.requests.values())


def record_scripted(data: Path, engine: ScriptedBackend) -> Certificate:
    plan = build_plan(build({"name": "s", "data": str(data), "models": ["oracle"], "scenarios": ["ROD"]}, "s"))
    return asyncio.run(record_inputs(plan, registry()["oracle"], engine, data, plan.first_ordinals("oracle")))


def test_model_with_packages_of_its_own_is_sent_to_the_command_that_has_them(demo_data: Path, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        f'data = "{demo_data}"\nconditions = ["hint"]\n[[model]]\nname = "own"\nsource = "{demo_data}"\n'
        'backend = "transformers"\ngpus = 0\nrequirements = ["transformers==5.18.0"]\n'
    )
    done = CliRunner().invoke(app, ["models", "try", "--prove", str(file), "--output", str(tmp_path / "out"), "--json"])
    (row,) = json.loads(done.stdout)

    assert done.exit_code == 1 and row["outcome"] == (
        "not complete: it plays with transformers==5.18.0, which this process does not have; "
        "`models try SWEEP` installs and compares them"
    )
