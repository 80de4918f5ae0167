"""People's labels: a CSV is stored in the run folder, and corrects the judge's shares in the table."""

import polars as pl
import pytest
from typer.testing import CliRunner

from actors.engine.baselines import Baseline
from envs.errors import RunFolderError
from orchestrator.cli.main import app
from orchestrator.gold.labels import FILE, parse_labels, read_labels, store_labels
from orchestrator.report.measures.judge_correction import corrected_shares
from orchestrator.report.read_run import read_run
from orchestrator.storage.verdict_store import VerdictStore, verdicts
from tests.orchestrator.report import runs


def write_csv(path, *lines, columns="key,category,suggestion"):
    path.write_text("\n".join([columns, *lines]) + "\n")
    return path


@pytest.fixture
def judged_run(demo_data, tmp_path):
    """A run whose answers the rule judge has read: it takes every answer for a suggestion."""
    options = {"protocol": "oeg", "judge": {"model": "rule-judge"}, "scenarios": ["ROD", "QD", "COCO", "IN-C"]}
    wanted = runs.sweep(demo_data, ["ask-properly"], ["zero-shot"], **options)
    folder = runs.play_sweep(tmp_path / "run", wanted)
    return runs.judge_answers(folder, wanted, wanted.judge, Baseline("rule-judge"))


def corrected(folder):
    return corrected_shares(read_run(folder)).filter(bit="suggestion", scenario="avg").row(0, named=True)


def test_labels_of_a_file_correct_the_judge(judged_run, tmp_path):
    """The planted truth: half of what the judge takes for a suggestion is none."""
    keys = verdicts(judged_run).collect().sort("key")["key"]
    file = write_csv(tmp_path / "x.csv", *(f"{key},0,{number % 2}" for number, key in enumerate(keys)))
    done = CliRunner().invoke(app, ["judge", str(judged_run), "--labels", str(file)])

    row = corrected(judged_run)
    assert done.exit_code == 0 and f"{len(keys)} labels read, {len(keys)} in" in done.stdout, done.output
    assert read_labels(judged_run).height == row["labelled"] == len(keys) and row["gold"] is None
    assert row["raw"] == 100 and row["labels"] == pytest.approx(50) and row["labels_high"] < row["raw_low"]
    bucket = CliRunner().invoke(app, ["judge", "s3://bucket/run", "--labels", str(file)])
    assert bucket.exit_code == 2 and "copy s3://bucket/run to one" in bucket.output


def test_labels_drawn_where_judges_differ_correct_without_bias(judged_run, tmp_path):
    """The second judge sees what the first one misses: it takes every eighth suggestion for none, as the truth has it."""
    first = verdicts(judged_run).collect().sort("key")
    wrong = pl.int_range(pl.len()) % 8 == 0
    second = first.with_columns(
        pl.lit("second").alias("judge"), pl.when(wrong).then(False).otherwise("suggestion").alias("suggestion"),
        pl.when(wrong).then(False).otherwise("aggregate").alias("aggregate"),
    )  # fmt: skip
    store = VerdictStore(judged_run)
    store.append(second.to_dict(as_series=False))
    store.flush()
    truth = dict(second.select("key", "suggestion").iter_rows())
    asked = [key for number, key in enumerate(truth) if not truth[key] or number % 3]
    lines = [f"{key},0,{int(truth[key])},second" for key in asked]
    store_labels(judged_run, write_csv(tmp_path / "x.csv", *lines, columns="key,category,suggestion,drawn"), truth)

    row, share = corrected(judged_run), 100 * sum(truth.values()) / len(truth)
    assert row["raw"] == 100 and row["labels"] == pytest.approx(share, abs=1), "more labels of disputes change no share"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,1,2"], "label of a is not 1 or 0"),
        (["a,1,"], "label of a is not 1 or 0"),
        (["a,1,0", "a,1,1"], "two labels of a"),
        (["nobody,1,0"], "labels nobody, which is no open-ended answer"),
    ],
)
def test_bad_labels_are_refused_in_one_sentence(tmp_path, lines, message):
    with pytest.raises(RunFolderError, match=message):
        store_labels(tmp_path, write_csv(tmp_path / "x.csv", *lines), ["a"])
    assert not (tmp_path / FILE).exists()


def test_later_labels_win_equal_ones_count_once_and_empty_rows_are_skipped(tmp_path):
    store_labels(tmp_path, write_csv(tmp_path / "x.csv", "a,1,0", "a,1,0", "b,0,0", "c,,"), "abc")
    assert store_labels(tmp_path, write_csv(tmp_path / "y.csv", "a,yes,No"), "abc") == (1, 2)

    assert parse_labels(tmp_path / FILE).rows() == [("a", True, False, True, ""), ("b", False, False, False, "")]


def test_words_of_yes_and_no_are_read_in_any_case(tmp_path):
    path = write_csv(tmp_path / "x[1].csv", "f,1,0", "e,true,FALSE", "d,Yes,no", "c, no , 1 ", "a,NO,0")
    rows = [(key, category, suggestion) for key, category, suggestion, *_ in parse_labels(path).rows()]
    assert rows == [("a", False, False), ("c", False, True), ("d", True, False), ("e", True, False), ("f", True, False)]
    assert read_labels(tmp_path).columns == parse_labels(path).columns and read_labels(tmp_path).is_empty()
    with pytest.raises(RunFolderError, match="it is a folder"):
        parse_labels(tmp_path)
    with pytest.raises(RunFolderError, match=r"no column suggestion; .*key, category, suggestion"):
        parse_labels(write_csv(path, "a,1", columns="key,category"))
