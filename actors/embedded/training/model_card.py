"""Writes the model card, with figures measured through transformers on held-out seeds."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from actors.embedded.training import evaluation
from actors.embedded.training.pictures import HELD_OUT
from envs import SCENARIOS
from sweeps.conditions import CONDITIONS
from sweeps.protocol import ZERO_SHOT

EACH = 30
"""Held-out samples per scenario."""
CARD = """# embedded: a tiny multimodal demonstration model

**What it is.** A real multimodal model of {parameters:,} parameters ({size:.1f} MB) in a standard architecture (Idefics3: a
ViT for 64 x 64 pictures in patches of 8, 16 tokens a picture, a Llama of 4 layers, both 128 wide). transformers and vLLM
load it without remote code and without torchvision. It lets anybody run the whole sweep with real generation and no download.

**What it is not.** Evidence about any other model, or about the benchmark. It knows 32 drawn categories, the numbers 1 to 4
and the wording of the demo benchmark. How often it asks, abstains and guesses was taught
(`actors/embedded/training/target_policy.py`), so its action figures show that the measuring works, and nothing about multimodal
models.

**How it was trained.** By `python -m actors.embedded.training` on a CPU, two processes of one thread each. Pictures come from the
demo generator (`envs/demo`), seeds 1000 and up; the demo itself uses seed 0. The vision stage teaches the vision tower category,
scenario, corruption, count and visible share through heads that are thrown away. The language stage teaches replies, on
conversations built by `actors/playing/prompts.py` for every condition; the last stage is more of it, hard scenarios more often.
Matrices learn by Muon, the rest by AdamW. Weights are stored as float16 and meant to be computed in float32.
`training.log` is the log of the run, on a shared machine, its stages started one after the other by `--only`. A new run
follows the same recipe but need not give the same bits: they depend on the machine and on library versions.

**How it replies.** With the text of one option, without its letter, as the solved examples of the benchmark do.

**Licence.** MIT, like the repository; all training data is drawn by its own code.

## Measured on held-out seeds ({first} and up), {each} samples a scenario, greedy
Chance on the reference view is 25%. "Swapped" asks about the reference view while showing the next sample's picture.
"First view" is the share of samples whose first reply, to the hidden view, names the right category.

| scenario | reference | swapped | first view |
| --- | --- | --- | --- |
{sight}

### Episodes: percent correct
| condition | {names} | mean |
| --- | {rule} | --- |
{scores}

### What the replies do, percent of all turns (in brackets: of first turns)
| condition | suggestion | abstention | category | unparsable | turns an episode |
| --- | --- | --- | --- | --- | --- |
{actions}
"""


def write_card(out: Path, log: Path, log_line: Callable[[str], None]) -> None:
    """Examine the saved model, write MODEL_CARD.md, and copy the log next to it."""
    answerer = evaluation.Answerer(out)
    samples = {name: evaluation.candidates(name, EACH) for name in SCENARIOS}
    games = {
        condition: {
            name: evaluation.play_games(answerer, samples[name], CONDITIONS[condition])
            for name in CONDITIONS[condition].scenarios or SCENARIOS
        }
        for condition in CONDITIONS
    }
    sight = [
        _sight(answerer, samples[name], name, games["reference"][name], games[ZERO_SHOT][name]) for name in SCENARIOS
    ]
    text = CARD.format(
        parameters=answerer.model.num_parameters(),
        size=(out / "model.safetensors").stat().st_size / 1e6,
        first=HELD_OUT,
        each=EACH,
        sight="\n".join(sight),
        names=" | ".join(SCENARIOS),
        rule=" | ".join("---" for _ in SCENARIOS),
        scores="\n".join(_scores(c, games[c]) for c in games),
        actions="\n".join(_actions(c, [game for played in games[c].values() for game in played]) for c in games),
    )
    (out / "MODEL_CARD.md").write_text(text, "utf-8")
    log_line(f"examined: {len(CONDITIONS)} conditions, {EACH} samples a scenario; figures in MODEL_CARD.md")
    shutil.copyfile(log, out / "training.log")


def _sight(
    answerer: evaluation.Answerer,
    samples: Sequence[evaluation.Candidate],
    name: str,
    clear: Sequence[evaluation.Game],
    hidden: Sequence[evaluation.Game],
) -> str:
    swapped = evaluation.reference(answerer, samples, swapped=True)
    return f"| {name} | {evaluation.accuracy(clear):.0f} | {swapped:.0f} | {evaluation.named_at_once(hidden):.0f} |"


def _scores(condition: str, games: dict[str, list[evaluation.Game]]) -> str:
    percentages = {name: evaluation.accuracy(played) for name, played in games.items()}
    cells = " | ".join(f"{percentages[name]:.0f}" if name in percentages else "-" for name in SCENARIOS)
    return f"| {condition} | {cells} | {sum(percentages.values()) / len(percentages):.1f} |"


def _actions(condition: str, games: Sequence[evaluation.Game]) -> str:
    every, first = evaluation.actions(games), evaluation.actions(games, first=True)
    kinds = ("suggestion", "abstention", "category", "unparsable")
    cells = " | ".join(f"{every.get(kind, 0.0):.0f} ({first.get(kind, 0.0):.0f})" for kind in kinds)
    return f"| {condition} | {cells} | {sum(len(game.turns) for game in games) / len(games):.1f} |"
