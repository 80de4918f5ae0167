"""``data fetch``: downloads the published benchmark from the Hub, pinned to a commit, unpacks and checks it; resumable.

The archives are named by number, not by scenario. Their directories are read first, so that only archives with needed
pictures are downloaded and free disk space is checked in advance.
"""

import shutil
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from pydantic import BaseModel

from envs import SCENARIOS
from envs.check import Report, check
from envs.samples import BadData, lines_file, read_samples
from orchestrator.datasets.hub import Repository
from orchestrator.datasets.remote_files import FetchError, RemoteFile, RemoteFolder, fetch_errors
from orchestrator.datasets.safe_unzip import PROGRESS_INTERVAL_S, BadArchive, Member, check_members, unzip
from orchestrator.storage import safe_write


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
SPARE = 1 << 30
"""Bytes of the disk that must stay free."""

Say = Callable[[str], None]


class FetchRecord(BaseModel):
    """``fetched.json``: the commit that a folder holds, and for each archive the picture folders already taken from it."""

    dataset: str = DATASET
    commit: str = ""
    archives: dict[str, list[str]] = {}


class Meter:
    """A progress callback that prints every few seconds how much has arrived."""

    def __init__(self, say: Say) -> None:
        self.say, self.arrived, self.printed = say, 0, time.monotonic()

    def __call__(self, size: int) -> None:
        self.arrived += size
        if time.monotonic() - self.printed > PROGRESS_INTERVAL_S:
            self.printed = time.monotonic()
            self.say(f"{self.arrived / 1e9:.2f} GB arrived")


@dataclass(frozen=True)
class Archive:
    """An archive that holds needed pictures."""

    file: RemoteFile
    wanted: tuple[Member, ...]
    strip: str
    """The prefix to remove from the names of its files."""

    @property
    def extracted_size(self) -> int:
        """Return the bytes of the needed files."""
        return sum(member.size for member in self.wanted)


def fetch_benchmark(
    folder: Path,
    scenarios: Sequence[str],
    revision: str | None = None,
    delete_archives: bool = False,
    say: Say = print,
    dataset: str = DATASET,
) -> Report:
    """Download, extract and check the benchmark in ``folder/test``. ``revision`` defaults to the folder's commit.

    Raises FetchError (the Hub, the disk), BadArchive (a hostile or damaged archive), BadData (a file that cannot be read).
    """
    unknown = [name for name in scenarios if name not in SCENARIOS]
    if unknown:
        raise FetchError(f"there is no scenario {unknown[0]!r}; {', '.join(SCENARIOS)} exist")
    record = _read_record(folder)
    source = Repository(dataset, revision or record.commit or "main", progress=Meter(say))
    if record.commit and record.commit != source.commit:
        raise FetchError(
            f"{folder} holds commit {record.commit}, not {source.commit}: name another folder, or leave out --revision"
        )
    record.commit = source.commit
    say(f"{dataset} at commit {source.commit}")
    files = source.files(FOLDER)
    bench = folder / FOLDER
    by_name = {file.path.removeprefix(f"{FOLDER}/"): file for file in files}
    download_lines(source, by_name, bench, scenarios, f"{source.name} at {source.commit} holds no {FOLDER}/")
    folders = picture_folders(bench, scenarios)
    archives = _pending(source, files, record, folders, say)
    _write_record(folder, record)
    _check_space(folder, archives, delete_archives, say)
    for archive in archives:
        _download_and_extract(source, archive, bench, delete_archives, say)
        old_folders = record.archives.get(archive.file.path, [])
        record.archives[archive.file.path] = sorted({*old_folders, *folders})
        _write_record(folder, record)
    return check(bench, scenarios)


def picture_folders(bench: Path, scenarios: Sequence[str]) -> set[str]:
    """Return the top folders of the scenarios' pictures, ignoring bad lines. Raises BadData for an unreadable file."""
    folders = set()
    for name in scenarios:
        samples, problems = read_samples(bench, name)
        if unread := [problem for problem in problems if not problem.line]:
            raise BadData(f"the downloaded {unread[0]}")
        folders |= {sample.image.partition("/")[0] for sample in samples}
    return folders


def download_lines(
    source: RemoteFolder, files: Mapping[str, RemoteFile], bench: Path, scenarios: Sequence[str], missing: str
) -> None:
    """Download the JSONL file of each scenario. Raises FetchError (``missing`` and the name) if ``files`` lacks one."""
    for target in (lines_file(bench, name) for name in scenarios):
        if target.name not in files:
            raise FetchError(f"{missing}{target.name}")
        source.download(files[target.name], target)


def _pending(
    source: Repository, files: Sequence[RemoteFile], record: FetchRecord, folders: set[str], say: Say
) -> list[Archive]:
    """Return the archives with needed pictures that are not extracted yet."""
    pending = []
    for file in files:
        if not file.path.endswith(".zip") or folders <= set(record.archives.get(file.path, ())):
            continue
        archive = read_remote_archive(source, file, folders)
        if archive.wanted:
            pending.append(archive)
            say(f"{file.path}: {file.size / 1e9:.2f} GB, {len(archive.wanted):,} of its files are needed")
        else:
            record.archives[file.path] = sorted({*record.archives.get(file.path, ()), *folders})
            say(f"{file.path}: nothing in it is needed")
    return pending


def read_remote_archive(source: RemoteFolder, file: RemoteFile, folders: set[str]) -> Archive:
    """Read an archive's directory, without downloading its files. Raises FetchError, BadArchive."""
    with fetch_errors(file.path, source.who), source.open(file) as remote:
        return read_archive(remote, file, folders)


def read_archive(content: IO[bytes], file: RemoteFile, folders: set[str]) -> Archive:
    """Read an archive's directory. Raises BadArchive."""
    try:
        with zipfile.ZipFile(content) as archive:
            all_members = check_members(archive, file.size, file.path)
    except (zipfile.BadZipFile, EOFError) as problem:
        raise BadArchive(f"{file.path} is no zip archive: {problem}") from None
    strip = f"{FOLDER}/" if any(member.name.startswith(f"{FOLDER}/") for member in all_members) else ""
    return Archive(
        file, tuple(m for m in all_members if m.name.removeprefix(strip).partition("/")[0] in folders), strip
    )


def _check_space(folder: Path, archives: Sequence[Archive], delete: bool, say: Say) -> None:
    """Raise FetchError if the disk cannot hold the archives and their extracted files."""
    packed = [archive.file.size for archive in archives]
    need = sum(archive.extracted_size for archive in archives) + (max(packed, default=0) if delete else sum(packed))
    if archives:
        require_space(folder, need, "" if delete else "; --delete-archives needs less", say)


def require_space(folder: Path, need: int, hint: str, say: Say) -> None:
    """Print needed and free bytes; raise FetchError with this hint if the folder's disk is too small."""
    free = shutil.disk_usage(folder).free
    say(f"needs {need / 1e9:.2f} GB, {free / 1e9:.2f} GB are free")
    if need + SPARE > free:
        raise FetchError(f"{folder} has {free / 1e9:.1f} GB free, and {(need + SPARE) / 1e9:.1f} GB are needed{hint}")


def _download_and_extract(source: Repository, archive: Archive, bench: Path, delete: bool, say: Say) -> None:
    names = {member.name for member in archive.wanted}
    path = source.download(archive.file, bench / Path(archive.file.path).name)
    say(f"{path.name}: extracting {len(names):,} files, {archive.extracted_size / 1e9:.2f} GB")
    try:
        unzip(path, bench, names.__contains__, archive.strip, say)
    except OSError as problem:
        raise FetchError(f"{path.name} could not be extracted: {problem}; rerun the same command to resume") from None
    if delete:
        path.unlink()


def _read_record(folder: Path) -> FetchRecord:
    """Return the record of an earlier fetch; an empty record if the file is missing or damaged."""
    try:
        return FetchRecord.model_validate_json((folder / RECORD).read_bytes())
    except (OSError, ValueError):
        return FetchRecord()


def _write_record(folder: Path, record: FetchRecord) -> None:
    safe_write.write(folder / RECORD, (record.model_dump_json(indent=2) + "\n").encode())
