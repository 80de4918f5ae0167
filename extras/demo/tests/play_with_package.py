"""Every entry of a benchmark folder is played by the published package, and every picture it asks for is there.

Run by Python >= 3.12 with the package on PYTHONPATH: ``python play_with_package.py FOLDER``; prints one JSON object.
"""

import ast
import contextlib
import importlib.util
import io
import json
import sys
from pathlib import Path

from proactivebench.environment import get_environment

STEMS = {
    "Realistic-Occlusion-Dataset": "ROD",
    "OcclusionDataSet-MM20": "VSOD",
    "MVP-N": "MVP-N",
    "ImageNet-C": "IN-C",
    "QuickDraw": "QD",
    "ChangeIt": "CIT",
    "coco2014": "COCO",
}


def published_filter():
    """``data_utils.FILTER`` read from the source: importing the module would need torch."""
    source = Path(importlib.util.find_spec("proactivebench.environment").origin).with_name("data_utils.py")
    for node in ast.parse(source.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "FILTER":
            return ast.literal_eval(node.value)
    raise LookupError("data_utils.FILTER is gone")


def suggestions(entry):
    return [o for o in entry["options"] if "cannot" not in o.lower() and "do not" not in o.lower()]


def check_state(environment, size):
    """The state, after checking that its picture is there and its crop lies inside."""
    state = environment.get_state()
    head = Path(state["image_path"]).read_bytes()[:4]
    assert head.startswith(b"\xff\xd8\xff") or head == b"\x89PNG", state["image_path"]
    if size is not None and not environment.reference:
        box = state["transform"](Picture())
        assert 0 <= box[0] < box[2] <= size[0] and 0 <= box[1] < box[3] <= size[1], (state["image_path"], box, size)
    return state


class Picture:
    def crop(self, box):
        return box


def ask(environment, entry, state):
    """Return the suggestion that leads to the clear view, None if it is shown already."""
    asks = [o for o in state["options"] if o in suggestions(entry)]
    frame, goal = environment.image_id, entry["reference_image"]
    last = environment.num_turns + 1 == environment.max_steps
    kind = type(environment).__name__
    if kind.startswith(("Realistic", "Occlusion")):
        early = kind.startswith("Realistic") and environment.num_turns == 0
        return None if frame == goal and not early else asks[entry["id"] % len(asks)]
    if kind.startswith("ChangeIt"):
        word = "Rewind" if goal < frame else "Wait"
        return None if frame == goal else next(o for o in asks if word in o)
    if kind.startswith("ImageNet"):
        return None if last else entry["quality_answer"]
    return asks[0] if asks and not last else None


def play_correctly(kind, entry, folder, size):
    """Turns of an episode of right replies; it must end correct."""
    environment = kind(entry=entry, data_dir=folder)
    while not environment.stop:
        state = check_state(environment, size)
        environment.evaluate_generated_answer(ask(environment, entry, state) or entry["answer"])
    assert environment.get_statistics()["correct_prediction"], (entry, environment.get_statistics())
    return environment.num_turns


def play_one_suggestion(kind, entry, folder, size, wish):
    """Repeat one suggestion while it is offered, then any, to the limit; check every picture on the way."""
    environment = kind(entry=entry, data_dir=folder)
    while not environment.stop:
        state = check_state(environment, size)
        asks = [o for o in state["options"] if o in suggestions(entry)]
        reply = wish if wish in asks else asks[0] if asks else "?"
        environment.evaluate_generated_answer(reply)
    return environment.num_turns


def sizes(folder):
    """COCO's pictures and their sizes in pixels, from the JPEG headers."""
    return {path.name: jpeg_size(path.read_bytes()) for path in folder.glob("coco2014/val2014/*.jpg")}


def jpeg_size(content):
    offset = 2
    while content[offset + 1] not in (0xC0, 0xC2):
        offset += 2 + int.from_bytes(content[offset + 2 : offset + 4], "big")
    return int.from_bytes(content[offset + 7 : offset + 9], "big"), int.from_bytes(
        content[offset + 5 : offset + 7], "big"
    )


def play_file(stem, folder, kept_ids):
    kind, measured = get_environment(stem), sizes(folder)
    total = {"lines": 0, "kept": 0, "turns": 0, "directions": []}
    for line in (folder / f"{stem}_preprocessed.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        size = measured.get(Path(entry["image_template"]).name)
        total["lines"] += 1
        total["kept"] += entry["id"] in kept_ids and entry.get("strong_occlusions", True)
        total["turns"] += play_correctly(kind, entry, folder, size)
        for wish in suggestions(entry) if stem != "ImageNet-C" else [entry["quality_answer"]]:
            play_one_suggestion(kind, entry, folder, size, wish)
        reference = kind(entry=entry, data_dir=folder, reference=True)
        check_state(reference, size)
        reference.evaluate_generated_answer(entry["answer"])
        assert reference.correct_prediction, entry
        total["directions"] = sorted({*total["directions"], *([entry["direction"]] if "direction" in entry else [])})
    return total


def main(folder):
    kept_ids = published_filter()
    with contextlib.redirect_stdout(io.StringIO()):
        totals = {name: play_file(stem, folder, set(kept_ids[stem])) for stem, name in STEMS.items()}
    print(json.dumps(totals))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
