"""Lines of a loader that waits, by queues of one process; ``test_load_queue`` has the real processes."""

import pytest

from actors.node import load_queue
from actors.node.load_queue import LoadQueue, free_memory
from tests.actors.node.test_load_queue import GIB, list_files, machine


@pytest.fixture
def queue_folder(tmp_path):
    return tmp_path / "turns"


@pytest.mark.parametrize(
    ("first", "second", "free", "reason"),
    [
        ((10 * GIB, False), (10 * GIB, False), 20 * GIB,
         "first is loading; with second that takes 24.0 GiB, 20.0 GiB are free"),
        ((None, False), (1, False), 640 * GIB, "first is loading, and not all sizes are known"),
        ((1, False), (None, False), 640 * GIB, "first is loading, and not all sizes are known"),
        ((1, True), (1, False), 640 * GIB, "first is loading and starts alone"),
        ((1, False), (1, True), 640 * GIB, "first is loading, and second starts alone"),
    ],
)  # fmt: skip
def test_a_loader_says_what_it_waits_for_and_how_long(queue_folder, monkeypatch, first, second, free, reason):
    monkeypatch.setattr(load_queue, "POLL_INTERVAL_S", 0.01)
    messages = []
    queue = LoadQueue(queue_folder, lambda: free)
    with queue.turn("first", first[0], print, alone=first[1]):
        with queue.turn("second", second[0], messages.append, timeout=0.05, alone=second[1]):
            messages.append("loaded")
        with queue.turn("second", second[0], messages.append, timeout=0, alone=second[1]):
            pass

    assert messages == [
        f"second waits for its turn to load: {reason}",
        f"second loads after 0 s of waiting, although {reason}",
        "loaded",
        f"second loads after 0 s of waiting, although {reason}",
    ]


def test_all_loaders_in_progress_are_named_and_counted(queue_folder):
    messages = []
    with (
        LoadQueue(queue_folder).turn("first", 1, print),
        LoadQueue(queue_folder, lambda: 100 * GIB).turn("next", 1, print),
    ):
        free = 2 * GIB * 3 + 3 - 1
        with LoadQueue(queue_folder, lambda: free).turn("third", 1, messages.append, timeout=0):
            pass
    assert messages == [
        "third loads after 0 s of waiting, although first and next are loading; with third that takes 6.0 GiB, 6.0 GiB are free"
    ]


def test_a_loader_that_came_first_goes_first(queue_folder):
    """The second one's ticket is later, and it fits beside any other."""
    queue, messages = LoadQueue(queue_folder, lambda: 640 * GIB), []
    queue_folder.mkdir()
    early = queue._draw("early", 1, False)
    with queue.turn("late", 1, messages.append, timeout=0):
        pass
    early.lock.release()
    with queue.turn("later", 1, messages.append, timeout=0):
        pass

    assert messages == ["late loads after 0 s of waiting, although early is before it"], (
        "and a dead loader's is removed"
    )
    assert list_files(queue_folder) == ["queue.lock"]


def test_a_machine_without_the_kernels_tables_has_no_free_memory(tmp_path):
    assert free_memory(tmp_path) == 0
    assert free_memory(machine(tmp_path / "no table of the container", 1000, 500_000, 400_000)) == 100_000
    (tmp_path / "proc").mkdir()
    for table in ("MemAvailable: many kB\n", "MemFree: 12 kB\n"):
        (tmp_path / "proc/meminfo").write_text(table)
        assert free_memory(tmp_path) == 0


def test_a_ticket_without_its_state_may_be_loading_anything():
    unknown = {"model": "another model", "size": None, "alone": False, "loading": True, "pid": 0}
    assert load_queue.TicketState().model_dump() == unknown
