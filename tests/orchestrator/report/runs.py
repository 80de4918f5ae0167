"""Run folders as the driver writes them, made in process with the real plan, runner, policies and store, without Ray."""

from __future__ import annotations

import asyncio
from pathlib import Path

import polars as pl

from actors.engine.baselines import Baseline
from actors.playing.episode_runner import EpisodeRunner
from actors.playing.judge import TurnJudge
from actors.playing.judge_runner import JudgeRunner, LeasedAnswer
from actors.playing.records import EpisodeBatch
from envs import SCENARIOS
from envs.samples import paper_ids
from orchestrator.judging.judge_queue import find_unjudged
from orchestrator.planning.build_plan import build_plan, planned_cells, stored_episodes
from orchestrator.report.paper.published import published_figures
from orchestrator.report.scores.cell_resources import add_resources
from orchestrator.report.scores.metrics import score, write_results
from orchestrator.storage import checksums, run_folder, safe_write
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.schemas import EPISODES, TURNS, VERDICTS
from orchestrator.storage.verdict_store import VerdictStore, final_replies
from sweeps.load import build
from sweeps.spec import Judge, Protocol, Sweep

BASELINES = ["oracle", "always-ask", "uniform", "guess", "first-option", "abstain"]


def sweep(data: Path, models=BASELINES, conditions="all", **more) -> Sweep:
    """Return a sweep of policies over a data folder."""
    table = {"name": "test", "data": str(data), "models": models, "conditions": conditions, **more}
    return build(table, "a test")


def play_sweep(output: Path, wanted: Sweep, only: int | None = None, backends=None, in_flight: int = 8) -> Path:
    """Play a sweep, or its first ``only`` episodes, into a run folder."""
    plan = build_plan(wanted)
    own_engines = backends or {}
    engines = {
        model.name: _engine(model.source) for model in wanted.models if model.name not in own_engines
    } | own_engines
    with run_folder.claim(output, wanted, update=True, left_out=plan.left_out):
        store = EpisodeStore(output)
        try:
            finished = set(store.finished_episodes()["key"])
            pending = [ordinal for queue in plan.pending(finished).values() for ordinal in queue][:only]
            run_folder.write_plan(output, planned_cells(plan), plan.all_keys())
            asyncio.run(_play(EpisodeRunner(plan, engines, in_flight, _turn_judge(wanted)), pending, store))
        finally:
            store.close()
        rows = score(
            stored_episodes(plan, output), pl.DataFrame(planned_cells(plan)), reference=wanted.reference_conditions
        )
        write_results(output, add_resources(rows, output, wanted))
    return output


def judge_answers(output: Path, wanted: Sweep, judge: Judge, backend, only: int | None = None) -> Path:
    """Judge the stored answers of a run folder, or the first ``only`` that wait for a verdict."""
    plan, store = build_plan(wanted), VerdictStore(output)
    pending = find_unjudged(plan, output, judge)[:only]
    keys = {plan.key(*plan.task(ordinal)): ordinal for ordinal in pending}
    leased = [LeasedAnswer(keys[key], text) for key, text in final_replies(output, keys).items()]
    asyncio.run(_judge(JudgeRunner(plan, judge, backend, 64), leased, store))
    store.flush()
    return output


async def _judge(runner: JudgeRunner, leased, store: VerdictStore) -> None:
    async for batch in runner.judge(leased):
        store.append(batch.verdicts)


def _turn_judge(wanted: Sweep) -> TurnJudge | None:
    return TurnJudge(wanted.turn_judge, _engine(wanted.turn_judge.model.source)) if wanted.turn_judge else None


def _engine(source: str):
    kind, _, name = source.partition(":")
    return Baseline(name if kind == "builtin" else "uniform")


async def _play(runner: EpisodeRunner, ordinals, store: EpisodeStore) -> None:
    async for batch in runner.play(ordinals):
        store.append(batch)


# -- runs whose figures are known --------------------------------------------------------------------------------------
def play_export_run(output: Path, data: Path, first_reply: str) -> Path:
    """Play two policies in multiple choice and open-ended answers; the first reply of every part is ``first_reply``."""
    options = {"protocol": ["mcqa", "oeg"], "judge": {"model": "rule-judge"}, "scenarios": ["ROD", "QD"]}
    wanted = sweep(data, ["uniform", "ask-properly"], ["zero-shot", "hint"], **options)
    play_sweep(output, wanted)
    judge_answers(output, wanted, wanted.judge, Baseline("rule-judge"))
    for path in (output / "turns").glob("*.parquet"):
        table = pl.read_parquet(path)
        first = pl.int_range(pl.len()) == 0
        replace_part(
            table.with_columns(pl.when(first).then(pl.lit(first_reply)).otherwise("reply").alias("reply")), path
        )
    return output


def replace_part(rows: pl.DataFrame, part: Path) -> None:
    """Replace the rows of a stored part and record its checksum, as the store does."""
    rows.write_parquet(safe_write.temporary_path(part))
    checksums.publish(part.parents[1], part)


def write_published_run(
    output: Path, names, conditions=("zero-shot", "hint", "reference"), most=None, data="nowhere", beyond=None, **more
) -> Path:
    """Write a run of the paper's models whose cells have the published figures, as nearly as whole episodes allow.

    It covers the ids that the filter keeps, or the first ``most`` of each scenario; ``beyond`` adds other ids per scenario.
    There is no data folder.
    """
    wanted = sweep(Path(data), list(names), list(conditions), **more)
    rows = []
    with run_folder.claim(output, wanted):
        store, read = EpisodeStore(output), VerdictStore(output)
        for cell in wanted.cells():
            ids = sorted(paper_ids()[cell.scenario])[:most]
            ids += range(1_000_000, 1_000_000 + (beyond or {}).get(cell.scenario, 0))
            rows.append({**_names(cell), "planned": len(ids)})
            block = _known_block(cell, ids)
            if cell.protocol is Protocol.OEG:
                read.append(_known_verdicts(cell, block))
                block = _as_answers(block)
            store.append(EpisodeBatch(ids, **block))
        run_folder.write_plan(output, rows)
        store.close()
        read.flush()
    return output


def _names(cell) -> dict[str, str]:
    return {
        "cell": cell.key, "model": cell.model.name, "scenario": cell.scenario, "condition": cell.condition.name,
        "protocol": cell.protocol.value,
    }  # fmt: skip


def published_of(cell, measure: str) -> float:
    """Return the published figure of a cell; 0 where the paper has none."""
    same = {"condition": cell.condition.name, "paper": cell.model.paper, "scenario": cell.scenario, "measure": measure}
    figures = published_figures().filter(pl.col("filtered"), protocol=cell.protocol.value, **same)
    return figures["published"].item() if figures.height else 0.0


def _known_block(cell, ids):
    """Return episodes with the published accuracy and mean number of suggestions; the first few ask once more."""
    n = len(ids)
    right, suggestion_total = round(published_of(cell, "acc") * n / 100), round(published_of(cell, "ps") * n)
    episodes, turns = [], []
    for index, number in enumerate(ids):
        suggestions = suggestion_total // n + (index < suggestion_total % n)
        key = f"{cell.key}/{number:04d}-known"
        kind = "correct" if index < right else ("wrong", "wrong", "abstention", "unparsable")[index % 4]
        episodes.append({**_episode(cell, key, number, kind, suggestions)})
        turns += [_turn(cell, key, turn, "suggestion") for turn in range(suggestions)]
        turns.append(_turn(cell, key, suggestions, kind))
    return {
        "episodes": {name: [row[name] for row in episodes] for name in EPISODES},
        "turns": {name: [row[name] for row in turns] for name in TURNS},
    }


def _as_answers(block):
    """Turn the episodes into open-ended ones: one answer each, neither right nor wrong."""
    episodes, turns = block["episodes"], block["turns"]
    first_turns = [index for index, turn in enumerate(turns["turn"]) if turn == 0]
    nothing = {"correct": None, "suggestions": 0, "abstentions": 0, "categories": 0, "unparsable": 0}
    count = len(episodes["key"])
    return {
        "episodes": {**episodes, "ending": ["answered"] * count, "turns": [1] * count}
        | {name: [value] * count for name, value in nothing.items()},
        "turns": {name: [values[index] for index in first_turns] for name, values in turns.items()}
        | dict.fromkeys(("option", "category", "action", "move"), [None] * count),
    }


def _known_verdicts(cell, block):
    """Return verdicts with the published shares: first answers that only ask, then both, then those that only name."""
    keys = block["episodes"]["key"]
    either, named, asking = (
        round(published_of(cell, name) * len(keys) / 100) for name in ("aggregate", "category", "suggestion")
    )
    asks = [index < asking for index in range(len(keys))]
    names = [either - named <= index < either for index in range(len(keys))]
    rows = {
        "key": keys, "judge": ["qwen3-8b/paper-00000000"] * len(keys), "sample_id": block["episodes"]["sample_id"],
        "category": names, "suggestion": asks, "aggregate": [a or n for a, n in zip(asks, names, strict=True)],
        "reason": [None] * len(keys), "first_failed": [False] * len(keys), "text": ["1,0"] * len(keys),
    }  # fmt: skip
    rows |= {name: block["episodes"][name] for name in ("cell", "model", "scenario", "condition")}
    rows |= {f"strict_{name}": rows[name] for name in ("category", "suggestion", "aggregate")}
    return {name: rows.get(name, [1] * len(keys)) for name in VERDICTS}


def _episode(cell, key, number, kind, suggestions):
    return {
        **_names(cell), "key": key, "sample_id": number, "seed": number,
        "ending": "correct" if kind == "correct" else "wrong", "correct": kind == "correct", "turns": suggestions + 1,
        "suggestions": suggestions, "abstentions": int(kind == "abstention"),
        "categories": int(kind in ("correct", "wrong")), "unparsable": int(kind == "unparsable"),
        "error": None, "seconds": 0.1, "prompt_tokens": 1, "reply_tokens": 1, "cost": 0.0,
        "cached_tokens": None, "pictures": None, "cached_pictures": None,
    }  # fmt: skip


def _turn(cell, key, turn, kind):
    action = "category" if kind in ("correct", "wrong") else kind
    return {
        "key": key, "turn": turn, "frame": turn, "image": _image(cell, key, turn),
        "reply": kind,
        "option": "correct" if kind == "suggestion" else "mismatch",
        "category": kind if kind in ("correct", "wrong") else "mismatch",
        "action": action, "move": "left" if kind == "suggestion" else None, "read_as": None, "judged": None, "note": None,
        "thoughts": None,
    }  # fmt: skip


def _image(cell, key, turn) -> str:
    """Return a plausible picture name."""
    number = int(key.rsplit("/", 1)[1].split("-")[0])
    return f"{SCENARIOS[cell.scenario].stem}/{number}-{turn}.jpg"
