"""The audit of protocols that play the game: our game and the package's replay an episode's replies turn by turn.

Compared: the option that each reply is parsed as, picture and crop, question and options, both verdicts, the move; then
ending, number of turns and the counts of actions. Under random-proactive, our game draws its moves from the seed again, while
the package gets the recorded ones (it does not specify the draw). Tool calls, and the judge's replies to open-ended answers
over several turns, are parsed again; the package gets the options that they name, and an empty reply for a malformed call. Not
compared: sizes of pictures, solved examples, missing replies, the options that the package would draw for several turns, and
earlier attempts of a judge, which are not stored.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from actors.playing.prompts import open_view, resize_image, turn_view
from envs import SCENARIOS, dialogue
from envs.lenient import repair_reply
from envs.openended import read_marks
from envs.tool_calls import called_option, offered_calls
from envs.types import ERRORS, Action, Ending, State, Turn, View
from orchestrator.audit.records import EpisodeDifference, Recording
from sweeps.spec import Protocol

STORED = ("image", "reply", "option", "category", "action", "move", "frame")
COUNTED = {
    "suggestions": Action.SUGGESTION, "abstentions": Action.ABSTENTION, "categories": Action.CATEGORY,
    "unparsable": Action.UNPARSABLE,
}  # fmt: skip


def task(episode: Recording) -> dict[str, Any]:
    """Return the input of the package."""
    condition, protocol = episode.cell.condition, episode.cell.protocol
    replies = episode.row["reply"] if protocol is Protocol.MCQA else episode.row["read_as"]
    if condition.lenient and protocol is Protocol.MCQA:
        replies = [option for option, _ in _replay(episode)]
    return {
        "stem": SCENARIOS[episode.cell.scenario].stem, "id": episode.sample.id, "mode": condition.mode.value,
        "hint": condition.hint and protocol is not Protocol.OEG_MULTI, "options": episode.sample.options,
        "categories": episode.sample.categories, "replies": replies, "moves": episode.row["move"],
    }  # fmt: skip


def differences(episode: Recording, reference: Mapping[str, Any]) -> Iterator[EpisodeDifference]:
    """Yield the differences between the store, our game and the package (``reference_worker.replay_game``)."""
    row, turns = episode.row, list(_replay(episode))
    if episode.cell.protocol is not Protocol.MCQA:
        for number, (option, _) in enumerate(turns):
            if (read_as := row["read_as"][number]) != option:
                yield EpisodeDifference(row["key"], f"turn {number}, read as", read_as, option, "not asked")
    replayed = [facts for _, facts in turns]
    for number, ours in enumerate(replayed):
        stored = {name: row[name][number] for name in STORED if name != "reply"}
        theirs = reference["turns"][number] if number < len(reference["turns"]) else None
        if theirs is None and reference["raised"]:
            theirs = ours["package"]  # the package gave up, so compare only the store
        for name in stored:
            if stored[name] != ours[name]:
                yield EpisodeDifference(row["key"], f"turn {number}, {name}", stored[name], ours[name], "not asked")
        if theirs != ours["package"]:
            yield EpisodeDifference(row["key"], f"turn {number}", stored, ours["package"], theirs)
    if len(replayed) != len(row["reply"]):
        yield EpisodeDifference(row["key"], "turns", len(row["reply"]), len(replayed), len(reference["turns"]))
    yield from _total_differences(episode, replayed, reference)


def _total_differences(
    episode: Recording, replayed: Sequence[Mapping[str, Any]], reference: Mapping[str, Any]
) -> Iterator[EpisodeDifference]:
    """Yield the differences of the ending, the number of turns and the counts of actions."""
    row = episode.row
    ours = replayed[-1]["ending"] if replayed else None
    stored = None if row["ending"] in (*ERRORS, Ending.OVERFLOW) else row["ending"]
    if stored == Ending.TRUNCATED:
        stored = Ending.WRONG.value  # game and package parse nothing in the empty reply
    theirs = ours if reference["raised"] else reference["ending"]
    if ours == Ending.LIMIT and theirs == Ending.WRONG and replayed[-1]["move"] is None:
        theirs = ours  # the package calls a suggestion at the limit wrong
    if not stored == ours == theirs:
        yield EpisodeDifference(row["key"], "ending", row["ending"], ours, reference["ending"])
    actions = Counter(facts["action"] for facts in replayed)
    unanswered_turns = row["ending"] == Ending.OVERFLOW  # the last turn has no reply
    counts = {
        "turns": len(replayed) + unanswered_turns,
        "correct": ours == Ending.CORRECT,
        **{n: actions[a] for n, a in COUNTED.items()},
    }
    for name, value in counts.items():
        if row[f"n_{name}"] != value:
            yield EpisodeDifference(row["key"], name, row[f"n_{name}"], value, "not asked")


def _replay(episode: Recording) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Replay the stored replies in our game; yield each parsed option (None if unreadable) and the facts of its turn."""
    sample, condition, protocol = episode.sample, episode.cell.condition, episode.cell.protocol
    game = SCENARIOS[sample.scenario]
    state = game.initial(sample, condition.mode, episode.row["seed"])
    is_dialogue = protocol is Protocol.OEG_MULTI
    resized = protocol is Protocol.MCQA and condition.history and condition.resized
    for text in episode.row["judged" if is_dialogue else "reply"]:
        if state.ending is not None:
            return
        view = (open_view if is_dialogue else turn_view)(sample, state, condition)
        plain = game.view(sample, state, condition.hint and not is_dialogue)
        option = _parse(episode, state, view, text or "")  # a judge that failed has no reply
        state, turn = game.step(sample, state, option or "")
        image = resize_image(view.image, game.history_edge if resized else None)
        yield option, _facts(view, plain, image.key, state, turn)


def _parse(episode: Recording, state: State, view: View, text: str) -> str | None:
    sample, protocol = episode.sample, episode.cell.protocol
    if protocol is Protocol.OEG_MULTI:
        marks = read_marks(text, len(dialogue.turn_choices(sample, state).lines))
        return None if marks is None else dialogue.option_from_marks(sample, state, marks)
    if protocol is Protocol.TOOLS:
        return called_option(view, offered_calls(sample, state, view), text)
    return repair_reply(sample, state, text) if episode.cell.condition.lenient else text


def _facts(view: View, plain: View, image: str, after: State, turn: Turn) -> dict[str, Any]:
    """Return the compared facts of a turn: stored columns, and those of the package, which sees the ``plain`` view."""
    move = turn.move and turn.move.value
    crop = plain.image.crop and [float(edge) for edge in plain.image.crop]
    options = [*view.options, *view.categories]
    return {
        "image": image, "option": turn.option.value, "category": turn.category.value,
        "action": turn.action.value, "move": move, "frame": turn.frame, "ending": after.ending and after.ending.value,
        "package": [plain.image.path, crop, plain.prompt, options, turn.option.value, turn.category.value, move],
    }  # fmt: skip
