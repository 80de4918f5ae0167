"""The audit of multiple choice: an episode's replies replayed by our game and by the package's, turn by turn.

Compared: picture and crop, question and options, both verdicts, move; then ending, number of turns and the counts of
actions. Random-proactive: our game draws its moves from the seed anew, the package is given the recorded ones (it leaves
open how they are drawn). Not compared: sizes of pictures, solved examples, replies that never came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from actors.playing.prompts import resize_image, turn_view
from envs import SCENARIOS
from envs.lenient import repair_reply
from envs.types import ERRORS, Action, Ending, State, Turn, View
from orchestrator.audit.records import Difference, Recording

STORED = ("image", "reply", "option", "category", "action", "move", "frame")
COUNTED = {
    "suggestions": Action.SUGGESTION, "abstentions": Action.ABSTENTION, "categories": Action.CATEGORY,
    "unparsable": Action.UNPARSABLE,
}  # fmt: skip


def task(episode: Recording) -> dict[str, Any]:
    """What the package is given."""
    condition, replies = episode.cell.condition, episode.row["reply"]
    if condition.lenient:
        replies = [read for read, _ in _played(episode)]
    return {
        "stem": SCENARIOS[episode.cell.scenario].stem, "id": episode.sample.id, "mode": condition.mode.value,
        "hint": condition.hint, "options": episode.sample.options, "categories": episode.sample.categories,
        "replies": replies, "moves": episode.row["move"],
    }  # fmt: skip


def compared(episode: Recording, reference: Mapping[str, Any]) -> Iterator[Difference]:
    """What the store, our game and the package (``told``, see ``orchestrator.audit.reference_process``) do not agree on."""
    yield from differences(episode, reference, [facts for _, facts in _played(episode)])


def differences(
    episode: Recording, reference: Mapping[str, Any], replayed: Sequence[Mapping[str, Any]]
) -> Iterator[Difference]:
    """The same of turns (``facts``) that our game has played already."""
    row = episode.row
    for number, ours in enumerate(replayed):
        stored = {name: row[name][number] for name in STORED if name != "reply"}
        theirs = reference["turns"][number] if number < len(reference["turns"]) else None
        if theirs is None and reference["raised"]:
            theirs = ours["package"]  # where the package gave up, only ours can be compared
        for name in stored:
            if stored[name] != ours[name]:
                yield Difference(row["key"], f"turn {number}, {name}", stored[name], ours[name], "not asked")
        if theirs != ours["package"]:
            yield Difference(row["key"], f"turn {number}", stored, ours["package"], theirs)
    if len(replayed) != len(row["reply"]):
        yield Difference(row["key"], "turns", len(row["reply"]), len(replayed), len(reference["turns"]))
    yield from _totals(episode, replayed, reference)


def read_differences(
    episode: Recording, reference: Mapping[str, Any], replayed: Sequence[tuple[str | None, Mapping[str, Any]]]
) -> Iterator[Difference]:
    """The same of turns whose replies stand for options: each option as it is read now, and its turn."""
    for number, (read, _) in enumerate(replayed):
        if (stored := episode.row["read_as"][number]) != read:
            yield Difference(episode.row["key"], f"turn {number}, read as", stored, read, "not asked")
    yield from differences(episode, reference, [facts for _, facts in replayed])


def _totals(
    episode: Recording, replayed: Sequence[Mapping[str, Any]], reference: Mapping[str, Any]
) -> Iterator[Difference]:
    row = episode.row
    ours = replayed[-1]["ending"] if replayed else None
    stored = None if row["ending"] in (*ERRORS, Ending.OVERFLOW) else row["ending"]
    if stored == Ending.TRUNCATED:
        stored = Ending.WRONG.value  # the game, as the package, reads nothing in the empty reply
    theirs = ours if reference["raised"] else reference["ending"]
    if ours == Ending.LIMIT and theirs == Ending.WRONG and replayed[-1]["move"] is None:
        theirs = ours  # the package has one word for a suggestion that counts no more and for all else that is wrong
    if not stored == ours == theirs:
        yield Difference(row["key"], "ending", row["ending"], ours, reference["ending"])
    did = Counter(facts["action"] for facts in replayed)
    unasked = row["ending"] == Ending.OVERFLOW  # its last turn was never asked
    counts = {
        "turns": len(replayed) + unasked,
        "correct": ours == Ending.CORRECT,
        **{n: did[a] for n, a in COUNTED.items()},
    }
    for name, value in counts.items():
        if row[f"n_{name}"] != value:
            yield Difference(row["key"], name, row[f"n_{name}"], value, "not asked")


def _played(episode: Recording) -> Iterator[tuple[str, dict[str, Any]]]:
    """Our game on the stored replies: each reply as it was read, and what came of it."""
    sample, condition = episode.sample, episode.cell.condition
    game = SCENARIOS[sample.scenario]
    state = game.initial(sample, condition.mode, episode.row["seed"])
    edge = game.history_edge if condition.history and condition.resized else None
    for reply in episode.row["reply"]:
        if state.ending is not None:
            return
        view, plain = turn_view(sample, state, condition), game.view(sample, state, condition.hint)
        read = repair_reply(sample, state, reply) if condition.lenient else reply
        state, turn = game.step(sample, state, read)
        yield read, facts(view, plain, resize_image(view.image, edge).key, state, turn)


def facts(view: View, plain: View, image: str, after: State, turn: Turn) -> dict[str, Any]:
    """What is compared of one turn: the stored columns, and what the package tells of it (of the ``plain`` view)."""
    move = turn.move and turn.move.value
    crop = plain.image.crop and [float(edge) for edge in plain.image.crop]
    options = [*view.options, *view.categories]
    return {
        "image": image, "option": turn.option.value, "category": turn.category.value,
        "action": turn.action.value, "move": move, "frame": turn.frame, "ending": after.ending and after.ending.value,
        "package": [plain.image.path, crop, plain.prompt, options, turn.option.value, turn.category.value, move],
    }  # fmt: skip
