"""Tables as LaTeX: best in bold, second underlined, unfinished grey and slanted."""

from __future__ import annotations

import re

from orchestrator.report.tables.table import MISSING, Table, TableCell, one_line
from orchestrator.report.wording import MINUS

_COMMANDS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    '"': r"\textquotedbl{}", "`": r"\textasciigrave{}", "'": r"\textquotesingle{}",
}  # fmt: skip
"""Character -> the command that prints it."""


def latex(table: Table) -> str:
    """Return a booktabs table, shrunk if it is wider than the line; its first line names the packages that it needs."""
    align = "".join("r" if column.number else "l" for column in table.columns)
    heads = " & ".join(escape_latex(column.name) for column in table.columns)
    lines = [
        r"% needs \usepackage[T1]{fontenc}, \usepackage{textcomp,booktabs,xcolor,graphicx}",
        r"\begin{table}", r"\centering", rf"\caption{{{escape_latex(table.title)}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{align}}}", r"\toprule", rf"{heads} \\", r"\midrule",
    ]  # fmt: skip
    for number, row in enumerate(table.rows):
        if number and number == table.ranked:
            lines.append(r"\midrule")
        name, *cells = row
        lines.append(rf"{' & '.join([escape_latex(name.text), *map(_format_cell, cells)])} \\")
    notes = [rf"\par\footnotesize {escape_latex(note)}" for note in table.legend]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", *notes, r"\end{table}"]) + "\n"


def escape_latex(text: str) -> str:
    """Return the text as LaTeX prints it, on one line; characters without a glyph become ``?``."""
    shown = "".join(_COMMANDS.get(c, c) if ord(c) < 128 or c.isalpha() else "?" for c in one_line(text))
    return re.sub(r"-(?=-)", "-{}", shown)  # two dashes would become a long one


def _format_cell(cell: TableCell) -> str:
    if cell is MISSING:
        return "--"
    text = escape_latex((f"{cell.text} ({cell.note})" if cell.note else cell.text).replace(MINUS, "-"))
    text = re.sub(r"[+-](?=\d)", r"$\g<0>$", text).replace("*", r"$^{*}$")
    match cell.style:
        case "unfinished":
            return rf"\textcolor{{gray}}{{\textsl{{{text}}}}}"
        case "best":
            return rf"\textbf{{{text}}}"
        case "second":
            return rf"\underline{{{text}}}"
    return text
