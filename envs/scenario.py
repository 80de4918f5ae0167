"""The base class of the scenarios: one transition for all seven; a subclass adds only what differs.

``state, turn = scenario.step(sample, state, reply)`` is pure: equal arguments give equal values.
Rules: ``BaseEnvironment.evaluate_generated_answer`` of the package ``proactivebench`` 0.1.1.
"""

from functools import lru_cache
from typing import ClassVar

from envs.answers import Reading, as_letter, as_text, letter, option_table
from envs.chance import chance
from envs.types import Action, Ending, ImageRef, Mode, Move, Sample, State, Turn, Verdict, View

ABSTENTION_MARKS = ("cannot", "do not")
"""Words of the abstention (package: every environment's ``index_correct_options``)."""


@lru_cache(maxsize=65536)
def suggestions(options: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options except the abstention."""
    return tuple(o for o in options if not any(mark in o.lower() for mark in ABSTENTION_MARKS))


class Scenario:
    """A game's rules, without state: ``State`` holds what changes in an episode, ``Sample`` what differs between samples."""

    name: ClassVar[str]
    """Short name: ROD, VSOD, MVP-N, IN-C, QD, CIT, COCO."""
    stem: ClassVar[str]
    """Name of the published data file and of the package's environment."""
    hint: ClassVar[str]
    preface: ClassVar[str] = ""
    """Text before every question."""
    reference_prompt: ClassVar[str] = ""
    """Question about the clear image, if it differs from the sample's."""
    cue: ClassVar[dict[str, Move]]
    """Lower-case words of a suggestion -> its move."""
    placeholders: ClassVar[tuple[str, ...]] = ("image",)
    """Fields that ``image_template`` may name."""
    frame_digits: ClassVar[int] = 1
    """Minimum number of digits of a frame number in paths."""
    reasoning: ClassVar[str] = ""
    """Chain-of-thought wording before an example's suggestion; empty if the paper has no examples for the scenario."""
    example_edge: ClassVar[int | None] = None
    """Short edge of the pictures of solved examples."""
    history_edge: ClassVar[int | None] = 224
    """Short edge of all pictures in the history condition (package: ``resize_samples``)."""

    # -- the game -----------------------------------------------------------------------------------------------------
    def initial(self, sample: Sample, mode: Mode = Mode.PLAY, seed: int = 0) -> State:
        """Return the state before the first answer; ``seed`` only affects random-proactive moves."""
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
        """Apply one reply, and return the next state and the turn; raises ValueError if the episode has ended.

        ``move`` replays a recorded random-proactive move; None draws it from the state's seed.
        """
        if state.ending is not None:
            raise ValueError(f"sample {sample.scenario}/{sample.id} has ended ({state.ending}); it takes no replies")
        shown = () if state.mode is Mode.REFERENCE else self.offered(sample, state)
        option, category, action = self._read(sample, state, shown, reply)
        if option.verdict is not Verdict.CORRECT or category.verdict is Verdict.CORRECT:
            move = None
        elif state.mode is Mode.RANDOM:
            move = move or self.random_move(sample, state)
        else:
            move = self.move(shown[option.chosen])
        turn = Turn(state.frame, reply, option.verdict, category.verdict, action, move)
        return self._next_state(sample, state, turn), turn

    def _next_state(self, sample: Sample, state: State, turn: Turn) -> State:
        number = state.turn + 1
        if turn.category is Verdict.CORRECT:
            return state._replace(turn=number, ending=Ending.CORRECT)
        last = number == self.limit(sample)
        if turn.move is None:
            ending = Ending.LIMIT if last and turn.action is Action.SUGGESTION else Ending.WRONG
            return state._replace(turn=number, ending=ending)
        state = State(state.frame, number, turn.move, state.across, state.along, state.mode, state.seed)
        return state._replace(ending=Ending.LIMIT) if last else self.advance(sample, state, turn.move)

    def _read(
        self, sample: Sample, state: State, shown: tuple[str, ...], reply: str
    ) -> tuple[Reading, Reading, Action]:
        """Read the reply against suggestions and against categories; category letters follow the suggestions'."""
        text, mark = as_text(reply), as_letter(reply)
        answers = (sample.answer,) if self.answerable(sample, state) else ()
        options = option_table(shown, self.askable(sample, state) if shown else (), 0)
        option = options.read(text, mark)
        category = option_table(sample.categories, answers, len(shown)).read(text, mark)
        return option, category, classify_reply(shown, option, category, text in options.texts)

    def named_option(self, sample: Sample, state: State, reply: str) -> int:
        """Return the index of the option that a reply names, categories after suggestions and abstention; -1 if it names none."""
        shown = () if state.mode is Mode.REFERENCE else self.offered(sample, state)
        option, category, action = self._read(sample, state, shown, reply)
        if action is Action.UNPARSABLE:
            return -1
        return len(shown) + category.chosen if action is Action.CATEGORY else option.chosen

    # -- methods that a scenario may override -------------------------------------------------------------------------
    def path(self, sample: Sample, state: State) -> str:
        """Return the path of the state's picture, relative to the data folder."""
        return sample.image.format(image=str(state.frame).zfill(self.frame_digits))

    def image(self, sample: Sample, state: State) -> ImageRef:
        """Return the picture that play shows."""
        return ImageRef(self.path(sample, state))

    def offered(self, sample: Sample, state: State) -> tuple[str, ...]:
        """Return the suggestions and abstention of this state, in the sample's order."""
        return sample.options

    def askable(self, sample: Sample, state: State) -> tuple[str, ...]:
        """Return the offered suggestions that count as correct now."""
        return suggestions(self.offered(sample, state))

    def answerable(self, sample: Sample, state: State) -> bool:
        """Return True if the right category counts now."""
        return True

    def limit(self, sample: Sample) -> int:
        """Return the largest number of turns that an episode can last."""
        return sample.frames

    def advance(self, sample: Sample, state: State, move: Move) -> State:
        """Return the state after a granted move."""
        raise AssertionError(f"{type(self).__name__} must define advance()")

    def hint_for(self, sample: Sample) -> str:
        """Return the sentence that the hint condition appends."""
        return self.hint

    def moves(self, sample: Sample) -> tuple[Move, ...]:
        """Return the distinct moves that are possible in this sample."""
        return tuple(dict.fromkeys(self.cue.values()))

    def problems(self, sample: Sample) -> list[str]:
        """Return the reasons why this sample cannot be played to every end, one sentence each."""
        return []

    # -- moves --------------------------------------------------------------------------------------------------------
    @lru_cache(maxsize=65536)  # noqa: B019  # a scenario lives as long as its process
    def move(self, suggestion: str) -> Move:
        """Return the move of a suggestion (package: ``_parse_action``); raises KeyError if it has none."""
        lowered = suggestion.lower()
        for cue, move in self.cue.items():
            if cue in lowered:
                return move
        raise KeyError(suggestion)

    def random_move(self, sample: Sample, state: State) -> Move:
        """Draw the move of a random-proactive suggestion, equal for every model (the package draws it unseeded)."""
        return chance(state.seed, sample.scenario, sample.id, f"move-{state.turn}").choice(self.moves(sample))

    # -- solved examples ----------------------------------------------------------------------------------------------
    def solve(self, sample: Sample, state: State) -> str:
        """Return a right reply at this state: a suggestion until the picture shows the answer (``telling``), then the category.

        From the initial state, these replies reach ``Ending.CORRECT`` in every valid sample.
        """
        if self.telling(sample, state) and self.answerable(sample, state):
            return sample.answer
        asks = self.askable(sample, state)
        if not asks or state.turn + 1 >= self.limit(sample):
            return sample.answer
        return self.towards(sample, state, asks)

    def solution(self, sample: Sample, mode: Mode = Mode.PLAY) -> list[State]:
        """Return the states that the replies of ``solve`` lead through, from the initial state to the ended one."""
        states = [self.initial(sample, mode)]
        while states[-1].ending is None:
            states.append(self.step(sample, states[-1], self.solve(sample, states[-1]))[0])
        return states

    def telling(self, sample: Sample, state: State) -> bool:
        """Return True if the picture shows the answer as the reference picture does."""
        return state.mode is Mode.REFERENCE or state.frame == sample.reference_frame

    def towards(self, sample: Sample, state: State, asks: tuple[str, ...]) -> str:
        """Return the suggestion that leads soonest to a picture that shows the answer."""
        return asks[0]

    def example(
        self, sample: Sample, seed: int, hint: bool = False, reasoned: bool = False, reduced: bool = False
    ) -> tuple[tuple[View, str], ...]:
        """Return a solved episode as views and right replies, turn by turn (``get_icl_example``).

        ``reasoned`` adds the chain-of-thought wording before a suggestion; ``reduced`` keeps the first and last step.
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
        """Return the reply that an example gives at this state."""
        return self.solve(sample, state)


def classify_reply(shown: tuple[str, ...], option: Reading, category: Reading, by_text: bool) -> Action:
    """Return the reply's action; ``by_text`` is True if the reply's text names one of the ``shown`` options.

    If the text names one side and the letter the other, the package acts on the correct one, and on the category if both are
    correct (``evaluate_generated_answer``); if neither is, the text decides.
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
    """Scenarios in which only the category counts on the last frame (MVP-N, IN-C, QD)."""

    def askable(self, sample: Sample, state: State) -> tuple[str, ...]:
        return suggestions(sample.options) if state.turn + 1 < sample.frames else ()

    def telling(self, sample: Sample, state: State) -> bool:
        return state.mode is Mode.REFERENCE or state.turn + 1 >= sample.frames


class Ring(Scenario):
    """Scenarios whose frames form a ring; one move goes back, another forward (ROD, VSOD)."""

    back: ClassVar[Move]

    def advance(self, sample: Sample, state: State, move: Move) -> State:
        offset = -1 if move is self.back else 1
        return state._replace(frame=(state.frame + offset) % sample.frames)

    def towards(self, sample: Sample, state: State, asks: tuple[str, ...]) -> str:
        ahead = (sample.reference_frame - state.frame) % sample.frames
        go_back = ahead > sample.frames - ahead
        return next((ask for ask in asks if (self.move(ask) is self.back) is go_back), asks[0])
