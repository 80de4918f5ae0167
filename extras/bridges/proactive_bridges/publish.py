"""``publish``: upload of listed files to a data set of the Hub, in one commit, or of results to models, as pull requests.

The token comes from HF_TOKEN only. Links and names that begin with a dot are skipped.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

from actors.text.printable import printable
from orchestrator.datasets.sources import FetchError
from orchestrator.storage import run_folder
from sweeps.protocol import HEADLINE

TOKEN = "HF_TOKEN"
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
"""OWNER/NAME of a repository."""


class PublishError(FetchError):
    """An upload that the user must correct."""


@dataclass(frozen=True)
class Upload:
    """The files to upload and their destination."""

    name: str
    """OWNER/NAME of a data set, or of a model."""
    private: bool
    """True if the data set is private, or will be created as private."""
    is_new: bool
    """True if the data set does not exist yet."""
    files: dict[str, Path]
    """Path in the repository -> file."""
    notes: tuple[str, ...] = ()
    kind: str = "dataset"
    """The Hub's word for the repository. A model gets a pull request."""

    def lines(self) -> Iterator[str]:
        """Yield the summary to confirm before the upload: every file with its size, the notes, and the destination."""
        sizes = {name: path.stat().st_size for name, path in self.files.items()}
        for name, path in self.files.items():
            yield f"{sizes[name]:>14,}  {name}  ({path})"
        yield from self.notes
        if self.kind == "model":
            yield f"a pull request at the model {self.name}"
            return
        effect = "new" if self.is_new else "exists: files of the same name are replaced, others remain"
        visibility = "private" if self.private else "PUBLIC"
        total = f"{len(sizes):,} files, {sum(sizes.values()):,} bytes"
        yield f"{total}, to the {visibility} data set {self.name} ({effect})"


def publish(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    to: Annotated[
        str,
        typer.Option("--to", metavar="OWNER/NAME", help="The data set (default: models, `export --to eval-results`)."),
    ] = "",
    public: Annotated[bool, typer.Option("--public", help="Make a new data set public (default: private).")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Upload without asking, as in a script.")] = False,
) -> None:
    """Upload files and folders to a data set of the Hugging Face Hub in one commit, after listing them and asking.

    Without --to, PATH is a folder of `export --to eval-results`: a pull request at each of its models.
    """
    uploads = [prepare_upload(paths, to, public)] if to else prepare_results(paths)
    print(*(printable(line) for upload in uploads for line in upload.lines()), sep="\n")
    if not yes:
        if not sys.stdin.isatty():
            raise PublishError("nothing was uploaded; add --yes after checking the list")
        if not typer.confirm("upload these files?"):
            print("nothing was uploaded")
            raise typer.Exit(1)
    for upload in uploads:
        print(printable(send(upload)))


def prepare_upload(paths: Sequence[Path], name: str, public: bool = False) -> Upload:
    """List the files to upload, and ask the Hub whether the data set exists; nothing is uploaded yet.

    Files keep their names and their paths inside a given folder.
    """
    if not NAME.fullmatch(name):
        raise PublishError(f"--to {name!r} is not a data set; type OWNER/NAME")
    files: dict[str, Path] = {}
    skipped = 0
    for path in paths:
        folder_files, skipped_here = _files(path)
        skipped += skipped_here
        if duplicates := sorted(folder_files.keys() & files.keys()):
            raise PublishError(f"{duplicates[0]} is in two of the folders; publish them one by one")
        files |= folder_files
    if not files:
        raise PublishError("no file to publish")
    notes = []
    if any((path / run_folder.RESOLVED).exists() for path in paths):
        notes.append(
            "this is a run folder: it contains host names and logs; `export DIR --to turns` writes a folder to share"
        )
    if skipped:
        notes.append(f"{skipped:,} links and names that begin with a dot are skipped")
    if "README.md" not in files:
        notes.append("no README.md: the page and the license of a data set are its README.md")
    with _hub(name) as api:
        exists = api.repo_exists(name, repo_type="dataset")
        private = bool(api.repo_info(name, repo_type="dataset").private) if exists else not public
    if exists and public and private:
        notes.append("--public does not change an existing data set; make it public on its page")
    return Upload(name, private, not exists, dict(sorted(files.items())), tuple(notes))


def prepare_results(folders: Sequence[Path]) -> list[Upload]:
    """List the results of each model in folders of `export --to eval-results`; nothing is uploaded yet."""
    files = [file for folder in folders for file in sorted(folder.glob("*/*/.eval_results/*.yaml"))]
    if not files:
        raise PublishError(f"{folders[0]} has no results of models; name a data set with --to OWNER/NAME")
    uploads = []
    for file in files:
        name = "/".join(file.parts[-4:-2])
        with _hub(name) as api:
            if not api.repo_exists(name):
                raise PublishError(f"there is no model {name} on the Hub; remove its folder {file.parents[1]}")
        uploads.append(Upload(name, False, False, {"/".join(file.parts[-2:]): file}, kind="model"))
    return uploads


def send(upload: Upload) -> str:
    """Upload the files in one commit, to a model as a pull request; return its URL, or raise PublishError if one is missing."""
    with _hub(upload.name) as api:
        additions = [CommitOperationAdd(name, str(path)) for name, path in upload.files.items()]
        if upload.kind == "model":
            message = f"Add results of {HEADLINE}"
            return str(api.create_commit(upload.name, additions, commit_message=message, create_pr=True).pr_url)
        if upload.is_new:
            api.create_repo(upload.name, repo_type="dataset", private=upload.private)
        message = "Publish with proactive-sweep"
        commit = api.create_commit(upload.name, additions, commit_message=message, repo_type="dataset")
        stored = set(api.list_repo_files(upload.name, repo_type="dataset", revision=commit.oid))
    if missing := sorted(upload.files.keys() - stored):
        raise PublishError(f"{len(missing)} files did not arrive (its .gitignore?): {', '.join(missing[:4])}")
    return str(commit.commit_url)


def _files(path: Path) -> tuple[dict[str, Path], int]:
    """Return path in the repository -> file, and the number of skipped entries."""
    if path.is_file():
        return {path.name: path}, 0
    if not path.is_dir():
        raise PublishError(f"{path} does not exist; name a file or a folder")
    files: dict[str, Path] = {}
    skipped = 0
    for folder, folders, names in os.walk(path):
        parent = Path(folder)
        hidden = {name for name in (*folders, *names) if name.startswith(".") or (parent / name).is_symlink()}
        folders[:] = sorted(set(folders) - hidden)
        regular = [name for name in names if name not in hidden and (parent / name).is_file()]
        skipped += len(hidden)
        files |= {(parent / name).relative_to(path).as_posix(): parent / name for name in regular}
    return files, skipped


@contextmanager
def _hub(name: str) -> Iterator[HfApi]:
    """Provide the Hub's client; raise its errors as a PublishError."""
    token = os.environ.get(TOKEN, "")
    if not token:
        raise PublishError(f"{TOKEN} is not set; set it to a token that can write to {name}")
    try:
        yield HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token)
    except OfflineModeIsEnabled:
        raise PublishError("HF_HUB_OFFLINE is set; unset it to publish") from None
    except HfHubHTTPError as refusal:
        code = getattr(refusal.response, "status_code", "no status")
        reason = (refusal.server_message or str(refusal)).replace(token, "***").partition("\n")[0]
        raise PublishError(f"the Hub refused {name} ({code}: {reason}); nothing was committed") from None
    except Exception as problem:
        kind = type(problem)
        if not (isinstance(problem, OSError | ValueError | RuntimeError) or kind.__module__.startswith("httpx")):
            raise
        cause = str(problem).replace(token, "***").partition("\n")[0]
        raise PublishError(f"{name} could not be published ({kind.__name__}: {cause})") from None
