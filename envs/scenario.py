"""The base class of the scenarios: one transition for all seven; a subclass adds only what differs.

``state, turn = scenario.step(sample, state, reply)`` is pure: the same arguments give the same values for ever.
Rules: ``BaseEnvironment.evaluate_generated_answer`` of the package ``proactivebench`` 0.1.1.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from envs.answers import OptionTable, Reading, as_letter, as_text, letter, option_forms, option_table
from envs.chance import chance
from envs.types import Action, Ending, ImageRef, Mode, Move, Sample, State, Turn, Verdict, View

ABSTENTION_MARKS = ("cannot", "do not")
"""An option with one of these words is the abstention (package: every environment's ``index_correct_options``)."""


@lru_cache(maxsize=65536)
def suggestions(options: tuple[str, ...]) -> tuple[str, ...]:
    """The options that ask for something: all but the abstention."""
    return tuple(o for o in options if not any(mark in o.lower() for mark in ABSTENTION_MARKS))


class Scenario:
    """A game's rules. Stateless: all that changes is in ``State``, all that varies is in ``Sample``."""

    name: ClassVar[str]
    """Short name, the one used everywhere: ROD, VSOD, MVP-N, IN-C, QD, CIT, COCO."""
    stem: ClassVar[str]
    """Name of the published data file and of the package's environment."""
    hint: ClassVar[str]
    preface: ClassVar[str] = ""
    """Shown before every question."""
    reference_prompt: ClassVar[str] = ""
    """Asked of the clear image in place of the sample's question, if not empty."""
    cue: ClassVar[dict[str, Move]]
    """Words of a suggestion (lower case) -> the move they stand for."""
    placeholders: ClassVar[tuple[str, ...]] = ("image",)
    """Fields that ``image_template`` may name."""

    most_frames: ClassVar[int | None] = None
    """Pictures of a sample that a decision map asks about at most (``envs.frames``); None asks about all."""
    reasoning: ClassVar[str] = ""
    """Chain-of-thought wording before an example's suggestion; empty where the paper has no examples."""
    example_edge: ClassVar[int | None] = None
    """Short edge of the pictures of solved examples."""
    history_edge: ClassVar[int | None] = 224
    """Short edge of all pictures in the history condition (package: ``resize_samples``)."""

    # -- the game -----------------------------------------------------------------------------------------------------
    def initial(self, sample: Sample, mode: Mode = Mode.PLAY, seed: int = 0) -> State:
        """The state before the first answer; ``seed`` matters to random-proactive moves alone."""
        return State(frame=sample.first_frame, mode=mode, seed=seed)

    def view(self, sample: Sample, state: State, hint: bool = False) -> View:
        """Return the view of this state (package: ``get_state``)."""
        if state.mode is Mode.REFERENCE:
            image = ImageRef(self.path(sample, state._replace(frame=sample.reference_frame)))
            options: tuple[str, ...] = ()
            question = self.reference_prompt or sample.prompt
        else:
            image = self.image(sample, state)
            options = self.offered(sample, state)
            question = sample.prompt
        if self.preface:
            question = f"{self.preface} {question}"
        if hint:
            question = f"{question} {self.hint_for(sample)}"
        return View(image, question, options, sample.categories)

    def step(self, sample: Sample, state: State, reply: str, move: Move | None = None) -> tuple[State, Turn]:
        """Answer once.

        ``move`` replays a recorded random-proactive move; left out, it is drawn from the state's seed.
        Raises ValueError when the episode has already ended.
        """
        if state.ending is not None:
            raise ValueError(
                f"sample {sample.scenario}/{sample.id} has ended ({state.ending}); it takes no more replies"
            )
        shown = () if state.mode is Mode.REFERENCE else self.offered(sample, state)
        option, category, action = self._read(sample, state, shown, reply)
        made: Move | None = None
        if option.verdict is Verdict.CORRECT and category.verdict is not Verdict.CORRECT:
            random = state.mode is Mode.RANDOM
            made = (move or self.random_move(sample, state)) if random else self.move(shown[option.chosen])
        turn = Turn(state.frame, reply, option.verdict, category.verdict, action, made)
        return self._after(sample, state, turn), turn

    def _after(self, sample: Sample, state: State, did: Turn) -> State:
        turn = state.turn + 1
        if did.category is Verdict.CORRECT:
            return state._replace(turn=turn, ending=Ending.CORRECT)
        last = turn == self.limit(sample)
        if did.move is None:
            return state._replace(
                turn=turn, ending=Ending.LIMIT if last and did.action is Action.SUGGESTION else Ending.WRONG
            )
        after = State(state.frame, turn, did.move, state.across, state.along, state.mode, state.seed)
        return after._replace(ending=Ending.LIMIT) if last else self.advance(sample, after, did.move)

    def _read(
        self, sample: Sample, state: State, shown: tuple[str, ...], reply: str
    ) -> tuple[Reading, Reading, Action]:
        """Read the reply against suggestions and against categories; category letters follow the suggestions'."""
        text, mark = as_text(reply), as_letter(reply)
        asked, named = self._sides(sample, state, shown)
        option, category = asked.read(text, mark), named.read(text, mark)
        return option, category, classify_reply(shown, option, category, text in asked.texts)

    def _sides(self, sample: Sample, state: State, shown: tuple[str, ...]) -> tuple[OptionTable, OptionTable]:
        """Suggestions and categories, with those that count now."""
        asked = option_table(shown, self.askable(sample, state) if shown else (), 0)
        answers = (sample.answer,) if self.answerable(sample, state) else ()
        return asked, option_table(sample.categories, answers, len(shown))

    def right_options(self, sample: Sample, state: State, options: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the options that are right now, as a suggestion or as a category; any other ends the episode as not right."""
        asked, named = self._sides(sample, state, () if state.mode is Mode.REFERENCE else self.offered(sample, state))
        read = ((option, *option_forms(option)) for option in options)
        return tuple(
            option
            for option, text, mark in read
            if Verdict.CORRECT in (asked.read(text, mark).verdict, named.read(text, mark).verdict)
        )

    # -- what a scenario may change -----------------------------------------------------------------------------------
    def path(self, sample: Sample, state: State) -> str:
        """The picture's file, relative to the data folder."""
        return sample.image.format(image=state.frame)

    def image(self, sample: Sample, state: State) -> ImageRef:
        """The picture shown in play."""
        return ImageRef(self.path(sample, state))

    def offered(self, sample: Sample, state: State) -> tuple[str, ...]:
        """Suggestions and abstention shown now, in the sample's order."""
        return sample.options

    def askable(self, sample: Sample, state: State) -> tuple[str, ...]:
        """The offered suggestions that count as correct now."""
        return suggestions(self.offered(sample, state))

    def answerable(self, sample: Sample, state: State) -> bool:
        """Return True if the right category counts now."""
        return True

    def limit(self, sample: Sample) -> int:
        """The most turns an episode can last."""
        return sample.frames

    def advance(self, sample: Sample, state: State, move: Move) -> State:
        """The state after a move that was granted."""
        raise AssertionError(f"{type(self).__name__} must say how it advances")

    def hint_for(self, sample: Sample) -> str:
        """The sentence that the hint condition appends."""
        return self.hint

    def moves(self, sample: Sample) -> tuple[Move, ...]:
        """The moves that this sample's world knows, each once."""
        return tuple(dict.fromkeys(self.cue.values()))

    def problems(self, sample: Sample) -> list[str]:
        """Why this sample could not be played to every end, one sentence each; empty when all is well."""
        return []

    # -- moves --------------------------------------------------------------------------------------------------------
    def move(self, suggestion: str) -> Move:
        """The move a suggestion of this scenario stands for (package: ``_parse_action``); KeyError if it has none."""
        return _move(self, suggestion)

    def random_move(self, sample: Sample, state: State) -> Move:
        """The admissible move that a random-proactive suggestion makes: the same for every model (ours: seeded)."""
        return chance(state.seed, sample.scenario, sample.id, f"move-{state.turn}").choice(self.moves(sample))

    # -- solved examples ----------------------------------------------------------------------------------------------
    def solve(self, sample: Sample, state: State) -> str:
        """A right reply at this state, as text: ask while the view is not the telling one, then the category.

        Played from the initial state it reaches ``Ending.CORRECT`` in every valid sample.
        """
        if self.telling(sample, state) and self.answerable(sample, state):
            return sample.answer
        asks = self.askable(sample, state)
        if not asks or state.turn + 1 >= self.limit(sample):
            return sample.answer
        return self.towards(sample, state, asks)

    def telling(self, sample: Sample, state: State) -> bool:
        """Return True if the view shows what the reference view shows."""
        return state.mode is Mode.REFERENCE or state.frame == sample.reference_frame

    def towards(self, sample: Sample, state: State, asks: tuple[str, ...]) -> str:
        """The suggestion that leads to the telling view soonest."""
        return asks[0]

    def example(
        self, sample: Sample, seed: int, hint: bool = False, reasoned: bool = False, reduced: bool = False
    ) -> tuple[tuple[View, str], ...]:
        """A solved conversation about ``sample``: what was seen and the right reply, turn by turn (``get_icl_example``).

        ``reasoned`` puts the chain-of-thought wording before a suggestion; ``reduced`` keeps the first and last step.
        """
        state, steps = self.initial(sample), []
        while state.ending is None:
            view = self.view(sample, state, hint)
            reply = self.lesson(sample, state, seed)
            if reasoned and reply in view.options:
                reply = f"{self.reasoning} {letter(view.options.index(reply))}. {reply}"
            steps.append((view, reply))
            state, _ = self.step(sample, state, reply)
        return (steps[0], steps[-1]) if reduced and len(steps) > 2 else tuple(steps)

    def lesson(self, sample: Sample, state: State, seed: int) -> str:
        """The reply that an example gives at this state."""
        return self.solve(sample, state)


@lru_cache(maxsize=65536)
def _move(scenario: Scenario, suggestion: str) -> Move:
    lowered = suggestion.lower()
    for cue, move in scenario.cue.items():
        if cue in lowered:
            return move
    raise KeyError(suggestion)


def classify_reply(shown: tuple[str, ...], option: Reading, category: Reading, by_text: bool) -> Action:
    """Return the reply's action. Where its text names one side and its letter the other, the side that is right is what the
    package acts on, the category first (``evaluate_generated_answer``); where neither is right, the text says what was meant.
    """
    if category.verdict is Verdict.CORRECT:
        return Action.CATEGORY
    if option.verdict is Verdict.CORRECT:
        return Action.SUGGESTION
    if option.chosen < 0 and category.chosen < 0:
        return Action.UNPARSABLE
    if category.chosen >= 0 and not by_text:
        return Action.CATEGORY
    return Action.SUGGESTION if shown[option.chosen] in suggestions(shown) else Action.ABSTENTION


class LastImageSettles(Scenario):
    """On the last frame there is nothing left to ask: only the category counts (MVP-N, IN-C, QD)."""

    def askable(self, sample: Sample, state: State) -> tuple[str, ...]:
        return suggestions(sample.options) if state.turn + 1 < sample.frames else ()

    def telling(self, sample: Sample, state: State) -> bool:
        return state.mode is Mode.REFERENCE or state.turn + 1 >= sample.frames


class Ring(Scenario):
    """Frames close to a ring; one move goes back, another forward (ROD, VSOD)."""

    back: ClassVar[Move]

    def advance(self, sample: Sample, state: State, move: Move) -> State:
        by = -1 if move is self.back else 1
        return state._replace(frame=(state.frame + by) % sample.frames)

    def towards(self, sample: Sample, state: State, asks: tuple[str, ...]) -> str:
        ahead = (sample.reference_frame - state.frame) % sample.frames
        go_back = ahead > sample.frames - ahead
        return next((ask for ask in asks if (self.move(ask) is self.back) is go_back), asks[0])
