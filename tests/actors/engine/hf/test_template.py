"""A folder whose processor cannot be built is counted by the table, and ends no command in a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")

from typer.testing import CliRunner

from orchestrator.cli.main import app


@pytest.fixture(params=[{}, {"processor_class": "NoSuchProcessor"}], ids=["no class", "unknown class"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    config = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(request.param))
    (tmp_path / "tokenizer_config.json").write_text("{}")
    return tmp_path


def test_the_check_of_such_a_folder_ends_without_a_traceback(folder: Path, tmp_path: Path) -> None:
    sweep = tmp_path / "mine.toml"
    sweep.write_text(f'data = "data"\n[[model]]\nname = "m"\nsource = "{folder}"\nbackend = "transformers"\ngpus = 0\n')
    outcome = CliRunner().invoke(app, ["models", "check", str(sweep)])

    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), outcome.exception
    assert "m" in outcome.output
