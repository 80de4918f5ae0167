"""Tables are stored with the columns of the row types, and with those of every run folder written before."""

import pickle
from dataclasses import replace
from typing import NamedTuple

import polars as pl
import pytest

from actors.engine.backend import Reply
from actors.playing.judge import Judged
from actors.playing.play import Episode, PlayedTurn
from actors.playing.records import (
    EpisodeRow,
    JudgedAnswer,
    PlayedEpisode,
    TurnRow,
    VerdictRow,
    episode_batch,
    episode_row,
    verdict_batch,
)
from envs.openended import Bits
from envs.types import Action, Ending, ImageRef, Move, OpenAnswer, Turn, Verdict
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.storage.part_files import damaged_parts
from orchestrator.storage.schemas import EPISODES, TURNS, VERDICTS, schema
from orchestrator.storage.verdict_store import VerdictStore, verdicts
from sweeps.load import build
from tests.envs.games import SAMPLES
from tests.orchestrator import blocks
from tests.orchestrator.report.runs import replaced

STORED = {
    "episodes": "key:String cell:String model:String scenario:String condition:String protocol:String sample_id:Int64 "
    "seed:Int64 ending:String correct:Boolean turns:Int32 suggestions:Int32 abstentions:Int32 categories:Int32 "
    "unparsable:Int32 error:String seconds:Float64 prompt_tokens:Int64 reply_tokens:Int64 cost:Float64 "
    "cached_tokens:Int64 pictures:Int32 cached_pictures:Int32",
    "turns": "key:String turn:Int32 frame:Int32 image:String reply:String option:String category:String action:String "
    "move:String read_as:String judged:String",
    "verdicts": "key:String judge:String cell:String model:String scenario:String condition:String sample_id:Int64 "
    "category:Boolean suggestion:Boolean aggregate:Boolean reason:String first_failed:Boolean attempts:Int32 text:String "
    "seconds:Float64 prompt_tokens:Int64 reply_tokens:Int64 cost:Float64 strict_category:Boolean "
    "strict_suggestion:Boolean strict_aggregate:Boolean",
}
"""What run folders hold: another name, order or type would damage every part in them; what came later is at the end."""


def cell(protocol="mcqa"):
    return build({"data": "x", "models": ["uniform"], "scenarios": ["ROD"], "protocol": protocol}, "x.toml").cells()[0]


@pytest.mark.parametrize(("table", "found"), [("episodes", EPISODES), ("turns", TURNS), ("verdicts", VERDICTS)])
def test_stored_columns_are_those_of_every_run_folder_before(table, found):
    assert " ".join(f"{name}:{kind}" for name, kind in found.items()) == STORED[table]


def test_turns_of_before_answers_were_read_turn_by_turn_are_read_with_nulls(tmp_path):
    store = EpisodeStore(tmp_path)
    store.append(blocks.block([blocks.episode(0)]))
    store.close()
    (part,) = (tmp_path / "turns").glob("*.parquet")
    replaced(pl.read_parquet(part).drop("read_as", "judged"), part)
    store = EpisodeStore(tmp_path)
    store.append(blocks.block([blocks.episode(1)]))
    store.compact()
    store.close()

    found = turns(tmp_path).collect()
    assert found.schema == TURNS and found["key"].n_unique() == 2 and found["judged"].null_count() == found.height


@pytest.mark.parametrize(("row", "found"), [(EpisodeRow, EPISODES), (TurnRow, TURNS), (VerdictRow, VERDICTS)])
def test_the_store_has_the_columns_that_workers_send(row, found):
    assert tuple(found) == row._fields


def test_another_type_than_a_column_has_is_refused():
    class Wrong(NamedTuple):
        key: bytes

    with pytest.raises(KeyError):
        schema(Wrong)


def episode(key, turn, ending, error=None):
    shown = PlayedTurn(turn, ImageRef("ROD/1.jpg"), Reply("A", prompt_tokens=100, reply_tokens=2, cost=0.25))
    return Episode(key, SAMPLES["ROD"], 7, (shown,), ending, error, 0.5)


def test_what_a_worker_sends_is_what_the_store_reads_back(tmp_path):
    asked = Turn(3, "A", Verdict.CORRECT, Verdict.MISMATCH, Action.SUGGESTION, Move.LEFT)
    played = [
        PlayedEpisode(5, cell(), episode("a", asked, Ending.LIMIT)),
        PlayedEpisode(6, cell(), replace(episode("b", asked, Ending.FAILED, "gone"), turns=())),
        PlayedEpisode(7, cell("oeg"), episode("c", OpenAnswer(1, "Move it."), Ending.ANSWERED)),
    ]
    batch = pickle.loads(pickle.dumps(episode_batch(played)))
    store = EpisodeStore(tmp_path)
    store.append(batch)
    store.close()

    assert batch.ordinals == [5, 6, 7]
    assert episodes(tmp_path).collect().to_dict(as_series=False) == batch.episodes
    assert turns(tmp_path).collect().to_dict(as_series=False) == batch.turns
    first, failed, answered = episodes(tmp_path).collect().iter_rows(named=True)
    assert (first["ending"], first["correct"], first["suggestions"], first["cost"]) == ("limit", False, 1, 0.25)
    assert (failed["error"], failed["turns"], answered["correct"]) == ("gone", 0, None)
    assert [turn["move"] for turn in turns(tmp_path).collect().iter_rows(named=True)] == ["left", None]


def test_what_an_engine_had_before_is_counted_over_turns_and_unknown_where_one_does_not_tell():
    asked = Turn(3, "A", Verdict.CORRECT, Verdict.MISMATCH, Action.SUGGESTION, Move.LEFT)
    known = [Reply("A", 100, 2, cached_tokens=n, pictures=2, cached_pictures=n // 10) for n in (0, 10, 20)]

    def counted(replies):
        shown = tuple(PlayedTurn(asked, ImageRef("ROD/1.jpg"), reply) for reply in replies)
        return episode_row(cell(), replace(episode("a", asked, Ending.LIMIT), turns=shown))[-3:]

    assert counted(known) == (30, 6, 3)
    assert counted([*known, Reply("A")]) == counted([]) == (None, None, None)
    assert counted([Reply("A", 100, 2, cached_tokens=7)]) == (7, None, None)


def test_a_folder_of_an_earlier_version_is_read_with_nulls_and_merged_with_new_parts(tmp_path):
    for key in ("a", "b"):
        store = EpisodeStore(tmp_path)
        played = replace(episode(key, OpenAnswer(1, "?"), Ending.ANSWERED), turns=())
        store.append(episode_batch([PlayedEpisode(5, cell(), played)]))
        store.close()
    path = tmp_path / "episodes/part-00000001.parquet"
    replaced(pl.read_parquet(path).drop("cached_tokens", "pictures", "cached_pictures"), path)
    store = EpisodeStore(tmp_path)
    store.compact()
    store.close()

    assert [p.name for p in (tmp_path / "episodes").iterdir()] == ["part-00000001-00000002.parquet"]
    assert sorted(episodes(tmp_path).collect()["key"]) == ["a", "b"] and not damaged_parts(tmp_path)


def test_what_a_judges_worker_sends_is_what_the_store_reads_back(tmp_path):
    three = Bits(True, False)
    answers = [
        JudgedAnswer(5, cell("oeg"), 3, "a", Judged(three, "1,0", 1, "", False, 0.5, 10, 2, 0.25, strict=three)),
        JudgedAnswer(6, cell("oeg"), 4, "b", Judged(None, "what?", 2, "no list", True, 0.5, 10, 2, 0.0)),
    ]
    batch = pickle.loads(pickle.dumps(verdict_batch("rules/ours-1", answers)))
    store = VerdictStore(tmp_path)
    store.append(batch.verdicts)
    store.flush()

    assert batch.ordinals == [5, 6]
    found = verdicts(tmp_path).collect()
    assert found.to_dict(as_series=False) == batch.verdicts and found.schema == VERDICTS
    read, unread = found.iter_rows(named=True)
    assert (read["category"], read["suggestion"], read["aggregate"], read["strict_suggestion"]) == (
        True,
        False,
        True,
        False,
    )
    assert (unread["category"], unread["strict_category"], unread["reason"]) == (None, None, "no list")


def test_an_empty_batch_has_all_columns():
    assert episode_batch([]).episodes.keys() == EPISODES.keys()
    assert pl.DataFrame(verdict_batch("x", []).verdicts, schema=VERDICTS).is_empty()
