"""The files of the tables: which are written, and with what in them."""

import polars as pl

from orchestrator.report.tables import write
from orchestrator.report.tables.formats import latex, markdown
from orchestrator.report.tables.table import Table, TableCell, columns, line
from tests.orchestrator.report.measures.test_estimates import replace_episodes


def test_a_table_has_three_files_and_a_measure_one(run_data, tmp_path, monkeypatch):
    numbers, rows = pl.DataFrame({"n": [1.5]}), (line("a", [TableCell("1.5")]),)
    tables = [
        Table("one", "first", columns("model", ["n"]), rows, numbers),
        Table("two", "second", columns("model", ["n"]), rows),
    ]
    monkeypatch.setattr(write, "report_tables", lambda _: tables)
    monkeypatch.setattr(write, "measure_frames", lambda _: {"lift": numbers})
    run = replace_episodes(run_data, [])
    object.__setattr__(run, "folder", tmp_path)
    for _ in range(2):
        paths = write.write_tables(run)

    assert [path.relative_to(tmp_path / "tables").as_posix() for path in paths] == [
        "lift.csv", "one.csv", "one.md", "one.tex", "two.md", "two.tex",
    ]  # fmt: skip
    assert sorted((tmp_path / "tables").iterdir()) == paths
    texts = {path.name: path.read_text() for path in paths}
    assert texts["one.csv"] == texts["lift.csv"] == "n\n1.500000\n"
    assert texts["one.md"] == markdown(tables[0]) and texts["two.tex"] == latex(tables[1])


def test_measures_of_a_run_have_their_files(run_data):
    assert list(write.measure_frames(run_data)) == [
        "endings", "efficiency", "budget", "lift", "lenient", "models-paired", "models-paired-averages", "paired-averages",
        "resources",
    ]  # fmt: skip
    pairs = write.measure_frames(run_data)["models-paired-averages"]
    assert pairs["p_beats"].count() > 0 and pairs.height > pairs["p_beats"].count(), "the oracle is not ranked"
