"""A flipped bit in any table or checksum of a run folder changes no stored row; lost rows are absent and pending again."""

import shutil
from random import Random

from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.storage.schemas import VERDICTS
from orchestrator.storage.verdict_store import VerdictStore, pending_answers, verdicts
from tests.orchestrator.blocks import batch_of, episode

READERS = {"episodes": episodes, "turns": turns, "verdicts": verdicts}


def verdict(number, judge="j", **changes):
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


def flip_bit(path, number=99):
    content = bytearray(path.read_bytes())
    content[number // 8 % len(content)] ^= 1 << number % 8
    path.write_bytes(content)


def tables(folder):
    return {name: set(read(folder).collect().iter_rows()) for name, read in READERS.items()}


def test_flipped_bits_change_no_row_and_lost_rows_are_pending(tmp_path):
    chance, original = Random(0), store_judged(tmp_path / "whole", range(40), range(40, 60))
    before, lost = tables(original), dict.fromkeys(READERS, 0)
    files = sorted(path.relative_to(original) for path in original.rglob("*") if path.is_file() and path.stat().st_size)
    for number in range(80):
        folder = tmp_path / "flipped"
        shutil.copytree(original, folder)
        flip_bit(folder / files[number % len(files)], chance.randrange(1 << 30))
        damaged_tables = tables(folder)
        EpisodeStore(folder).close()
        after = tables(folder)
        for name in READERS:
            assert damaged_tables[name] <= before[name] and after[name] == damaged_tables[name], (name, number)
            lost[name] += len(before[name] - after[name])
        unread = set(pending_answers(episodes(folder), folder, "j")["key"])
        assert unread == {row[0] for row in after["episodes"]} - {row[0] for row in after["verdicts"]}
        shutil.rmtree(folder)
    assert all(lost.values()), lost
