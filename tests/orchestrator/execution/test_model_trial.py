"""What trials of models on GPUs saw of their pace is added to what their folder holds."""

from __future__ import annotations

from pathlib import Path

from orchestrator.scheduling.forecast.throughput import ANSWERS, EPISODES, Observed, add_observed, observed


def test_rates_are_added_to_those_of_the_folder(tmp_path: Path) -> None:
    add_observed(
        tmp_path, "H100-80G", {EPISODES: {"a": Observed(10, 5.0, (60.0,))}, ANSWERS: {"b": Observed(4, 2.0, (9.0,))}}
    )
    add_observed(tmp_path, "H100", {EPISODES: {"a": Observed(30, 5.0, (62.0,))}})
    add_observed(tmp_path, "", {EPISODES: {"a": Observed(99, 1.0)}})

    assert observed([tmp_path], "h100") == {"a": Observed(40, 10.0, (60.0, 62.0))}
    assert observed([tmp_path], "h100", ANSWERS) == {"b": Observed(4, 2.0, (9.0,))}
    assert observed([tmp_path], "a100") == {}
