"""The data of the page's episode browser: a seeded choice of episodes with their pictures, bounded in number and bytes."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

from envs import SCENARIOS
from envs.plural import pluralize
from orchestrator.report.html.episode_view import EpisodeViews, rows_by_key
from orchestrator.report.html.thumbnails import Thumbnails, picture_folder
from orchestrator.report.measures.endings import EndingKind, endings
from orchestrator.report.measures.sample_accuracy import hardest_samples
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.behavior import HARDEST
from orchestrator.report.tables.parts import order_models
from orchestrator.storage.verdict_store import verdicts
from sweeps.conditions import CONDITIONS

SEED = 0
"""Seed that draws the episodes of a page."""


def build_episode_browser(
    run_data: RunData, data: Path | None, most_pictures: int, most_episodes: int
) -> tuple[dict[str, Any], list[str]]:
    """Return the browser's data for JSON, and sentences about what it shows and what it lacks."""
    kinds = endings(run_data)
    linked = hardest_samples(run_data, HARDEST)["example"].to_list()
    keys = sample_episodes(kinds, most_episodes, SEED, linked)
    kind_by_key = kinds.select("key", "kind").filter(pl.col("key").is_in(keys))
    rows = {row["key"]: row for row in run_data.episodes.join(kind_by_key, on="key").to_dicts()}
    turns, verdict_rows = rows_by_key(run_data.turns, keys), rows_by_key(verdicts(run_data.folder), keys)
    views = EpisodeViews(run_data, Thumbnails(picture_folder(run_data, data), most_pictures))
    for key in keys:
        if not views.add(rows[key], turns.get(key, []), verdict_rows.get(key, [])):
            break
    browser = {
        "total": run_data.episodes.height,
        "texts": list(views.texts),
        "pictures": views.thumbnails.uris,
        "kinds": {kind.value: kind.meaning for kind in EndingKind},
        "conditions": list(CONDITIONS),
        "episodes": _sort_views(run_data, views.views),
    }
    return browser, _about(run_data, views)


def _sort_views(run_data: RunData, views: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort as the tables do: models, then scenarios and conditions in the paper's order."""
    orders = {
        "model": order_models(run_data.rows["model"], run_data.baselines),
        "scenario": list(SCENARIOS),
        "condition": list(CONDITIONS),
        "kind": [kind.value for kind in EndingKind],
    }
    ranks = {column: {name: n for n, name in enumerate(names)} for column, names in orders.items()}

    def sort_key(view: Mapping[str, Any]) -> tuple[Any, ...]:
        return (*[(ranks[column].get(view[column], 99), view[column]) for column in ranks], view["key"])

    return sorted(views, key=sort_key)


def _about(run_data: RunData, views: EpisodeViews) -> list[str]:
    number, total, pictures = len(views.views), run_data.episodes.height, views.thumbnails
    episodes = f"All {pluralize(total, 'episode')} of the run."
    if number < total:
        episodes = (
            f"{number:,} of {pluralize(total, 'episode')}, drawn with seed {SEED}: complete samples under every model and "
            "condition, and one episode of every ending of every cell, as far as the size limits allow; all others are in the "
            "run folder."
        )
    if pictures.renderer is None:
        return [episodes, "There are no pictures and no options, because the data folder is not available."]
    left_out = f"; {pictures.left_out:,} more left out to bound the file" if pictures.left_out else ""
    return [
        episodes,
        f"{pluralize(len(pictures.uris), 'picture')} as the models saw them, as cropped thumbnails{left_out}.",
    ]


def sample_episodes(endings: pl.DataFrame, most: int, seed: int, linked: Sequence[str] = ()) -> list[str]:
    """Return at most ``most`` keys in order of importance.

    Args:
        endings: Rows key, cell, scenario, protocol, sample_id, kind (``measures.endings``).
        most: Largest number of keys.
        seed: Seed of the draw.
        linked: Keys that a table links to; they come first.
    """
    rounds = _sample_rounds(endings, seed)
    first = next(rounds, [])
    order = chain(linked, first, _strata(endings, {*linked, *first}, seed), chain.from_iterable(rounds))
    return [key for key, _ in zip(dict.fromkeys(order), range(most), strict=False)]


def _sample_rounds(endings: pl.DataFrame, seed: int) -> Iterator[list[str]]:
    """Yield the keys of each round: one sample per scenario, with its episodes of all models and conditions.

    The samples with the most episodes come first, so that the page of an unfinished sweep can compare models.
    """
    groups = endings.group_by("scenario", "protocol", "sample_id").agg(pl.col("key").sort())
    queues: dict[tuple[str, str], list[tuple[int, float, list[str]]]] = {}
    for scenario, protocol, number, keys in groups.sort("scenario", "protocol", "sample_id").iter_rows():
        draw = Random(f"{seed}/{scenario}/{protocol}/{number}/page").random()
        queues.setdefault((scenario, protocol), []).append((-len(keys), draw, keys))
    for queue in queues.values():
        queue.sort()
    for samples in zip_longest(*queues.values()):
        yield [key for sample in samples if sample for key in sample[2]]


def _strata(endings: pl.DataFrame, present: Collection[str], seed: int) -> Iterable[str]:
    """Return an episode per cell and ending without an episode in ``present``, in an order drawn by ``seed``."""
    groups = endings.group_by("cell", "kind").agg(pl.col("key").sort()).sort("cell", "kind")
    picks = [
        Random(f"{seed}/{cell}/{kind}/page").choice(keys)
        for cell, kind, keys in groups.iter_rows()
        if not any(key in present for key in keys)
    ]
    Random(f"{seed}/strata").shuffle(picks)
    return picks
