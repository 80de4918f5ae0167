"""``watch``: score every new checkpoint of a folder on a fixed small sample, with the paired change from the first.

A checkpoint is played in this process, without Ray, into the run folder ``FOLDER/watch/CHECKPOINT``; what is scored stays scored.
"""

import asyncio
import json
import re
import time
from collections.abc import Iterator, Mapping, Set
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from actors.engine.in_flight import choose_in_flight
from actors.engine.registry import open_engine
from actors.playing.episode_runner import EpisodeRunner
from envs.errors import UserError
from envs.regular import parse_fields
from orchestrator.cli.sweep_source import find_data, read_models
from orchestrator.planning.build_plan import build_plan, planned_cells
from orchestrator.report.comparisons.run_comparison import compare_runs
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.table import format_signed
from orchestrator.storage import run_folder, safe_write
from orchestrator.storage.episode_store import EpisodeStore
from sweeps.load import build
from sweeps.protocol import ZERO_SHOT
from sweeps.registry import registry
from sweeps.spec import Sweep

SCORES = "scores.jsonl"
PLAYED = "watch"
WEIGHTS = (".safetensors", ".bin")
SETTLE_S = 5.0
"""A checkpoint is complete if no file of it has changed for so long."""
CONFIGURATIONS = {"config.json", "adapter_config.json"}
FINAL = "final"
"""The name of what a training saves in the folder itself at its end."""
HASH = re.compile(r"(?<![^\W_])(?=\d*[a-f])[0-9a-f]{6,}(?![^\W_])")
"""A hash in a checkpoint's name, whose digits are no step."""


def watch(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where a training saves its checkpoints.")],
    data: Annotated[str, typer.Option(metavar="DIR", help="The benchmark.")] = "",
    condition: Annotated[str, typer.Option(help="A condition of `ls conditions`.")] = ZERO_SHOT,
    scenarios: Annotated[str, typer.Option(help="Names with commas (default: all).")] = "",
    limit: Annotated[int, typer.Option(help="Samples of each scenario.")] = 10,
    base: Annotated[str, typer.Option(help="The model of adapters (default: as they say).")] = "",
    once: Annotated[bool, typer.Option("--once", help="Score what is there, and end.")] = False,
) -> None:
    """Score every new checkpoint of a folder on the same few samples, with the paired change from the first."""
    options = {"data": data, "conditions": condition, "scenarios": scenarios, "limit": limit}
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; name the one in which the training saves its checkpoints")
    while True:
        for checkpoint, files in find_checkpoints(folder, 0.0 if once else SETTLE_S).items():
            name = FINAL if checkpoint == folder else checkpoint.name
            score = next((score for score in read_scores(folder) if score["checkpoint"] == name), None)
            if score is None:
                _score_unless_removed(folder / PLAYED / name, checkpoint, files, options, base)
            elif _order(name)[1] and score.get("saved", saved_at(checkpoint)) != saved_at(checkpoint):
                raise UserError(
                    f"{checkpoint} was saved again after its score, as by a second training; give each training a folder, "
                    f"or remove {folder / PLAYED} to score anew"
                )
        if once:
            return
        time.sleep(SETTLE_S)


def _score_unless_removed(
    output: Path, checkpoint: Path, files: Set[str], options: Mapping[str, Any], base: str
) -> None:
    """Print the score of a checkpoint, or that the training removed it meanwhile (``save_total_limit``)."""
    try:
        print(describe_score(score_checkpoint(checkpoint, output, options, base)), flush=True)
    except Exception as problem:  # engines raise anything if a file disappears
        if files <= _list_files(checkpoint).keys():
            raise
        kind = type(problem).__name__
        print(f"{output.name}: removed by the training before it was scored ({kind}); it is skipped", flush=True)


def find_checkpoints(folder: Path, settle_s: float) -> dict[Path, Set[str]]:
    """Return the complete checkpoints with the names of their files, by the steps in their names, and the folder itself last."""
    listed = {path: _list_files(path) for path in (folder, *folder.iterdir()) if path.is_dir()}
    found = {path: files.keys() for path, files in listed.items() if _is_complete(files, settle_s)}
    return {path: found[path] for path in sorted(found, key=lambda path: (path == folder, *_order(path.name)))}


def _order(name: str) -> tuple[bool, list[int], str]:
    """Return the key by which checkpoints are ordered; names without a step, such as ``best``, come last."""
    steps = [int(step) for step in re.findall(r"\d+", HASH.sub("", name))]
    return not steps, steps, name


def _list_files(checkpoint: Path) -> dict[str, float]:
    """Return the times of change of the files in a folder that may disappear meanwhile."""
    times: dict[str, float] = {}
    for path in checkpoint.glob("*"):
        with suppress(OSError):
            times |= {path.name: path.stat().st_mtime} if path.is_file() else {}
    return times


def _is_complete(times: Mapping[str, float], settle_s: float) -> bool:
    has_weights = any(Path(name).suffix in WEIGHTS for name in times)
    return has_weights and not CONFIGURATIONS.isdisjoint(times) and time.time() - max(times.values()) >= settle_s


def saved_at(checkpoint: Path) -> float:
    """Return when the weights of a checkpoint were last written, in seconds; 0 without weights."""
    times = _list_files(checkpoint).items()
    return max((at for name, at in times if Path(name).suffix in WEIGHTS), default=0.0)


def read_scores(folder: Path) -> list[dict[str, Any]]:
    """Return the scores so far, the first checkpoint's first; a torn line is skipped."""
    path = folder / PLAYED / SCORES
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [score for score in map(parse_fields, lines) if score]


def score_checkpoint(checkpoint: Path, output: Path, options: Mapping[str, Any], base: str = "") -> dict[str, Any]:
    """Play a checkpoint into a run folder, append its score to the file of scores beside it, and return it."""
    played, before, saved = output.parent, read_scores(output.parents[1]), saved_at(checkpoint)
    entry = _entry(checkpoint, base)
    table = {
        "data": find_data(options["data"], played), "output": str(output),
        "models": [entry["name"]], "model": [entry], "conditions": [options["conditions"]],
        "selection": {"limit": options["limit"]}, "tracking": {"uri": "none"},
    }  # fmt: skip
    sweep = build(table | ({"scenarios": options["scenarios"].split(",")} if options["scenarios"] else {}), "watch")
    asyncio.run(_play(sweep, output))
    run_data = read_run(output)
    (average,) = estimate(run_data).averages.to_dicts()
    score = {"checkpoint": output.name, "saved": saved} | {name: average[name] for name in _bounds("acc", "ps")}
    if before:
        first = before[0]["checkpoint"]
        (change,) = compare_runs([read_run(played / first), run_data]).averages.to_dicts()
        names = ("n", *_bounds("difference"), "ps_difference", "ps_low", "ps_high")
        score |= {"first": first, "change": {name: change[name] for name in names}}
    safe_write.append(played / SCORES, f"{json.dumps(score)}\n".encode())
    return score


async def _play(sweep: Sweep, output: Path) -> None:
    """Play the pending episodes of a sweep of one model into a run folder."""
    plan, (model,) = build_plan(sweep), sweep.models
    with run_folder.claim(output, sweep, update=True, left_out=plan.left_out), closing(EpisodeStore(output)) as store:
        run_folder.write_plan(output, planned_cells(plan), plan.all_keys())
        backend = open_engine(model, Path(sweep.data))
        runner = EpisodeRunner(plan, {model.name: backend}, choose_in_flight(model, backend.cache_tokens))
        pending = plan.pending(set(store.finished_episodes()["key"])).values()
        async for batch in runner.play([ordinal for queue in pending for ordinal in queue]):
            store.append(batch)
        await backend.close()


def describe_score(score: Mapping[str, Any]) -> str:
    """Return one line: accuracy and suggestions with intervals, and their change from the first checkpoint."""
    text = f"{score['checkpoint']}: accuracy {_range(score, 'acc')}, suggestions {_range(score, 'ps', 2)}"
    if not (change := score.get("change")):
        return text
    accuracy, asks = format_signed(change["difference"]), format_signed(change["ps_difference"], 2)
    low, high = (format_signed(change[f"difference_{end}"]) for end in ("low", "high"))
    return f"{text}; from {score['first']} {accuracy} points ({low} to {high}), suggestions {asks}, {change['n']} pairs"


def _range(score: Mapping[str, Any], name: str, digits: int = 1) -> str:
    value, low, high = (score[part] for part in _bounds(name))
    return f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def _bounds(*names: str) -> Iterator[str]:
    return (f"{name}{end}" for name in names for end in ("", "_low", "_high"))


def _entry(checkpoint: Path, base: str) -> dict[str, Any]:
    """Return the model's entry of a sweep: the checkpoint, or its base model with the checkpoint as adapters."""
    adapters = checkpoint / "adapter_config.json"
    if not adapters.exists():
        (entry,) = read_models([str(checkpoint)])
        return {**entry, "name": "checkpoint"}  # type: ignore[dict-item]
    base = base or json.loads(adapters.read_text()).get("base_model_name_or_path")
    if not base:
        raise UserError(f"{adapters} names no base model; name it by --base")
    (entry,) = read_models([base])
    if isinstance(entry, str):
        entry = registry()[entry].model_dump(mode="json", exclude_defaults=True)
    return {**entry, "name": "checkpoint", "lora": str(checkpoint.absolute())}
