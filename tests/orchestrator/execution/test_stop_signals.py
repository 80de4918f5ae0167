"""The first Ctrl-C, SIGTERM or SIGHUP stops in good order, the third leaves at once; before anything plays each one does."""

import asyncio
import os
import signal

import pytest

from orchestrator.execution import stop_signals
from orchestrator.execution.stop_signals import SIGNALS, StopSignals


@pytest.fixture(autouse=True)
def default_signals():
    """These tests may themselves run under nohup, or in the background of a shell, which ignores SIGINT there."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_before_anything_plays_a_signal_ends_the_command(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), StopSignals():
        os.kill(os.getpid(), number)
        signal.sigtimedwait([], 1)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", SIGNALS)
def test_first_signal_stops_second_informs_third_exits(number, monkeypatch, capfd):
    events = []

    async def play(signals):
        stopped = asyncio.Event()
        signals.stop_with(stopped.set)
        os.kill(os.getpid(), number)
        await asyncio.wait_for(stopped.wait(), 10)
        events.append("stopped")

    with pytest.raises(KeyboardInterrupt), StopSignals() as signals:
        asyncio.run(play(signals))
        os.kill(os.getpid(), number)
        events.append("storing")
        os.kill(os.getpid(), number)
        signal.sigtimedwait([], 1)
    assert events == ["stopped", "storing"] and capfd.readouterr().err.encode() == stop_signals.WAIT


def test_nohup_is_respected():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
        assert signals.count == 0 and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_terminal_that_is_closed_still_counts_as_one():
    """What is printed to it fails, so it must be replaced; files and pipes stay as they are."""
    ours, theirs = os.openpty()
    read, write = os.pipe()
    assert stop_signals._is_terminal(theirs) and not stop_signals._is_terminal(write)
    os.close(ours)
    assert not os.isatty(theirs) and stop_signals._is_terminal(theirs)
    for handle in (theirs, read, write):
        os.close(handle)


def test_only_a_closed_terminal_makes_the_attempt_leave_it(monkeypatch):
    left = []
    monkeypatch.setattr(stop_signals, "_leave_terminal", lambda: left.append(True))
    for number, count in ((signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGHUP, 1)):
        with pytest.raises(KeyboardInterrupt):
            StopSignals()._on_signal(number, None)
        assert len(left) == count


@pytest.mark.parametrize("terminal", [1, 2])
def test_output_to_a_terminal_goes_nowhere_once_it_is_left(terminal):
    kept = {stream: os.dup(stream) for stream in (1, 2)}
    ours, theirs = os.openpty()
    read, write = os.pipe()
    try:
        for stream in (1, 2):
            os.dup2(theirs if stream == terminal else write, stream)
        stop_signals._leave_terminal()
        devices = {stream: os.path.samestat(os.fstat(stream), os.stat(os.devnull)) for stream in (1, 2)}
    finally:
        for stream, handle in kept.items():
            os.dup2(handle, stream)
        for handle in (*kept.values(), ours, theirs, read, write):
            os.close(handle)
    assert devices == {stream: stream == terminal for stream in (1, 2)}


def test_a_signal_before_the_loop_stops_it_as_it_starts():
    """The main thread may get one while another thread prepares the attempt."""
    stopped = []

    async def play(signals):
        signals.stop_with(lambda: stopped.append(True))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    for count in (0, 1):
        signals = StopSignals()
        signals.count = count
        asyncio.run(play(signals))
        assert len(stopped) == count


def test_a_signal_after_the_end_of_the_loop_is_only_counted():
    async def play(signals):
        signals.stop_with(lambda: None)

    signals = StopSignals()
    asyncio.run(play(signals))
    signals._on_signal(signal.SIGTERM, None)
    assert signals.count == 1
