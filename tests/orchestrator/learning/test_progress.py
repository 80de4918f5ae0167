"""Lines of a training's progress, its only warning, and the stop that a signal asks for."""

import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.learning.progress import MetricsLog, TrainingOutcome, TrainingProgress, stop_on_signals
from orchestrator.learning.settings import train_table
from sweeps.load import build

SWEEP = build(
    {"name": "s", "data": "d", "models": ["uniform"], "scenarios": ["QD"], "conditions": ["hint"],
     "tracking": {"uri": "none"}}, "a test",
)  # fmt: skip


def start(**settings):
    """Return a progress without tracking, what it says once, and its lines."""
    train = train_table({"train": {"model": "qwen2.5-vl-3b", "data": "d", "steps": 40, **settings}}, "a test")
    messages, lines = [], []
    return (
        TrainingProgress(train, MetricsLog(SWEEP, train, Path("run")), messages.append, lines.append),
        messages,
        lines,
    )


def test_a_line_every_ten_steps_has_the_means_of_ten(monkeypatch):
    progress, _, lines = start()
    progress.start_time = 1000.0
    for step in range(40):
        progress.record(step, {"reward": float(step), "live_groups": 0.5, "other": 1.0})
        monkeypatch.setattr(time, "perf_counter", lambda step=step: 1000.0 + 2 * (step + 1))
        progress.print_step(0, step)

    assert lines == [
        "step 10 of 40, reward 4.50, live_groups 0.50, 60 s left",
        "step 20 of 40, reward 14.50, live_groups 0.50, 40 s left",
        "step 30 of 40, reward 24.50, live_groups 0.50, 20 s left",
        "step 40 of 40, reward 34.50, live_groups 0.50, 0 s left",
    ]


def test_the_last_step_has_a_line_and_time_left_counts_from_this_attempt(monkeypatch):
    progress, _, lines = start(steps=25)
    monkeypatch.setattr(time, "perf_counter", lambda: progress.start_time + 30.0)
    progress.print_step(14, 19)
    progress.print_step(14, 24)

    assert lines == ["step 20 of 25, 25 s left", "step 25 of 25, 0 s left"]


def test_cloning_steps_are_counted_before_the_others(monkeypatch):
    progress, _, lines = start(exploration={"clone": 30})
    monkeypatch.setattr(time, "perf_counter", lambda: progress.start_time + 10.0)
    progress.print_step(-30, -21)

    assert lines == ["cloning step 10 of 30, 60 s left"]


@pytest.mark.parametrize(("share", "warned"), [(0.05, True), (0.1, False), (0.5, False)])
def test_few_groups_with_a_gradient_are_reported_once(share, warned):
    progress, messages, _ = start()
    for step in range(40):
        progress.record(step, {"live_groups": share if step < 20 else 0.0})

    assert messages == warned * [
        "only 5.0% of the groups of the first 20 steps have different rewards, and the model learns nothing from the others: "
        "set train.exploration.hint = 0.5, or train.exploration.clone, or a higher train.temperature"
    ]


def test_the_work_is_announced_with_complete_steps(tmp_path):
    progress, messages, _ = start()
    progress.announce(Path("run"), {"hidden": 1_500, "clear": 30}, start=0)
    progress.announce(Path("run"), {"hidden": 1}, start=1_000)

    assert messages[0].startswith("run: 1,530 states (1,500 hidden, 30 clear), 40 steps of 64 states x 8 replies")
    assert len(messages) == 3 and messages[2] == "1,000 steps are already complete"


def test_metrics_stay_in_memory_where_nothing_is_tracked():
    progress, _, _ = start()
    log = progress.log
    for step in range(1_005):
        log.record(step, {"reward": float(step)} | ({"rare": 2.0} if step == 3 else {}))

    assert (len(log.history), log.history[0][0], log.unsent) == (1_000, 5, [])
    assert log.mean("reward", 10) == 999.5 and (log.has("reward"), log.has("rare")) == (True, False)
    log.send()
    log.send_file(Path("nowhere"))
    assert log.run is None


def test_a_signal_asks_for_a_stop_and_handlers_are_put_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    for number in (signal.SIGINT, signal.SIGTERM):
        with stop_on_signals() as stop:
            assert not stop.is_set()
            signal.raise_signal(number)
            assert stop.is_set()

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert TrainingOutcome(None, 3).interrupted and not TrainingOutcome(Path("model.toml"), 3).interrupted


def test_the_first_step_is_no_cloning_step(monkeypatch):
    progress, _, lines = start(steps=1, exploration={"clone": 10})
    monkeypatch.setattr(time, "perf_counter", lambda: progress.start_time + 30.0)
    progress.print_step(0, 0)

    assert lines == ["step 1 of 1, 0 s left"]


class Client:
    """Records what a client of MLflow would send; raises from the call of number ``fails`` on."""

    def __init__(self, fails=1_000):
        self.calls, self.fails = [], fails

    def log_metric(self, *arguments):
        if len(self.calls) >= self.fails:
            raise OSError("connection refused")
        self.calls.append(arguments)

    def set_terminated(self, *arguments):
        self.calls.append(arguments)


def tracked(client):
    """Return a log whose run at MLflow is open."""
    progress, _, _ = start()
    sweep = SWEEP.model_copy(
        update={"tracking": SWEEP.tracking.model_copy(update={"uri": "http://user:secret@host:1"})}
    )
    log = MetricsLog(sweep, progress.train, Path("run"))
    log.run = SimpleNamespace(client=client, parent="p", send_files=lambda files: client.calls.append(files))
    return log


def test_metrics_are_sent_once_with_their_times_and_the_run_is_ended():
    client = Client()
    began = int(time.time() * 1000)
    with tracked(client) as log:
        log.record(3, {"reward": 0.5, "asks_hidden": 10.0})
        assert client.calls == []
        log.send()
        assert [(run, name, value, step) for run, name, value, _, step in client.calls] == [
            ("p", "reward", 0.5, 3), ("p", "asks_hidden", 10.0, 3),
        ]  # fmt: skip
        assert all(began <= at <= began + 60_000 for _, _, _, at, _ in client.calls)
        log.send()
        log.send_file(Path("model.toml"))
        assert client.calls[2:] == [[Path("model.toml")]] and log.unsent == []
        log.record(4, {"reward": 1.0})
    assert [call[:3] for call in client.calls[3:]] == [("p", "reward", 1.0), ("p", "FINISHED")]
    with pytest.raises(KeyError), tracked(client):
        raise KeyError
    assert client.calls[-1] == ("p", "FAILED")


def test_a_server_that_takes_no_metrics_is_named_once_and_left_alone(capsys):
    client = Client(fails=1)
    log = tracked(client)
    log.record(0, {"reward": 1.0, "live_groups": 1.0})
    log.send()
    log.record(1, {"reward": 1.0})
    log.send()

    assert log.off and len(client.calls) == 1
    assert capsys.readouterr().err == (
        "MLflow at http://***@host:1 takes no metrics (connection refused); the training continues without it\n"
    )


def test_even_one_complete_step_is_announced():
    progress, messages, _ = start()
    progress.announce(Path("run"), {"hidden": 1}, 1)
    progress.announce(Path("run"), {"hidden": 1}, 0)

    assert messages[1] == "1 steps are already complete" and len(messages) == 3


def test_the_last_cloning_step_is_one():
    progress, _, lines = start(exploration={"clone": 10})
    progress.print_step(-10, -1)

    assert lines[0].startswith("cloning step 10 of 10, ")
