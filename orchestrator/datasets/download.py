"""``data fetch``: downloads the published benchmark from the Hub, pinned to a commit, unpacks and checks it; resumable."""

import json
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from envs import SCENARIOS
from envs.check import Report, check
from orchestrator.datasets.benchmark_files import Say, bring_scenarios
from orchestrator.datasets.sources import Address, FetchError, RemoteFolder, pin

TERMS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("terms.toml").read_text("utf-8"))
"""Scenario -> source, address and terms of its pictures."""
DATASET = "tdemin16/ProactiveBench"
FOLDER = "test"
"""The folder of the data set that holds the benchmark."""
RECORD = "fetched.json"
"""The file in a folder with the commit that it holds."""


def describe_terms(scenarios: Iterable[str]) -> Iterator[str]:
    """Yield lines about the terms of these scenarios' pictures; unknown names are skipped."""
    yield "the pictures come from other data sets, each under terms of its own (docs/data-sources.md, paper appendix G):"
    for name in scenarios:
        if own := TERMS.get(name):
            yield f"  {name}: {own['source']}, {own['terms']}; {own['address']}"


def fetch_benchmark(folder: Path, scenarios: Sequence[str], revision: str | None = None, say: Say = print) -> Report:
    """Download, extract and check the benchmark in ``folder/test``. ``revision`` defaults to the folder's commit.

    Raises FetchError (the Hub, the disk), BadArchive (a hostile or damaged archive), BadData (a file that cannot be read).
    """
    if unknown := [name for name in scenarios if name not in SCENARIOS]:
        raise FetchError(f"there is no scenario {unknown[0]!r}; {', '.join(SCENARIOS)} exist")
    held, bench = _held_commit(folder), folder / FOLDER
    address = pin(Address("hf", DATASET, revision or held, FOLDER))
    if held and held != address.revision:
        remedy = "name another folder, or leave out --revision"
        raise FetchError(f"{folder} holds commit {held}, not {address.revision}: {remedy}")
    say(f"{DATASET} at commit {address.revision}")
    bench.mkdir(parents=True, exist_ok=True)
    record = {"dataset": DATASET, "commit": address.revision}
    (folder / RECORD).write_text(json.dumps(record, indent=2) + "\n", "utf-8")
    bring_scenarios(RemoteFolder(address, bench), scenarios, say)
    return check(bench, scenarios)


def _held_commit(folder: Path) -> str:
    """Return the commit of an earlier fetch; empty if its record is missing or damaged."""
    try:
        return str(json.loads((folder / RECORD).read_bytes())["commit"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
