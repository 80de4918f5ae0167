"""Labels: people's verdicts on a run's answers, stored as ``labels.csv`` in its folder; its judge is corrected by them."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import polars as pl

from envs import SCENARIOS
from envs.answers import as_text
from envs.errors import RunFolderError
from envs.types import Sample
from orchestrator.storage import option_labels, safe_write
from orchestrator.storage.verdict_store import final_replies

FILE = "labels.csv"
BITS = ("category", "suggestion")
COLUMNS = ("key", *BITS)
OPTION_COLUMNS = ("key", "labeler", "label")
"""Columns of a file that ``label --export`` writes; its labels are numbers of options."""
SCHEMA = {"key": pl.String, **dict.fromkeys((*BITS, "aggregate"), pl.Boolean), "drawn": pl.String}
YES, NO = ("1", "true", "yes"), ("0", "false", "no")


def read_labels(folder: Path) -> pl.DataFrame:
    """Return the labels of a run folder: key, category, suggestion, aggregate (category or suggestion) and drawn.

    ``drawn`` is "" if the answer was drawn at random within its cell. After ``draw_disputed`` it is the key of the second judge:
    answers on which the two judges differ were then drawn more often.
    """
    path = folder / FILE
    return parse_labels(path) if path.is_file() else pl.DataFrame(schema=SCHEMA)


def parse_labels(path: Path, samples: Mapping[str, Sample] = MappingProxyType({})) -> pl.DataFrame:
    """Return the labels of a CSV file with the columns key, category and suggestion; rows without a label are left out.

    A file of ``label --export`` is accepted too; its labels of keys that are not in ``samples`` are left out.
    Raises RunFolderError if the file cannot be read, lacks a column, or has a label that is neither 1 nor 0.
    """
    try:
        rows = pl.read_csv(path, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError, UnicodeDecodeError) as problem:
        raise RunFolderError(f"{path} cannot be read as CSV ({str(problem).partition(chr(10))[0]})") from problem
    if set(OPTION_COLUMNS) <= set(rows.columns) and not set(BITS) & set(rows.columns):
        rows = _read_options(path, samples)
    if missing := [name for name in COLUMNS if name not in rows.columns]:
        raise RunFolderError(
            f"{path} has no column {missing[0]}; a file of labels has the columns {', '.join(COLUMNS)}"
        )
    drawn = pl.col("drawn") if "drawn" in rows.columns else pl.lit("").alias("drawn")
    texts = rows.select("key", *[pl.col(bit).str.strip_chars().str.to_lowercase() for bit in BITS], drawn)
    texts = texts.filter(pl.any_horizontal(pl.col(bit).fill_null("") != "" for bit in BITS))
    bad = texts.filter(~pl.all_horizontal(pl.col(bit).is_in([*YES, *NO]).fill_null(False) for bit in BITS))
    if bad.height:
        raise RunFolderError(
            f"{path}: the label of {bad['key'][0]} is not 1 or 0 in both columns, {' and '.join(BITS)}; correct it or empty both"
        )
    labels = texts.with_columns(pl.col(bit).is_in(YES) for bit in BITS)
    if (duplicates := labels.filter(pl.col("key").is_duplicated())).height:
        raise RunFolderError(f"{path} has two labels of {duplicates['key'][0]}; keep one of them")
    aggregate = pl.any_horizontal(BITS).alias("aggregate")
    return labels.select("key", *BITS, aggregate, pl.col("drawn").fill_null("")).sort("key")


def _read_options(path: Path, samples: Mapping[str, Sample]) -> pl.DataFrame:
    """Return the labels of ``label --export`` as 1 and 0 per bit.

    ``category`` is 1 for the right category, ``suggestion`` for a suggestion that counts as correct in the first turn.
    """
    rows = dict[tuple[str, ...], None]()
    for key, label in ((each.key, each.label) for each in option_labels.from_csv(path) if each.key in samples):
        sample = samples[key]
        options, game = (*sample.options, *sample.categories), SCENARIOS[sample.scenario]
        if label != option_labels.NONE and int(label) >= len(options):
            raise RunFolderError(f"{path}: {key} has {len(options)} options, counted from 0; {label} is none of them")
        number = -1 if label == option_labels.NONE else int(label)
        category = number >= len(sample.options) and options[number] == sample.answer
        asks = 0 <= number < len(sample.options) and options[number] in game.askable(sample, game.initial(sample))
        rows[key, str(int(category)), str(int(asks))] = None
    if not rows:
        raise RunFolderError(f"{path} labels no open-ended answer of this run whose sample is in its data")
    return pl.DataFrame(list(rows), schema=dict.fromkeys(COLUMNS, pl.String), orient="row")


def samples_by_key(answers: pl.DataFrame, samples: Mapping[str, Mapping[int, Sample]]) -> dict[str, Sample]:
    """Return key -> sample for ``answers`` (columns key, scenario, sample_id); skip answers whose sample is missing."""
    rows = answers.select("key", "scenario", "sample_id").iter_rows()
    return {key: samples[scenario][number] for key, scenario, number in rows if number in samples.get(scenario, {})}


def store_labels(
    folder: Path, path: Path, known: Iterable[str], samples: Mapping[str, Sample] = MappingProxyType({})
) -> tuple[int, int]:
    """Add the labels of a file to those of a run folder; a new label replaces an old one of the same answer.

    Returns the number of labels in the file, and in the run folder afterwards. Raises RunFolderError if the file labels a key
    that is not in ``known``.
    """
    labels, answers = parse_labels(path, samples), set(known)
    if unknown_keys := [key for key in labels["key"] if key not in answers]:
        raise RunFolderError(
            f"{path} labels {unknown_keys[0]}, which is no open-ended answer of {folder}; `judge DIR --draw N --labels FILE` "
            "writes a file with the keys of this run"
        )
    merged = pl.concat([labels, read_labels(folder)]).unique("key", keep="first").sort("key")
    bits = merged.select("key", *[pl.col(bit).cast(pl.Int8) for bit in BITS], "drawn")
    safe_write.write(folder / FILE, bits.write_csv().encode())
    return labels.height, merged.height


def draw_answers(answers: pl.DataFrame, labelled: Iterable[str], number: int, seed: int) -> list[str]:
    """Draw ``number`` answers that are not labelled yet, from each cell in turn and at random within a cell; return their keys.

    ``answers`` has the columns key and cell. Within a cell every answer has the same chance, as the correction assumes.
    """
    unlabelled = answers.filter(~pl.col("key").is_in(list(labelled))).sort("key")
    order = pl.int_range(pl.len()).shuffle(seed=seed)
    in_turns = unlabelled.with_columns(order.over("cell").alias("turn")).sort("turn", "key")
    return in_turns["key"].head(number).to_list()


def draw_disputed(
    answers: pl.DataFrame, labelled: Iterable[str], number: int, seed: int, disputed: Collection[str]
) -> list[str]:
    """Draw like ``draw_answers``, but from each cell in turn a ``disputed`` answer and another one.

    ``disputed``: keys of the answers on which two judges differ.
    """
    parts = answers.with_columns(
        (pl.col("cell") + "/" + pl.col("key").is_in(list(disputed)).cast(pl.String)).alias("cell")
    )
    return draw_answers(parts, labelled, number, seed)


def label_sheet(
    folder: Path,
    answers: pl.DataFrame,
    keys: list[str],
    samples: Mapping[str, Mapping[int, Sample]],
    drawn: str = "",
) -> pl.DataFrame:
    """Return the rows to fill in: key, empty category and suggestion, the scenario, right category and answer, and ``drawn``."""
    replies = final_replies(folder, keys)
    scenarios, known = dict(answers.select("key", "scenario").iter_rows()), samples_by_key(answers, samples)
    rows = []
    for key in keys:
        scenario, right = scenarios[key], as_text(known[key].answer) if key in known else ""
        rows.append((key, None, None, scenario, right, replies.get(key, ""), drawn))
    columns = ("key", *BITS, "scenario", "right_category", "answer", "drawn")
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")
