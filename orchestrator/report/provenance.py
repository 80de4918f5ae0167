"""Whether a run is of the published data and of all of it.

It is unless something says otherwise, and each objection is a sentence.

The run folder holds ids and names of pictures, not pictures: ids are checked against the published filter, names against what
is known of the real files and of the demo benchmark. Content that nobody can check from the folder stays unchecked, and
``UNVERIFIED`` says it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from envs import SCENARIOS
from envs.samples import OPEN_ENDED, kept
from orchestrator.report.run_data import RunData, once
from orchestrator.report.wording import counted
from sweeps.protocol import IN_WORDS, Protocol

UNVERIFIED = "ids and counts are the published ones, but the pictures cannot be checked from the run folder"
UNFILTERED, UNFILTERED_VSOD = 17_909, 63
"""Samples of the unfiltered table: of all seven scenarios, and of VSOD without its weak occlusions (paper, section 3.3)."""
FIRST_COCO = 42
"""The smallest number of a picture of COCO val2014; the demo numbers its own from 0."""
LANDMARKS = {("ROD", 0): "Realistic-Occlusion-Dataset/rod_1/banana/natural_bluebl_brownc-banana-s"}
"""Pictures of the real set that are known by name (protocol.md, 'Data on disk')."""
DRAWN = {
    "ROD": r"^[^/]*/[^/]*/([^/]+)/",
    "MVP-N": r"^[^/]*/[^/]*/[^/]*/(.+)_\d+/",
    "IN-C": r"^[^/]*/[^/]*/[^/]*/([^/]+)/",
    "QD": r"^[^/]*/([^/]+)/",
    "CIT": r"^[^/]*/([^/]+)/",
}
"""Where a picture's name says what it shows."""


@once
def foreign(run_data: RunData) -> dict[str, str]:
    """Scenario -> why its data are not the published ones; scenarios without a complaint are missing."""
    own = run_data.last.filter(~pl.col("condition").is_in(run_data.unseen))
    seen = own.unique(["scenario", "sample_id"], keep="first", maintain_order=True)
    seen = seen.select("scenario", "sample_id", "image")
    scenarios = run_data.rows["scenario"].unique(maintain_order=True).to_list()
    if any(_is_demo(scenario, seen.filter(pl.col("scenario") == scenario)) for scenario in scenarios):
        return dict.fromkeys(scenarios, "other data: the pictures are the demo benchmark's, not the published ones")
    reasons = {scenario: _reason(scenario, run_data, seen) for scenario in scenarios}
    return {scenario: reason for scenario, reason in reasons.items() if reason}


def subset(run_data: RunData) -> dict[str, str]:
    """Scenario -> why its samples are not all that the paper's table has; scenarios without a complaint are missing."""
    pick, found = run_data.sweep.selection, {}
    counts = run_data.rows.filter(protocol="mcqa").group_by("scenario").agg(pl.col("planned").max()).sort("scenario")
    if not pick.filtered:
        found = unfiltered_counts(dict(counts.iter_rows()))
    for scenario, planned in counts.filter(pl.col("scenario").is_in(list(SCENARIOS))).iter_rows():
        whole = len(kept()[scenario])
        if pick.ids.get(scenario) or pick.limit is not None or pick.subset != "all":
            found[scenario] = f"a subset: {counted(planned, 'sample')} by the sweep's selection"
        elif pick.filtered and planned != whole:
            found[scenario] = f"a subset: {counted(planned, 'sample')}, and the published table is of {whole:,}"
    return found


def unfiltered_counts(planned: Mapping[str, int]) -> dict[str, str]:
    """Scenario -> why its number of samples is not the unfiltered table's; of the other scenarios only the sum is published."""
    total, found, told = sum(planned.values()), {}, "samples without the filter, and the published table is of"
    if set(planned) == set(SCENARIOS) and total != UNFILTERED:
        found = dict.fromkeys(planned, f"other data: {total:,} {told} {UNFILTERED:,}")
    if planned.get("VSOD", UNFILTERED_VSOD) != UNFILTERED_VSOD:
        found["VSOD"] = f"other data: {planned['VSOD']:,} {told} {UNFILTERED_VSOD}"
    return found


def open_ended_subset(run_data: RunData) -> dict[str, str]:
    """The same for the open-ended tables, which are of 100 samples a scenario, or all where there are fewer."""
    judged, pick = run_data.rows.filter(pl.col("protocol").is_in(list(IN_WORDS))), run_data.sweep.selects(Protocol.OEG)
    chosen = pick.subset != "open-ended" or pick.limit is not None or not pick.filtered
    bad = {one.scenario for one in run_data.left_out}  # one kept line less, and the shuffle draws others
    counts = judged.group_by("scenario").agg(pl.col("planned").max()).sort("scenario")
    wanted = {scenario: min(OPEN_ENDED, len(ids)) for scenario, ids in kept().items()}
    return {
        scenario: f"another subset: {counted(planned, 'sample')} by the sweep's selection, and the published table is of the "
        "paper's own"
        f" {wanted[scenario]}"
        for scenario, planned in counts.iter_rows()
        if chosen or scenario in bad or pick.ids.get(scenario) or planned != wanted[scenario]
    }


def _is_demo(scenario: str, seen: pl.DataFrame) -> bool:
    if scenario == "COCO":
        numbers = seen["image"].str.extract(r"_(\d{12})\.", 1).cast(pl.Int64).drop_nulls()
        return bool((numbers < FIRST_COCO).any())
    if scenario not in DRAWN or seen.is_empty():
        return False
    names = seen["image"].str.extract(DRAWN[scenario], 1).to_list()
    return all(name is not None and _plain(name) in _vocabulary() for name in names)


def _vocabulary() -> frozenset[str]:
    from envs.demo.categories import CATEGORIES  # draws with pillow, which only this question needs

    return frozenset(_plain(name) for name in CATEGORIES)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _reason(scenario: str, run_data: RunData, seen: pl.DataFrame) -> str:
    if scenario not in SCENARIOS:
        return "no scenario of the paper's: an installed package offers it"
    ids = set(run_data.episodes.filter(pl.col("scenario") == scenario)["sample_id"])
    strange = len(ids - kept()[scenario])
    if run_data.sweep.selection.filtered and strange:
        return f"other data: {counted(strange, 'sample')} with ids that the published filter does not keep"
    for (where, number), name in LANDMARKS.items():
        images = seen.filter((pl.col("scenario") == where) & (pl.col("sample_id") == number))["image"].to_list()
        if where == scenario and images and not images[0].startswith(name):
            return f"other data: sample {number} is {images[0][:80]}, and the published one is {name}*"
    return ""
