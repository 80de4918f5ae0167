"""Uploads to a data set of the Hub exactly the files that a user named and was shown, in one commit, and says what arrived.

The token comes from HF_TOKEN alone. Links, and what begins with a dot, are never followed nor sent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.datasets.remote_files import FetchError
from orchestrator.storage import run_folder

TOKEN = "HF_TOKEN"
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
"""OWNER/NAME of a repository."""
RUN = "a run folder holds names of this machine and logs; `export DIR --to trajectories` makes a folder for others"
UNTOLD = "no README.md: a data set's page and licence are its README.md"


class PublishError(FetchError):
    """What the user should read about an upload; its text is the whole message."""


@dataclass(frozen=True)
class Upload:
    """What would be sent, and where to."""

    name: str
    """OWNER/NAME of a data set."""
    private: bool
    """True if it is, or is to be made, private."""
    new: bool
    """True if it is not there yet."""
    files: dict[str, Path]
    """Path in the repository -> file."""
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in self.files.values())

    def lines(self) -> Iterator[str]:
        """What to show before anything is sent: every file with its size, the notes, and the address."""
        for name, path in self.files.items():
            yield f"{path.stat().st_size:>14,}  {name}  ({path})"
        yield from self.notes
        there = "new" if self.new else "already there: its files of the same name are replaced, others stay"
        yield (
            f"{len(self.files):,} files, {self.size:,} bytes, to the {'private' if self.private else 'PUBLIC'} data set "
            f"{self.name} ({there})"
        )


def prepared(paths: Sequence[Path], name: str, public: bool = False) -> Upload:
    """What uploading these files and folders would send; asks the Hub only whether the data set is there.

    The content of a folder goes to the top, a file under its own name. Raises PublishError.
    """
    if not NAME.fullmatch(name):
        raise PublishError(f"--publish {name!r} is not a data set; type OWNER/NAME")
    files: dict[str, Path] = {}
    skipped, runs = 0, False
    for path in paths:
        folder_files, skipped_here = _files(path)
        skipped, runs = skipped + skipped_here, runs or (path / run_folder.RESOLVED).exists()
        if both := sorted(folder_files.keys() & files.keys()):
            raise PublishError(f"{both[0]} is in two of the folders; publish them one by one")
        files |= folder_files
    if not files:
        raise PublishError("there is no file to publish")
    left_out = f"{skipped:,} links and names that begin with a dot are left out"
    notes = [
        note for note, applies in ((RUN, runs), (left_out, skipped), (UNTOLD, "README.md" not in files)) if applies
    ]
    with _hub(name) as api:
        exists = api.repo_exists(name, repo_type="dataset")
        private = bool(api.repo_info(name, repo_type="dataset").private) if exists else not public
    if exists and public and private:
        notes.append("--public makes no data set public that is there already; do that on its page")
    return Upload(name, private, not exists, dict(sorted(files.items())), tuple(notes))


def publish(upload: Upload) -> str:
    """Send the files in one commit; answers the commit's address. Raises PublishError, also where a file did not arrive."""
    with _hub(upload.name) as api:
        from huggingface_hub import CommitOperationAdd

        if upload.new:
            api.create_repo(upload.name, repo_type="dataset", private=upload.private)
        adds = [CommitOperationAdd(name, str(path)) for name, path in upload.files.items()]
        done = api.create_commit(upload.name, adds, commit_message="Publish with proactive-sweep", repo_type="dataset")
        there = set(api.list_repo_files(upload.name, repo_type="dataset", revision=done.oid))
    if missing := sorted(upload.files.keys() - there):
        raise PublishError(f"{len(missing)} files did not arrive (its .gitignore?): {', '.join(missing[:4])}")
    return str(done.commit_url)


def _files(path: Path) -> tuple[dict[str, Path], int]:
    """Return the files of a path the user named, by their path in the repository, and the number of skipped entries."""
    if path.is_file():
        return {path.name: path}, 0
    if not path.is_dir():
        raise PublishError(f"{path} is no file and no folder; name what is to be published")
    files: dict[str, Path] = {}
    skipped = 0
    for folder, folders, names in os.walk(path):
        here = Path(folder)
        hidden = [name for name in folders if name.startswith(".") or (here / name).is_symlink()]
        folders[:] = sorted(set(folders) - set(hidden))

        good = [name for name in names if not name.startswith(".") and _is_regular(here / name)]
        skipped += len(hidden) + len(names) - len(good)
        files |= {(here / name).relative_to(path).as_posix(): here / name for name in good}
    return files, skipped


def _is_regular(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


@contextmanager
def _hub(name: str) -> Iterator[Any]:
    """The Hub with the token of the environment; what it says no with becomes one sentence."""
    token = os.environ.get(TOKEN, "")
    if not token:
        raise PublishError(f"{TOKEN} is not set; put a token there that may write to {name}")
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
    except ModuleNotFoundError:
        raise PublishError("publish needs the extra `hub`: pip install 'proactive-sweep[hub]'") from None
    try:
        yield HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token)
    except OfflineModeIsEnabled:
        raise PublishError("HF_HUB_OFFLINE is set, so nothing is sent; unset it to publish") from None
    except HfHubHTTPError as refusal:
        code = getattr(refusal.response, "status_code", "no status")
        reason = (refusal.server_message or str(refusal)).replace(token, "***").partition("\n")[0]
        raise PublishError(f"the Hub refused {name} ({code}: {reason}); nothing was committed") from None
    except (OSError, ValueError, RuntimeError) as problem:
        reason_text = str(problem).replace(token, "***").partition("\n")[0]
        raise PublishError(f"{name} could not be published ({type(problem).__name__}: {reason_text})") from None
    except Exception as problem:
        if not type(problem).__module__.startswith("httpx"):
            raise
        raise PublishError(
            f"the Hub cannot be reached ({type(problem).__name__}: {problem}); nothing was committed"
        ) from None
