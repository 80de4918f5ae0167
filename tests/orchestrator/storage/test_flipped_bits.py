"""A flipped bit in any table or checksum of a run folder changes no stored row; lost rows are absent and pending again."""

import json
import shutil
from random import Random

import polars as pl
import pytest

from orchestrator.storage import row_check
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.storage.schemas import VERDICTS
from orchestrator.storage.verdict_store import VerdictStore, pending_answers, verdicts
from tests.orchestrator.blocks import batch_of, block, episode

READERS = {"episodes": episodes, "turns": turns, "verdicts": verdicts}


def verdict(number, judge="j", **changes):
    """Return one row of the table verdicts."""
    about = {name: value for name, value in episode(number).items() if name in VERDICTS}
    defaults = {"judge": judge, "reason": None, "text": "1,1", "seconds": 0.25, "attempts": 1, "first_failed": False}
    bits = {
        name: number % 2 == 0 for name in VERDICTS if name.split("_")[-1] in ("category", "suggestion", "aggregate")
    }
    row = {**about, **defaults, **bits, "prompt_tokens": 9, "reply_tokens": 3, "cost": 0.5, **changes}
    return {name: row[name] for name in VERDICTS}


def columns(*rows):
    return {name: [row[name] for row in rows] for name in VERDICTS}


def store_judged(folder, *parts):
    """Store answers and verdicts with these numbers, one part per tuple."""
    store, read = EpisodeStore(folder), VerdictStore(folder)
    for numbers in parts:
        store.append(batch_of(*numbers, ending="answered"))
        store.flush()
        read.append(columns(*map(verdict, numbers)))
        read.flush()
    store.close()
    return folder


def tables(folder):
    return {name: set(read(folder).collect().iter_rows()) for name, read in READERS.items()}


def count_lost_rows(tmp_path, count, seed):
    """Flip ``count`` bits, each in a copy of the folder; return the number of lost rows per table."""
    chance, original, lost = (
        Random(seed),
        store_judged(tmp_path / "whole", range(40), range(40, 60)),
        dict.fromkeys(READERS, 0),
    )
    before = tables(original)
    files = sorted(path.relative_to(original) for path in original.rglob("*") if path.is_file() and path.stat().st_size)
    for number in range(count):
        folder = tmp_path / "flipped"
        shutil.copytree(original, folder)
        path = folder / files[number % len(files)]
        raw = bytearray(path.read_bytes())
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        path.write_bytes(raw)
        damaged_tables = tables(folder)
        store = EpisodeStore(folder)
        VerdictStore(folder)
        store.close()
        after = tables(folder)
        for name in READERS:
            assert damaged_tables[name] <= before[name] and after[name] == damaged_tables[name], (path, number)
            lost[name] += len(before[name] - after[name])
        unread = set(pending_answers(episodes(folder), folder, "j")["key"])
        assert unread == {row[0] for row in after["episodes"]} - {row[0] for row in after["verdicts"]}
        shutil.rmtree(folder)
    return lost


def test_flipped_bits_change_no_row_and_lost_rows_are_pending(tmp_path):
    lost = count_lost_rows(tmp_path, 200, seed=0)
    assert all(lost.values()), lost


@pytest.mark.long
def test_a_thousand_flipped_bits(tmp_path):
    lost = count_lost_rows(tmp_path, 1_000, seed=1)
    assert all(lost.values()), lost


def test_a_damaged_part_of_verdicts_is_moved_aside_and_never_deleted(tmp_path):
    folder = store_judged(tmp_path / "run", (1, 2), (3,), (4,))
    path = folder / "verdicts/part-00000002.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    store = VerdictStore(folder)
    store.append(columns(verdict(3)))
    store.compact()

    assert [path.name for path in (folder / "damaged").iterdir()] == ["verdicts-part-00000002.parquet"]
    assert set(verdicts(folder).collect()["sample_id"]) == {1, 2, 3, 4}
    assert pending_answers(episodes(folder), folder, "j").is_empty()


def test_verdicts_of_a_version_without_sums_still_read(tmp_path):
    folder = store_judged(tmp_path / "run", (1, 2), (3,))
    (folder / "sums.sha256").unlink()
    VerdictStore(folder)
    assert verdicts(folder).collect().height == 3


@pytest.mark.parametrize(
    "odd", [{"prompt_tokens": 10**30}, {"cost": "much"}, {"turns": 2**40}, {"error": ["a"]}, {"seconds": {}}]
)
def test_unstorable_row_costs_no_other_row(tmp_path, odd, caplog):
    store = EpisodeStore(tmp_path)
    rows = [episode(1), {**episode(2), **odd, "turns": odd.get("turns", 2)}, episode(3, error="half \ud800")]
    batch = block([{**row, "turns": 2} for row in rows])
    batch.episodes["turns"] = [row["turns"] for row in rows]
    store.append(batch)
    store.close()

    assert set(episodes(tmp_path).collect()["sample_id"]) == {1, 3} and turns(tmp_path).collect().height == 4
    assert "sample_id': 2" in (tmp_path / row_check.FILE).read_text() and "set aside" in caplog.text
    again = EpisodeStore(tmp_path)
    again.append(batch_of(2))
    again.close()
    assert set(episodes(tmp_path).collect()["sample_id"]) == {1, 2, 3}


def test_unstorable_turn_drops_its_episode(tmp_path):
    store, batch = EpisodeStore(tmp_path), batch_of(1, 2)
    batch.turns["frame"][3] = 2**70
    store.append(batch)
    store.flush()
    store.append(batch_of(3))
    store.close()

    assert set(episodes(tmp_path).collect()["sample_id"]) == {1, 3} and turns(tmp_path).collect().height == 4


def test_each_row_set_aside_is_a_line_with_its_reason(tmp_path):
    batch = batch_of(1, 2)
    batch.episodes["prompt_tokens"] = [10**30, 10**31]
    store = EpisodeStore(tmp_path)
    store.append(batch)
    store.close()

    lines = [json.loads(line) for line in (tmp_path / row_check.FILE).read_text().splitlines()]
    assert [(line["table"], line["key"]) for line in lines] == [("episodes", episode(n)["key"]) for n in (1, 2)]
    assert all(line["reason"] and line["row"].startswith("{") for line in lines)


def test_unstorable_verdict_is_pending_again(tmp_path):
    folder = store_judged(tmp_path, (1, 2))
    store = VerdictStore(folder)
    store.append(columns(verdict(1, judge="k"), verdict(2, judge="k", reply_tokens=float("nan"))))
    store.flush()

    assert pending_answers(episodes(folder), folder, "k")["key"].to_list() == [episode(2)["key"]]
    assert verdicts(folder).filter(pl.col("judge") == "k").collect().height == 1
