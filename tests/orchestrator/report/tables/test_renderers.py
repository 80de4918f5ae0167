"""One table as LaTeX and Markdown, character by character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.report.tables.formats import escape_latex, escape_markdown, latex
from orchestrator.report.tables.table import MISSING, Table, TableCell, columns, format_signed, line

TABLE = Table(
    "x",
    "50% of <all>",
    columns("model", ["acc", "ps", "avg"]),
    (
        line("a_b", [TableCell("9.9"), TableCell("\u22121.5*"), TableCell("3/8", style="unfinished")]),
        line("c", [TableCell("8.0", "7 to 9"), TableCell("+2.0"), MISSING]),
    ),
    ranked=1,
    notes=("a -- b",),
)


def test_latex_marks_unfinished_and_parts_baselines():
    assert latex(TABLE).splitlines() == [
        r"% needs \usepackage[T1]{fontenc}, \usepackage{textcomp,booktabs,xcolor,graphicx}",
        r"\begin{table}",
        r"\centering",
        r"\caption{50\% of \textless{}all\textgreater{}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"model & acc & ps & avg \\",
        r"\midrule",
        r"a\_b & 9.9 & $-$1.5$^{*}$ & \textcolor{gray}{\textsl{3/8}} \\",
        r"\midrule",
        r"c & 8.0 (7 to 9) & $+$2.0 & -- \\",
        r"\bottomrule",
        r"\end{tabular}}",
        r"\par\footnotesize An entry with a fraction is unfinished: episodes finished of those planned.",
        r"\par\footnotesize a -{}- b",
        r"\end{table}",
    ]


def test_every_character_of_markup_prints_as_itself():
    assert escape_latex("\\{}$&#_%^~<>|\"`'") == (
        r"\textbackslash{}\{\}\$\&\#\_\%\textasciicircum{}\textasciitilde{}\textless{}\textgreater{}\textbar{}\textquotedbl{}"
        r"\textasciigrave{}\textquotesingle{}"
    )
    assert escape_latex("\u00fc\u2192") == "\u00fc?" and escape_latex("1\u20132") == r"1\textendash{}2"
    assert escape_markdown("&<>\\`*_[]#!|~@$ http://www.x :") == (
        r"&amp;&lt;&gt;\\\`\*\_\[\]\#\!\|\~\@\$ http\://www\.x :"
    )


@given(st.floats(-2000, 2000), st.integers(0, 2))
def test_difference_has_sign_unless_rounded_to_zero(value, digits):
    text = format_signed(value, digits)
    number = float(text.replace("−", "-").replace(",", ""))

    assert number == pytest.approx(value, abs=0.501 * 10**-digits)
    assert text[0] == ("+" if number > 0 else "−" if number < 0 else "0") and "-" not in text
