"""Commands and options of earlier releases, and what to type instead: the one table of what left the command line."""

IN_EXTRAS = {
    "data demo": "demo",
    "label": "people",
    "models fetch": "demo",
    "play": "people",
    "train": "learn",
    "watch": "people",
    "publish": "bridges",
}
"""A command, or a command and its option -> the package in extras/ that has it."""
LAST_IN_0_2_0 = (
    "models pin", "top", "compare --csv", "ctl --wait", "export --by", "plan --detect", "plan --precision", "plan --price",
    "plan --timeline", "report --baselines", "report --no-baselines", "report --open", "view --open",
)  # fmt: skip
RENAMED = {
    "data filter": "report DIR --filter PERCENT",
    "models flip-rate": "models try DIR --flip-rate PERCENT",
    "models prove": "models try NAME --prove",
    "prompt": "models try [NAME] --prompt SCENARIO/ID[/CONDITION[/TURN]]",
    "compare --independent": "compare --cluster none",
    "compare --power": "compare DIR DIR, which says below each table which true difference gets a star",
    "ctl requeue": "run SWEEP --retry failed",
    "ctl set": "run SWEEP --update, once you have stopped the run and edited its sweep",
    "data fetch --delete-archives": "data fetch DIR, which removes each archive once it is unpacked",
    "data fetch --split": "data split DIR, of extras/learn",
    "export --into": "export --output DIR",
    "export --publish": "publish PATH --to OWNER/NAME, of extras/bridges",
    "init --package": "init DIR --from package",
    "judge --active": "label DIR --as NAME --draw N --active, of extras/people",
    "judge --by": "judge --judge NAME",
    "judge --draw": "label DIR --as NAME --draw N, of extras/people",
    "merge --into": "merge --output DIR",
    "models check --backend": "models try FOLDER --backend vllm --prove",
    "models check --sweep": "models check SWEEP",
    "models try --sweep": "models try SWEEP",
    "plan --cells": "plan --json",
    "plan --reuse": "run --reuse DIR",
    "plan --skip-bad": "plan --set skip_bad=true",
    "report --independent": "report --cluster none",
    "report --into": "report DIR --filter PERCENT --output FILE",
    "report --leaderboard": "merge DIR DIR --output NEW, and report NEW",
    "report --learned": "report DIR, where extras/learn is installed",
    "run --retry-failed": "run --retry failed",
    "run --skip-bad": "run --set skip_bad=true",
    "view --as": "label DIR --as NAME, of extras/people",
    "view --bundle": "view --output DIR",
    "view --export-labels": "label DIR --export FILE, of extras/people",
    "view --import-labels": "label DIR --import FILE, of extras/people",
}
"""A command, or a command and its option -> what to type instead."""


def removed_sentence(typed: str) -> str:
    """Return what to type instead of a command, or of a command and its option; empty if neither was ever there."""
    if typed in IN_EXTRAS:
        from envs.installed import install_line

        return f"`{typed}` belongs to an extra that is not installed; type {install_line(IN_EXTRAS[typed])}"
    if typed in RENAMED:
        return f"`{typed}` is gone; type {RENAMED[typed]}"
    return f"`{typed}` is gone; 0.2.0 was the last with it" if typed in LAST_IN_0_2_0 else ""
