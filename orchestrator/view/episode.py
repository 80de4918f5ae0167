"""An episode as a film strip: rows of the store, and the questions and pictures of their samples."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from envs import SCENARIOS
from envs.errors import RunFolderError
from envs.installed import PackageError
from envs.samples import BadData
from envs.types import Ending, Move, Sample
from orchestrator.datasets.staging import data_folder
from orchestrator.planning.named_by_user import plan_from_folder
from orchestrator.planning.plan import Plan
from orchestrator.report.html.episode_view import EpisodeViews
from orchestrator.report.html.thumbnails import Thumbnails
from orchestrator.report.measures.endings import EndingKind, state_from_view
from orchestrator.report.run_data import RunData
from orchestrator.storage.run_folder import stored_sweep
from orchestrator.storage.schemas import EPISODES
from orchestrator.storage.verdict_store import verdicts
from orchestrator.view.catalog import Catalog, StoredEpisode
from orchestrator.view.part_columns import KINDS
from sweeps.sweep_file import SweepError

MOST_PICTURES = 100
"""Most pictures of a film strip."""
Row = Mapping[str, Any]


class RunSamples:
    """The sweep and the samples of a run; without its data folder there are no questions and no pictures."""

    def __init__(self, folder: Path, data: Path | None) -> None:
        sweep = stored_sweep(folder)
        self.sweep = sweep if data is None else sweep.model_copy(update={"data": str(data)})
        self.folder = folder
        self.plan: Plan | None = None
        try:
            self.plan = plan_from_folder(folder, self.sweep)
        except (BadData, PackageError, SweepError, RunFolderError, OSError):
            return
        self.cell_numbers = {cell.key: number for number, cell in enumerate(self.plan.cells)}

    def sample_of(self, row: Row) -> Sample | None:
        """Return the sample of an episode if the data folder holds it as it was played: the key has a hash of it."""
        if self.plan is None or row["cell"] not in self.cell_numbers:
            return None
        sample = self.plan.samples_by_id.get(row["scenario"], {}).get(row["sample_id"])
        is_same = sample is not None and self.plan.key(self.cell_numbers[row["cell"]], sample) == row["key"]
        return sample if is_same else None

    def run_data(self, sample: Sample | None) -> RunData:
        """Return what a view needs of the run: its sweep and this sample."""
        samples = {} if sample is None else {sample.scenario: {sample.id: sample}}
        return RunData(self.folder, self.sweep, pl.DataFrame(), EPISODES.to_frame(), samples)

    @property
    def pictures(self) -> Path | None:
        """Return the data folder, None if it is not available."""
        folder = data_folder(self.sweep)
        return folder if self.plan is not None and folder.is_dir() else None


def view_episode(
    catalog: Catalog, run: RunSamples, episode: StoredEpisode, pictures: Thumbnails, judged: Sequence[Row]
) -> dict[str, Any]:
    """Return an episode and its texts, for JSON; its pictures get the next numbers in ``pictures``."""
    row, turns = episode.row, episode.turns
    sample = run.sample_of(row)
    run_data = run.run_data(sample)
    builder = EpisodeViews(run_data, pictures)
    kind = _kind(KINDS[catalog.columns["kind"][episode.position]], run_data, sample, row, turns)
    builder.add({**row, "kind": kind}, turns, judged)
    return {"episode": {**builder.views[0], "run": episode.run}, "texts": list(builder.texts)}


def view_alone(catalog: Catalog, samples: Mapping[str, RunSamples], position: int) -> dict[str, Any]:
    """Return an episode with its texts and pictures, for JSON. Raises ``storage.schemas.UNREADABLE``."""
    (episode,) = catalog.read_episodes([position])
    run = samples[episode.run]
    pictures = Thumbnails(run.pictures, MOST_PICTURES)
    view = view_episode(catalog, run, episode, pictures, read_verdicts(run.folder, episode.row))
    return {**view, "pictures": pictures.uris}


def _kind(kind: str, run_data: RunData, sample: Sample | None, row: Row, turns: Sequence[Row]) -> str:
    """Return the kind; with the sample, the rules of the game tell early wrong guesses from those with a clear view."""
    if kind != EndingKind.GUESSED or sample is None or not turns:
        return kind
    condition = run_data.conditions.get(row["condition"])
    if condition is None:
        return kind
    moves = [turn["move"] for turn in turns[:-1]]
    across = sum(move in (Move.LEFT, Move.RIGHT, Move.ZOOM) for move in moves)
    along = sum(move in (Move.UP, Move.DOWN, Move.ZOOM) for move in moves)
    last = turns[-1]
    mode = "play" if condition.mode.value == "random-proactive" else condition.mode.value
    state = state_from_view((row["scenario"], sample.id, mode, last["frame"], last["turn"], across, along))
    telling = SCENARIOS[sample.scenario].telling(sample, state)
    is_clear = False if condition.hides_picture else telling
    if is_clear is None:
        return kind
    return EndingKind.GUESSED_CLEAR.value if is_clear else EndingKind.GUESSED_EARLY.value


def read_verdicts(folder: Path, row: Row) -> list[dict[str, Any]]:
    """Return the judges' verdicts on an open-ended answer."""
    if row["ending"] != Ending.ANSWERED:
        return []
    return verdicts(folder).filter(pl.col("key") == row["key"]).collect().to_dicts()
