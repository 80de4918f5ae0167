"""The share of models that are right per sample: planted answers, the interval over models, and links on the page."""

import json
import re

import polars as pl
import pytest

from actors.engine.baselines import Baseline
from orchestrator.report.html import write_page
from orchestrator.report.measures import sample_accuracy as room
from orchestrator.report.measures.sample_accuracy import hardest_samples, sample_accuracy
from orchestrator.report.read_run import read_run
from orchestrator.report.statistics.clusters import effective_size
from orchestrator.report.statistics.proportion import proportion_interval
from orchestrator.report.tables.behavior import HARDEST, hard_samples_table
from orchestrator.report.tables.write import write_tables
from tests.orchestrator.report.runs import play_sweep, sweep


def test_one_answer_per_model_has_the_interval_of_a_proportion():
    share = room._estimate_share(((0, 1),) * 3 + ((1, 1),) * 5)

    assert share == pytest.approx((62.5, *(100 * bound for bound in proportion_interval(5, 8))))


def test_answers_of_one_model_are_one_cluster():
    """Two models always right and two always wrong, in four conditions each, count as about four answers, not 16."""
    share, low, high = room._estimate_share(((0, 4), (0, 4), (4, 4), (4, 4)))
    values, groups = pl.Series([0] * 8 + [100] * 8).to_numpy(), pl.Series([n // 4 for n in range(16)]).to_numpy()
    size = effective_size(values, groups)

    assert share == 50 and 1 <= size < 4
    assert (low, high) == pytest.approx(tuple(100 * bound for bound in proportion_interval(size / 2, size)))


@pytest.fixture(scope="module")
def three_model_run(demo_data, tmp_path_factory):
    """Three models of the registry, played by policies, and a baseline."""
    names = ["llava-1.5-7b", "internvl3-1b", "qwen2.5-vl-3b"]
    backends = {name: Baseline(policy) for name, policy in zip(names, ("uniform", "guess", "oracle"), strict=True)}
    wanted = sweep(demo_data, [*names, "abstain"], ["zero-shot", "hint", "reference"])
    return play_sweep(tmp_path_factory.mktemp("samples") / "run", wanted, backends=backends)


def test_rows_count_models_and_conditions_except_reference(three_model_run):
    run_data = read_run(three_model_run)
    samples = sample_accuracy(run_data)
    counted = run_data.scored.filter(pl.col("model") != "abstain", pl.col("condition") != "reference")
    wanted = counted.group_by("scenario", "sample_id").agg(pl.col("correct").sum(), pl.len())
    both = samples.join(wanted, on=["scenario", "sample_id"])

    assert samples.height == both.height == sum(len(part) for part in run_data.samples.values())
    assert (both["answers"] == both["len"]).all() and both["answers"].max() == 6
    assert (both["right"] == both["correct"]).all()
    assert both["share"].to_list() == pytest.approx((100 * both["right"] / both["answers"]).to_list())
    assert ((samples["share_low"] <= samples["share"]) & (samples["share"] <= samples["share_high"])).all()
    assert samples["all_wrong"].equals((samples["right"] == 0).alias("all_wrong")) and samples["all_right"].any()
    assert samples["all_right"].equals((samples["right"] == samples["answers"]).alias("all_right"))


def test_hardest_samples_come_first_with_wrong_zero_shot_example(three_model_run):
    run_data = read_run(three_model_run)
    samples = sample_accuracy(run_data)
    examples = samples.join(run_data.episodes, left_on="example", right_on="key", suffix="_played")

    assert examples.height == samples.height and examples["sample_id"].equals(
        examples["sample_id_played"].alias("sample_id")
    )
    assert (~examples["correct"] | examples["all_right"]).all()
    wrong = run_data.scored.filter(~pl.col("correct"), pl.col("model") != "abstain", condition="zero-shot")
    possible = examples.join(wrong, on=["scenario", "sample_id"], how="semi")
    assert possible.height and (possible["condition"] == "zero-shot").all()
    for part in samples.partition_by("scenario"):
        assert part["share_high"].round(6).is_sorted()
    first = hardest_samples(run_data, 2)
    assert first.height == 14 and first["scenario"][0] == "ROD" and first.row(0) == samples.row(0)


def test_page_links_hardest_samples_to_its_episodes(three_model_run):
    names = {path.name for path in write_tables(read_run(three_model_run))}
    page = write_page(read_run(three_model_run), episodes=60).read_text()
    table = hard_samples_table(read_run(three_model_run))
    content = json.loads(page.split('id="content">')[1].split("</script>")[0])

    assert {"hard-samples.md", "hard-samples.csv", "samples-difficulty.csv"} <= names
    assert len(table.rows) == HARDEST * 7 and table.rows[0][0].text.startswith("ROD ")
    number = r"\d+\.\d"
    for row in table.rows:
        label, right, percent, episode = (cell.text for cell in row)
        assert re.fullmatch(r"[A-Z-]+ \d{4}", label) and re.fullmatch(r"\d+ of \d+", right)
        assert re.fullmatch(rf"{number} \({number} to {number}\)", percent) and row[-1].link == f"#episode={episode}"
    keys = {row[-1].text for row in table.rows}
    assert keys <= {episode["key"] for episode in content["episodes"]}
    assert all(f'href="#episode={key}"' in page for key in keys)
    assert "have no right answer" in page and ">Sample</button>" in page


def test_below_three_models_there_are_no_rows(run_data):
    assert sample_accuracy(run_data).is_empty() and not hard_samples_table(run_data).rows


def test_an_example_is_wrong_under_zero_shot_if_there_is_one():
    rows = [
        # sample, key, correct, condition, model
        (0, "right", True, "zero-shot", "a"), (0, "hinted", False, "hint", "a"), (0, "later", False, "zero-shot", "c"),
        (0, "wrong", False, "zero-shot", "b"), (1, "b", True, "hint", "b"), (1, "a", True, "hint", "a"),
    ]  # fmt: skip
    names = ["sample_id", "key", "correct", "condition", "model"]
    answers = pl.DataFrame(rows, schema=names, orient="row").with_columns(scenario=pl.lit("QD"))
    examples = room._pick_examples(answers).select("scenario", "sample_id", "example")

    assert sorted(examples.rows()) == [("QD", 0, "wrong"), ("QD", 1, "a")]
