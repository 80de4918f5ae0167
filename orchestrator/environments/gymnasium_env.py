"""The game as a ``gymnasium.Env``: a picture and a question are seen, an option or a text is the action.

Importing this module makes ``proactive-sweep/ROD-v0`` and so on, and ``proactive-sweep/all-v0``, known to ``gymnasium.make``. An
ending that the game gives is ``terminated``, its turn limit ``truncated``; the reward is 1 for a right ending, else 0.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from PIL import Image

from envs import SCENARIOS
from envs.render import Renderer
from envs.types import Ending, ImageRef, Turn
from orchestrator.environments.benchmark import Benchmark, InteractiveEpisode
from sweeps.protocol import ZERO_SHOT

Observation = dict[str, Any]
"""``picture``: uint8 (size, size, 3); ``text``: the question with its lettered options."""
LONGEST_REPLY = 4096
"""Characters of a text that the action space draws at most; longer replies are read as well."""
MORE = 1024
"""Characters that a later question of a sample may have more than its first one beside its options: a budget, another wording."""


VERSION = 0
"""In the names: rises when equal replies no longer give equal episodes or observations."""


class ProactiveGymEnv(gymnasium.Env[Observation, Any]):
    """One model's seat at the game: ``reset`` shows a sample, ``step`` takes an answer to it."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 1}

    def __init__(
        self,
        data: str | Path,
        scenarios: Sequence[str] | str = "all",
        condition: str = ZERO_SHOT,
        action: Literal["option", "text"] = "option",
        size: int = 448,
        filtered: bool = True,
        benchmark_seed: int = 0,
        render_mode: str | None = None,
    ) -> None:
        """``data`` is a benchmark folder; ``size`` pixels an edge have observed pictures, laid on black, as large as they fit.

        With ``action="option"`` an action is the place of an option among those shown (its letter), with ``"text"`` the
        reply itself. ``benchmark_seed`` is a sweep's ``seed``: of random moves, disguises and examples. Raises SweepError or
        BadData with one sentence.
        """
        if action not in ("option", "text"):
            raise ValueError(f"action = {action!r} is no kind of action; write 'option' or 'text'")
        self.benchmark = Benchmark(Path(data), scenarios, condition, filtered, benchmark_seed)
        self.renderer, self.size, self.render_mode, self.by_option = (
            Renderer(Path(data)),
            size,
            render_mode,
            action == "option",
        )
        self.episode: InteractiveEpisode | None = None
        questions = [question for samples in self.benchmark.samples.values() for question in self._first(samples)]
        charset = frozenset(string.printable).union(*(text for text, _, _ in questions))
        longest = max(len(text) + option_characters for text, option_characters, _ in questions) + MORE
        self.observation_space = spaces.Dict({
            "picture": spaces.Box(0, 255, (size, size, 3), np.uint8),
            "text": spaces.Text(longest, charset=charset),
        })  # fmt: skip
        option_count = max(count for _, _, count in questions)
        self.action_space = (
            spaces.Discrete(option_count)
            if self.by_option
            else spaces.Text(LONGEST_REPLY, min_length=0, charset=charset)
        )

    def _first(self, samples: Mapping[int, Any]) -> Iterable[tuple[str, int, int]]:
        """Of every sample the first question, characters of its options, and how many are shown."""
        for sample in samples.values():
            episode = self.benchmark.episode(sample.scenario, sample.id)
            options = episode.sample.options + episode.sample.categories
            text = episode.conversation[-1].text + "".join(options)
            yield text, sum(map(len, options)), len(options)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Show a sample: ``options`` may name its ``scenario``, or ``scenario`` and ``sample`` (an id); else one is drawn."""
        super().reset(seed=seed)
        self.episode = self.benchmark.episode(*self._drawn(options or {}))
        return self._observed(self.episode), _about(self.episode, self._width())

    def _drawn(self, requested: Mapping[str, Any]) -> tuple[str, int]:
        """The scenario and the sample that are asked for, or drawn; the benchmark says which there are."""
        if unknown := sorted(requested.keys() - {"scenario", "sample"}):
            raise ValueError(f"reset knows no option {unknown[0]!r}; give scenario and sample")
        names = list(self.benchmark.samples)
        if "sample" in requested and "scenario" not in requested and len(names) > 1:
            raise ValueError("reset has a sample and no scenario; give both, for ids begin anew in each")
        scenario = requested["scenario"] if "scenario" in requested else names[int(self.np_random.integers(len(names)))]
        if "sample" in requested:
            return scenario, requested["sample"]
        ids = list(self.benchmark.samples_of(scenario))
        return scenario, ids[int(self.np_random.integers(len(ids)))]

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Answer what is shown; the observation after the ending is what was shown last."""
        episode = self._playing()
        turn = episode.answer(self._reply(episode, action))
        ending = episode.ending
        reward = float(ending is Ending.CORRECT)
        details = _about(episode, self._width()) | _made(turn, ending)
        return self._observed(episode), reward, ending not in (None, Ending.LIMIT), ending is Ending.LIMIT, details

    def render(self) -> NDArray[np.uint8]:
        """The picture of the question, at the size at which a model sees it."""
        return np.array(self._picture(self._playing().image))

    def _playing(self) -> InteractiveEpisode:
        if self.episode is None:
            raise ValueError("no sample is shown yet; call reset first")
        return self.episode

    def _reply(self, episode: InteractiveEpisode, action: Any) -> str:
        if not self.by_option:
            if not isinstance(action, str):
                raise ValueError(f"an action is a text here, not {action!r}")
            return action
        index = int(action)
        return episode.choices[index] if 0 <= index < len(episode.choices) else ""

    def _width(self) -> int:
        return int(self.action_space.n) if isinstance(self.action_space, spaces.Discrete) else 0

    def _observed(self, episode: InteractiveEpisode) -> Observation:
        return {"picture": _fitted(self._picture(episode.image), self.size), "text": episode.conversation[-1].text}

    def _picture(self, image: ImageRef | None) -> Image.Image:
        """Black where the condition shows none. Raises Unprocessable for a file that is no picture."""
        return Image.new("RGB", (self.size, self.size)) if image is None else self.renderer.picture(image)


def _fitted(picture: Image.Image, size: int) -> NDArray[np.uint8]:
    """The picture as large as it fits, in the upper left corner of a black square."""
    scale = size / max(picture.size)
    edges = [max(1, min(size, round(edge * scale))) for edge in picture.size]
    square = Image.new("RGB", (size, size))
    square.paste(picture.resize((edges[0], edges[1]), Image.Resampling.BICUBIC))
    return np.array(square)


def _about(episode: InteractiveEpisode, width: int) -> dict[str, Any]:
    """What is not to be seen in the observation: which sample it is, what may be chosen, and the whole conversation."""
    choices = episode.choices
    details: dict[str, Any] = {
        "scenario": episode.sample.scenario, "sample": episode.sample.id, "turn": episode.state.turn,
        "frame": episode.state.frame,
        "options": list(episode.view.options), "categories": list(episode.view.categories),
        "image": "" if episode.image is None else episode.image.key,
        "conversation": [
            {"role": message.role, "text": message.text, "images": [image.key for image in message.images]}
            for message in episode.conversation
        ],
    }  # fmt: skip
    return details | ({"action_mask": (np.arange(width) < len(choices)).astype(np.int8)} if width else {})


def _made(turn: Turn, ending: Ending | None) -> dict[str, Any]:
    """What the game made of the answer, in the words of the table ``turns``; empty where there is nothing."""
    move = "" if turn.move is None else turn.move.value
    read = {"option": turn.option.value, "category": turn.category.value, "action": turn.action.value, "move": move}
    return read | {"ending": "" if ending is None else ending.value}


for name in ("all", *SCENARIOS):
    gymnasium.register(
        f"proactive-sweep/{name}-v{VERSION}",
        f"{__name__}:{ProactiveGymEnv.__name__}",
        kwargs={"scenarios": "all" if name == "all" else [name]},
    )
