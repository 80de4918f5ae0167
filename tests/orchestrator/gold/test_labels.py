"""People's labels: a drawn sheet comes back as labels, and correct the judge's shares in the table."""

import csv
from dataclasses import replace

import polars as pl
import pytest
from typer.testing import CliRunner

from actors.engine.baselines import Baseline
from envs.errors import RunFolderError
from envs.samples import load_samples
from envs.scenario import suggestions
from orchestrator.cli.main import app
from orchestrator.gold.labels import draw_answers, parse_labels, read_labels, store_labels
from orchestrator.report.measures.judge_correction import corrected_shares
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.open_ended import corrected_table
from orchestrator.storage.option_labels import OptionLabel, to_csv
from orchestrator.storage.verdict_store import VerdictStore, verdicts
from tests.orchestrator.report import runs


@pytest.fixture(scope="module")
def judged_run(demo_data, tmp_path_factory):
    """A run of two policies whose answers the rule judge has read."""
    options = {"protocol": "oeg", "judge": {"model": "rule-judge"}, "scenarios": ["ROD", "QD"]}
    wanted = runs.sweep(demo_data, ["ask-properly", "refuse"], ["zero-shot"], **options)
    folder = runs.play_sweep(tmp_path_factory.mktemp("labels") / "run", wanted)
    return runs.judge_answers(folder, wanted, wanted.judge, Baseline("rule-judge"))


def command(*words):
    return CliRunner().invoke(app, ["judge", *map(str, words)])


def write_csv(path, *lines):
    path.write_text("\n".join(["key,category,suggestion", *lines]) + "\n")
    return path


def test_a_drawn_sheet_is_filled_in_and_corrects_the_judge(judged_run, tmp_path):
    """The planted truth: half of what the judge takes for a suggestion is none."""
    sheet = tmp_path / "sheet.csv"
    drawn = command(judged_run, "--labels", sheet, "--draw", 40)
    rows = list(csv.DictReader(sheet.open()))
    before = read_run(judged_run)
    judged = dict(before.verdicts.select("key", "suggestion").iter_rows())
    for number, row in enumerate(rows):
        row |= {"category": "0", "suggestion": str(int(judged[row["key"]] and number % 8 < 4))}
    write_rows(sheet, rows)
    stored = command(judged_run, "--labels", sheet)
    shares = corrected_shares(run := read_run(judged_run)).filter(
        model="ask-properly", bit="suggestion", scenario="avg"
    )
    row = shares.row(0, named=True)

    assert drawn.exit_code == 0 and "40 answers" in drawn.stdout and len({row["key"] for row in rows}) == 40
    assert all(row["answer"] and row["scenario"] for row in rows)
    assert stored.exit_code == 0 and "40 labels read, 40 in" in stored.stdout, stored.output
    assert read_labels(judged_run).height == 40 and row["labelled"] == 20
    assert row["raw"] == 100 and row["labels"] == pytest.approx(50, abs=12)
    assert row["labels_low"] < 50 < row["labels_high"] < row["raw_low"]
    assert row["gold"] is None, "this run has no gold check"
    (asked, *_), *_ = [
        line for line in corrected_table(run).rows if line[0].text == "ask-properly, zero-shot, suggestion"
    ]
    assert asked.text


def test_active_labels_are_of_answers_where_judges_differ_and_correct_without_bias(demo_data, tmp_path):
    """The second judge sees what the first one misses: it takes every eighth suggestion for none, as the truth has it."""
    options = {"protocol": "oeg", "judge": {"model": "rule-judge"}, "scenarios": ["ROD", "QD"]}
    wanted = runs.sweep(demo_data, ["ask-properly"], ["zero-shot"], **options)
    folder = runs.play_sweep(tmp_path / "run", wanted)
    runs.judge_answers(folder, wanted, wanted.judge, Baseline("rule-judge"))
    alone = command(folder, "--labels", tmp_path / "none.csv", "--draw", 8, "--active")
    assert alone.exit_code == 2 and "--by MODEL` asks a model" in alone.stderr

    first = verdicts(folder).collect().sort("key")
    wrong = pl.int_range(pl.len()) % 8 == 0
    second = first.with_columns(
        pl.lit("second").alias("judge"), pl.when(wrong).then(False).otherwise("suggestion").alias("suggestion"),
        pl.when(wrong).then(False).otherwise("aggregate").alias("aggregate"),
    )  # fmt: skip
    store = VerdictStore(folder)
    store.append(second.to_dict(as_series=False))
    store.flush()
    truth = dict(second.select("key", "suggestion").iter_rows())
    disputed = {key for key, suggestion in truth.items() if not suggestion}

    sheet = tmp_path / "sheet.csv"
    assert command(folder, "--labels", sheet, "--draw", 24, "--active").exit_code == 0
    rows = list(csv.DictReader(sheet.open()))
    assert {row["drawn"] for row in rows} == {"second"} and disputed <= {row["key"] for row in rows}, "they are few"
    write_rows(sheet, [row | {"category": "0", "suggestion": str(int(truth[row["key"]]))} for row in rows])
    assert command(folder, "--labels", sheet).exit_code == 0
    row = corrected_shares(read_run(folder)).filter(bit="suggestion", scenario="avg").row(0, named=True)
    share = 100 * (1 - len(disputed) / len(truth))
    assert row["raw"] == 100 and row["labels"] == pytest.approx(share, abs=1), (
        "not half, though half of the labels are no"
    )


def write_rows(path, rows):
    with path.open("w") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def test_cells_take_turns_and_no_answer_is_drawn_twice():
    answers = pl.DataFrame(
        {"key": [f"{cell}/{n}" for cell in "abc" for n in range(10)], "cell": [c for c in "abc" for _ in range(10)]}
    )
    first = draw_answers(answers, [], 6, 1)
    second = draw_answers(answers, first, 24, 1)

    assert sorted(key[0] for key in first) == ["a", "a", "b", "b", "c", "c"]
    assert sorted(first + second) == sorted(answers["key"]) and draw_answers(answers, [], 6, 2) != first


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
    assert not (tmp_path / "labels.csv").exists()


def test_later_labels_win_and_empty_rows_are_skipped(tmp_path):
    store_labels(tmp_path, write_csv(tmp_path / "x.csv", "a,1,0", "b,0,0", "c,,"), "abc")
    assert store_labels(tmp_path, write_csv(tmp_path / "y.csv", "a,yes,No"), "abc") == (1, 2)

    assert parse_labels(tmp_path / "labels.csv").rows() == [
        ("a", True, False, True, ""), ("b", False, False, False, "")
    ]  # fmt: skip


def test_words_of_yes_and_no_are_read_in_any_case_and_an_empty_file_has_no_labels(tmp_path):
    path = write_csv(tmp_path / "x.csv", "f,1,0", "e,true,FALSE", "d,Yes,no", "c, no , 1 ", "b,False,yes", "a,NO,0")
    either = {"f": (True, False), "e": (True, False), "d": (True, False), "c": (False, True), "b": (False, True)}
    expected = [(key, *either.get(key, (False, False)), key != "a", "") for key in "abcdef"]
    assert parse_labels(path).rows() == expected
    path.write_text("key,category\na,1\n")
    with pytest.raises(RunFolderError) as refusal:
        parse_labels(path)
    assert str(refusal.value) == (
        f"{path} has no column suggestion; a file of labels has the columns key, category, suggestion"
    )
    assert (
        read_labels(tmp_path).rows() == []
        and read_labels(tmp_path).columns == parse_labels(write_csv(path, "a,1,1")).columns
    )


def test_the_last_option_is_a_label_and_the_next_number_is_none(demo_data, tmp_path):
    sample, path = load_samples(demo_data, "QD")[0], tmp_path / "export.csv"
    count = len(sample.options) + len(sample.categories)
    path.write_text(to_csv([OptionLabel(key="a", labeler="x", label=str(count - 1))]))
    right = sample.categories[-1] == sample.answer
    assert parse_labels(path, {"a": sample}).rows() == [("a", right, False, right, "")]
    path.write_text(to_csv([OptionLabel(key="a", labeler="x", label=str(count))]))
    with pytest.raises(RunFolderError) as refusal:
        parse_labels(path, {"a": sample})
    assert str(refusal.value) == f"{path}: a has {count} options, counted from 0; {count} is none of them"


def test_the_first_category_is_one_and_the_last_option_before_it_none(demo_data, tmp_path):
    first = load_samples(demo_data, "QD")[0]
    sample, path = replace(first, answer=first.categories[0]), tmp_path / "export.csv"
    for number, category in ((len(first.options), True), (len(first.options) - 1, False)):
        path.write_text(to_csv([OptionLabel(key="a", labeler="x", label=str(number))]))
        assert parse_labels(path, {"a": sample})["category"].to_list() == [category]


def test_labels_that_name_options_are_read_as_verdicts(demo_data, tmp_path):
    """What a person gave in ``view --as``: the right category, a wrong one, a suggestion, the abstention, none; others' keys."""
    sample = load_samples(demo_data, "QD")[0]
    options = [*sample.options, *sample.categories]
    right, ask = options.index(sample.answer), options.index(suggestions(sample.options)[0])
    abstention = next(
        number for number, option in enumerate(sample.options) if option not in suggestions(sample.options)
    )
    wrong = next(number for number in range(len(sample.options), len(options)) if number != right)
    texts = {"a": str(right), "b": str(wrong), "c": str(ask), "d": str(abstention), "e": "none", "other": "0"}
    path = tmp_path / "export.csv"
    path.write_text(
        to_csv(OptionLabel(key=key, labeler=who, label=text) for key, text in texts.items() for who in "xy")
    )
    samples = dict.fromkeys("abcde", sample)

    assert store_labels(tmp_path, path, "abcde", samples) == (5, 5)
    bits = [(True, False), (False, False), (False, True), (False, False), (False, False)]
    assert read_labels(tmp_path).select("category", "suggestion").rows() == bits
    path.write_text(to_csv([OptionLabel(key="a", labeler="x", label="99")]))
    with pytest.raises(RunFolderError, match="counted from 0; 99 is none of them"):
        parse_labels(path, samples)
    path.write_text(to_csv(OptionLabel(key="a", labeler=who, label=str(n)) for who, n in (("x", right), ("y", wrong))))
    with pytest.raises(RunFolderError, match="two labels of a"):
        parse_labels(path, samples)
    with pytest.raises(RunFolderError, match="labels no open-ended answer"):
        parse_labels(path)


def test_a_sheet_is_not_overwritten(judged_run, tmp_path):
    (tmp_path / "x.csv").write_text("mine")

    assert "exists" in command(judged_run, "--labels", tmp_path / "x.csv", "--draw", 4).output
    assert "add --labels" in command(judged_run, "--draw", 4).output
    assert "copy s3://bucket/run to one" in command("s3://bucket/run", "--labels", tmp_path / "x.csv").output
    with pytest.raises(RunFolderError, match="no column key"):
        parse_labels(tmp_path / "x.csv")
