"""Row types of the tables episodes, turns, options and verdicts.

They are the only definition of each table: the store derives its Parquet schemas from their fields, in order, and ``ls columns``
prints their documentation, with the values that an annotated text may have.
"""

from typing import Annotated, NamedTuple

from envs.types import Action, Ending, Move, Verdict
from sweeps.protocol import Protocol

Int32 = Annotated[int, 32]
"""A count, stored in 32 bits; a plain ``int`` is stored in 64."""


class EpisodeRow(NamedTuple):
    """One row per episode."""

    key: str
    """Model, scenario, condition, sample and a hash of everything that changes the answer."""
    cell: str
    """Model, scenario and condition, with a hash of the configuration."""
    model: str
    """Name of the model in the sweep."""
    scenario: str
    """Abbreviation of the scenario, as ``ls scenarios`` lists it."""
    condition: str
    """Name of the condition, as ``ls conditions`` lists it."""
    protocol: Annotated[str, Protocol]
    """How the episode was played."""
    sample_id: int
    """The sample's number in its scenario's file."""
    seed: int
    """Seed of the model's replies, and of the moves of random-proactive."""
    ending: Annotated[str, Ending]
    """How the episode ended."""
    correct: bool | None
    """True if the episode ended with the right category; null for ``oeg``, ``every-frame`` and ``every-state``."""
    turns: Int32
    """Questions that were asked, including one too long for the model."""
    suggestions: Int32
    """Turns that asked for a change of the picture."""
    abstentions: Int32
    """Turns that abstained."""
    categories: Int32
    """Turns that named a category."""
    unparsable: Int32
    """Turns whose reply maps to no option."""
    error: str | None
    """What went wrong; null if nothing did."""
    seconds: float
    """Seconds from the first request to the last reply."""
    prompt_tokens: int
    """Tokens sent, over all turns."""
    reply_tokens: int
    """Tokens received, over all turns."""
    cost: float
    """Price of all turns, in the currency of the model's prices; 0 without prices."""
    cached_tokens: int | None
    """Prompt tokens that the engine had cached; null if it does not report them, and in parts stored by earlier versions."""
    pictures: Int32 | None
    """Pictures sent, over all turns; null as in ``cached_tokens``."""
    cached_pictures: Int32 | None
    """Pictures whose features were cached; null as in ``cached_tokens``."""


class TurnRow(NamedTuple):
    """One row per answered question; for ``oeg``, the columns from ``option`` to ``move`` are null."""

    key: str
    """The key of the episode."""
    turn: Int32
    """Number of the turn, from 0."""
    frame: Int32
    """The picture of the sample that was shown, from 0."""
    image: str
    """Path of the picture in the benchmark, with its crop or size."""
    reply: str
    """The model's reply as it came, without its thoughts if its entry has ``thinking``."""
    option: Annotated[str | None, Verdict]
    """``correct`` or ``wrong`` if the reply names a suggestion or the abstention, else ``mismatch``."""
    category: Annotated[str | None, Verdict]
    """``correct`` or ``wrong`` if the reply names a category, else ``mismatch``."""
    action: Annotated[str | None, Action]
    """What kind of option the reply names."""
    move: Annotated[str | None, Move]
    """The move that a correct suggestion asks for; null for any other reply."""
    read_as: str | None
    """The option that an answer of ``oeg-multi`` or a call of ``tools`` maps to, empty if none; null in other protocols."""
    judged: str | None
    """The judge's reply about an answer of ``oeg-multi``, reasoning included; null in other protocols."""
    note: str | None
    """What a service did otherwise than asked: another model, its own word for the end, fields left out; null if nothing."""
    thoughts: str | None
    """The first 32,768 characters of what the model thought before the reply; null if it shows none."""


class OptionRow(NamedTuple):
    """One row per option of a question of ``every-state``, and one per question for its residual.

    A column without a description here or in ``VerdictRow`` means the same as in ``EpisodeRow``.
    """

    key: str
    """The key of the episode."""
    model: str
    scenario: str
    condition: str
    sample_id: int
    order: Int32
    """0 for the published order of options, else the number of a seeded order."""
    turn: Int32
    """Number of the question, as in ``turns``."""
    frame: Int32
    """The picture of the sample that was shown, from 0."""
    image: str
    """Path of the picture in the benchmark, with its crop or size."""
    position: Int32
    """Place of the option as shown, from 0; -1 for the residual."""
    option: str | None
    """Text of the option; null for the residual: all replies that name no option."""
    kind: str
    """``suggestion``, ``abstention``, ``right`` or ``wrong`` (a category), ``residual``."""
    log_probability: float
    """Natural logarithm of the option's probability, ``-inf`` for zero."""
    greedy: bool
    """True for the option that greedy decoding names; always false if replies or thoughts were sampled."""
    samples: Int32 | None
    """Number of sampled replies if the probability is a share of these; null if the engine computed it."""
    thoughts: Int32 | None
    """Number of sampled thoughts if the probability is a mean over these, hence an estimate; null if the model did not think."""


class VerdictRow(NamedTuple):
    """One row per judged answer. If the judge gave no verdict, its three bits are null and ``reason`` says why."""

    key: str
    """The key of the episode."""
    judge: str
    """The judge's key: its name and a hash of its configuration."""
    cell: str
    model: str
    scenario: str
    condition: str
    sample_id: int
    category: bool | None
    """True if the answer names the right category."""
    suggestion: bool | None
    """True if the answer asks for a useful change."""
    aggregate: bool | None
    """True if the answer counts as right."""
    reason: str | None
    """Why there is no verdict; null if there is one."""
    first_failed: bool
    """True if the first request gave no verdict."""
    attempts: Int32
    """Number of requests to the judge."""
    text: str
    """The judge's last reply."""
    seconds: float
    """Seconds that the judge took, over all requests."""
    prompt_tokens: int
    """Tokens sent to the judge."""
    reply_tokens: int
    """Tokens received from the judge."""
    cost: float
    """Price of all requests to the judge, in the currency of its prices."""
    strict_category: bool | None
    """``category`` as the package's rule reads the first reply (``envs.openended.strict_verdict``); null without a reply."""
    strict_suggestion: bool | None
    """The same for ``suggestion``."""
    strict_aggregate: bool | None
    """The same for ``aggregate``."""
