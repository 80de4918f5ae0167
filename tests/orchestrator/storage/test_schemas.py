"""Tables are stored with the columns of the row types, which are those of all earlier run folders."""

import pickle

import polars as pl
import pytest

from actors.engine.backend import Reply
from actors.playing.judge import Judged
from actors.playing.play import Episode, PlayedTurn
from actors.playing.records import AnswerTask, JudgedAnswer, PlayedEpisode, episode_batch, verdict_batch
from actors.playing.rows import EpisodeRow, TurnRow, VerdictRow
from envs.openended import Bits
from envs.types import Action, Ending, ImageRef, Move, OpenAnswer, Turn, Verdict
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.storage.part_files import list_parts
from orchestrator.storage.schemas import EPISODES, TURNS, VERDICTS
from orchestrator.storage.verdict_store import VerdictStore, verdicts
from sweeps.load import build
from tests.envs.games import SAMPLES
from tests.orchestrator.report.runs import replace_part

STORED = {
    "episodes": "key:String cell:String model:String scenario:String condition:String protocol:String sample_id:Int64 "
    "seed:Int64 ending:String correct:Boolean turns:Int32 suggestions:Int32 abstentions:Int32 categories:Int32 "
    "unparsable:Int32 error:String seconds:Float64 prompt_tokens:Int64 reply_tokens:Int64 cost:Float64 "
    "cached_tokens:Int64 pictures:Int32 cached_pictures:Int32",
    "turns": "key:String turn:Int32 frame:Int32 image:String reply:String option:String category:String action:String "
    "move:String read_as:String judged:String note:String thoughts:String",
    "verdicts": "key:String judge:String cell:String model:String scenario:String condition:String sample_id:Int64 "
    "category:Boolean suggestion:Boolean aggregate:Boolean reason:String first_failed:Boolean attempts:Int32 text:String "
    "seconds:Float64 prompt_tokens:Int64 reply_tokens:Int64 cost:Float64 strict_category:Boolean "
    "strict_suggestion:Boolean strict_aggregate:Boolean",
}
"""Columns of existing run folders: another name, order or type would damage every part; later columns are at the end."""


def cell(protocol="mcqa"):
    return build({"data": "x", "models": ["uniform"], "scenarios": ["ROD"], "protocol": protocol}, "x.toml").cells()[0]


@pytest.mark.parametrize(("table", "columns"), [("episodes", EPISODES), ("turns", TURNS), ("verdicts", VERDICTS)])
def test_stored_columns_match_earlier_run_folders(table, columns):
    assert " ".join(f"{name}:{kind}" for name, kind in columns.items()) == STORED[table]


@pytest.mark.parametrize(("row", "columns"), [(EpisodeRow, EPISODES), (TurnRow, TURNS), (VerdictRow, VERDICTS)])
def test_the_store_has_the_columns_that_workers_send(row, columns):
    assert tuple(columns) == row._fields


def episode(key, turn, ending, error=None):
    played_turn = PlayedTurn(turn, ImageRef("ROD/1.jpg"), Reply("A", prompt_tokens=100, reply_tokens=2, cost=0.25))
    return Episode(key, SAMPLES["ROD"], 7, (played_turn,), ending, error, 0.5)


def test_store_reads_back_what_worker_sends(tmp_path):
    suggestion_turn = Turn(3, "A", Verdict.CORRECT, Verdict.MISMATCH, Action.SUGGESTION, Move.LEFT)
    played = [
        PlayedEpisode(5, cell(), episode("a", suggestion_turn, Ending.LIMIT)),
        PlayedEpisode(6, cell(), episode("b", suggestion_turn, Ending.FAILED, "gone")._replace(turns=())),
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


def test_earlier_parts_read_with_nulls_and_merge_with_new_ones(tmp_path):
    for key in ("a", "b"):
        store = EpisodeStore(tmp_path)
        played = episode(key, OpenAnswer(1, "?"), Ending.ANSWERED)._replace(turns=())
        store.append(episode_batch([PlayedEpisode(5, cell(), played)]))
        store.close()
    path = tmp_path / "episodes/part-00000001.parquet"
    replace_part(pl.read_parquet(path).drop("cached_tokens", "pictures", "cached_pictures"), path)
    store = EpisodeStore(tmp_path)
    store.compact()
    store.close()

    assert [p.name for p in (tmp_path / "episodes").iterdir()] == ["part-00000001-00000002.parquet"]
    assert sorted(episodes(tmp_path).collect()["key"]) == ["a", "b"] and not list_parts(tmp_path).bad


def test_store_reads_back_what_judge_worker_sends(tmp_path):
    three, task = Bits(True, False), AnswerTask(cell("oeg"), SAMPLES["ROD"], "a")
    answers = [
        JudgedAnswer(5, task, Judged(three, "", 1, [Reply("1,0", 10, 2, cost=0.25)], 0.5, three)),
        JudgedAnswer(6, task._replace(key="b"), Judged(None, "no list", 2, [Reply("what?", 10, 2)], 0.5)),
    ]
    batch = pickle.loads(pickle.dumps(verdict_batch("rules/ours-1", answers)))
    store = VerdictStore(tmp_path)
    store.append(batch.verdicts)
    store.flush()

    assert batch.ordinals == [5, 6]
    stored = verdicts(tmp_path).collect()
    assert stored.to_dict(as_series=False) == batch.verdicts and stored.schema == VERDICTS
    read, unread = stored.iter_rows(named=True)
    bits = [read[name] for name in ("category", "suggestion", "aggregate", "strict_suggestion")]
    assert bits == [True, False, True, False]
    assert (unread["category"], unread["strict_category"], unread["reason"]) == (None, None, "no list")
