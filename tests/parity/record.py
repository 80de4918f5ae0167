"""Plays the package ``proactivebench`` and records each episode as a JSON line, which CI replays through our game.

    PYTHONPATH=<folder of the package> python3.12 tests/parity/record.py tests/parity/traces.jsonl.xz [raises.md]

Needs Python 3.12 or newer (a requirement of the package) and only the package's module ``environment``. ``--speed`` in place of
the file measures the package's microseconds per turn.
"""

from __future__ import annotations

import copy
import json
import lzma
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cases import (
    FLAWS,
    PLAYED_ON,
    SCENARIOS,
    UNREADABLE,
    UNUSUAL,
    disguise,
    entries,
    flawed_entry,
    reply,
    unusual_entry,
)
from proactivebench.environment import get_environment

SEED = 20260319
STEMS = {
    "ROD": "Realistic-Occlusion-Dataset", "VSOD": "OcclusionDataSet-MM20", "MVP-N": "MVP-N", "IN-C": "ImageNet-C",
    "QD": "QuickDraw", "CIT": "ChangeIt", "COCO": "coco2014",
}  # fmt: skip
MODES = {"play": 8, "hint": 3, "reference": 1, "reference hint": 1, "random": 4}
"""Mode -> weight with which it is drawn."""
BOLD = (0.0, 0.5, 0.8, 0.95, 0.98, 0.99, 1.0, 1.0)
"""Probabilities, of which one is drawn per episode, that a reply asks for another suggestion."""
PER_SCENARIO = 1000
MOST_RAISING, MOST_SOUND, PER_CAUSE, PER_KIND, TRIES = 300, 60, 3, 5, 400
TURNS = 120
"""Usual number of turns after which an episode gets no more replies."""
MOVES = {
    1: "left", 2: "right", 3: "rewind", 4: "wait", 5: "rotate", 6: "brightness", 7: "contrast", 8: "saturation", 9: "deblur",
    10: "denoise", 11: "decompress", 12: "resolution", 13: "artifacts", 14: "detail", 15: "up", 16: "down", 17: "zoom",
}  # fmt: skip
Trace = dict[str, Any]


class Picture:
    """Stands in for a picture, and records the box by which the package crops it."""

    op: list[Any] | None = None

    def crop(self, box: tuple[float, float, float, float]) -> Picture:
        self.op = ["crop", *map(float, box)]
        return self


def describe_state(state: dict[str, Any]) -> dict[str, Any]:
    """Return what the package shows, as ``proactive-sweep audit --answers`` prints it."""
    picture = Picture()
    state["transform"](picture)
    return {
        "image": state["image_path"],
        "op": picture.op,
        "prompt": state["prompt"],
        "options": list(state["options"]),
    }


def play_episode(rng: random.Random, scenario: str, entry: dict[str, Any], mode: str) -> Trace:
    """Let the package play one episode until it stops, raises, or the replies run out; return its trace."""
    hint, reference, rand = "hint" in mode, "reference" in mode, mode == "random"
    bold, patience = rng.choice(BOLD), rng.choice((*[TURNS] * 14, 1, 2, 5))
    random.seed(rng.randrange(2**32))  # the package draws random-proactive moves from the global generator
    turns: list[dict[str, Any]] = []
    trace: Trace = {
        "scenario": scenario, "mode": mode, "hint": hint, "reference": reference, "random": rand, "entry": entry,
        "answers": [], "turns": turns,
    }  # fmt: skip
    where = "construction"
    try:
        env = get_environment(STEMS[scenario])(
            entry=copy.deepcopy(entry), data_dir="", reference=reference, random=rand
        )
        while not env.stop and len(turns) < patience:
            where = "get_state"
            described = describe_state(env.get_state(hint=hint))
            trace["answers"].append(reply(rng, described["options"], entry, bold))
            where = "evaluate"
            env.evaluate_generated_answer(trace["answers"][-1])
            turns.append(described | _evaluation(env, trace["answers"][-1]))
    except Exception as problem:  # whatever the package raises is recorded
        error = {"where": where, "type": type(problem).__name__, "message": str(problem)[:300]}
        return trace | {"raises": {"turn": len(turns), **error}}
    return trace | _statistics(rng, env, trace)


def _evaluation(env: Any, answer: str) -> dict[str, Any]:
    return {
        "answer": answer, "action": env.action_evaluation_history[-1], "category": env.category_evaluation_history[-1],
        "move": MOVES.get(env.action_history[-1]),
    }  # fmt: skip


def _statistics(rng: random.Random, env: Any, trace: Trace) -> Trace:
    """Return the package's statistics; some episodes that have ended get more replies, which the replay must ignore."""
    stats = env.get_statistics()
    unused = rng.choice((0, 0, 0, 1, 3)) if env.stop else 0
    moves = {"moves": [turn["move"] for turn in trace["turns"]]} if trace["random"] else {}
    return {
        "answers": trace["answers"] + [rng.choice(("A", "", trace["entry"]["answer"])) for _ in range(unused)],
        "num_turns": stats["num_turns"], "correct": stats["correct_prediction"], "max_steps": stats["max_steps"],
        "stopped": env.stop, "unused_answers": unused, **moves,
    }  # fmt: skip


def play_sound_entries(rng: random.Random, scenario: str) -> Iterator[Trace]:
    """Yield episodes of sound entries without end, four per entry."""
    while True:
        entry = entries(rng, scenario)
        for mode in rng.choices(list(MODES), list(MODES.values()), k=4):
            yield play_episode(rng, scenario, disguise(rng, scenario, entry) if mode == "random" else entry, mode)


def play_flawed_entries(rng: random.Random) -> Iterator[Trace]:
    """Yield episodes of flawed entries in which the package raises, ``PER_CAUSE`` for each cause and scenario."""
    for cause, (scenarios, _) in FLAWS.items():
        for scenario in scenarios:
            count = 0
            for _ in range(TRIES):
                entry = flawed_entry(rng, scenario, cause)
                mode = rng.choice(("play", "play", "hint", "reference", "random"))
                trace = play_episode(rng, scenario, entry, mode)
                if "raises" in trace:
                    yield _with_cause(cause, trace)
                    count += 1
                if count == PER_CAUSE:
                    break


def play_unusual_entries() -> Iterator[Trace]:
    """Yield episodes of unusual entries that the package plays to an end; their own generator leaves other draws as they are."""
    rng = random.Random(SEED + 1)
    for kind, (scenarios, _) in UNUSUAL.items():
        count = PER_KIND if len(scenarios) > 1 else 8 * PER_KIND
        for scenario in scenarios:
            traces = (play_episode(rng, scenario, unusual_entry(rng, scenario, kind), "play") for _ in range(TRIES))
            smooth = [trace for trace in traces if "raises" not in trace]
            yield from ({**trace, "unusual": kind} for trace in smooth[:count])


def _with_cause(cause: str, trace: Trace) -> Trace:
    """Add the cause, and as ``said`` the reply at which the package raises and our game must not."""
    last_reply = trace["answers"][-1:] if trace["raises"]["where"] == "evaluate" and cause in PLAYED_ON else []
    return {"cause": cause, **trace, **({"said": last_reply[0]} if last_reply else {})}


def record_episodes() -> tuple[list[Trace], list[Trace]]:
    """Return ``PER_SCENARIO`` episodes of each scenario that do not raise, and a selection of those that do."""
    rng = random.Random(SEED)
    smooth: list[Trace] = []
    sound: list[Trace] = []
    raising = list(play_flawed_entries(rng))
    for scenario in SCENARIOS:
        source = play_sound_entries(rng, scenario)
        count = 0
        while count < PER_SCENARIO:
            trace = next(source)
            if "raises" in trace:
                sound.append(_with_cause("sound fields", trace))
            else:
                smooth.append(trace)
                count += 1
    return smooth, sound[:MOST_SOUND] + raising


def describe_raising(raising: list[Trace]) -> str:
    """Return a Markdown table of what raises, how often, and an example of each."""
    groups: dict[tuple[str, str, str], list[Trace]] = defaultdict(list)
    for trace in raising:
        groups[trace["cause"], trace["raises"]["where"], trace["raises"]["type"]].append(trace)
    lines = ["| cause | where | raises | episodes | scenarios | message | last reply |", "|" + " --- |" * 7]
    for (cause, where, kind), traces in groups.items():
        first, names = traces[0], sorted({trace["scenario"] for trace in traces})
        last_reply = repr(first["answers"][-1][:60]) if first["answers"] else "-"
        message = repr(first["raises"]["message"][:110])
        cells = (cause, where, kind, str(len(traces)), ", ".join(names), message, last_reply)
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def measure_speed(rounds: int = 3000) -> None:
    """Print the microseconds per turn of get_state and evaluate_generated_answer with recorded replies, by scenario."""
    smooth, _ = record_episodes()
    for scenario in SCENARIOS:
        traces = [t for t in smooth if t["scenario"] == scenario and t["mode"] == "play"]
        environment, spent, turns = get_environment(STEMS[scenario]), 0.0, 0
        for trace in (traces * (rounds // len(traces) + 1))[:rounds]:
            env = environment(entry=copy.deepcopy(trace["entry"]), data_dir="")
            answers = trace["answers"][: trace["num_turns"]]
            start = time.perf_counter()
            for answer in answers:
                env.get_state()
                env.evaluate_generated_answer(answer)
            spent += time.perf_counter() - start
            turns += len(answers)
        print(f"{scenario}: {1e6 * spent / turns:.1f} us a turn over {turns:,} turns")


def main(target: Path, report: Path | None = None) -> None:
    smooth, raising = record_episodes()
    selected = [trace for trace in raising if trace["cause"] not in UNREADABLE][:MOST_RAISING]
    content = "".join(
        json.dumps(trace, ensure_ascii=False) + "\n" for trace in [*smooth, *selected, *play_unusual_entries()]
    )
    target.write_bytes(lzma.compress(content.encode(), preset=9))
    if report:
        report.write_text(describe_raising(raising), encoding="utf-8")
    turns = sum(trace["num_turns"] for trace in smooth)
    print(f"{len(smooth):,} episodes of {turns:,} turns; {len(selected)} that raise; {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    measure_speed() if sys.argv[1] == "--speed" else main(*map(Path, sys.argv[1:3]))
