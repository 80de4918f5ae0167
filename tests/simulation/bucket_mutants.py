"""Planted bugs in the upload, the lists and the lock of a run folder in a bucket."""

from __future__ import annotations

from orchestrator.object_store import run_location, uploader
from orchestrator.object_store.uploader import Uploader
from orchestrator.object_store.writer_lock import WriterLock
from tests.simulation.mutants import Patch, mutant


@mutant("episodes are uploaded before their turns")
def _() -> list[Patch]:
    return [(uploader, "_upload_order", lambda name: name)]


@mutant("merged parts leave the bucket before their merge is in it")
def _() -> list[Patch]:
    real = Uploader.upload_round

    def upload_round(up: Uploader) -> bool:
        up.bucket.delete(up._removed(uploader.shared_files(up.folder)))
        return real(up)

    return [(Uploader, "upload_round", upload_round)]


@mutant("the folder of a machine is used although another machine wrote since")
def _() -> list[Patch]:
    return [(run_location, "_put_aside", lambda folder, url, say: None)]


@mutant("the lock of a driver counts as abandoned at once")
def _() -> list[Patch]:
    return [(WriterLock, "_wait_for_silence", lambda lock, old, say: None)]
