"""Checks that the keys and the judge of a sweep file belong to protocols that it plays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweeps.spec import Protocol, Sweep
from sweeps.sweep_file import SweepError

SHARED = ("selection.filtered",)
"""Keys of multiple choice that count without it: the report compares with the paper's filtered or unfiltered figures."""


def check_keys_played(table: Mapping[str, Any], protocols: Sequence[Protocol], where: str) -> None:
    """Every key of a selection or a sampling must be for a protocol that the sweep plays."""
    if Protocol.MCQA not in protocols and "replicates" in table:
        raise SweepError(f"{where}: replicates are of multiple choice, which is not played here; leave them out")
    if all(protocol.is_open_ended for protocol in protocols):
        for key in (*_given(table.get("selection", {}), "selection"), *_given(table.get("sampling", {}), "sampling")):
            if key not in SHARED:
                raise SweepError(
                    f"{where}: {key} is for multiple choice, which is not played here; write open_ended.{key}"
                )
    if not any(protocol.is_open_ended for protocol in protocols):
        for key in _given(table.get("open_ended", {}), "open_ended"):
            other = key.removeprefix("open_ended.")
            raise SweepError(
                f'{where}: {key} is for open-ended generation, which is not played here; write {other}, or add "oeg" to protocol'
            )


def _given(value: Any, key: str) -> Iterator[str]:
    """The keys that a table gives, with the tables that hold them."""
    if not isinstance(value, dict):
        yield key
        return
    for name, nested in value.items():
        yield from _given(nested, f"{key}.{name}")


def check_turn_judge(sweep: Sweep, where: str) -> None:
    """``oeg-multi`` needs a judge that a worker can ask while the episode waits."""
    if Protocol.OEG_MULTI not in sweep.protocols:
        return
    if sweep.judge is None:
        raise SweepError(
            f'{where}: protocol = "oeg-multi" needs a judge, which reads each answer before the next picture is shown; add '
            '[judge] with a model, or model = "rule-judge" for fixed rules'
        )
    if sweep.judge.instruction != "ours":
        raise SweepError(
            f'{where}: judge.instruction = "paper" is of one-turn answers, and none is published for several turns; write "ours" '
            'for protocol = "oeg-multi"'
        )
