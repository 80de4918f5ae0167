"""``models try`` on real Ray workers: the embedded model is equal to the package's call, and one that fails stops nobody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmark import copy_benchmark

pytest.importorskip("proactive_demo", reason="the extra `demo` is not installed")


@pytest.mark.long
@pytest.mark.slow
def test_a_model_that_fails_does_not_stop_the_next(cli, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
    pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")
    copy_benchmark(tmp_path / "data", per_scenario=1)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text('{"model_type": "none such"}')

    process = cli.run(
        "models", "try", broken, "embedded", "--data", tmp_path / "data", "--json",
        timeout=500,
    )  # fmt: skip

    assert process.returncode == 1, process.stderr
    failed, played = json.loads(process.stdout)
    assert (failed["model"], failed["ok"], failed["episodes"]) == ("broken", False, 0)
    assert "Unrecognized processing class" in failed["wrong"] and "\n" not in failed["wrong"]
    assert (played["model"], played["ok"], played["wrong"]) == ("embedded", True, "")
    assert (played["input"], played["episodes"], played["ended"]) == ("equal", 7 * 3, 0)
