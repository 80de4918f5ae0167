"""The protocols by which episodes are played and scored, and why some combinations of a sweep cannot be played."""

from collections.abc import Sequence
from enum import StrEnum

from envs import SCENARIOS
from envs.tool_calls import FUNCTIONS
from envs.types import Mode
from sweeps.conditions import Condition
from sweeps.model import FACTS, ModelSpec
from sweeps.values import Frozen, Names

ZERO_SHOT = "zero-shot"
"""Name of the baseline condition: each turn is asked afresh, without hint or examples."""
HEADLINE = "proactivebench-mcqa-zero-shot v1"
"""Name and version of the score: accuracy and suggestions in zero-shot multiple choice, averaged over the seven scenarios, on the
samples that the paper's filter keeps. A change of samples, prompts, reading of replies or average raises the version."""


class Protocol(StrEnum):
    """The rules by which an episode is played and scored."""

    MCQA = "mcqa"
    """Multiple choice, many turns."""
    OEG = "oeg"
    """Open-ended generation, one turn, judged."""
    OEG_MULTI = "oeg-multi"
    """Open-ended generation, many turns: a judge reads each answer before the next picture is shown."""
    TOOLS = "tools"
    """Multiple choice whose options are functions to call."""

    @property
    def is_open_ended(self) -> bool:
        """Return True if answers are free text."""
        return self in OPEN_ENDED_CONDITIONS


LABELS = {
    Protocol.MCQA: "multiple choice",
    Protocol.OEG: "open-ended generation",
    Protocol.OEG_MULTI: "open-ended generation over several turns",
    Protocol.TOOLS: "tool calls",
}
"""Protocol -> its name in a sentence."""
OPEN_ENDED_CONDITIONS = {
    Protocol.OEG: (ZERO_SHOT, "hint", "reference", "text-only"),
    Protocol.OEG_MULTI: (ZERO_SHOT, "hint"),
}
"""The conditions of open-ended protocols; several turns exclude ``reference``, whose clear picture leaves nothing to ask."""


class Only(Frozen):
    """Conditions that only some models play."""

    conditions: Names
    models: Names
    """Names; ``models = "in-history"`` in a file means the paper's ten."""


def unplayable_reason(
    model: ModelSpec, scenario: str, condition: Condition, only: Sequence[Only] = (), protocol: Protocol = Protocol.MCQA
) -> str:
    """Return why this combination makes no cell; empty if it makes one."""
    if protocol is Protocol.OEG_MULTI and scenario not in SCENARIOS:
        return f"{scenario} has no rules by which answers of several turns are judged"
    if protocol is Protocol.TOOLS and (reason := uncallable_reason(model.backend, scenario, condition)):
        return reason
    if condition.name not in OPEN_ENDED_CONDITIONS.get(protocol, (condition.name,)):
        plays = ", ".join(OPEN_ENDED_CONDITIONS[protocol])
        return f"{condition.name} does not exist for {LABELS[protocol]}, which plays {plays}"
    if condition.scenarios and scenario not in condition.scenarios:
        return f"{condition.name} exists only for {', '.join(condition.scenarios)}"
    if reason := limit_reason(model, condition, protocol):
        return reason
    if condition.many_images and model.max_images == 1:
        return f"{model.name} takes one picture a prompt, but {condition.name} needs several"
    if condition.picture == "none" and model.architecture in FACTS["classes"]["needs_picture"]:
        return f"{model.name} takes no question without a picture, but {condition.name} shows none"
    if any(condition.name in rule.conditions and model.name not in rule.models for rule in only):
        return f"[[only]] excludes {model.name} from {condition.name}"
    return ""


def limit_reason(model: ModelSpec, condition: Condition, protocol: Protocol = Protocol.MCQA) -> str:
    """Return why the model's limits exclude this condition or protocol; empty if they do not."""
    if "no pictures" in model.limits and condition.shows_pictures:
        return f"{model.name} reads text only, but {condition.name} shows pictures"
    one_message = not (condition.many_images or condition.system or condition.picture == "none")
    if "no chat template" in model.limits and not one_message:
        takes = "has no chat template and takes one question with one picture"
        return f"{model.name} {takes}, but {condition.name} asks in another form"
    if "no functions" in model.limits and protocol is Protocol.TOOLS:
        return f'the chat template of {model.name} shows no functions; write tools = "text" in its entry'
    return ""


def uncallable_reason(backend: str, scenario: str, condition: Condition) -> str:
    """Return why tool calls cannot play this combination; empty if they can."""
    if scenario not in FUNCTIONS:
        return f"tool calls exist only for the paper's scenarios; {scenario} defines no functions"
    if backend == "human":
        return "a person chooses options and calls no functions"
    asks_otherwise = condition.many_images or condition.mode is Mode.RANDOM or condition.rules
    if asks_otherwise or condition.template or condition.lenient:
        reason = "calls are one turn's own options, in the package's wording, and are read exactly"
        return f"{condition.name} does not exist for tool calls: {reason}"
    return ""
