"""Which of several folders' answers are taken, pair by pair, and the sentences on answers that differ or are left."""

import polars as pl
import pytest

from actors.engine.baselines import Baseline
from envs.errors import RunFolderError
from orchestrator.merging.answers import Source, merge_verdicts
from orchestrator.merging.merge import _merge_plans
from orchestrator.storage import run_folder
from tests.orchestrator.report.runs import judge_answers, play_sweep, replace_part, sweep


@pytest.fixture
def judged(demo_data, tmp_path):
    """Two folders of equal answers, with the verdicts of the rule judge."""
    options = {"protocol": "oeg", "judge": {"model": "rule-judge"}, "scenarios": ["QD"]}
    spec = sweep(demo_data, ["ask-properly"], ["hint"], **options)
    folders = [play_sweep(tmp_path / name, spec) for name in ("one", "two")]
    for folder in folders:
        judge_answers(folder, spec, spec.judge, Baseline("rule-judge"))
    played = [run_folder.planned_episodes(folder).collect() for folder in folders]
    return [Source(folder, rows, rows) for folder, rows in zip(folders, played, strict=True)]


def rewrite(source, **columns) -> None:
    (part,) = (source.folder / "verdicts").glob("*.parquet")
    replace_part(pl.read_parquet(part).sort("key").with_columns(**columns), part)


def test_a_parsed_verdict_comes_before_an_unparsed_one_and_the_preferred_before_others(judged):
    one, two = judged
    keys = one.own["key"].sort().to_list()
    assert merge_verdicts(judged)[1] == [] and merge_verdicts(judged)[0].height == 10
    unread = pl.col("key") == keys[0]
    bits = ("category", "suggestion", "aggregate")
    rewrite(one, **{bit: pl.when(unread).then(None).otherwise(bit).alias(bit) for bit in bits})
    rows, conflicts = merge_verdicts(judged)
    assert conflicts == [] and rows["aggregate"].null_count() == 0 and rows.height == 10

    odd = pl.col("key") == keys[5]
    rewrite(two, category=pl.when(odd).then(~pl.col("category")).otherwise("category"), seconds=pl.lit(9.0))
    for prefer, seconds in ((0, 1), (1, 10)):
        rows, conflicts = merge_verdicts(judged, prefer)
        assert conflicts == [keys[5]]
        assert (rows["seconds"] == 9.0).sum() == seconds, "one's unread one is two's, or all are"


@pytest.mark.parametrize("full", [5, 6], ids=["another stop", "other data"])
def test_a_cell_of_other_samples_is_refused(tmp_path, full):
    names = {"cell": "c", "model": "m", "scenario": "QD", "condition": "hint", "protocol": "mcqa"}
    for name, row in (("one", {"planned": 2, "full": 5}), ("two", {"planned": 3, "full": full})):
        (tmp_path / name).mkdir()
        keys = [f"c/{number:04d}-00000000" for number in range(row["planned"])]
        run_folder.write_plan(tmp_path / name, [{**names, **row}], keys)
    with pytest.raises(RunFolderError, match=r"different samples of c: .*merge only one of them"):
        _merge_plans([tmp_path / "one", tmp_path / "two"])
