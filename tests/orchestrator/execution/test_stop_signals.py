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
