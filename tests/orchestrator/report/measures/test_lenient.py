"""A lenient reading reads what a person would, names nothing that was not shown, and survives any reply."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.engine.backend import Backend, Reply, Request
from envs.answers import letter
from orchestrator.report.measures.endings import leniency, read_leniently
from orchestrator.report.read_run import read_run
from tests.orchestrator.report.runs import play_sweep, sweep

TEXTS = ("I cannot tell.", "Rewind the video.", "Mug.", "Key.", "A big dog.", "Fish.")


@given(st.text(max_size=300), st.integers(0, 12))
def test_only_shown_options_are_named(reply, count):
    index = read_leniently(reply, count, TEXTS[:count])

    assert index is None or 0 <= index < count


class WrappingModel(Backend):
    """A model that gives the oracle's answer in a wrapping that the benchmark cannot parse."""

    def __init__(self, wrapping: str) -> None:
        self.wrapping = wrapping

    async def reply(self, request: Request) -> Reply:
        texts = (*request.situation.view.options, *request.situation.view.categories)
        right = request.situation.sample.answer
        return Reply(self.wrapping.format(letter(texts.index(right))))

    async def close(self) -> None:
        return None


@pytest.fixture(scope="module")
def wrapped_run(demo_data, tmp_path_factory):
    """A run of a model that wraps the right letter and of one with unreadable replies."""
    models = [
        {"name": name, "source": "x", "backend": "transformers", "gpus": 0, "parameters": 1}
        for name in ("wraps", "mumbles")
    ]
    conditions = ["zero-shot", "reference", "random-proactive", "random-from-VSOD", "shuffled"]
    wanted = sweep(demo_data, models, conditions)
    backends = {"wraps": WrappingModel("**({})**"), "mumbles": WrappingModel("perhaps {} or another")}
    return play_sweep(tmp_path_factory.mktemp("wrapped") / "run", wanted, backends=backends)


def test_counts_of_episodes_with_another_ending(wrapped_run):
    rows = leniency(read_run(wrapped_run))
    reads, mumbles = rows.filter(model="wraps"), rows.filter(model="mumbles")

    assert reads["readable"].equals(reads["unparsable"]) and set(mumbles["readable"]) == {0}
    is_rod = (pl.col("scenario") == "ROD") & (pl.col("condition") != "reference")
    assert set(reads.filter(is_rod)["otherwise"]) == {0}, "nothing counts on ROD's first turn, however it is read"
    others = reads.filter(~is_rod)
    assert set(others["acc_lenient"]) == {100.0}
    assert others["would_correct"].to_list() == others["scored"].to_list()
