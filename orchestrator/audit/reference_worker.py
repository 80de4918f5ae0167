"""The child process of the audit: the package ``proactivebench`` replays recorded replies, one JSON line per episode.

A separate script, because the package requires Python 3.12: ``python orchestrator/audit/reference_worker.py DATA`` with the
package's folder on PYTHONPATH. It imports only the standard library and the package.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Self

MOVES = {
    1: "left", 2: "right", 3: "rewind", 4: "wait", 5: "rotate", 6: "brightness", 7: "contrast", 8: "saturation", 9: "deblur",
    10: "denoise", 11: "decompress", 12: "resolution", 13: "artifacts", 14: "detail", 15: "up", 16: "down", 17: "zoom",
}  # fmt: skip
"""Action numbers of the package (``environment``, top) -> our names."""


class CroppedPicture:
    """A stand-in for a picture that records its crop box."""

    crop_box: list[float] | None = None

    def crop(self, box: tuple[float, float, float, float]) -> Self:
        self.crop_box = [float(edge) for edge in box]
        return self


class RecordedMoves:
    """A stand-in for the module ``random`` in the package, so that random-proactive moves are the recorded ones."""

    def __init__(self) -> None:
        self.action_map: dict[str, int] = {}
        self.move: str | None = None

    def choice(self, words: list[str]) -> str:
        """Return the first word for the recorded move; raise ValueError if no word stands for it."""
        for word in words:
            if MOVES[self.action_map[word]] == self.move:
                return word
        raise ValueError(f"the recorded move {self.move!r} is not admissible")


def entries(data: Path, stem: str) -> dict[int, dict[str, Any]]:
    """Return the unchanged lines of a scenario by id."""
    lines = (data / f"{stem}_preprocessed.jsonl").read_text("utf-8-sig").split("\n")
    parsed = [json.loads(line) for line in lines if line.strip()]
    return {entry["id"]: entry for entry in parsed}


def replay_game(kind: Any, entry: dict[str, Any], task: dict[str, Any], recorded: RecordedMoves) -> dict[str, Any]:
    """Return the turns and the ending of these replies in the package; ``raised`` is its error."""
    turns: list[Any] = []
    try:
        game = kind(
            entry=entry, data_dir="", reference=task["mode"] == "reference", random=task["mode"] == "random-proactive"
        )
        recorded.action_map = game.action_map
        for reply, recorded.move in zip(task["replies"], task["moves"]):  # noqa: B905 - the caller sends pairs
            if game.stop:
                break
            state, picture = game.get_state(hint=task["hint"]), CroppedPicture()
            state["transform"](picture)
            game.evaluate_generated_answer(reply)
            move = MOVES.get(game.action_history[-1])
            verdicts = [game.action_evaluation_history[-1], game.category_evaluation_history[-1]]
            turns.append([state["image_path"], picture.crop_box, state["prompt"], state["options"], *verdicts, move])
    except Exception as problem:  # reported by the audit
        return {"turns": turns, "ending": None, "raised": f"{type(problem).__name__}: {str(problem)[:200]}"}
    return {"turns": turns, "ending": ending(game, turns), "raised": None}


def ending(game: Any, turns: list[Any]) -> str | None:
    """Return ``correct``, ``limit``, ``wrong``, or None if the game continues."""
    if not game.stop:
        return None
    if game.correct_prediction:
        return "correct"
    return "limit" if turns[-1][-1] is not None and game.num_turns == game.max_steps else "wrong"


def read_judgments(kind: Any, entry: dict[str, Any], task: dict[str, Any], oeg: Any) -> dict[str, Any]:
    """Return the first question, the accepted answers, and the three bits of each judge's reply."""
    try:
        game = kind(entry=entry, data_dir="", reference=task["mode"] == "reference")
        state, picture = game.get_state(hint=False), CroppedPicture()
        state["transform"](picture)
        valid = task["accepted"] or game.get_open_ended_gen_answers()
        predictions = [
            oeg.parse_judge_prediction(valid, after_thinking(text), task["scenario"]) for text in task["judged"]
        ]
    except Exception as problem:
        raised = f"{type(problem).__name__}: {str(problem)[:200]}"
        return {"question": None, "accepted answers": [], "bits": [], "raised": raised}
    bits = [[bool(row[n]) for n in ("category_prediction", "proactive_suggestion", "aggregate")] for row in predictions]
    pieces = [piece.strip().replace(".", "") for piece in valid.split(",")]  # as in its message to the judge
    question = [state["image_path"], picture.crop_box, state["prompt"]]
    return {
        "question": question,
        "accepted answers": [piece for piece in pieces if piece],
        "bits": bits,
        "raised": None,
    }


def after_thinking(text: str) -> str:
    """Return a judge's reply without its thinking, as in the package's example."""
    return text.rpartition("</think>")[2].strip("\n")


def main(data: Path) -> None:
    """Answer each line of standard input with one line."""
    environment, oeg = import_module("proactivebench.environment"), import_module("proactivebench.open_ended_gen")
    out, sys.stdout = sys.stdout, sys.stderr  # the package prints warnings
    recorded = RecordedMoves()
    environment.random = recorded  # type: ignore[attr-defined]
    samples: dict[str, dict[int, dict[str, Any]]] = {}
    for line in sys.stdin:
        task = json.loads(line)
        stem = task["stem"]
        if stem not in samples:
            samples[stem] = entries(data, stem)
        entry = {**samples[stem][task["id"]], "options": task["options"], "categories": task["categories"]}
        kind = environment.get_environment(stem)
        answer = (
            read_judgments(kind, entry, task, oeg) if "judged" in task else replay_game(kind, entry, task, recorded)
        )
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    folder = str(Path(__file__).parent)  # first in sys.path, except under PYTHONSAFEPATH; imports must not come from it
    sys.path[:] = [path for path in sys.path if path != folder]
    main(Path(sys.argv[1]))
