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
REMOVED = {
    "data filter": "`data filter` is now `report DIR --filter PERCENT`",
    "models flip-rate": "`models flip-rate` is now `models try DIR --flip-rate PERCENT`",
    "models pin": "`models pin` is gone (last in 0.2.0); write the commits under [revisions] in the sweep file",
    "models prove": "`models prove` is now `models try NAME --prove`",
    "prompt": "`prompt` is now `models try [NAME] --prompt SCENARIO/ID[/CONDITION[/TURN]]`",
    "top": "`top` is gone (last in 0.2.0); `status DIR` prints the progress, and `view DIR` shows replies as they come",
    "compare --power": "--power is gone (last in 0.2.0); compare prints the smallest difference that it finds",
    "compare --csv": "compare prints every cell with --json, and --csv is gone (last in 0.2.0)",
    "compare --independent": "--independent is now --cluster none",
    "ctl --wait": "--wait is gone (last in 0.2.0); ctl waits 15 seconds for the driver",
    "export --by": "--by is gone (last in 0.2.0)",
    "export --publish": "--publish is now a command of the extra bridges: publish PATH --to OWNER/NAME",
    "export --into": "--into is now --output",
    "init --package": "--package is now --from package: init DIR --from package",
    "judge --by": "--by is now --judge",
    "judge --draw": "answers are drawn by `label DIR --as NAME --draw N`, of extras/people",
    "judge --active": "answers are drawn by `label DIR --as NAME --draw N --active`, of extras/people",
    "report --leaderboard": "--leaderboard is gone (last in 0.2.0); report DIR DIR ranks the models of several runs",
    "report --learned": "`report DIR` prints table 3 where extras/learn is installed",
    "view --as": "labels are given by `label DIR --as NAME`, of extras/people",
    "view --export-labels": "--export-labels is now `label DIR --export FILE`, of extras/people",
    "view --import-labels": "--import-labels is now `label DIR --import FILE`, of extras/people",
    "data fetch --split": "the train split is fetched by `data split DIR`, of extras/learn",
    "merge --into": "--into is now --output",
    "models check --sweep": "a sweep is named without --sweep: models check SWEEP",
    "models try --sweep": "a sweep is named without --sweep: models try SWEEP",
    "models check --backend": "--backend is gone; `models try FOLDER --backend vllm --prove` checks another engine",
    "plan --cells": "--cells is gone; `plan --json` lists every cell",
    "plan --detect": "--detect is gone (last in 0.2.0); `compare DIR DIR` says what two runs can find",
    "plan --precision": "--precision is gone (last in 0.2.0); the table [precision] of a sweep stops at a precision",
    "plan --price": "--price is gone (last in 0.2.0); multiply the printed GPU-hours",
    "plan --reuse": "--reuse belongs to run, which says what it takes from other folders",
    "plan --skip-bad": "--skip-bad is now --set skip_bad=true",
    "plan --timeline": "--timeline is gone (last in 0.2.0); plan --gpus prints the bound",
    "report --baselines": "--baselines is gone (last in 0.2.0); the page folds baselines",
    "report --independent": "--independent is now --cluster none",
    "report --into": "--into is now --output",
    "report --no-baselines": "--no-baselines is gone (last in 0.2.0); the page folds baselines",
    "report --open": "--open is gone (last in 0.2.0); open the printed page",
    "run --retry-failed": "--retry-failed is now --retry failed",
    "run --skip-bad": "--skip-bad is now --set skip_bad=true",
    "view --bundle": "--bundle is now --output",
    "view --open": "--open is gone (last in 0.2.0); open the printed address",
}
"""A command, or a command and its option -> one sentence."""


def removed_sentence(typed: str) -> str:
    """Return what to type instead of a command, or of a command and its option; empty if neither was ever there."""
    if typed not in IN_EXTRAS:
        return REMOVED.get(typed, "")
    from envs.installed import install_line

    return f"`{typed}` belongs to an extra that is not installed; type {install_line(IN_EXTRAS[typed])}"
