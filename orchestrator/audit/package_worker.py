"""The child process of the audit: the package ``proactivebench`` replays recorded replies, one JSON line per episode.

A separate script, because the package requires Python 3.12: ``python orchestrator/audit/package_worker.py DATA`` with the
package's folder on PYTHONPATH. It imports only the standard library and the package.
"""

import json
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

NAMES = (
    "left right rewind wait rotate brightness contrast saturation deblur denoise decompress resolution artifacts detail up "
    "down zoom"
)
MOVES = dict(enumerate(NAMES.split(), 1))
"""Action numbers of the package (``environment``, top) -> our names."""


class CroppedPicture:
    """A stand-in for a picture that records its crop box."""

    crop_box: list[float] | None = None

    def crop(self, box: tuple[float, float, float, float]) -> "CroppedPicture":
        self.crop_box = [float(edge) for edge in box]
        return self


class RecordedMoves:
    """A stand-in for the module ``random`` in the package, so that random-proactive moves are the recorded ones."""

    action_map: dict[str, int]
    move: str | None

    def choice(self, words: list[str]) -> str:
        """Return the first word for the recorded move; raise ValueError if no word stands for it."""
        for word in words:
            if MOVES[self.action_map[word]] == self.move:
                return word
        raise ValueError(f"the recorded move {self.move!r} is not admissible")


def replay_game(game: Any, task: dict[str, Any], recorded: RecordedMoves, turns: list[Any]) -> dict[str, Any]:
    """Play these replies in the package; add each turn to ``turns``, and return the ending."""
    recorded.action_map = game.action_map
    for reply, recorded.move in zip(task["replies"], task["moves"]):  # noqa: B905 - the caller sends pairs
        if game.stop:
            break
        state, picture = game.get_state(hint=task["hint"]), CroppedPicture()
        state["transform"](picture)
        game.evaluate_generated_answer(reply)
        verdicts = [game.action_evaluation_history[-1], game.category_evaluation_history[-1]]
        move = MOVES.get(game.action_history[-1])
        turns.append([state["image_path"], picture.crop_box, state["prompt"], state["options"], *verdicts, move])
    if not game.stop or game.correct_prediction:
        return {"ending": "correct" if game.stop else None}
    return {"ending": "limit" if turns[-1][-1] is not None and game.num_turns == game.max_steps else "wrong"}


def read_judgments(game: Any, task: dict[str, Any], oeg: Any) -> dict[str, Any]:
    """Return the first question, the accepted answers, and the three bits of each judge's reply."""
    state, picture = game.get_state(hint=False), CroppedPicture()
    state["transform"](picture)
    valid = task["accepted"] or game.get_open_ended_gen_answers()
    bits = []
    for text in task["judged"]:
        spoken = text.rpartition("</think>")[2].strip("\n")  # as in the package's example
        read = oeg.parse_judge_prediction(valid, spoken, task["scenario"])
        bits.append([bool(read[name]) for name in ("category_prediction", "proactive_suggestion", "aggregate")])
    pieces = [piece.strip().replace(".", "") for piece in valid.split(",")]  # as in its message to the judge
    question = [state["image_path"], picture.crop_box, state["prompt"]]
    return {"question": question, "accepted answers": [piece for piece in pieces if piece], "bits": bits}


def read_entries(path: Path) -> dict[int, dict[str, Any]]:
    """Return the lines of a data file by id, without those that the run has left out (``skip_bad``)."""
    entries: dict[int, dict[str, Any]] = {}
    for line in path.read_text("utf-8-sig", errors="replace").split("\n"):
        with suppress(Exception):  # it is no JSON, or has no id
            entry = json.loads(line)
            entries.setdefault(entry["id"], entry)
    return entries


def main(data: Path) -> None:
    """Answer each line of standard input with one line."""
    environment, oeg = import_module("proactivebench.environment"), import_module("proactivebench.open_ended_gen")
    out, sys.stdout = sys.stdout, sys.stderr  # the package prints warnings
    recorded = RecordedMoves()
    environment.random = recorded  # type: ignore[attr-defined]
    samples: dict[str, dict[int, dict[str, Any]]] = {}
    for line in sys.stdin:
        task = json.loads(line)
        stem, mode, turns = task["stem"], task["mode"], list[Any]()
        if stem not in samples:
            samples[stem] = read_entries(data / f"{stem}_preprocessed.jsonl")
        entry = {**samples[stem][task["id"]], "options": task["options"], "categories": task["categories"]}
        try:
            kind = environment.get_environment(stem)
            game = kind(entry=entry, data_dir="", reference=mode == "reference", random=mode == "random-proactive")
            judged = "judged" in task
            answer = read_judgments(game, task, oeg) if judged else replay_game(game, task, recorded, turns)
        except Exception as problem:  # reported by the audit
            answer = {"ending": None, "raised": f"{type(problem).__name__}: {str(problem)[:200]}"}
        out.write(json.dumps({"turns": turns, "raised": None, **answer}) + "\n")


if __name__ == "__main__":
    folder = str(Path(__file__).parent)  # first in sys.path, except under PYTHONSAFEPATH; imports must not come from it
    sys.path[:] = [path for path in sys.path if path != folder]
    main(Path(sys.argv[1]))
