"""Plays the package ``proactivebench`` and writes what it did, one JSON line an episode: the facts that CI replays.

    PYTHONPATH=<folder of the package> python3.12 tests/parity/record.py tests/parity/traces.jsonl.xz

Needs Python >= 3.12 (the package's own requirement) and the package's module ``environment`` alone.
"""

from __future__ import annotations

import copy
import json
import lzma
import random
import sys
from pathlib import Path
from typing import Any

from cases import SCENARIOS, SUGGESTIONS, entry, reply
from proactivebench.environment import get_environment

STEMS = {
    "ROD": "Realistic-Occlusion-Dataset", "VSOD": "OcclusionDataSet-MM20", "MVP-N": "MVP-N", "IN-C": "ImageNet-C",
    "QD": "QuickDraw", "CIT": "ChangeIt", "COCO": "coco2014",
}  # fmt: skip
MODES = (("play", 8), ("hint", 3), ("reference", 2), ("reference hint", 1), ("random", 3))
PER_SCENARIO = 1000
TURNS = 120
MOVES = {
    1: "left", 2: "right", 3: "rewind", 4: "wait", 5: "rotate", 6: "brightness", 7: "contrast", 8: "saturation", 9: "deblur",
    10: "denoise", 11: "decompress", 12: "resolution", 13: "artifacts", 14: "detail", 15: "up", 16: "down", 17: "zoom",
}  # fmt: skip


class Picture:
    """Stands where the package expects a picture, and remembers the box it was cropped by."""

    op: list[Any] | None = None

    def crop(self, box: tuple[float, float, float, float]) -> Picture:
        self.op = ["crop", *map(float, box)]
        return self


def seen(state: dict[str, Any]) -> dict[str, Any]:
    """What the package shows, as ``proactive-sweep replay`` prints it."""
    picture = Picture()
    state["transform"](picture)
    return {
        "image": state["image_path"],
        "op": picture.op,
        "prompt": state["prompt"],
        "options": list(state["options"]),
    }


def disguised(rng: random.Random, scenario: str, line: dict[str, Any]) -> dict[str, Any]:
    """The entry with its suggestions replaced by another scenario's."""
    other = rng.choice([name for name in ("ROD", "IN-C", "QD", "MVP-N") if name != scenario])
    foreign = rng.sample(SUGGESTIONS[other], len(SUGGESTIONS[other]))
    mark = ("cannot", "do not")
    options = [o if any(m in o.lower() for m in mark) else foreign.pop() if foreign else o for o in line["options"]]
    return {**line, "options": [o for o in options if o in foreign or o not in SUGGESTIONS[scenario]] or options}


def episode(rng: random.Random, scenario: str, line: dict[str, Any], mode: str) -> dict[str, Any]:
    """One episode, played by the package until it stops, raises, or grows too long."""
    hint, reference, rand = "hint" in mode, "reference" in mode, mode == "random"
    found: dict[str, Any] = {"scenario": scenario, "entry": line, "mode": mode, "turns": []}
    where, bold = "construction", rng.choice((0.0, 0.5, 0.9, 1.0))
    try:
        env = get_environment(STEMS[scenario])(entry=copy.deepcopy(line), data_dir="", reference=reference, random=rand)
        while not env.stop and len(found["turns"]) < TURNS:
            where = "get_state"
            shown = seen(env.get_state(hint=hint))
            said = reply(rng, shown["options"], line["answer"], bold)
            where = "evaluate"
            found["said"] = said
            env.evaluate_generated_answer(said)
            found.pop("said")
            found["turns"].append(
                {**shown, "answer": said, "action": env.action_evaluation_history[-1],
                 "category": env.category_evaluation_history[-1], "move": MOVES.get(env.action_history[-1])}
            )  # fmt: skip
        stats = env.get_statistics()
        found |= {
            "num_turns": stats["num_turns"],
            "correct": stats["correct_prediction"],
            "max_steps": stats["max_steps"],
        }
        found["stopped"] = env.stop
    except (AssertionError, ValueError, IndexError, KeyError, AttributeError) as problem:
        found["raises"] = {"where": where, "type": type(problem).__name__, "message": str(problem)[:200]}
    return found


def main(target: Path) -> None:
    rng = random.Random(20260319)
    lines, raising = [], 0
    for scenario in SCENARIOS:
        kept = number = 0
        while kept < PER_SCENARIO:
            number += 1
            line = entry(rng, scenario, number)
            for mode in rng.choices([m for m, _ in MODES], [w for _, w in MODES], k=4):
                random.seed(number)
                found = episode(rng, scenario, disguised(rng, scenario, line) if mode == "random" else line, mode)
                if "raises" in found:
                    raising += 1
                    if raising > 300:
                        continue
                else:
                    kept += 1
                lines.append(json.dumps(found, ensure_ascii=False))
    content = "\n".join(lines) + "\n"
    target.write_bytes(lzma.compress(content.encode(), preset=9))
    print(f"{len(lines)} episodes, {min(raising, 300)} of them raise, {target.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
