"""``audit``: replay every stored reply in our game and in the package ``proactivebench``, and list the differences.

For games it compares the reading of each reply, the picture and crop, the question and options, both verdicts and the move; then
the ending, the number of turns and the counts of actions. Under random-proactive our game draws its moves from the seed again;
the package does not specify the draw, so it gets the recorded moves. For open-ended answers it compares the picture and question,
the accepted answers, and both readings of every stored verdict. It does not compare sizes of pictures, solved examples, missing
replies, the package's two hints for open-ended answers, its accepted answers for a clear picture (docs/decisions/0003), and
earlier attempts of a judge, which are not stored.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from actors.playing.prompts import apply_condition, open_view, resize_image
from envs import SCENARIOS
from envs.openended import Bits, accepted_answers, read_verdict, strict_verdict
from envs.types import ERRORS, Action, Ending, Mode, Sample, View
from orchestrator.audit.answers import Replayed, replay
from orchestrator.audit.package import open_package
from orchestrator.datasets.staging import fetch_lines
from orchestrator.planning.build_plan import stored_episodes
from orchestrator.planning.named_by_user import plan_from_folder
from orchestrator.planning.plan import Plan
from orchestrator.storage.episode_store import key_frame, turns
from orchestrator.storage.run_folder import planned_episodes, stored_sweep
from orchestrator.storage.verdict_store import verdicts
from sweeps.spec import Cell, Protocol

STORED = ("image", "option", "category", "action", "move", "frame")
"""Columns of a turn that our replay makes again."""
COUNTED = {
    "suggestions": Action.SUGGESTION, "abstentions": Action.ABSTENTION, "categories": Action.CATEGORY,
    "unparsable": Action.UNPARSABLE,
}  # fmt: skip
BITS = ("category", "suggestion", "aggregate")
NOT_ASKED = "not asked"
"""Stands for a side that has nothing to compare."""
BATCH = 10_000
"""Episodes sent to the package at once."""
MAX_LINES = 20
"""Most differences that are printed, and most episodes in which the package raises."""
TURNS = (*STORED, "reply", "read_as", "judged")
"""Columns of a turn that the audit reads."""
VERDICT = ("judge", *BITS, *(f"strict_{name}" for name in BITS), "attempts", "text")
"""Columns of a verdict that the audit compares."""
Sides = Iterator[tuple[str, Any, Any, Any]]
"""A value's name, and the value as it is stored, by our code, and by the package."""


@dataclass(frozen=True)
class Difference:
    """A difference between store, our code and the package."""

    key: str
    what: str
    stored: Any
    ours: Any
    package: Any

    def __str__(self) -> str:
        return f"{self.key}: {self.what}: stored {self.stored!r}, ours {self.ours!r}, package {self.package!r}"


@dataclass(frozen=True)
class Recording:
    """A stored episode with the sample under its condition."""

    row: Mapping[str, Any]
    """Columns of the episode, and of its turns as lists."""
    cell: Cell
    sample: Sample
    verdicts: Sequence[Mapping[str, Any]] = ()
    """Verdicts on an open-ended answer."""

    def replay(self) -> list[Replayed]:
        protocol = self.cell.protocol
        replies = self.row["judged" if protocol is Protocol.OEG_MULTI else "reply"]
        return list(replay(self.sample, self.cell.condition, replies, protocol, self.row["seed"]))


@dataclass(frozen=True)
class Audit:
    """The outcome of an audit."""

    episodes: int
    turns: int
    verdicts: int
    differences: tuple[Difference, ...]
    raised: tuple[str, ...]
    """A sentence per episode that the package cannot play to its end (docs/decisions/0001)."""
    without_sample: int = 0
    """Stored episodes of the plan without a sample in this data folder."""
    of_packages: int = 0
    """Stored episodes of scenarios and questions of installed packages, which the published package does not have."""

    @property
    def clean(self) -> bool:
        """Return True if nothing differs and no sample is missing; the package need not have, nor finish, an episode."""
        return not self.differences and not self.without_sample

    def lines(self) -> Iterator[str]:
        """Yield the differences, the episodes that the package cannot play, and the counts."""
        yield from map(str, self.differences[:MAX_LINES])
        yield from self.raised[:MAX_LINES]
        if self.raised:
            yield f"the package raises in {len(self.raised):,} episodes (docs/decisions/0001), compared up to that turn"
        if self.without_sample:
            reason = "the data folder lacks their samples; name the run's data folder with --data"
            yield f"{self.without_sample:,} stored episodes are not compared: {reason}"
        if self.of_packages:
            yield f"{self.of_packages:,} episodes are not compared: the published package has no such scenario or question"
        judged = f", {self.verdicts:,} verdicts" if self.verdicts else ""
        yield f"{self.episodes:,} episodes, {self.turns:,} turns{judged}: {len(self.differences):,} differences"


def audit(
    folder: Path,
    package: Path | None = None,
    python: str | None = None,
    data: Path | None = None,
    install: bool = False,
) -> Audit:
    """Replay a run folder; ``data`` is the benchmark's folder if it moved.

    Raises RunFolderError if the folder has no run or the package cannot run, BadData for unreadable samples.
    """
    sweep = stored_sweep(folder)
    if data is not None:
        sweep = sweep.model_copy(update={"data": str(data)})
    plan = plan_from_folder(folder, sweep)
    ask = open_package(fetch_lines(sweep), package, python, install)
    count, turn_count, verdict_count, differing, raised = 0, 0, 0, list[Difference](), list[str]()
    cells = {c.key: c for c in plan.cells if c.scenario in SCENARIOS and not c.condition.rules}
    recordings = _recordings(plan, folder, cells)
    while batch := list(islice(recordings, BATCH)):
        for episode, answer in zip(batch, ask(list(map(task, batch))), strict=True):
            count, turn_count = count + 1, turn_count + len(episode.row["reply"])
            verdict_count += len(episode.verdicts)
            differing += differences(episode, answer)
            if answer["raised"]:
                raised.append(f"{episode.row['key']}: the package raises {answer['raised']}")
    others = stored_episodes(plan, folder).filter(~pl.col("cell").is_in(list(cells))).select(pl.len())
    plan_keys = key_frame(plan.all_keys()).lazy()
    missing = planned_episodes(folder).join(plan_keys, on="key", how="anti").select(pl.len()).collect().item()
    return Audit(
        count, turn_count, verdict_count, tuple(differing), tuple(raised), int(missing), others.collect().item()
    )


def _recordings(plan: Plan, folder: Path, cells: Mapping[str, Cell]) -> Iterator[Recording]:
    """Yield the stored episodes of these cells, model by model."""
    episodes = stored_episodes(plan, folder).filter(pl.col("cell").is_in(list(cells)))
    for model in dict.fromkeys(cell.model.name for cell in cells.values()):
        own = episodes.filter(pl.col("model") == model)
        own_turns = turns(folder).join(own.select("key"), on="key", how="semi").sort("key", "turn")
        own_verdicts = verdicts(folder).filter(pl.col("model") == model).with_columns(pl.col("text").fill_null(""))
        judged = own_verdicts.sort("key", "judge").group_by("key").agg(pl.struct(VERDICT).alias("verdicts"))
        rows = own.join(own_turns.group_by("key").agg(*TURNS), on="key", how="left").join(judged, on="key", how="left")
        for row in rows.sort("key").collect().iter_rows(named=True):
            cell, number = cells[row["cell"]], int(row["key"].rpartition("/")[2].partition("-")[0])
            sample = apply_condition(plan.samples_by_id[cell.scenario][number], cell.condition, plan.seed)
            columns = row | {name: row[name] or [] for name in TURNS}
            yield Recording(columns, cell, sample, row["verdicts"] or ())


# -- comparison --------------------------------------------------------------------------------------------------------
def task(episode: Recording) -> dict[str, Any]:
    """Return what the package's process gets."""
    sample, condition, protocol = episode.sample, episode.cell.condition, episode.cell.protocol
    asked = {
        "stem": SCENARIOS[sample.scenario].stem, "id": sample.id, "mode": condition.mode.value,
        "options": sample.options, "categories": sample.categories,
    }  # fmt: skip
    if protocol is Protocol.OEG:
        is_clear = condition.mode is Mode.REFERENCE
        accepted = ", ".join(accepted_answers(sample, reference=True)) if is_clear else None
        texts = [verdict["text"] for verdict in episode.verdicts]
        return {**asked, "scenario": sample.scenario, "accepted": accepted, "judged": texts}
    replies = episode.row["reply"] if protocol is Protocol.MCQA else episode.row["read_as"]
    if condition.lenient and protocol is Protocol.MCQA:
        replies = [turn.option for turn in episode.replay()]
    hint = condition.hint and protocol is not Protocol.OEG_MULTI
    return {**asked, "hint": hint, "replies": replies, "moves": episode.row["move"]}


def differences(episode: Recording, package: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the differences of an episode, of which the package's process answers ``package``."""
    sides = _answer_sides if episode.cell.protocol is Protocol.OEG else _game_sides
    stored_id = "sample_id", episode.row["sample_id"], episode.sample.id, NOT_ASKED
    for what, *values in (stored_id, *sides(episode, package)):
        asked = [value for value in values if value is not NOT_ASKED]
        if any(value != asked[0] for value in asked):
            yield Difference(episode.row["key"], what, *values)


# -- games -------------------------------------------------------------------------------------------------------------
def _game_sides(episode: Recording, package: Mapping[str, Any]) -> Sides:
    row, condition, protocol = episode.row, episode.cell.condition, episode.cell.protocol
    replays = episode.replay()
    resized = protocol is Protocol.MCQA and condition.history and condition.resized
    edge = SCENARIOS[episode.sample.scenario].history_edge if resized else None
    for number, replayed in enumerate(replays):
        view, turn, move = replayed.view, replayed.turn, replayed.turn.move and replayed.turn.move.value
        if protocol is not Protocol.MCQA:
            yield f"turn {number}, read as", row["read_as"][number], replayed.option, NOT_ASKED
        ours = (
            resize_image(view.image, edge).key, turn.option.value, turn.category.value, turn.action.value, move, turn.frame
        )  # fmt: skip
        for name, value in zip(STORED, ours, strict=True):
            yield f"turn {number}, {name}", row[name][number], value, NOT_ASKED
        theirs = package["turns"][number] if number < len(package["turns"]) else None
        if theirs is not None or not package["raised"]:
            options = [*view.options, *view.categories]
            shown = [*_seen(replayed.plain), options, turn.option.value, turn.category.value, move]
            yield f"turn {number}", NOT_ASKED, shown, theirs
    yield "replies", len(row["reply"]), len(replays), NOT_ASKED
    yield from _total_sides(row, replays, package)


def _seen(view: View) -> list[Any]:
    return [view.image.path, view.image.crop and [float(edge) for edge in view.image.crop], view.prompt]


def _total_sides(row: Mapping[str, Any], replays: Sequence[Replayed], package: Mapping[str, Any]) -> Sides:
    """Yield the ending, the number of turns and the counts of actions."""
    last = replays[-1] if replays else None
    ours = last.state.ending.value if last and last.state.ending else None
    stored = None if row["ending"] in (*ERRORS, Ending.OVERFLOW) else row["ending"]
    if stored in (Ending.TRUNCATED, Ending.THOUGHTS_CUT):
        stored = Ending.WRONG.value  # game and package parse nothing in the empty reply
    theirs = NOT_ASKED if package["raised"] else package["ending"]
    if ours == Ending.LIMIT and theirs == Ending.WRONG and last and last.turn.move is None:
        theirs = ours  # the package calls a suggestion at the limit wrong
    yield "ending", stored, ours, theirs
    actions = Counter(replayed.turn.action.value for replayed in replays)
    unanswered = row["ending"] == Ending.OVERFLOW  # the last turn has no reply
    yield "turns", row["turns"], len(replays) + unanswered, NOT_ASKED
    yield "correct", row["correct"], ours == Ending.CORRECT, NOT_ASKED
    for name, action in COUNTED.items():
        yield name, row[name], actions[action], NOT_ASKED


# -- open-ended answers ------------------------------------------------------------------------------------------------
def _answer_sides(episode: Recording, package: Mapping[str, Any]) -> Sides:
    sample, condition, raised = episode.sample, episode.cell.condition, package["raised"]
    state = SCENARIOS[sample.scenario].initial(sample, condition.mode)
    view = open_view(sample, state, condition.model_copy(update={"hint": False}))
    answers = accepted_answers(sample, reference=condition.mode is Mode.REFERENCE)
    for image in episode.row["image"]:
        yield "image", image, view.image.key, NOT_ASKED
    yield "question", NOT_ASKED, _seen(view), NOT_ASKED if raised else package["question"]
    yield "accepted answers", NOT_ASKED, list(answers), NOT_ASKED if raised else package["accepted answers"]
    for number, verdict in enumerate(episode.verdicts):
        what, text = f"verdict of {verdict['judge']}", verdict["text"]
        read, strict = (_bits(parse(text, sample.scenario, len(answers))) for parse in (read_verdict, strict_verdict))
        theirs = NOT_ASKED if raised else package["bits"][number]
        expected = strict if raised else theirs
        stored = None if verdict["category"] is None else [verdict[name] for name in BITS]
        yield what, stored, read, NOT_ASKED if read is None else expected
        stored_strict = [verdict[f"strict_{name}"] for name in BITS]
        is_first = verdict["attempts"] == 1 and stored_strict[0] is not None
        yield f"{what}, strict", stored_strict if is_first else NOT_ASKED, strict, theirs


def _bits(bits: Bits | None) -> list[bool] | None:
    return None if bits is None else [bits.category, bits.suggestion, bits.aggregate]
