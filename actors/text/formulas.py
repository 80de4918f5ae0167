"""Protects readers of CSV files from formulas: text that a spreadsheet would compute gets an apostrophe in front."""

FORMULA = r"^([\s\ufeff\u200b-\u200f\u2060]*[=+\-@＝＋－＠]|[\t\r\n])"
"""Beginning of a text that spreadsheets compute (OWASP, "CSV Injection"); some skip white and invisible space."""
