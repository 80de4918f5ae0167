"""The published figures of the paper as one table (source: published_tables/README.md), and why a run is not comparable.

No measure depends on them.
"""

import tomllib
from functools import cache
from pathlib import Path

import polars as pl

from envs import SCENARIOS
from envs.plural import pluralize
from envs.samples import OPEN_ENDED, paper_ids
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.answer import shows_demo_pictures
from sweeps.protocol import OPEN_ENDED_CONDITIONS, Protocol
from sweeps.sampling import AS_THE_PACKAGE, Sampling
from sweeps.spec import OpenEnded

FOLDER = Path(__file__).with_name("published_tables")
AVERAGE = "avg"
ROUNDING = 0.05
"""Half of the last printed digit, the precision of a published figure."""
FACTS = tomllib.loads((FOLDER / "tables.toml").read_text("utf-8"))
MEASURES: dict[str, dict[str, str]] = FACTS["measures"]
"""Protocol -> the paper's column -> our measure."""
NOTES: dict[str, str] = FACTS["notes"]


@cache
def published_figures() -> pl.DataFrame:
    """Return all figures: table, protocol, condition, filtered, paper (row), scenario or ``avg``, measure, published."""
    return pl.concat([_load_long(name) for name in FACTS["tables"]]).sort("table", "paper", "scenario", "measure")


def published_table(name: str) -> pl.DataFrame:
    """Return one table as printed: ``model``, then one column per scenario and measure; raises FileNotFoundError."""
    return pl.read_csv(FOLDER / f"{name}.csv")


def _load_long(name: str) -> pl.DataFrame:
    about = FACTS["tables"][name]  # protocol, condition and filtered
    long = published_table(name).unpivot(index="model", variable_name="column", value_name="published")
    parts = pl.col("column").str.split_exact(" ", 1).struct.rename_fields(["scenario", "measure"])
    named = long.with_columns(parts.alias("parts"), pl.col("published").cast(pl.Float64)).unnest("parts")
    constants = (pl.lit(value).alias(column) for column, value in {"table": name, **about}.items())
    measure = pl.col("measure").replace_strict(MEASURES[about["protocol"]])
    return named.select(*constants, pl.col("model").alias("paper"), "scenario", measure, "published")


UNFILTERED = 17_909
"""Samples of all seven scenarios in the unfiltered table (paper, section 3.3)."""


@cached_per_run
def foreign_scenarios(run_data: RunData) -> dict[str, str]:
    """Return the scenarios whose data are not the published ones, each with the reason."""
    scenarios = run_data.rows["scenario"].unique(maintain_order=True).to_list()
    if shows_demo_pictures(run_data.rows, run_data.folder, run_data.sweep):
        return dict.fromkeys(scenarios, "other data: the pictures are the demo benchmark's, not the published ones")
    ids = dict(run_data.episodes.group_by("scenario").agg("sample_id").iter_rows())
    reasons = dict[str, str]()
    for scenario in scenarios:
        unknown_ids = set(ids.get(scenario, ())) - paper_ids().get(scenario, frozenset())
        if scenario not in SCENARIOS:
            reasons[scenario] = "not a scenario of the paper: an installed package provides it"
        elif run_data.sweep.selection.filtered and unknown_ids:
            samples = pluralize(len(unknown_ids), "sample")
            reasons[scenario] = f"other data: {samples} with ids that the published filter does not keep"
    return reasons


def subset_scenarios(run_data: RunData, protocol: str = "mcqa") -> dict[str, str]:
    """Return the scenarios whose samples are not those of the paper's table of a protocol, each with the reason.

    Open-ended tables have 100 samples of each scenario, or all if there are fewer.
    """
    selection, is_open = run_data.sweep.selection_for(Protocol(protocol)), protocol in OPEN_ENDED_CONDITIONS
    rows = run_data.rows.filter(pl.col("protocol").is_in(list(OPEN_ENDED_CONDITIONS) if is_open else [protocol]))
    counts = dict(rows.group_by("scenario").agg(pl.col("planned").max()).sort("scenario").iter_rows())
    published = {name: min(OPEN_ENDED, len(ids)) if is_open else len(ids) for name, ids in paper_ids().items()}
    differs = selection.limit is not None or selection.subset != ("open-ended" if is_open else "all")
    if not selection.filtered:
        differs |= is_open or (set(counts) == set(SCENARIOS) and sum(counts.values()) != UNFILTERED)
    others = {name for name, ids in selection.ids.items() if ids}
    others |= {bad_line.scenario for bad_line in run_data.left_out} if is_open else set()  # the draw is another one
    sizes = published if selection.filtered else counts
    return {
        scenario: f"a subset: {pluralize(planned, 'sample')}, and not those of the published table"
        for scenario, planned in counts.items()
        if scenario in published and (differs or scenario in others or planned != sizes[scenario])
    }


def decoding_mismatch(sampling: Sampling, protocol: str) -> str:
    """Return why decoding is not comparable; empty if it is.

    Multiple choice needs the paper's temperature and number of new tokens; open-ended answers are sampled without a tight limit,
    as in the package's example.
    """
    paper, fewest = Sampling(), OpenEnded().sampling.max_tokens
    if protocol == "mcqa":
        is_same = (sampling.temperature, sampling.max_tokens) == (paper.temperature, paper.max_tokens)
        theirs = f"each checkpoint's generation_config with at most {paper.max_tokens}"
    else:
        is_sampled = sampling.temperature > 0 or (sampling.checkpoint and sampling.sampled)
        is_same = is_sampled and sampling.max_tokens >= fewest
        theirs = f"sampled with a limit of {fewest:,} or more"
    return "" if is_same else f"decoded otherwise than the paper: {describe_decoding(sampling)}, instead of {theirs}"


def decoding_note(sampling: Sampling, protocol: str) -> str:
    """Return how the decoding of compared figures differs from the package's; empty if it does not."""
    package = Sampling(checkpoint=True) if protocol == "mcqa" else AS_THE_PACKAGE
    differs = f"decoding of {protocol} differs: ours {describe_decoding(sampling)}; the package's {describe_decoding(package)}"
    return "" if sampling == package else f'{differs} (sampling = "checkpoint")'


def describe_decoding(sampling: Sampling) -> str:
    """Return how replies are decoded, and how long they may be."""
    return f"{sampling.description}, at most {sampling.max_tokens:,} new tokens"
