"""The game as a ``gymnasium.Env``: the observation is a picture and a question, the action an option or a text.

Importing this module registers ``proactive-sweep/all-v0``, ``proactive-sweep/ROD-v0`` and so on with Gymnasium. An episode that
reaches its turn limit is ``truncated``, any other ending is ``terminated``; the reward is 1 for a correct ending, else 0.
"""

import string
from collections.abc import Iterator, Mapping, Sequence
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
from proactive_bridges.benchmark import Benchmark, InteractiveEpisode
from sweeps.protocol import ZERO_SHOT

Observation = dict[str, Any]
"""``picture``: uint8 (size, size, 3); ``text``: the question with its lettered options."""
MAX_SAMPLED_REPLY = 4096
"""Maximum characters of a text that the action space samples; ``step`` accepts longer replies."""
EXTRA_QUESTION_CHARS = 1024
"""Characters that a later question may have beyond the first one and its options, for a budget or another wording."""
VERSION = 0
"""Part of the registered names; raise it when equal replies no longer give equal episodes or observations."""


class ProactiveGymEnv(gymnasium.Env[Observation, Any]):
    """The game for one player: ``reset`` shows a sample, ``step`` answers its question."""

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
        """Load a benchmark folder; raises SweepError or BadData.

        ``size`` is the edge in pixels of observed pictures, which are scaled to fit a black square. An ``action`` is the index
        of a displayed option, or the text of the reply. ``benchmark_seed`` equals a sweep's ``seed``.
        """
        if action not in ("option", "text"):
            raise ValueError(f"action = {action!r} is no kind of action; write 'option' or 'text'")
        self.benchmark = Benchmark(Path(data), scenarios, condition, filtered, benchmark_seed)
        self.renderer, self.size, self.render_mode = Renderer(Path(data)), size, render_mode
        self.by_option = action == "option"
        self.episode: InteractiveEpisode | None = None
        questions = list(self._first_questions())
        charset = frozenset(string.printable).union(*("".join((text, *options)) for text, options in questions))
        max_chars = EXTRA_QUESTION_CHARS + max(len(text) + 2 * sum(map(len, options)) for text, options in questions)
        self.observation_space = spaces.Dict({
            "picture": spaces.Box(0, 255, (size, size, 3), np.uint8),
            "text": spaces.Text(max_chars, charset=charset),
        })  # fmt: skip
        self.option_count = max(len(options) for _, options in questions)
        reply_space = spaces.Text(MAX_SAMPLED_REPLY, min_length=0, charset=charset)
        self.action_space = spaces.Discrete(self.option_count) if self.by_option else reply_space

    def _first_questions(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield each sample's first question and all options that the sample can display."""
        for scenario, samples in self.benchmark.samples.items():
            for sample_id in samples:
                episode = self.benchmark.episode(scenario, sample_id)
                yield episode.conversation[-1].text, episode.sample.options + episode.sample.categories

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Show a sample; draw what ``options`` does not set: ``scenario`` (short name) and ``sample`` (its id)."""
        super().reset(seed=seed)
        self.episode = self.benchmark.episode(*self._choose_sample(options or {}))
        return self._observe(self.episode), self._info(self.episode)

    def _choose_sample(self, requested: Mapping[str, Any]) -> tuple[str, int]:
        if unknown := sorted(requested.keys() - {"scenario", "sample"}):
            raise ValueError(f"reset knows no option {unknown[0]!r}; give scenario and sample")
        names = list(self.benchmark.samples)
        if "sample" in requested and "scenario" not in requested and len(names) > 1:
            raise ValueError("reset has a sample and no scenario; give both, because ids are unique only in a scenario")
        scenario = requested["scenario"] if "scenario" in requested else names[int(self.np_random.integers(len(names)))]
        if "sample" in requested:
            return scenario, requested["sample"]
        ids = list(self.benchmark.samples_of(scenario))
        return scenario, ids[int(self.np_random.integers(len(ids)))]

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Answer the open question; after the ending, the observation repeats the last question."""
        episode = self._current_episode()
        turn = episode.answer(self._parse_action(episode, action))
        ending, limit = episode.ending, episode.ending is Ending.LIMIT
        info = self._info(episode) | _turn_info(turn, ending)
        return self._observe(episode), float(ending is Ending.CORRECT), ending is not None and not limit, limit, info

    def render(self) -> NDArray[np.uint8]:
        """Return the picture of the question, at the size at which a model sees it."""
        return np.array(self._picture(self._current_episode().image))

    def _current_episode(self) -> InteractiveEpisode:
        if self.episode is None:
            raise ValueError("no sample is shown yet; call reset first")
        return self.episode

    def _parse_action(self, episode: InteractiveEpisode, action: Any) -> str:
        """Return the reply of an action; an index beyond the options is an empty reply."""
        if self.by_option:
            return episode.choices[int(action)] if 0 <= int(action) < len(episode.choices) else ""
        if not isinstance(action, str):
            raise ValueError(f"an action is a text here, not {action!r}")
        return action

    def _observe(self, episode: InteractiveEpisode) -> Observation:
        picture = _fit_into_square(self._picture(episode.image), self.size)
        return {"picture": picture, "text": episode.conversation[-1].text}

    def _picture(self, image: ImageRef | None) -> Image.Image:
        """Return the picture, black if the condition shows none; raises Unprocessable if it cannot be decoded."""
        return Image.new("RGB", (self.size, self.size)) if image is None else self.renderer.picture(image)

    def _info(self, episode: InteractiveEpisode) -> dict[str, Any]:
        """Return the sample, its options and the full conversation, which the observation does not have."""
        info: dict[str, Any] = {
            "scenario": episode.sample.scenario, "sample": episode.sample.id, "turn": episode.state.turn,
            "frame": episode.state.frame,
            "options": list(episode.view.options), "categories": list(episode.view.categories),
            "image": "" if episode.image is None else episode.image.key,
            "conversation": [
                {"role": message.role, "text": message.text, "images": [image.key for image in message.images]}
                for message in episode.conversation
            ],
        }  # fmt: skip
        if self.by_option:
            info["action_mask"] = (np.arange(self.option_count) < len(episode.choices)).astype(np.int8)
        return info


def _fit_into_square(picture: Image.Image, size: int) -> NDArray[np.uint8]:
    """Return the picture scaled to fit the upper left corner of a black square."""
    scale = size / max(picture.size)
    width, height = (max(1, min(size, round(edge * scale))) for edge in picture.size)
    square = Image.new("RGB", (size, size))
    square.paste(picture.resize((width, height), Image.Resampling.BICUBIC))
    return np.array(square)


def _turn_info(turn: Turn, ending: Ending | None) -> dict[str, Any]:
    """Return how the reply was parsed, as in the columns of the table ``turns``; "" for no move or no ending."""
    parsed = {"option": turn.option.value, "category": turn.category.value, "action": turn.action.value}
    return parsed | {"move": turn.move.value if turn.move else "", "ending": ending.value if ending else ""}


for name in ("all", *SCENARIOS):
    gymnasium.register(
        f"proactive-sweep/{name}-v{VERSION}",
        f"{__name__}:{ProactiveGymEnv.__name__}",
        kwargs={"scenarios": "all" if name == "all" else [name]},
    )
