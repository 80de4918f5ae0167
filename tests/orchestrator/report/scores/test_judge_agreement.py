"""Judges of one folder: whose verdicts a report counts, and how far judges agree, computed by hand."""

import pytest

from actors.playing.judge_runner import judge_key
from envs.errors import RunFolderError
from orchestrator.report.scores.judge_agreement import agreement, choose_judge, own_judge_key
from orchestrator.storage.schemas import VERDICTS
from orchestrator.storage.verdict_store import VerdictStore
from tests.orchestrator.report.runs import sweep

FIRST, SECOND = "first/1", "second/2"


def store_verdicts(folder, judge: str, *bits: tuple[bool, bool, bool] | None) -> None:
    """Store a judge's verdicts on the answers 0, 1, ...: category, suggestion, aggregate; None is a reply without verdict."""
    store = VerdictStore(folder)
    for number, verdict in enumerate(bits):
        row = {"key": f"k{number}", "cell": "m/ROD/hint", "model": "m", "scenario": "ROD", "condition": "hint"}
        row |= {"sample_id": number, "judge": judge, "reason": None if verdict else "no verdict"}
        row |= dict(zip(("category", "suggestion", "aggregate"), verdict or (None, None, None), strict=True))
        store.append({name: [row.get(name)] for name in VERDICTS})
    store.flush()


@pytest.fixture
def folder(tmp_path):
    """Return a folder with two judges of four answers: they differ on the second; the other judge left the fourth unread."""
    yes, no = (True, True, True), (False, False, False)
    store_verdicts(tmp_path, FIRST, yes, yes, no, yes)
    store_verdicts(tmp_path, SECOND, yes, (False, True, False), no, None)
    return tmp_path


def test_report_counts_named_judge_or_the_sweeps_or_the_only_one(folder, demo_data, tmp_path):
    unjudged, judged = (
        sweep(demo_data, ["ask-properly"], ["hint"], protocol="oeg", **options)
        for options in ({}, {"judge": {"model": "rule-judge"}})
    )
    own = judge_key(judged.judge)

    assert own_judge_key(unjudged) == "" and own_judge_key(judged) == own
    assert choose_judge(folder, unjudged, "sec") == SECOND
    assert choose_judge(folder, unjudged, "") == "", "two judges, and none is the sweep's"
    assert choose_judge(folder, judged, "") == own
    (alone := tmp_path / "alone").mkdir()
    assert choose_judge(alone, unjudged, "") == ""
    store_verdicts(alone, FIRST, (True, True, True))
    assert choose_judge(alone, unjudged, "") == choose_judge(alone, judged, "") == FIRST
    store_verdicts(alone, own, (True, True, True))
    assert choose_judge(alone, judged, "") == own


def test_unknown_or_ambiguous_judge_is_refused_with_the_folders_judges(folder, demo_data, tmp_path):
    unjudged = sweep(demo_data, ["ask-properly"], ["hint"], protocol="oeg")
    store_verdicts(folder, "secondary/4", (True, True, True))

    for prefix, count in (("fourth", 0), ("second", 2)):
        with pytest.raises(RunFolderError, match=rf"'{prefix}' names {count} judges .*{FIRST}, {SECOND}, secondary/4"):
            choose_judge(folder, unjudged, prefix)
    with pytest.raises(RunFolderError, match=r"its judges: none yet$"):
        choose_judge(tmp_path / "none", unjudged, "first")


def test_agreement_counts_what_both_read(folder):
    rows = {row["bit"]: row for row in agreement(folder).to_dicts()}

    assert list(rows) == ["category", "suggestion", "aggregate"]
    assert {(row["judge"], row["other"], row["answers"]) for row in rows.values()} == {(FIRST, SECOND, 3)}
    assert rows["suggestion"]["equal"] == 100 and rows["suggestion"]["kappa"] == 1
    category = rows["category"]
    assert [round(category[name], 2) for name in ("equal", "first_yes", "other_yes")] == [66.67, 66.67, 33.33]
    assert category["kappa"] == pytest.approx((2 / 3 - 4 / 9) / (1 - 4 / 9))
    assert category["kappa_low"] < category["kappa"] < category["kappa_high"]
