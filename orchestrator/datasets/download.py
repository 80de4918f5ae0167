"""``data fetch``: downloads the published benchmark from the Hub, pinned to a commit, unpacks and checks it; resumable."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from envs import SCENARIOS
from envs.check import Report, check
from orchestrator.datasets.benchmark_files import Say, bring_scenarios
from orchestrator.datasets.remote_files import FetchError
from orchestrator.datasets.sources import Address, RemoteFolder, pin


class Terms(NamedTuple):
    """The source of a scenario's pictures and its terms of use."""

    source: str
    address: str
    terms: str


UNSTATED = "no licence named there; ask its authors"
TERMS: dict[str, Terms] = {
    "ROD": Terms(
        "Realistic Occlusion Dataset",
        "https://huggingface.co/datasets/arielnlee/Realistic-Occlusion-Dataset",
        "a licence of its own (`other` on its card)",
    ),
    "VSOD": Terms("OcclusionDataSet-MM20", "https://junhua-liao.github.io/Occlusion-Detection/", UNSTATED),
    "MVP-N": Terms("MVP-N", "https://github.com/SMNUResearch/MVP-N", UNSTATED),
    "IN-C": Terms(
        "ImageNet-C", "https://zenodo.org/records/2235448", "CC BY 4.0; made of ImageNet, for non-commercial research"
    ),
    "QD": Terms("Quick, Draw!", "https://github.com/googlecreativelab/quickdraw-dataset", "CC BY 4.0"),
    "CIT": Terms("ChangeIt", "https://github.com/soCzech/ChangeIt", f"frames of YouTube videos; {UNSTATED}"),
    "COCO": Terms(
        "COCO 2014", "https://cocodataset.org/#termsofuse", "annotations CC BY 4.0; pictures under Flickr's terms"
    ),
}
"""Scenario -> terms."""


def describe_terms(scenarios: Iterable[str]) -> Iterator[str]:
    """Yield lines about the terms of these scenarios' pictures; unknown names are skipped."""
    yield "the pictures come from other data sets, each under terms of its own (docs/data-sources.md, paper appendix G):"
    for name in scenarios:
        if name in TERMS:
            source, address, terms = TERMS[name]
            yield f"  {name}: {source}, {terms}; {address}"


DATASET = "tdemin16/ProactiveBench"
FOLDER = "test"
"""The folder of the data set that holds the benchmark."""
RECORD = "fetched.json"


class FetchRecord(BaseModel):
    """``fetched.json``: the commit that a folder holds."""

    dataset: str = DATASET
    commit: str = ""


def fetch_benchmark(
    folder: Path, scenarios: Sequence[str], revision: str | None = None, delete_archives: bool = False, say: Say = print
) -> Report:
    """Download, extract and check the benchmark in ``folder/test``. ``revision`` defaults to the folder's commit.

    Raises FetchError (the Hub, the disk), BadArchive (a hostile or damaged archive), BadData (a file that cannot be read).
    """
    if unknown := [name for name in scenarios if name not in SCENARIOS]:
        raise FetchError(f"there is no scenario {unknown[0]!r}; {', '.join(SCENARIOS)} exist")
    record, bench = _read_record(folder), folder / FOLDER
    address = pin(Address("hf", DATASET, revision or record.commit, FOLDER))
    if record.commit and record.commit != address.revision:
        raise FetchError(
            f"{folder} holds commit {record.commit}, not {address.revision}: name another folder, or leave out --revision"
        )
    say(f"{DATASET} at commit {address.revision}")
    bench.mkdir(parents=True, exist_ok=True)
    record.commit = address.revision
    (folder / RECORD).write_text(record.model_dump_json(indent=2) + "\n", "utf-8")
    hint = "" if delete_archives else "; --delete-archives needs less"
    bring_scenarios(RemoteFolder(address, bench), bench, scenarios, say, keep=not delete_archives, hint=hint)
    return check(bench, scenarios)


def _read_record(folder: Path) -> FetchRecord:
    """Return the record of an earlier fetch; an empty record if the file is missing or damaged."""
    try:
        return FetchRecord.model_validate_json((folder / RECORD).read_bytes())
    except (OSError, ValueError):
        return FetchRecord()
