"""Batches of synthetic episodes whose turns can be derived from their key."""

from actors.playing.records import EpisodeBatch
from envs.types import Action, Ending

CELL = "uniform/ROD/hint"


def episode(number, cell=CELL, ending=Ending.CORRECT, turns=2, **fields):
    """One row of the episodes table: every turn a suggestion but the last."""
    model, scenario, condition = cell.split("/")
    row = {
        "key": f"{cell}/{number:04d}-00000000",
        "cell": cell,
        "model": model,
        "scenario": scenario,
        "condition": condition,
        "protocol": "mcqa",
        "sample_id": number,
        "seed": number * 7,
        "ending": str(ending),
        "correct": ending is Ending.CORRECT,
        "turns": turns,
        "suggestions": max(turns - 1, 0),
        "abstentions": 0,
        "categories": min(turns, 1),
        "unparsable": 0,
        "error": None,
        "seconds": 0.5,
        "prompt_tokens": 100,
        "reply_tokens": 3,
        "cost": 0.0,
        "cached_tokens": None,
        "pictures": None,
        "cached_pictures": None,
    }
    assert fields.keys() <= row.keys()
    return {**row, **fields}


def turn(key, number, reply="A"):
    """One row of the turns table."""
    return {
        "key": key,
        "turn": number,
        "frame": number,
        "image": f"ROD/{number}.jpg",
        "reply": reply,
        "option": "mismatch",
        "category": "correct",
        "action": str(Action.CATEGORY),
        "move": None,
        "read_as": None,
        "judged": None,
        "note": None,
        "thoughts": None,
    }


def block(episodes, reply="A"):
    """Rows as the batch that a worker sends."""
    rows = [turn(row["key"], number, reply) for row in episodes for number in range(row["turns"])]
    ordinals = [row["sample_id"] for row in episodes]
    return EpisodeBatch(ordinals, columns(episodes, episode(0)), columns(rows, turn("", 0)))


def columns(rows, names):
    return {name: [row[name] for row in rows] for name in names}


def batch_of(*numbers, **fields):
    """A batch of the episodes with these sample ids."""
    return block([episode(number, **fields) for number in numbers])
