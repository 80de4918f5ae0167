"""Rows of the published train split as training states; replies are parsed as the game parses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from random import Random

from PIL import Image, UnidentifiedImageError

from actors.engine.backend import Message, Situation
from actors.engine.batching import Job
from envs import SCENARIOS
from envs.answers import as_letter, as_text, option_table
from envs.render import FORMATS
from envs.scenario import suggestions
from envs.types import Action, ImageRef, Sample, State, Verdict, View
from orchestrator.datasets.train_split import SplitRow, read_rows
from orchestrator.learning.settings import TrainError
from orchestrator.learning.states import ReplyOutcome, build_job

SPLIT_SCENARIOS = ("QD", "COCO")
"""The scenarios of the split (paper, section 5)."""


@dataclass(frozen=True)
class SplitState:
    """One row; its kind is unknown and counts as ``middle``."""

    row: SplitRow
    kind: str = "middle"

    @property
    def key(self) -> str:
        return f"train/{self.row.number}"

    @property
    def scenario(self) -> str:
        """The scenario whose moves are among its suggestions, by default the first of ``SPLIT_SCENARIOS``."""
        text = " ".join(suggestions(self.row.options)).lower()
        return next(
            (name for name in SPLIT_SCENARIOS if any(cue in text for cue in SCENARIOS[name].cue)), SPLIT_SCENARIOS[0]
        )

    @property
    def solution(self) -> str:
        return self.row.answer

    def job(self, hint: bool = False) -> Job:
        if hint:
            raise TrainError("the published train split has no questions with hints; set train.exploration.hint = 0")
        image = ImageRef(self.key)
        view = View(image, self.row.question, self.row.options, ())
        sample = Sample(
            self.scenario, self.row.number, self.row.question, self.row.options, (), self.row.answer, self.key, 0, 1, 0
        )
        question = Message("user", self.row.question, (image,))
        return build_job((question,), {image: self._picture()}, Situation(sample, State(0), view))

    def _picture(self) -> Image.Image:
        try:
            return Image.open(BytesIO(self.row.picture), formats=FORMATS).convert("RGB")
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError):
            raise TrainError(
                f"row {self.row.number} of the train split has no picture that can be decoded; fetch it again"
            ) from None

    def outcome(self, reply: str) -> ReplyOutcome:
        """Match text first, then letter, over the options as one list (``envs.answers``)."""
        options, text, letter = self.row.options, as_text(reply), as_letter(reply)
        answer = option_table(options, (self.row.answer,), 0).read(text, letter)
        suggestion = option_table(options, self.row.suggestions, 0).read(text, letter)
        right = answer.verdict is Verdict.CORRECT
        return ReplyOutcome(self._action(answer.chosen), right, suggestion.verdict is Verdict.CORRECT and not right)

    def _action(self, chosen: int) -> Action:
        if chosen < 0:
            return Action.UNPARSABLE
        option = self.row.options[chosen]
        if option in self.row.suggestions:
            return Action.SUGGESTION
        return Action.CATEGORY if option in suggestions((option,)) else Action.ABSTENTION


def load_split_states(folder: Path, samples: int | None, seed: int) -> list[SplitState]:
    """Load the rows of a folder, or ``samples`` of them drawn by seed; raises BadData."""
    rows: Sequence[SplitRow] = list(read_rows(folder))
    if samples is not None and samples < len(rows):
        rows = Random(f"{seed}/learning/rows").sample(rows, samples)
    return [SplitState(row) for row in rows]
