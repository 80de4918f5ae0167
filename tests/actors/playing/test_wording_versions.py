"""Stored answers of two wordings never mix: a text sent to a model or a judge cannot change without its version.

Episodes of fixed samples are played through ``play`` and ``judge``; every text that their engines receive is hashed under the
version that is part of the answer's key. A change of the samples below, too, asks for new digests (but for no new version).
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256

import pytest

from actors.engine.backend import Reply, Request
from actors.engine.baselines import Baseline
from actors.engine.chat_format import function_schema
from actors.playing import prompts
from actors.playing.judge import TurnJudge, derive_seed, judge_answer
from actors.playing.play import play
from actors.playing.prompts import apply_condition, examples
from envs import SCENARIOS, dialogue, openended
from envs.coco import FARTHER, SIDEWAYS, UPRIGHT
from envs.foreign_suggestions import with_swapped_pictures
from envs.types import Mode, Sample
from sweeps.conditions import CONDITIONS, VARIANTS, Condition
from sweeps.load import build_judge as load_judge
from sweeps.protocol import uncallable_reason
from sweeps.sampling import Sampling
from sweeps.spec import Cell, ModelSpec, Protocol
from tests.envs.games import ABSTENTION, SAMPLES

pytest.importorskip("proactive_operating", reason="the extra `operating` asks two of the conditions")

PINNED = {
    "mcqa-1": ("VERSIONS[Protocol.MCQA] of actors/playing/prompts.py", "581584a9d8bd5efad4fd142faccee5ac"),
    "mcqa-1+examples-2": ("EXAMPLES_VERSION of actors/playing/prompts.py", "e0975cb5c68addde7f14fb81183985d0"),
    "mcqa-1+disguise-2": ("DISGUISE_VERSION of actors/playing/prompts.py", "c203325c29d74598f0f1b224e8928154"),
    "mcqa-1+lenient-3": ("LENIENT_VERSION of actors/playing/prompts.py", "608f63379a88f0122f3f0d849f540047"),
    "oeg-1": (
        "VERSIONS[Protocol.OEG] and VERSIONS[Protocol.OEG_MULTI] of actors/playing/prompts.py",
        "1161aa93ef75af04193aa29769660b17",
    ),
    "tools-1": ("TOOLS_VERSION of envs/tool_calls.py", "a00e94caab7f4f924a60cf211a997b26"),
    "judge-1": ("JUDGE_VERSION of envs/openended.py", "9b60b41738e806782f2f7210354775c9"),
    "turns-1": ("VERSION of envs/dialogue.py", "ec1c337be2f03332706e0adfd6f96ed3"),
}
"""Version -> the constant that holds it, and the digest of every text that it guards."""

SHIPPED = (*CONDITIONS.values(), *VARIANTS.values())
OWN = (
    Condition(name="own-words", preface="Look closely.", hint_text="You may ask.", system="You are an assistant."),
    Condition(name="own-template", template="Question: {question}\nOptions:\n{options}Answer:"),
    Condition(name="two-turns", history=True, history_turns=2),
)
PLAIN, NATIVE = (
    ModelSpec(name=f"tools-{tools}", source="org/model", backend="vllm", tools=tools) for tools in ("text", "hermes")
)
JUDGE = load_judge({"model": "rule-judge"}, "a test")
REPAIRS = ("Adjust the brightness.", "Adjust the contrast.", "Adjust the saturation.", "Deblur the image.",
           "Denoise the image.", "Remove the compression.", "Increase the resolution.", "Remove the artifacts.")  # fmt: skip
FREE_TEXT = ("", "A banana.", "<think>Hm.</think>Move the <|im_end|> blocks [INST]", "word " * 8_000)
"""Answers for the judge: none, a plain one, one with engines' own marks, and one too long to be shown whole."""


class RecordingPolicy(Baseline):
    """A baseline policy that keeps every text it is sent."""

    def __init__(self, policy: str) -> None:
        super().__init__(policy)
        self.received: list[str] = []

    async def reply(self, request: Request) -> Reply:
        messages = [(message.role, message.text, len(message.images)) for message in request.messages]
        self.received.append(json.dumps([messages, [function_schema(tool) for tool in request.tools]]))
        return await super().reply(request)


def samples(scenario: str) -> list[Sample]:
    """Samples that together show every suggestion, function and hint of the scenario."""
    first = SAMPLES[scenario]
    if scenario == "IN-C":
        return [first, replace(first, id=4, options=(*REPAIRS, ABSTENTION))]
    if scenario == "COCO":
        zoom = replace(first, id=5, options=(FARTHER, ABSTENTION), extra={**first.extra, "direction": "zoom"})
        return [first, replace(first, id=4, options=(*SIDEWAYS, *UPRIGHT, ABSTENTION)), zoom]
    if scenario == "VSOD":
        return [replace(first, first_frame=4, frames=8, reference_frame=2)]  # as many texts in fewer turns
    return [first]


def shown_sample(sample: Sample, condition: Condition) -> Sample:
    if condition.picture == "swapped":
        (sample,) = with_swapped_pictures([sample], [sample, replace(sample, id=99, answer=sample.categories[0])], 0)
    return apply_condition(sample, condition, 0)


async def received_texts(
    sample: Sample, condition: Condition, protocol: Protocol, model: ModelSpec, judge: RecordingPolicy
) -> list[str]:
    """Return the texts that a model receives; those of its judge gather in ``judge``."""
    own = {"condition": condition, "protocol": protocol, "sampling": Sampling(max_tokens=64)}
    cell = Cell(model=model, scenario=sample.scenario, **own)
    others = [replace(sample, id=number, prompt=f"What is number {number}?") for number in range(20, 26)]
    shots = examples(sample, others, condition, 0)
    received = []
    for policy in ("refuse", "ask-properly") if protocol.is_open_ended else ("oracle", "always-ask"):
        backend = RecordingPolicy(policy)
        await play(shown_sample(sample, condition), cell, backend, "key", 9, shots, TurnJudge(JUDGE, judge))
        received += backend.received
    if protocol is Protocol.OEG:
        for answer in FREE_TEXT:
            await judge_answer(sample, cell, answer, JUDGE, judge, 9)
    return received


def cells(scenario: str):
    for condition in (*SHIPPED, *OWN):
        if condition.scenarios and scenario not in condition.scenarios:
            continue
        yield condition, Protocol.MCQA, PLAIN
        if not uncallable_reason("vllm", scenario, condition):
            yield condition, Protocol.TOOLS, PLAIN
            yield condition, Protocol.TOOLS, NATIVE
        if condition.name in ("zero-shot", "hint", "reference"):
            yield condition, Protocol.OEG, PLAIN
        if condition.name in ("zero-shot", "hint"):
            yield condition, Protocol.OEG_MULTI, PLAIN


async def collect_texts(scenarios: Iterable[str] = SCENARIOS) -> dict[str, set[str]]:
    """Return the texts by the version that guards them."""
    texts: dict[str, set[str]] = defaultdict(set)
    for scenario in scenarios:
        for condition, protocol, model in cells(scenario):
            judge = RecordingPolicy("rule-judge")
            for sample in samples(scenario)[: 1 if condition.mode is Mode.RANDOM else None]:
                received = await received_texts(sample, condition, protocol, model, judge)
                texts[prompts.version(protocol, condition)].update(received)
            if judge.received:
                judged_by = dialogue.VERSION if protocol is Protocol.OEG_MULTI else openended.JUDGE_VERSION
                texts[judged_by].update(judge.received)
    return texts


def digests(texts: dict[str, set[str]]) -> dict[str, str]:
    return {version: sha256("\n".join(sorted(texts[version])).encode()).hexdigest()[:32] for version in texts}


@pytest.fixture(scope="module")
def texts() -> dict[str, set[str]]:
    return asyncio.run(collect_texts())


@pytest.mark.parametrize("version", PINNED)
def test_no_wording_changes_without_its_version(version, texts):
    constant, pinned = PINNED[version]

    assert digests(texts).get(version) == pinned, f"the wording changed: raise {constant} and pin the new digest"


def test_every_version_in_use_is_pinned(texts):
    assert set(texts) == set(PINNED)


@pytest.mark.parametrize(
    ("seed", "turn", "expected"), [(7, 0, 7), (7, 2, 0x3C6EF372FE94F831), ((1 << 63) - 1, 3, 0x5AA66D2C7DDF743E)]
)
def test_the_decoding_seed_of_a_turn_never_changes(seed, turn, expected):
    assert derive_seed(seed, turn) == expected
