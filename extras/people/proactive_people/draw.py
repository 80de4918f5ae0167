"""The answers that people label, in the order in which they are drawn; ``label_draw.csv`` in the run folder keeps it.

Everybody who labels a run gets the same answers in the same order. Later draws go on after the earlier ones.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

import polars as pl

from envs.errors import RunFolderError
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.judge_agreement import disputed_answers
from orchestrator.storage import safe_write
from orchestrator.storage.verdict_store import judge_names

FILE = "label_draw.csv"
NUMBER = 200
"""Answers that a first draw takes by default."""


def read_draw(folder: Path) -> dict[str, str]:
    """Return the keys in the drawn order, each with the judge whose disputes were drawn more often, or an empty text."""
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        rows = pl.read_csv(path, infer_schema=False, glob=False).select("key", pl.col("drawn").fill_null(""))
    except (OSError, pl.exceptions.PolarsError):
        raise RunFolderError(f"{path} cannot be read as CSV; remove it, and draw again") from None
    return dict(rows.iter_rows())


def extend_draw(run: RunData, number: int, active: bool) -> dict[str, str]:
    """Draw answers until ``number`` of the run are drawn, and return them; raises RunFolderError.

    Without a number, the first draw takes ``NUMBER``. With ``active``, half of the answers are ones on which the run's judge and
    another one differ.
    """
    answers = run.episodes.filter(run.episodes["ending"] == "answered")
    stored = set(answers["key"])
    drawn = {key: judge for key, judge in read_draw(run.folder).items() if key in stored}
    if not answers.height:
        raise RunFolderError(
            f'{run.folder} has no open-ended answers; play a sweep with protocol = "oeg" to label some'
        )
    number = number or len(drawn) or NUMBER
    if number > len(drawn):
        other = _second_judge(run) if active else ""
        disputed = disputed_answers(run.folder, run.judge, other) if other else ()
        keys = draw_answers(answers, drawn, number - len(drawn), run.sweep.seed, disputed)
        drawn |= dict.fromkeys(keys, other)
        frame = pl.DataFrame({"key": list(drawn), "drawn": list(drawn.values())})
        safe_write.write(run.folder / FILE, frame.write_csv().encode())
    return drawn


def draw_answers(
    answers: pl.DataFrame, drawn: Mapping[str, str], number: int, seed: int, disputed: Collection[str] = ()
) -> list[str]:
    """Draw ``number`` more answers, from each cell in turn and at random within a cell; return their keys.

    ``answers`` has the columns key and cell. Within a cell every answer has the same chance, as the correction assumes; with
    ``disputed``, a cell gives one of these and one of the others in turn.
    """
    stratum = pl.col("cell") + "/" + pl.col("key").is_in(list(disputed)).cast(pl.String)
    others = answers.with_columns(stratum.alias("stratum")).filter(~pl.col("key").is_in(list(drawn))).sort("key")
    order = pl.int_range(pl.len()).shuffle(seed=seed)
    in_turns = others.with_columns(order.over("stratum").alias("turn")).sort("turn", "key")
    return in_turns["key"].head(number).to_list()


def _second_judge(run: RunData) -> str:
    """Return a judge other than the run's own; raises RunFolderError if there is none."""
    if others := [name for name in judge_names(run.folder) if name != run.judge]:
        return others[0]
    judge = "MODEL" if run.judge.startswith("rule-judge/") else "rule-judge"
    raise RunFolderError(
        f"--active needs the verdicts of a second judge; `proactive-sweep judge {run.folder} --judge {judge}` gives them"
    )
