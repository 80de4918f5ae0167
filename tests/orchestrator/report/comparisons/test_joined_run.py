"""Several runs are ranked like one run that holds them all; incomparable runs are refused."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from actors.engine.baselines import Baseline
from envs.errors import RunFolderError
from orchestrator.cli.main import app
from orchestrator.report.comparisons.joined_run import join_runs
from orchestrator.report.comparisons.run_comparison import compare_runs
from orchestrator.report.html import write_runs_page
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.ranking import ranking
from orchestrator.report.read_run import read_run, read_runs
from orchestrator.report.tables.table import format_signed
from tests.orchestrator.report.runs import play_sweep, sweep

CONDITIONS = ["zero-shot", "hint"]
POLICIES = {"qwen2.5-vl-7b": "ask-properly", "internvl3-8b": "uniform", "llava-ov-7b": "first-option"}
BACKENDS = {model: Baseline(policy) for model, policy in POLICIES.items()}


def play_models(data_folder, folder, models, **options):
    return play_sweep(
        folder, sweep(data_folder, ["oracle", "guess", *models], CONDITIONS, **options), backends=BACKENDS
    )


def person_sweep(data_folder):
    """Return the sweep that a person plays."""
    return sweep(data_folder, [{"name": "human-ada", "source": "human:ada", "backend": "human"}], CONDITIONS)


@pytest.fixture(scope="module")
def folders(demo_data, tmp_path_factory):
    """A run of three models, the same models in two folders, and an unfinished run of a person."""
    folder = tmp_path_factory.mktemp("board")
    names = list(POLICIES)
    play_models(demo_data, folder / "whole", names)
    play_models(demo_data, folder / "one", names[:2])
    play_models(demo_data, folder / "two", names[2:])
    person = person_sweep(demo_data)
    play_sweep(folder / "ada", person, only=100, backends={"human-ada": Baseline("oracle")})
    return folder


def test_several_runs_rank_as_one(folders):
    together, tables = join_runs(read_runs([folders / "one", folders / "two"]))
    alone = read_run(folders / "whole")

    assert_frame_equal(ranking(together), ranking(alone))
    assert_frame_equal(estimate(together).averages, estimate(alone).averages)
    assert ranking(alone)["rank"].to_list() == [1, 2, 3]
    assert [table.name for table in tables] == ["answer", "ranking", "zero-shot", "hint"]


def test_name_in_two_runs_is_distinguished_and_differences_noted(folders, demo_data, tmp_path):
    other_run = play_models(demo_data, tmp_path / "other", ["internvl3-8b"], seed=1, selection={"limit": 8})
    joined, _ = join_runs(read_runs([folders / "one", other_run]))

    assert set(ranking(joined)["model"]) == {"internvl3-8b (one)", "internvl3-8b (other)", "qwen2.5-vl-7b"}
    assert any(note == "seed: 0 in one, 1 in other" for note in joined.notes)
    assert any(note.startswith("selection.limit: ") and note.endswith("8 in other") for note in joined.notes)
    assert not any("models" in note.partition(":")[0] for note in joined.notes)
    samples = ranking(joined)["n"].to_list()
    assert samples == [7 * 8] * 3, "ranks are over samples that all answered"


def test_a_person_is_marked_and_ranked_once_complete(folders, demo_data, tmp_path):
    unfinished, _ = join_runs(read_runs([folders / "whole", folders / "ada"]))
    assert "human-ada is a person" in unfinished.notes and "human-ada" not in set(ranking(unfinished)["model"])

    shutil.copytree(folders / "ada", tmp_path / "ada")
    (tmp_path / "ada/lock").unlink()
    person = person_sweep(demo_data)
    play_sweep(tmp_path / "ada", person, backends={"human-ada": Baseline("oracle")})
    first = ranking(join_runs(read_runs([folders / "whole", tmp_path / "ada"]))[0]).row(0, named=True)
    assert (first["model"], first["rank"], first["rank_high"]) == ("human-ada", 1, 1)


def test_folders_without_comparable_runs_are_refused(folders, tmp_path):
    with pytest.raises(RunFolderError, match="named twice"):
        read_runs([folders / "one", folders / "one"])
    with pytest.raises(RunFolderError, match="holds no run"):
        read_runs([tmp_path])


def test_names_on_the_page_are_text(folders, tmp_path):
    hostile = tmp_path / "<b>%23 & 'run'"
    shutil.copytree(folders / "one", hostile)
    joined, tables = join_runs(read_runs([hostile, folders / "one"]))
    page = write_runs_page(tmp_path / "board.html", tables, joined.notes).read_text()

    assert "<b>%23" not in page and "&lt;b&gt;%23" in page
    assert all(f'id="table-{name}"' in page for name in ("answer", "ranking", "zero-shot", "hint"))


def run_command(*arguments, code=0):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


def test_several_runs_are_reported_on_one_page(folders, tmp_path):
    page, pair = tmp_path / "runs.html", [folders / "one", folders / "whole"]
    output = run_command("report", *pair, "--output", page)
    averages = compare_runs(read_runs(pair)).averages

    assert "less one (mcqa), same samples" in output and "in a browser" in output
    content = page.read_text()
    rows = cells(content.split('id="table-difference-0"')[1].split("</table>")[0])
    assert "<title>Runs side by side" in content and len(rows) == averages.height == 8
    for line, row in zip(rows, averages.iter_rows(named=True), strict=True):
        assert line[0] == f"{row['model']}, {row['condition']}"
        assert line[1].startswith(format_signed(row["difference"])) and len(line) == 4 + 7
    run_command("report", *pair, "--brief", "--output", tmp_path / "none.html")
    assert not (tmp_path / "none.html").exists()
    assert json.loads(run_command("report", *pair, "--json"))["averages"] == averages.to_dicts()


def cells(table):
    """Return the texts of each row of a table's body."""
    rows = table.split("<tbody>")[1].split("<tr>")[1:]
    return [[" ".join(re.sub("<[^>]*>", " ", text).split()) for text in re.split("</t[hd]>", row)[:-1]] for row in rows]
