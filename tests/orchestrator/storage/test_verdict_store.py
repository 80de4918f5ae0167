"""When verdicts become durable, and which verdicts count."""

import os

import polars as pl

from orchestrator.storage.episode_store import episodes
from orchestrator.storage.schemas import ADDED_COLUMNS, VERDICTS
from orchestrator.storage.status import find_faults
from orchestrator.storage.verdict_store import (
    FOLDER,
    VerdictStore,
    final_replies,
    judge_counts,
    judge_names,
    pending_answers,
    verdicts,
)
from tests.orchestrator.storage.test_flipped_bits import columns, store_judged, verdict


def parts(folder):
    return sorted(path.name for path in (folder / FOLDER).iterdir())


def read(folder):
    """Return (sample, judge) pairs in reading order."""
    return verdicts(folder).select("sample_id", "judge").collect().rows()


def write_foreign_part(folder, name, frame):
    """Write a part without a checksum, as an earlier version did."""
    (folder / FOLDER).mkdir(exist_ok=True)
    frame.write_parquet(folder / FOLDER / name)


def frame(*numbers, schema=VERDICTS):
    return pl.DataFrame(columns(*map(verdict, numbers)), schema=VERDICTS).select(list(schema))


def test_the_latest_verdict_of_a_judge_counts_in_the_order_of_writing(tmp_path):
    store = VerdictStore(tmp_path)
    for rows in ((verdict(1), verdict(2)), (verdict(1, judge="k"),), (verdict(1, text="0,0"),)):
        store.append(columns(*rows))
        store.flush()
    assert read(tmp_path) == [(2, "j"), (1, "k"), (1, "j")] and judge_names(tmp_path) == ["j", "k"]
    texts = dict(verdicts(tmp_path).filter(sample_id=1).select("judge", "text").collect().rows())
    assert texts == {"j": "0,0", "k": "1,1"}
    store.compact()
    assert read(tmp_path) == [(2, "j"), (1, "k"), (1, "j")]
    assert parts(tmp_path) == ["part-00000004.parquet"] and find_faults(tmp_path) == {}
    number = os.stat(tmp_path / FOLDER / "part-00000004.parquet").st_ino
    store.compact()
    assert os.stat(tmp_path / FOLDER / "part-00000004.parquet").st_ino == number, "one part is left as it is"


def test_a_part_of_an_earlier_version_reads_with_nulls(tmp_path):
    earlier = [name for name in VERDICTS if not name.startswith(ADDED_COLUMNS)]
    write_foreign_part(tmp_path, "part-00000001.parquet", frame(1, schema=earlier))
    write_foreign_part(tmp_path, "part-00000002.parquet", frame(2))
    assert verdicts(tmp_path).collect().schema == VERDICTS
    assert dict(verdicts(tmp_path).select("sample_id", "strict_category").collect().rows()) == {1: None, 2: True}


def test_answers_that_a_judge_has_not_read_are_pending(tmp_path):
    folder = store_judged(tmp_path / "run", (1, 2, 3))
    store = VerdictStore(folder)
    store.append(columns(verdict(1, judge="k"), verdict(2, judge="k", reason="no reply", aggregate=None)))
    store.flush()
    keys = dict(episodes(folder).select("sample_id", "key").collect().rows())

    def pending_keys(*arguments):
        return set(pending_answers(episodes(folder), folder, *arguments)["key"])

    assert pending_keys("j") == set()
    assert pending_keys("k") == {keys[3]} and pending_keys("k", True) == {keys[2], keys[3]}
    assert pending_keys("nobody") == set(keys.values())
    sentence = judge_counts(folder, episodes(folder))["k"].sentence("k")
    assert sentence == "k: 1 verdict of 3 answers (1 without one, 2 calls; 1 not read yet)"
    replies = final_replies(folder, [keys[1], keys[3], "unknown"])
    assert set(replies) == {keys[1], keys[3]} and all(replies.values())
    unfinished = episodes(folder).with_columns(ending=pl.lit("max_steps"))
    assert pending_answers(unfinished, folder, "nobody").is_empty(), "only answers in free text are read"
