"""The leaderboard's tables: their titles, their columns with what each means, and which columns are left out."""

import re

import pytest

from actors.engine.baselines import Baseline
from orchestrator.report.comparisons.leaderboard import build_leaderboard
from orchestrator.report.html.leaderboard_page import write_leaderboard
from orchestrator.report.read_run import read_runs
from tests.orchestrator.report.runs import play_sweep, sweep

MODELS = {"internvl3-8b": "uniform", "llava-ov-7b": "first-option", "qwen2.5-vl-7b": "ask-properly"}
AVERAGE = "accuracy averaged over scenarios with equal weights, with its 95% interval"
RANKS = [
    ("Rank", "by average accuracy, on the samples that all ranked rows answered; only complete rows are ranked"),
    ("Ranks", "ranks that are not excluded: all true ranks lie in their bounds in 95% of runs"),
]
MEASURES = [
    ("Asks %", "episodes whose first reply is a suggestion, averaged over scenarios, with its 95% interval"),
    ("ps", "suggestions per episode, averaged over scenarios, with its 95% interval"),
    ("ROD %", "accuracy on ROD, with its 95% interval"),
    ("QD %", "accuracy on QD, with its 95% interval"),
    ("Played", "finished (of planned) episodes"),
]


@pytest.fixture(scope="module")
def folders(demo_data, tmp_path_factory):
    """Two runs of one condition in two scenarios, of two models and a policy, and of one model."""
    folder = tmp_path_factory.mktemp("tables")
    backends = {name: Baseline(policy) for name, policy in MODELS.items()}
    runs = {"one": ["guess", "internvl3-8b", "llava-ov-7b"], "two": ["qwen2.5-vl-7b"]}
    return [
        play_sweep(
            folder / name,
            sweep(demo_data, models, ["random-proactive", "zero-shot"], scenarios=["QD", "ROD"]),
            backends=backends,
        )
        for name, models in runs.items()
    ]


def read_tables(folders, target) -> dict[str, tuple[str, list[tuple[str, str]], str]]:
    """Return title, columns (name, what it means) and markup of each table of the page, by its name."""
    page = write_leaderboard(build_leaderboard(read_runs(folders)), target).read_text()
    tables = {}
    for part in page.split('<div class="data-table" id="table-')[1:]:
        heads = re.findall(r'<th scope="col"[^>]*?(?: title="([^"]*)")?><button type="button">([^<]*)<', part)
        title = part.split("<h3>")[1].split("</h3>")[0]
        tables[part.split('"')[0]] = title, [(name, about) for about, name in heads], part
    return tables


def test_tables_of_several_runs_have_ranks_and_the_run(folders, tmp_path):
    tables = read_tables(folders, tmp_path / "board.html")

    names = ["random-proactive", "zero-shot"]
    assert list(tables) == [name for each in names for name in (each, f"{each}-baselines")]
    for name in names:
        title, columns, markup = tables[name]
        assert title == "Models and people" and 'placeholder="any text"' in markup
        assert columns == [("Model", ""), ("Avg %", AVERAGE), *RANKS, *MEASURES, ("Run", "")]
        title, columns, markup = tables[f"{name}-baselines"]
        assert title == "Baselines" and 'placeholder="any text"' not in markup
        assert columns == [("Model", ""), ("Avg %", AVERAGE), *MEASURES, ("Run", "")]


def test_a_run_of_one_model_has_neither_ranks_nor_a_column_of_runs(folders, tmp_path):
    tables = read_tables(folders[1:], tmp_path / "board.html")

    assert list(tables) == ["random-proactive", "zero-shot"], "as the sweep lists them"
    _, columns, markup = tables["zero-shot"]
    assert columns == [("Model", ""), ("Avg %", AVERAGE), *MEASURES] and 'placeholder="any text"' not in markup
