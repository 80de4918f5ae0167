"""Planted bugs in the run folder's lock, buffer, parts, merges and list of sums."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from orchestrator.storage import checksums, episode_store, lock, part_files, part_writer, safe_write, verdict_store
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.part_files import Part
from tests.simulation.mutants import Patch, mutant


@mutant("a folder is not locked")
def _() -> list[Patch]:
    return [(lock, "_lock_exclusively", lambda handle: None)]


@mutant("a part whose bytes have another sum counts")
def _() -> list[Patch]:
    real = part_files.is_usable

    def is_usable(path: Path, sums: Any) -> bool:
        any_sum = tuple(checksums.hash_file(path) for _ in range(1)) if path.is_file() else ()
        return real(path, {**sums, f"{path.parent.name}/{path.name}": any_sum})

    return [(part_files, "is_usable", is_usable)]


@mutant("episodes wait in the buffer until it is full")
def _() -> list[Patch]:
    return [(EpisodeStore, "flush_old", lambda store: None)]


@mutant("parts that a merge has replaced stay")
def _() -> list[Patch]:
    return [(module, "delete_parts", lambda folder, parts, tables=(): None) for module in (episode_store, part_writer)]


@mutant("a merge leaves the last part out")
def _() -> list[Patch]:
    def merge(store: EpisodeStore, files: Any, group: list[Part]) -> None:
        kept = group[:-1]
        frames = {"episodes": episode_store._episodes(files, kept), "turns": episode_store._owned(files, "turns", kept)}
        part_writer.write_part(store.folder, Part(group[0].first, group[-1].last), frames)
        episode_store.delete_parts(store.folder, group)

    return [(EpisodeStore, "_merge", merge)]


@mutant("episodes get their name before their turns")
def _() -> list[Patch]:
    return [(part_writer, "WRITE_ORDER", ("episodes", "turns", "options", "verdicts"))]


@mutant("a sum is recorded after its file has its name")
def _() -> list[Patch]:
    def write(path: Path, content: bytes) -> None:
        safe_write.write(path, content)
        digest = checksums.hash_file(path)
        safe_write.append(path.parent / checksums.NAME, f"{digest}  {path.name}\n".encode())

    return [(checksums, "write", write)]


@mutant("a line is appended to a torn one")
def _() -> list[Patch]:
    def append(path: Path, lines: bytes) -> None:
        with open(safe_write.open_file(path, 0o2001), "ab") as file:  # O_WRONLY | O_APPEND
            file.write(lines)
            file.flush()
            safe_write.os.fsync(file.fileno())

    return [(safe_write, "append", append)]


@mutant("a merge of verdicts removes the merged part, too")
def _() -> list[Patch]:
    real = verdict_store.delete_parts

    def delete_parts(folder: Path, parts: Iterable[Part], tables: Iterable[str]) -> None:
        real(folder, [*parts, *part_files.list_parts(folder).verdicts], tables)

    return [(verdict_store, "delete_parts", delete_parts)]
