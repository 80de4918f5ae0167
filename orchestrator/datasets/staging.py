"""Stages remote data on this machine's disk, in a cache that any number of processes may share.

A scenario counts as staged only when all its pictures are in place: its mark is written last, under the lock.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from filelock import FileLock, Timeout

from envs import SCENARIOS
from envs.samples import lines_file
from orchestrator.datasets.benchmark_files import Say, bring_lines, bring_scenarios
from orchestrator.datasets.sources import Address, FetchError, RemoteFolder, parse_address, pin
from orchestrator.object_store.bucket import CACHE, cache_root
from sweeps.spec import Sweep


def pin_data(sweep: Sweep) -> Sweep:
    """Return the sweep with its data pinned to their current commit; a folder is unchanged. Raises FetchError."""
    address = parse_address(sweep.data)
    return sweep if address is None else sweep.model_copy(update={"data": str(pin(address))})


def data_folder(sweep: Sweep) -> Path:
    """Return the local folder of the data, which may be absent, without network access."""
    address = parse_address(sweep.data)
    return Path(sweep.data) if address is None else _cache_home(address, sweep.staging.cache)


def has_lines(sweep: Sweep, pictures: bool = False) -> bool:
    """Return True if ``fetch_lines`` needs no network; with ``pictures``, only if ``stage`` needs none on this machine, too."""
    address, home = parse_address(sweep.data), data_folder(sweep)
    if address is None:
        return True
    lines = address.fixed and all(lines_file(home, name).is_file() for name in _needed_lines(sweep))
    return lines and (not pictures or all(_completion_mark(home, name).exists() for name in sweep.scenarios))


def fetch_lines(sweep: Sweep) -> Path:
    """Return a local folder with the JSONL files of the sweep's scenarios, downloading missing ones.

    Random-proactive needs the lines of all scenarios. The folder has pictures only if they were staged on this machine.
    Raises FetchError.
    """
    sweep = pin_data(sweep)
    address, home = parse_address(sweep.data), data_folder(sweep)
    if address and not has_lines(sweep):
        with _stage_lock(home, lambda line: None):
            source, needed = RemoteFolder(address, home), _needed_lines(sweep)
            wanted = [name for name in needed if name in sweep.scenarios or lines_file(home, name).name in source.files]
            bring_lines(source, wanted)
    return home


def _needed_lines(sweep: Sweep) -> Sequence[str]:
    """Return the scenarios whose lines a sweep needs."""
    return list(SCENARIOS) if sweep.draws_suggestions else sweep.scenarios


def stage(data: str, scenarios: Sequence[str], cache: str, say: Say) -> Path:
    """Download the data of the scenarios and return the benchmark folder; a second call resumes a broken one.

    Raises FetchError (network, disk), BadArchive (damaged or hostile), BadData (a file that cannot be read).
    """
    address = parse_address(data)
    assert address is not None, "a folder needs no staging"
    address = pin(address)
    home = _cache_home(address, cache)
    with _stage_lock(home, say):
        pending = [name for name in scenarios if not _completion_mark(home, name).exists()]
        if not pending:
            say(f"{address} is staged already")
            return home
        say(f"staging {', '.join(pending)} of {address}")
        hint = f"; name a larger disk in [staging] cache, or in {CACHE} on that node"
        bring_scenarios(RemoteFolder(address, home), pending, say, hint=hint)
        for name in pending:
            _completion_mark(home, name).touch()
        say(f"staged {', '.join(pending)}")
    return home


@contextmanager
def _stage_lock(home: Path, say: Say) -> Iterator[None]:
    """Hold the staging lock, waiting for other processes; turn disk errors into FetchError."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = FileLock(home / ".lock")
        try:
            held = lock.acquire(timeout=0)
        except Timeout:
            say(f"{home}: another process stages here; waiting for it")
            held = lock.acquire()
        with held:
            yield
    except OSError as problem:
        reason = problem.strerror or problem
        raise FetchError(f"{home} cannot be written: {reason}; rerun the same command to resume") from None


def _cache_home(address: Address, cache: str) -> Path:
    return (cache_root(cache) / "data" / blake2b(str(address).encode(), digest_size=8).hexdigest()).absolute()


def _completion_mark(home: Path, scenario: str) -> Path:
    return home / f"{scenario}.complete"
