"""Tables as Markdown and LaTeX text.

Names and replies are data, never markup: every text is escaped.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from orchestrator.report.wording import MINUS

BEST, SECOND = "best", "second"
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    '"': r"\textquotedbl{}", "`": r"\textasciigrave{}", "'": r"\textquotesingle{}",
}  # fmt: skip
"""Character -> what LaTeX prints as it."""
_MARKDOWN = re.compile(r"([\\`*_\[\]#!|~@$]|:(?=//)|(?<=www)\.)", re.IGNORECASE)
"""What would be markup, a mention or a link."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a table."""

    text: str
    value: float | None = None
    """What best and second are chosen by; None takes no part."""
    mark: str = ""
    unfinished: bool = False
    episode: str = ""
    """Key of an episode that the page links to."""


MISSING = Entry("-")
"""A product that is no cell."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: rows by model, and the numbers behind it for CSV."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]
    numbers: pl.DataFrame
    ranked: int = 0
    """Rows before the baselines."""
    notes: tuple[str, ...] = field(default=())
    subject: str = "model"
    """What a row is about: the head of the first column."""


def marked(
    rows: Sequence[tuple[str, Sequence[Entry]]], ranked: Sequence[bool]
) -> tuple[tuple[str, tuple[Entry, ...]], ...]:
    """The rows with best and second of each column marked, as printed to one decimal; equal entries share a mark.

    An unfinished entry takes no part, and nothing is best at zero.
    """
    width = len(rows[0][1]) if rows else 0
    marks: list[dict[float, str]] = []
    for column in range(width):
        entries = [row[1][column] for row, wanted in zip(rows, ranked, strict=True) if wanted]
        values = {round(e.value, 1) for e in entries if e.value and not e.unfinished}
        marks.append(dict(zip(sorted(values, reverse=True)[:2], (BEST, SECOND), strict=False)))
    return tuple(
        (name, tuple(_mark(entry, marks[n]) if wanted else entry for n, entry in enumerate(entries)))
        for (name, entries), wanted in zip(rows, ranked, strict=True)
    )


def markdown(grid: Grid) -> str:
    """A pipe table: best in bold, second in underline, unfinished in italics."""
    lines = [f"**{markdown_text(grid.title)}**", "", _pipes([grid.subject, *map(markdown_text, grid.columns)])]
    lines.append(_pipes(["---", *["---:"] * len(grid.columns)]))
    lines += [_pipes([markdown_text(name), *map(_markdown_entry, entries)]) for name, entries in grid.rows]
    return "\n".join([*lines, "", *_legend(grid, markdown_text)]) + "\n"


def latex(grid: Grid) -> str:
    """A booktabs table, shrunk where it is wider than the line: best bold, second underlined, unfinished grey and slanted.

    Its first line names the packages that it needs.
    """
    head = " & ".join([grid.subject, *map(latex_text, grid.columns)])
    lines = [
        r"% needs \usepackage[T1]{fontenc}, \usepackage{textcomp,booktabs,xcolor,graphicx}",
        r"\begin{table}", r"\centering", rf"\caption{{{latex_text(grid.title)}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{l{'r' * len(grid.columns)}}}", r"\toprule", rf"{head} \\", r"\midrule",
    ]  # fmt: skip
    for number, (name, entries) in enumerate(grid.rows):
        if number and number == grid.ranked:
            lines.append(r"\midrule")
        lines.append(rf"{' & '.join([latex_text(name), *map(_latex_entry, entries)])} \\")
    notes = [rf"\par\footnotesize {line}" for line in _legend(grid, latex_text)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", *notes, r"\end{table}"]) + "\n"


def latex_text(text: str) -> str:
    """The text as LaTeX prints it, on one line; characters that it has no glyph for become ``?``."""
    shown = "".join(_LATEX.get(c, c) if ord(c) < 128 or c.isalpha() else "?" for c in one_line(text))
    return re.sub(r"-(?=-)", "-{}", shown)  # two dashes are no long one


def markdown_text(text: str) -> str:
    """The text as Markdown shows it, on one line, with no markup and no HTML in it."""
    safe = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(r"\\\1", safe)


def one_line(text: str) -> str:
    """Without line breaks, control characters and marks that turn the direction of text."""
    spaced = re.sub(r"\s+", " ", text).strip()
    return "".join(c for c in spaced if unicodedata.category(c)[0] != "C")


def _mark(entry: Entry, marks: dict[float, str]) -> Entry:
    if entry.value is None or entry.unfinished:
        return entry
    return replace(entry, mark=marks.get(round(entry.value, 1), ""))


def _pipes(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_entry(entry: Entry) -> str:
    text = entry.text.replace("*", r"\*")
    if entry.unfinished:
        return f"*{text}*"
    return {BEST: f"**{text}**", SECOND: f"<u>{text}</u>"}.get(entry.mark, text)


def _latex_entry(entry: Entry) -> str:
    if entry is MISSING:
        return "--"
    text = re.sub(r"[+-](?=\d)", r"$\g<0>$", entry.text.replace(MINUS, "-")).replace("*", r"$^{*}$")
    if entry.unfinished:
        return rf"\textcolor{{gray}}{{\textsl{{{text}}}}}"
    return {BEST: rf"\textbf{{{text}}}", SECOND: rf"\underline{{{text}}}"}.get(entry.mark, text)


def _legend(grid: Grid, escape: Callable[[str], str]) -> list[str]:
    notes = []
    if any(entry.unfinished for _, entries in grid.rows for entry in entries):
        notes.append("An entry with a fraction is unfinished: episodes finished of those planned.")
    return [escape(note) for note in (*notes, *grid.notes)]
