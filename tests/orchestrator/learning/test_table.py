"""Table 3 of a run whose episodes were played by policies instead of models, so that every figure is known."""

import polars as pl
import pytest
import tomli_w

from actors.engine.baselines import Baseline
from envs.errors import RunFolderError
from orchestrator.learning import table
from orchestrator.learning.run_files import claim, model_entry, read_train_table
from orchestrator.learning.settings import TrainError, train_table
from orchestrator.report.tables.formats import markdown
from sweeps.load import SweepError, load
from tests.orchestrator.report.runs import play_sweep, sweep


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    """``model.toml`` of a training that was never run."""
    folder = tmp_path_factory.mktemp("learning") / "rp-0.75"
    (folder / "adapter-0").mkdir(parents=True)
    train = train_table({"train": {"model": "embedded", "data": "d", "rp": 0.75}}, "x.toml")
    claim(folder, train)
    (folder / "model.toml").write_text(tomli_w.dumps({"model": [model_entry(folder, train, folder / "adapter-0")]}))
    return folder / "model.toml"


@pytest.fixture(scope="module")
def run(demo_data, model_file, tmp_path_factory):
    """``abstain`` plays the model before, ``oracle`` the model after."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "x.toml").write_text(
        f'data = "{demo_data}"\nmodels = ["embedded"]\nconditions = ["zero-shot", "reference"]\n'
    )
    wanted = load(folder / "x.toml", [], [model_file])
    engines = {"embedded": Baseline("abstain"), "embedded-rp-0.75": Baseline("oracle")}
    return play_sweep(folder / "run", wanted, backends=engines)


def test_a_trained_model_is_an_entry_of_a_sweep(model_file):
    trained_sweep = load_with(model_file)

    assert [model.name for model in trained_sweep.models] == ["embedded", "embedded-rp-0.75"]
    after = trained_sweep.models[1]
    assert (after.source, after.backend) == ("builtin:embedded", "transformers") and after.lora.endswith("adapter-0")
    assert read_train_table(model_file.parent)["rp"] == 0.75


def load_with(*files):
    from pathlib import Path

    return load(Path("sweeps/demo-learning.toml"), [], files)


def test_file_without_models_is_refused(tmp_path):
    (tmp_path / "m.toml").write_text("x = 1\n")

    with pytest.raises(SweepError, match=r"m.toml has no \[\[model\]\] table; `train` writes one"):
        load_with(tmp_path / "m.toml")


def test_another_reward_in_the_same_folder_is_refused(model_file):
    train = train_table({"train": {"model": "embedded", "data": "d", "rp": 1.0}}, "x.toml")

    with pytest.raises(TrainError, match=r"other settings: rp was 0\.75, now it is 1\.0; pass another --output"):
        claim(model_file.parent, train)


def test_rows_are_before_after_and_reference(run):
    rows = table.read_scores(run).rows

    assert rows["stage"].unique(maintain_order=True).to_list() == ["before", "rp 0.75", "reference"]
    assert set(rows.filter(pl.col("in_domain"))["scenario"]) == {"QD", "COCO"} and rows.height == 21
    assert set(rows.filter(stage="before")["acc"]) == {0.0} and set(rows.filter(stage="rp 0.75")["acc"]) == {100.0}


def test_changes_are_paired_and_grouped_by_what_was_trained(run):
    paired = table.read_scores(run).paired
    groups = {row["scenarios"]: row for row in paired.iter_rows(named=True)}

    assert list(groups)[-2:] == ["trained", "unseen"] and len(groups) == 9
    assert groups["trained"]["n"] == 20 and groups["unseen"]["n"] == 50
    for row in groups.values():
        assert row["difference"] == 100 and 0 < row["low"] < 100 == row["high"]
    assert groups["QD"]["ps_difference"] > 0


def render_tables(scores):
    return "\n".join(map(markdown, table.learning_tables(scores)))


def test_the_tables_are_rendered_and_written(run):
    scores = table.read_scores(run)
    text = render_tables(scores)

    assert "| after | ROD | VSOD | MVP-N | IN-C | QD\\* | CIT | COCO\\* | avg |" in text
    assert "| rp 0.75, unseen | 50 | +100.0 \\[" in text
    written = table.write_scores(run, scores)
    assert [path.name for path in written] == ["learning.csv", "learning-paired.csv", "learning.png", "learning.svg"]
    assert pl.read_csv(written[0]).height == 21 and all(path.stat().st_size for path in written)


def test_an_unfinished_row_has_no_average(run):
    scores = table.read_scores(run)
    rows = scores.rows.with_columns(lacking=pl.when(pl.col("stage") == "before").then(1).otherwise(0))

    assert "unfinished" in render_tables(table.LearningScores(rows, scores.paired, {}))


def test_paper_table_follows_model_table(run):
    scores = table.read_scores(run)
    text = render_tables(table.LearningScores(scores.rows, scores.paired, {"embedded": "Qwen2.5-VL-3B"}))

    assert "Qwen2.5-VL-3B in the paper" in text and "37.4 / 0.9" in text


def test_paper_averages_are_means_of_seven_scenarios():
    names = ["QD", "COCO", "ROD", "VSOD", "MVP-N", "IN-C", "CIT"]
    for row in table.published_rows().iter_rows(named=True):
        assert sum(row[f"{name} acc"] for name in names) / 7 == pytest.approx(row["avg acc"], abs=0.1)


def test_run_without_trained_model_is_refused(demo_data, tmp_path):
    folder = play_sweep(tmp_path / "run", sweep(demo_data, ["abstain"], ["zero-shot"]), only=1)

    with pytest.raises(RunFolderError, match="has no trained model together with its base model"):
        table.read_scores(folder)


def test_a_cell_that_lacks_episodes_says_so_and_is_paler(run):
    scores = table.read_scores(run)
    rows = scores.rows.with_columns(lacking=pl.when(stage="before", scenario="QD").then(3).otherwise(0))
    stages = next(iter(table.learning_tables(table.LearningScores(rows, scores.paired, {}))))
    before = next(stage for stage in stages.rows if stage[0].text == "before")
    texts = {cell.text: cell.style for cell in before}

    assert [text for text, style in texts.items() if style == "unfinished"] == ["0.0 / 0.0 (3 lack)", "unfinished"]
    assert table._stage_cell(None) == table.MISSING


def test_tables_have_their_names_titles_and_columns(run):
    scores = table.read_scores(run)
    stages, paper, changes = table.learning_tables(
        table.LearningScores(scores.rows, scores.paired, {"embedded": "Qwen2.5-VL-3B"})
    )
    names = ["ROD", "VSOD", "MVP-N", "IN-C", "QD", "CIT", "COCO"]

    assert [each.name for each in (stages, paper, changes)] == ["learning", "learning-paper", "learning-paired"]
    assert [each.title for each in (stages, paper, changes)] == [
        "embedded: acc % / ps, * trained on",
        "Qwen2.5-VL-3B in the paper (trained on QD, COCO): acc % / ps",
        "embedded: after minus before on the same samples, 95% interval",
    ]
    assert [column.name for column in paper.columns] == ["after", *names, "avg"]
    assert [column.name for column in changes.columns] == ["change", "n", "acc, points", "ps"]
    assert [row[0].text for row in paper.rows] == ["before", "rp 0.5", "rp 0.75", "rp 1.0", "reference"]
    assert [row[0].text for row in stages.rows] == ["before", "rp 0.75", "reference"]
    assert stages.rows[0][-1].text == "0.0 / 0.0" and stages.rows[1][-1].value == 100.0


def test_scores_are_written_into_tables_and_figures(run, tmp_path):
    written = table.write_scores(tmp_path, table.read_scores(run))

    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        "tables/learning.csv", "tables/learning-paired.csv", "figures/learning.png", "figures/learning.svg",
    ]  # fmt: skip


def test_the_figure_names_scenarios_in_the_papers_order_and_stars_the_trained_ones():
    rows = pl.DataFrame(
        [
            ("m", stage, scenario, scenario == "QD", 10.0, 0.5)
            for stage in ("before", "after")
            for scenario in ("QD", "ROD")
        ],
        ["model", "stage", "scenario", "in_domain", "acc", "ps"],
        orient="row",
    )
    (left, right) = table.learning_figure(rows).axes
    for panel, words in ((left, "accuracy, %"), (right, "suggestions per episode")):
        assert [label.get_text() for label in panel.get_yticklabels()] == ["QD*", "ROD"] and panel.get_xlabel() == words
        assert list(panel.get_yticks()) == [0, 1]
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["before", "after"]
