"""Checks that the keys and the judge of a sweep file belong to its protocols."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweeps.spec import Protocol, Sweep
from sweeps.sweep_file import SweepError

SHARED = ("selection.filtered",)
"""Multiple-choice keys that also affect other protocols: reports compare with the paper's filtered or unfiltered figures."""


def check_keys_played(table: Mapping[str, Any], protocols: Sequence[Protocol], where: str) -> None:
    """Check that every key of a selection or sampling is for a protocol of the sweep."""
    if Protocol.MCQA not in protocols and "replicates" in table:
        raise SweepError(f"{where}: replicates are of multiple choice, which is not played here; leave them out")
    if all(protocol.is_open_ended for protocol in protocols):
        for key in (name for part in ("selection", "sampling") for name in _key_paths(table.get(part, {}), part)):
            if key not in SHARED:
                raise SweepError(
                    f"{where}: {key} is for multiple choice, which is not played here; write open_ended.{key}"
                )
    if not any(protocol.is_open_ended for protocol in protocols):
        for key in _key_paths(table.get("open_ended", {}), "open_ended"):
            raise SweepError(
                f"{where}: {key} is for open-ended generation, which is not played here; "
                f'write {key.removeprefix("open_ended.")}, or add "oeg" to protocol'
            )


def _key_paths(value: Any, key: str) -> Iterator[str]:
    """Yield the dotted keys of a table."""
    if not isinstance(value, dict):
        yield key
        return
    for name, nested in value.items():
        yield from _key_paths(nested, f"{key}.{name}")


def check_turn_judge(sweep: Sweep, where: str) -> None:
    """Check that ``oeg-multi`` has a judge that can read answers while their episodes wait."""
    if Protocol.OEG_MULTI not in sweep.protocols:
        return
    if sweep.judge is None:
        raise SweepError(
            f'{where}: protocol = "oeg-multi" needs a judge, which reads each answer before the next picture is shown; add '
            '[judge] with a model, or model = "rule-judge" for fixed rules'
        )
    if sweep.judge.instruction != "ours":
        raise SweepError(
            f'{where}: judge.instruction = "paper" is for one-turn answers, and none is published for several turns; '
            'write "ours" for protocol = "oeg-multi"'
        )
