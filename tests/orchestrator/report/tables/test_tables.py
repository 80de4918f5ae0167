"""Tables mark the best and second figures, show unfinished cells as unfinished, and escape hostile names."""

import csv
import io
import re
import shutil
import subprocess
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.report.html.cells import cells_table
from orchestrator.report.measures.paired_averages import compare_condition_averages
from orchestrator.report.measures.paired_tests import compare_conditions
from orchestrator.report.measures.ranking import ranking
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.report.tables.csv import csv_text
from orchestrator.report.tables.evidence import paired_table
from orchestrator.report.tables.formats import escape_latex, escape_markdown, latex, markdown
from orchestrator.report.tables.open_ended import open_ended_averages, open_ended_table
from orchestrator.report.tables.table import Table, TableCell, columns, filter_values, line, mark_best
from orchestrator.report.tables.write import write_tables
from tests.orchestrator.report.runs import play_sweep, sweep, write_published_run

HOSTILE = [
    r"\input{/etc/passwd}", "100% & $x_1^2$ #1 ~ {a}", "| a | b |", "**bold** <script>alert(1)</script>", "[x](http://y)",
    "line\nbreak\r\n\t| x", "\u202etxt.exe\x00\x07", "`code`", "www.x.org @you #3", "$(rm -rf)", "\\\\", "a--b---c", "=cmd()",
]  # fmt: skip


@pytest.fixture(scope="module")
def unfinished_run(demo_data, tmp_path_factory):
    return play_sweep(tmp_path_factory.mktemp("part") / "run", sweep(demo_data), only=905)


def strip_escapes(text: str) -> str:
    """Remove our own escapes; LaTeX would take what is left for commands."""
    ours = r"\\text(backslash|asciicircum|asciitilde|less|greater|bar|quotedbl|asciigrave|quotesingle)\{\}"
    return re.sub(r"\\[{}$&#_%]|-\{\}", "", re.sub(ours, "", text))


@given(st.text(max_size=80) | st.sampled_from(HOSTILE))
def test_escaped_text_has_no_latex(text):
    assert not re.search(r"[\\{}$&#_%^~\n]", strip_escapes(escape_latex(text)))


@given(st.text(max_size=80) | st.sampled_from(HOSTILE))
def test_escaped_text_has_no_markdown_or_html(text):
    escaped = escape_markdown(text)

    assert "<" not in escaped and ">" not in escaped and "\n" not in escaped
    assert not re.search(r"(?<!\\)[|`*_\[\]@$]", re.sub(r"\\\\", "", escaped))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_in_its_row(name):
    rows = (line(name, [TableCell(name)]), line("b", [TableCell("2.0", note=name)]))
    table = Table("x", name, columns("model", [name]), rows, pl.DataFrame({"model": [name]}))
    lines = markdown(table).splitlines()
    body = [row for row in latex(table).splitlines() if row.endswith(r"\\")]

    assert [len(re.findall(r"(?<!\\)\|", re.sub(r"\\\\", "", row))) for row in lines[2:6]] == [3] * 4
    assert len(body) == 3
    assert [len(re.findall(r"(?<!\\)&", row)) for row in body] == [1, 1, 1]
    back = pl.read_csv(io.BytesIO(csv_text(table.numbers).encode()))
    assert back["model"].item() == ("'" + name if name.startswith("=") else name)


def test_best_and_second_by_hand():
    rows = [
        line("a", [TableCell("9.96", 9.96), TableCell("1", 1.0)]),
        line("b", [TableCell("10.0", 10.0), TableCell("0", 0.0)]),
        line("c", [TableCell("9.9", 9.9), TableCell("0", 0.0)]),
        line("d", [TableCell("50", 50.0, style="unfinished"), TableCell("-")]),
        line("baseline", [TableCell("100", 100.0), TableCell("100", 100.0)]),
    ]
    marks = [[cell.style for cell in cells] for _, *cells in mark_best(rows, [True] * 4 + [False], [False] * 5)]
    assert marks == [["best", "best"], ["best", ""], ["second", ""], ["unfinished", ""], ["", ""]]

    models, baselines = [True] * 4 + [False], [False] * 4 + [True]
    for level, expected in ((9.9, ["best", "best", "", "unfinished", ""]), (10.0, ["", "", "", "unfinished", ""])):
        rows[4] = line("baseline", [TableCell("", level), TableCell("", 1.0)])
        marked = mark_best(rows, models, baselines)
        assert [cells[1].style for cells in marked] == expected, "a mark says that a model beats the baselines"
        assert {cells[2].style for cells in marked} == {""}
    (alone,) = mark_best(rows[:1], [True], [False])
    assert [cell.style for cell in alone] == ["", "", ""], "the only one is not the best"


def test_a_row_has_a_cell_for_every_column():
    with pytest.raises(ValueError, match="table x has a row that does not fit its 2 columns"):
        Table("x", "", columns("model", ["ROD"]), (line("a", []),))


def test_a_column_of_one_value_is_no_filter(run_data):
    cells = cells_table(run_data)
    names = {column.name: texts for _, column, texts in filter_values(cells)}

    assert list(names) == ["Model", "Scenario", "Condition"] and names["Scenario"][0] == "ROD"
    assert not filter_values(replace(cells, rows=cells.rows[:1]))


def test_the_main_table_holds_the_figures_of_score(run, run_data):
    files = {path.name: path for path in write_tables(read_run(run))}
    assert {name.split(".")[1] for name in files} == {"md", "tex", "csv"}
    text, rows = files["main.md"].read_text(), run_data.rows.filter(condition="zero-shot")
    for row in rows.iter_rows(named=True):
        line = next(line for line in text.splitlines() if line.startswith(f"| {row['model']} "))
        assert f"{row['acc']:.1f} / {row['ps']:.1f}" in line
    numbers = pl.read_csv(files["main.csv"])
    assert numbers.filter(scenario="avg").height == 6
    assert {"planned", "finished", "errors", "acc_low", "ps_high"} <= set(numbers.columns)


SEVEN = ["model", "ROD", "VSOD", "MVP-N", "IN-C", "QD", "CIT", "COCO", "avg"]
CONDITIONS = ["zero-shot", "hint", "history", "random-proactive", "zero-shot (ROD, MVP-N)", "icl-1", "icl-3"]
HEADINGS = {
    "main": ("zero-shot: accuracy in percent / mean number of suggestions", SEVEN),
    "conditions": (
        "conditions: accuracy in percent / mean number of suggestions, averaged over scenarios",
        ["model", *CONDITIONS],
    ),
    "reference": ("accuracy in percent: clear image / zero-shot", SEVEN),
    "share-changes": (
        "change of the shares of answers against zero-shot, percent of the share before (before to after; points with their "
        "paired 95% interval), averaged over the scenarios complete under both; of the paper's figures only suggestions under "
        "random ones are published as numbers",
        ["model", "suggestions", "abstentions", "categories"],
    ),
    "ranking": (
        "zero-shot: rank by the average over scenarios on the same samples, a missing answer counts as wrong; probability of "
        "being the best, and of being above the next model; difference to it in points (95% interval)",
        ["model", "accuracy", "samples", "rank", "ranks not excluded", "best of all", "above the next", "difference"],
    ),
    "paired": (
        "accuracy against zero-shot on the same samples, points; last, the mean over the condition's scenarios with its 95% "
        "interval (* McNemar for cells, a score test for means; Holm over all models, p < 0.05; = within 2 points by "
        "two one-sided tests)",
        SEVEN,
    ),
}


def test_every_table_says_what_its_figures_are(run_data):
    tables = {table.name: table for table in report_tables(run_data)}

    assert {
        name: (table.title, [column.name for column in table.columns]) for name, table in tables.items()
    } == HEADINGS
    for table in tables.values():
        assert [column.number for column in table.columns] == [False] + [True] * (len(table.columns) - 1)
        assert table.ranked == (5 if table.name == "ranking" else 0), "only baselines were played"
        assert table.numbers is not None and table.numbers.height >= len(table.rows)
    assert tables["paired"].fold_baselines and tables["paired"].rows[0][0].text == "oracle, hint"
    assert [row[1].text for row in tables["reference"].rows[:1]] == ["100.0 / 100.0"]
    shares = {row[0].text: row[1].text for row in tables["share-changes"].rows}
    assert shares["oracle, hint"] == "0.0 (83.2 to 83.2; 0.0 [−5.9, +5.9])"


def test_every_measure_is_written_beside_the_tables(run, run_data):
    files = {path.name: pl.read_csv(path) for path in write_tables(read_run(run)) if path.suffix == ".csv"}

    assert {"endings.csv", "efficiency.csv", "budget.csv", "lift.csv", "lenient.csv", "models-paired.csv"} <= set(files)
    assert "capacity.csv" not in files, "no policy has a size"
    assert files["endings.csv"]["count"].sum() == run_data.episodes.height


def test_equal_runs_give_equal_bytes(run):
    first = {path.name: path.read_bytes() for path in write_tables(read_run(run))}

    assert {path.name: path.read_bytes() for path in write_tables(read_run(run))} == first


def test_models_are_marked_and_baselines_stand_below(tmp_path):
    folder = write_published_run(
        tmp_path / "run", ["oracle", "qwen2.5-vl-3b", "llava-1.5-7b", "gpt-4.1"], ("zero-shot",), most=40
    )
    write_tables(read_run(folder))
    tex = (folder / "tables" / "main.tex").read_text().splitlines()
    names = [line.split(" &")[0] for line in tex if line.endswith(r"\\")][1:]

    assert names == ["llava-1.5-7b", "qwen2.5-vl-3b", "gpt-4.1", "oracle"]
    assert tex[next(n for n, line in enumerate(tex) if line.startswith("oracle")) - 1] == r"\midrule"
    assert r"\textbf" in next(line for line in tex if line.startswith("gpt"))
    assert r"\textbf" not in next(line for line in tex if line.startswith("oracle"))


def test_the_paired_table_has_models_first_and_minus_signs(tmp_path):
    names = ["oracle", "qwen2.5-vl-3b", "llava-1.5-7b"]
    table = paired_table(read_run(write_published_run(tmp_path / "run", names, ("zero-shot", "hint"), most=20)))
    changes = [cell for _, *cells in table.rows for cell in cells if cell.value]

    assert [row[0].text for row in table.rows] == ["llava-1.5-7b, hint", "qwen2.5-vl-3b, hint", "oracle, hint"]
    assert [row[0].text for row in table.folded_rows] == ["oracle, hint"] and len(table.open_rows) == 2
    assert {cell.text[0] for cell in changes} == {"+", "−"}
    assert "$-$" in latex(table) and "−" not in latex(table)


def test_unfinished_is_visible_in_every_format_and_never_best(unfinished_run):
    write_tables(read_run(unfinished_run))
    text = (unfinished_run / "tables" / "main.md").read_text()
    tex = (unfinished_run / "tables" / "main.tex").read_text()
    numbers = pl.read_csv(unfinished_run / "tables" / "main.csv")

    assert "*0/10*" in text and "of 7 scenarios)*" in text and "unfinished" in text
    assert r"\textcolor{gray}{\textsl{0/10}}" in tex
    unplayed = numbers.filter((pl.col("finished") < pl.col("planned")) & (pl.col("scored") == 0))
    assert unplayed.height > 0 and unplayed["acc"].null_count() == unplayed.height, "nothing played is no zero"
    for table in report_tables(read_run(unfinished_run)):
        progress = [cell for row in table.rows for cell in row[1:] if "/10)" in cell.text or " of 7 scen" in cell.text]
        assert {cell.style for cell in progress} <= {"unfinished"}, table.name


def test_errors_are_noted_under_table(run_data):
    failed = run_data.episodes.with_columns(
        pl.when((pl.col("cell") == "uniform/QD/zero-shot") & (pl.col("sample_id") % 3 == 0))
        .then(pl.lit("unprocessable"))
        .otherwise(pl.col("ending"))
        .alias("ending")
    )
    main = report_tables(replace(run_data, episodes=failed))[0]

    (note,) = main.notes
    count = failed.filter(ending="unprocessable").height
    right = failed.filter(pl.col("ending") != "unprocessable", cell="uniform/QD/zero-shot")["correct"].sum()
    assert note == (
        f"uniform/QD/zero-shot: {count} of 10 episodes without an answer, left out of all measures ({count} unprocessable, "
        f"0 refused, 0 failed); acc is {10 * right:.1f} to {10 * (right + count):.1f}, from all wrong to all right"
    )


def test_what_a_limit_cut_short_is_noted_with_its_bounds(run_data):
    marked = (pl.col("cell") == "uniform/QD/zero-shot") & (pl.col("sample_id") % 3 == 0)
    cut = run_data.episodes.with_columns(
        pl.when(marked).then(pl.lit("overflow")).otherwise("ending").alias("ending"),
        (pl.col("correct") & ~marked).alias("correct"),
    )
    (note,) = report_tables(replace(run_data, episodes=cut))[0].notes

    rows = cut.filter(cell="uniform/QD/zero-shot")
    count, right, loops = (
        rows.filter(ending="overflow").height,
        rows["correct"].sum(),
        (rows["ending"] == "limit").sum(),
    )
    assert note == (
        f"uniform/QD/zero-shot: {count} of 10 episodes outgrew the model, counted as not right; acc is at most "
        f"{10 * (right + count):.1f} and loops at most {10 * (loops + count):.1f} if no episode were cut short"
    )


def test_open_ended_table_has_judge_and_average(run_data, tmp_path):
    assert not open_ended_table(run_data).rows
    models = ["llava-ov-0.5b", "idefics3-8b"]
    open_run = read_run(write_published_run(tmp_path / "run", models, ("zero-shot", "hint"), most=100, protocol="oeg"))
    table = open_ended_table(open_run)

    assert [row[0].text for row in table.rows] == [f"{m}, {c}" for m in models for c in ("zero-shot", "hint")]
    assert table.rows[0][1].text == "1.1 / 0.0 / 1.1"
    assert table.rows[0][-1].text == "2.6 / 0.4 / 2.2"
    assert "judge qwen3-8b/paper-00000000; without a verdict: 0 of 2,520, left out" in table.title
    mean = open_ended_averages(open_run).row(
        by_predicate=(pl.col("model") == models[0]) & (pl.col("condition") == "zero-shot"), named=True
    )
    assert mean["aggregate_low"] < mean["aggregate"] < mean["aggregate_high"] < 6 and mean["all_seven"]


def test_open_ended_answers_are_paired_too(tmp_path):
    models = ["llava-ov-0.5b", "idefics3-8b"]
    open_run = read_run(write_published_run(tmp_path / "run", models, ("zero-shot", "hint"), most=100, protocol="oeg"))
    bits = open_run.verdicts.join(open_run.rows.select("cell", "protocol"), on="cell")
    answers = bits.filter(model=models[0], scenario="QD").pivot("condition", index="sample_id", values="aggregate")
    row = compare_conditions(open_run).filter(model=models[0], scenario="QD").row(0, named=True)
    mean = compare_condition_averages(open_run).filter(model=models[0]).row(0, named=True)
    table = next(table for table in report_tables(open_run) if table.name == "open-ended-paired")

    assert row["difference"] == pytest.approx(100 * (answers["hint"].mean() - answers["zero-shot"].mean()))
    assert (row["n"], row["gained"]) == (100, (answers["hint"] & ~answers["zero-shot"]).sum())
    assert row["p_holm"] >= row["p"] and row["ps_difference"] is None and row["ps_p_holm"] is None
    averages = {
        r["condition"]: r["aggregate"]
        for r in open_ended_averages(open_run).filter(model=models[0]).iter_rows(named=True)
    }
    assert mean["difference"] == pytest.approx(averages["hint"] - averages["zero-shot"])
    assert mean["difference_low"] < mean["difference"] < mean["difference_high"] and mean["ps_p_holm"] is None
    assert [row[0].text for row in table.rows] == [f"{model}, hint" for model in models]
    assert ranking(open_run)["protocol"].unique().to_list() == ["oeg"]


PAGE = r"""\documentclass{article}\usepackage[T1]{fontenc}\usepackage{textcomp,booktabs,xcolor,graphicx}
\begin{document}\input{%s}\end{document}
"""


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_every_table_compiles_and_fits_the_line(tmp_path):
    models = ["oracle", "qwen2.5-vl-3b", "llava-next-mistral-7b", "gpt-4.1"]
    folder = write_published_run(
        tmp_path / "run", models, most=20, protocol=["mcqa", "oeg"], judge={"model": "rule-judge"}
    )
    written = [path for path in write_tables(read_run(folder)) if path.suffix == ".tex"]

    assert len(written) >= 4
    for path in written:
        (tmp_path / "page.tex").write_text(PAGE % path)
        done = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-no-shell-escape", "page.tex"],
            cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120,
        )  # fmt: skip
        assert done.returncode == 0 and "Overfull" not in done.stdout, done.stdout[-2000:]


def test_tiny_numbers_are_not_written_as_zero():
    frame = pl.DataFrame({"p": [0.0, 3.21e-9, 0.25, None], "n": [1.5, 2.0, -2e-8, 0.0], "k": [1.0, 2.0, 3.0, 4.0]})
    text = csv_text(frame)

    assert text.splitlines()[1:3] == ["0.000000,1.500000,1.000000", "3.2e-09,2.000000,2.000000"]
    back = pl.read_csv(io.BytesIO(text.encode()))
    assert back["p"].to_list() == [0.0, 3.2e-9, 0.25, None] and back["n"].to_list() == [1.5, 2.0, -2e-8, 0.0]


@pytest.mark.parametrize("text", ["=1+1", "\n=1+1", "  =1+1", "\t1", "\uff1d1+1", "\uff20SUM(A1)", "+1", "-1", "\r"])
def test_texts_that_a_spreadsheet_would_compute_get_an_apostrophe(text):
    frame = pl.DataFrame({"reply": [text, "a = b", ""], "number": [-1.5, 2.0, None]})
    rows = list(csv.reader(io.StringIO(csv_text(frame), newline="")))
    assert rows[1:] == [[f"'{text}", "-1.500000"], ["a = b", "2.000000"], ["", ""]]
