"""Whether a model asks: shares by the first reply, sentences, and warnings where replies say little."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.types import ERRORS, Ending
from orchestrator.report.scores.answer import FIRST_REPLIES, IF_ASKED, answer_sentences, unreadable_lines
from orchestrator.report.scores.metrics import ANSWER_COLUMNS, PLANNED_COLUMNS, score
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.schemas import EPISODES
from tests.orchestrator.blocks import episode, turn
from tests.orchestrator.report.runs import EpisodeBatch, sweep

CELL = "llava-ov-7b/QD/zero-shot"
KINDS = {
    "asks, right": {"turns": 3, "ending": Ending.CORRECT},
    "asks, wrong": {"turns": 2, "ending": Ending.WRONG},
    "asks to the limit": {"turns": 5, "suggestions": 5, "categories": 0, "ending": Ending.LIMIT},
    "asks for what does not count": {"turns": 1, "suggestions": 1, "categories": 0, "ending": Ending.WRONG},
    "gives up": {"turns": 1, "abstentions": 1, "categories": 0, "ending": Ending.WRONG},
    "guesses right": {"turns": 1, "ending": Ending.CORRECT},
    "guesses wrong": {"turns": 1, "ending": Ending.WRONG},
    "is unreadable": {"turns": 1, "unparsable": 1, "categories": 0, "ending": Ending.WRONG},
    "is silent": {"turns": 1, "categories": 0, "ending": Ending.TRUNCATED},
    "asks, then is unreadable": {"turns": 2, "unparsable": 1, "categories": 0, "ending": Ending.WRONG},
}


def score_kinds(kinds, cell=CELL):
    rows = [episode(number, cell, **KINDS[kind]) for number, kind in enumerate(kinds)]
    return score_rows(rows)


def score_rows(rows):
    frame = pl.DataFrame(rows, schema=EPISODES)
    planned = frame.group_by(PLANNED_COLUMNS[:-1]).agg(pl.len().cast(pl.Int64).alias("planned"))
    return score(frame.lazy(), planned)


def test_shares_by_the_first_reply_by_hand():
    row = score_kinds(KINDS).row(0, named=True)
    assert [row[name] for name in FIRST_REPLIES] == [50, 10, 20, 20]
    assert row["right_if_asked"] == row["limit_if_asked"] == 20.0
    assert row["unreadable"] == 30.0 and row["asks_low"] < 50 < row["asks_high"]


@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=30))
def test_first_replies_sum_to_100(kinds):
    row = score_kinds(kinds).row(0, named=True)
    assert sum(row[name] for name in FIRST_REPLIES) == pytest.approx(100)
    assert (row["right_if_asked"] is None) == (row["asks"] == 0)


def test_nothing_can_be_asked_under_the_reference_and_nobody_asks_without_episodes():
    reference = score_kinds(["guesses right"], "m/QD/reference").row(0, named=True)
    assert all(reference[name] is None for name in (*FIRST_REPLIES, *IF_ASKED)) and reference["unreadable"] == 0
    failed = score_rows([episode(0, CELL, ERRORS[0], turns=0)]).row(0, named=True)
    assert all(failed[name] is None for name in ANSWER_COLUMNS)


def test_one_sentence_per_model_and_none_of_baselines(tmp_path):
    wanted = sweep(tmp_path, ["llava-ov-7b", "uniform"], ["zero-shot", "hint"])
    rows = pl.concat([
        score_kinds(["asks, right", "asks, wrong", "gives up", "guesses wrong"]),
        score_kinds(["asks, right"] * 4, "llava-ov-7b/QD/hint"),
        score_kinds(["guesses right"], "uniform/QD/zero-shot"),
    ])  # fmt: skip
    (sentence,) = answer_sentences(rows, wanted, tmp_path)
    assert sentence.startswith("llava-ov-7b asks in 50% of zero-shot episodes ") and "right in 50% of those" in sentence
    assert all(f"{share} in 25%" in sentence for share in ("at once", "guesses")) and "hint it asks in 100%" in sentence
    assert not list(answer_sentences(rows.drop(ANSWER_COLUMNS), wanted, tmp_path)), "older results say nothing"
    pending = score_kinds(["gives up"] * 6, "llava-ov-7b/ROD/hint").with_columns(pl.col("finished", "scored") * 0)
    (partly,) = answer_sentences(pl.concat([rows, pending]), wanted, tmp_path)
    assert partly.startswith("UNFINISHED, 8 of 14 episodes in 1 of 2 scenarios: ") and partly.endswith(sentence)


def test_cells_with_many_unreadable_replies_are_named_with_one_reply(tmp_path):
    rows = [episode(n, CELL, **KINDS["is unreadable" if n < 3 else "gives up"]) for n in range(10)]
    turns = [
        {**turn(row["key"], 0, "I cannot say."), "action": "unparsable" if row["unparsable"] else "abstention"}
        for row in rows
    ]
    failed = [episode(n, "llava-ov-7b/QD/hint", ERRORS[0], turns=0, error="no picture") for n in range(10)]
    columns = {"episodes": [*rows, *failed], "turns": turns}
    block = {name: {key: [row[key] for row in part] for key in part[0]} for name, part in columns.items()}
    store = EpisodeStore(tmp_path / "my run")
    store.append(EpisodeBatch(list(range(20)), **block))
    store.close()
    (line,) = unreadable_lines(score_rows(rows), tmp_path / "my run")
    (worse,) = unreadable_lines(score_rows([*rows, *failed]), tmp_path / "my run")

    assert "2 cells" in worse and "hint 10 of 10" in worse and '"no picture"' in worse, "of the cell that is named"
    assert "3 of 10" in line and '"I cannot say."' in line and line.endswith(f"view '{tmp_path}/my run'")
    assert not list(unreadable_lines(score_rows(rows[2:]), tmp_path / "my run")), "one of eight is few"
    assert not list(unreadable_lines(score_rows(rows), tmp_path / "my run", {"llava-ov-7b"}))
    wanted = sweep(tmp_path, ["llava-ov-7b"], ["zero-shot", "hint"])
    (sentence,) = answer_sentences(score_rows(failed), wanted, tmp_path / "my run")
    assert sentence.startswith("no answer about llava-ov-7b: 10 failed") and '"no picture"' in sentence
