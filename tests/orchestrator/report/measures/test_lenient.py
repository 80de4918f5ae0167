"""A lenient reading reads what a person would, names nothing that was not shown, and survives any reply."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.engine.backend import Backend, Reply, Request
from envs.answers import letter
from orchestrator.report.measures.lenient import leniency, lenient_readings, read_leniently
from orchestrator.report.read_run import read_run
from tests.orchestrator.report.runs import play_sweep, sweep

TEXTS = ("I cannot tell.", "Rewind the video.", "Mug.", "Key.", "A big dog.", "Fish.")


@pytest.mark.parametrize(
    ("reply", "index"),
    [
        ("(A)", 0), ("**B**", 1), ("Answer: C", 2), ("B) Rewind the video.", 1), ("The answer is D", 3),
        ("the correct answer is **C**.", 2), ("[c].", 2), ("Option A", 0), ("I choose option (B).", 1), ("B - Rewind", 1),
        ("It shows a mug.\nAnswer: C.", 2), ("**Rewind the video**", 1), ("a big dog!", 4), ("`E`", 4), ("F:", 5),
        ("a dog", None), ("I think so", None), ("Answer is A or B", None), ("A) this B) that", None), ("Z", None),
        ("", None), ("A dog is here", None), ("B-2 bomber", None), ("(G)", None), ("\u0000\u202e", None),
    ],
)  # fmt: skip
def test_lenient_readings(reply, index):
    assert read_leniently(reply, len(TEXTS), TEXTS) == index


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
    assert set(others["acc_lenient"]) == {100.0} and others["would_correct"].equals(
        others["scored"], check_dtypes=False
    )


def test_letters_are_read_without_samples_and_their_episodes_unknown(wrapped_run, tmp_path):
    blind = read_run(wrapped_run, data=tmp_path / "gone")

    assert set(leniency(blind).filter(model="wraps")["otherwise"]) == {None}
    assert set(leniency(blind).filter(model="mumbles")["otherwise"]) == {0}
    assert lenient_readings(blind).filter(pl.col("cell").str.starts_with("wraps"))["letter"].null_count() == 0
