"""The audit's child process, as far as it needs no package: the words of its moves, and what it records of a game."""

from types import SimpleNamespace

import pytest

from envs.types import Move
from orchestrator.audit import reference_process
from orchestrator.audit.reference_process import AuditError
from orchestrator.audit.reference_worker import (
    MOVES,
    RecordedMoves,
    after_thinking,
    ending,
    read_judgments,
    replay_game,
)

TASK = {"mode": "hint", "hint": True, "replies": ["A", "B", "C"], "moves": ["left", None, None]}
STEPS = {"A": (1, True, False), "B": (0, False, True)}
"""Reply -> number of the action, verdict on the suggestion, and on the category."""


class Game:
    """A game with the package's interface that goes left for A and ends with B."""

    def __init__(self, **options):
        self.options, self.action_map = options, {"go left": 1}
        self.stop = self.correct_prediction = False
        self.action_history, self.action_evaluation_history, self.category_evaluation_history = [9], [None], [None]

    def get_state(self, hint):
        views = len(self.action_history)
        return {
            "image_path": f"{views}.png", "prompt": f"hint {hint}", "options": ["x"],
            "transform": lambda picture: picture.crop((0, views, 2, 3)),
        }  # fmt: skip

    def evaluate_generated_answer(self, reply):
        action, asked, right = STEPS[reply]
        self.action_history.append(action)
        self.action_evaluation_history.append(asked)
        self.category_evaluation_history.append(right)
        self.stop = self.correct_prediction = right

    def get_open_ended_gen_answers(self):
        return "a cat., go left"


def test_moves_of_the_package_are_ours():
    assert sorted(MOVES) == list(range(1, 18))
    assert {*MOVES.values()} == {str(move) for move in Move} and len({*MOVES.values()}) == 17


def test_a_turn_holds_what_the_newest_reply_did():
    recorded = RecordedMoves()
    replayed = replay_game(Game, {}, TASK, recorded)
    assert replayed == {
        "turns": [
            ["1.png", [0.0, 1.0, 2.0, 3.0], "hint True", ["x"], True, False, "left"],
            ["2.png", [0.0, 2.0, 2.0, 3.0], "hint True", ["x"], False, True, None],
        ],
        "ending": "correct",
        "raised": None,
    }
    assert (recorded.action_map, recorded.move) == ({"go left": 1}, None), "the third pair is not played"


def test_an_error_of_the_package_is_named_after_the_turns_before_it():
    replayed = replay_game(Game, {}, {**TASK, "replies": ["A", "D"]}, RecordedMoves())
    assert (len(replayed["turns"]), replayed["ending"], replayed["raised"]) == (1, None, "KeyError: 'D'")


@pytest.mark.parametrize(
    ("stop", "right", "move", "turns", "name"),
    [(False, False, None, 3, None), (True, True, None, 3, "correct"), (True, False, "left", 3, "limit"),
     (True, False, "left", 2, "wrong"), (True, False, None, 3, "wrong")],
)  # fmt: skip
def test_ending_of_a_game(stop, right, move, turns, name):
    game = SimpleNamespace(stop=stop, correct_prediction=right, num_turns=turns, max_steps=3)
    assert ending(game, [["picture", move]]) == name


def test_only_the_recorded_move_is_chosen():
    recorded = RecordedMoves()
    recorded.action_map, recorded.move = {"go left": 1, "go right": 2, "to the right": 2}, "right"
    assert recorded.choice(["go left", "to the right", "go right"]) == "to the right"
    with pytest.raises(ValueError, match=r"^the recorded move 'right' is not admissible$"):
        recorded.choice(["go left"])


def test_judgments_are_read_for_the_scenario_of_the_task():
    calls = []

    def parse(valid, text, scenario):
        calls.append((valid, text, scenario))
        return {"category_prediction": 1, "proactive_suggestion": 0, "aggregate": 1}

    task = {"mode": "hint", "accepted": "", "judged": ["1,0"], "scenario": "QD"}
    read = read_judgments(Game, {}, task, SimpleNamespace(parse_judge_prediction=parse))
    assert calls == [("a cat., go left", "1,0", "QD")] and read["bits"] == [[True, False, True]]
    assert read["accepted answers"] == ["a cat", "go left"] and read["raised"] is None
    assert read["question"] == ["1.png", [0.0, 1.0, 2.0, 3.0], "hint False"], "picture, crop and prompt without a hint"
    assert read_judgments(Game, {}, {**task, "scenario": 1}, None)["raised"].startswith("AttributeError: ")


@pytest.mark.parametrize(
    ("text", "kept"),
    [("1,0", "1,0"), ("\n1,0\n", "1,0"), ("It is a cat.</think>\n\n1,0\n", "1,0"), (" 1,0 ", " 1,0 ")],
)
def test_a_judges_thinking_and_empty_lines_are_cut_off(text, kept):
    assert after_thinking(text) == kept


def test_a_package_that_is_not_installed_has_no_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("PROACTIVEBENCH_PATH", raising=False)
    for spec, folder in ((None, None), (SimpleNamespace(origin=None), None)):
        monkeypatch.setattr(reference_process.importlib.util, "find_spec", lambda name, spec=spec: spec)
        assert reference_process._package_folder(None) == folder
    spec = SimpleNamespace(origin=str(tmp_path / "site/proactivebench/__init__.py"))
    monkeypatch.setattr(reference_process.importlib.util, "find_spec", lambda name: spec)
    assert reference_process._package_folder(None) == tmp_path / "site"


def test_candidates_that_do_not_start_are_passed_over(tmp_path, monkeypatch):
    """Files that Linux cannot execute, so that no process starts."""
    monkeypatch.setattr(reference_process, "MIN_PYTHON", (99, 0))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    for path in (tmp_path / "python3.12", tmp_path / "versions/3.14.0/bin/python"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x7fnot a program")
        path.chmod(0o700)
    with pytest.raises(AuditError, match=r"no newer one was found; name one with --python /path/to/python3\.12$"):
        reference_process._find_python(None)
    with pytest.raises(AuditError, match=r"^--python python3.12 does not start, or is older than Python 3.12"):
        reference_process._find_python("python3.12")
