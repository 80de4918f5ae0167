"""Alerts arrive once, in order, without secrets, whatever the receiver does, and never stop a sweep."""

from __future__ import annotations

import logging
import socket
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from envs.errors import UserError
from orchestrator.alerts.sweep_alerts import VARIABLE, SweepAlerts, is_web_address, open_alerts
from orchestrator.alerts.webhook import Webhook
from tests.orchestrator.alerts.receiver import receiving


def test_each_event_arrives_once_and_in_order(monkeypatch, tmp_path):
    with receiving() as receiver:
        monkeypatch.setenv(VARIABLE, receiver.address)
        with open_alerts("paper", tmp_path / "run") as alerts:
            for _ in range(3):
                alerts.report_stops({"llava": "its GPU is gone"})
                alerts.report_spending({"gpt": (7.9, 10.0), "all models": (85.0, 100.0)})
            alerts.report_spending({"gpt": (8.0, 10.0)})
            alerts.report_end(complete=False, interrupted=False, finished=1_234, planned=5_000)

    assert receiver.events() == [("stopped", "llava"), ("budget", "all models"), ("budget", "gpt"), ("incomplete", "")]
    assert receiver.alerts[0]["text"] == "paper: llava has stopped: its GPU is gone"
    assert receiver.alerts[0]["folder"] == "run"
    assert receiver.alerts[2] | {"at": ""} == {
        "text": "paper: gpt: 8.00 of the limit of 10.00 is spent", "event": "budget", "sweep": "paper", "folder": "run",
        "at": "", "subject": "gpt", "spent": 8.0, "limit": 10.0,
    }  # fmt: skip
    assert receiver.alerts[3]["text"] == "paper: the sweep is incomplete: 1,234 of 5,000 episodes are stored"


def test_an_exception_is_an_alert_and_is_raised(monkeypatch, tmp_path):
    with receiving() as receiver:
        monkeypatch.setenv("PROACTIVE_SWEEP_ALERTS", receiver.address)
        with pytest.raises(OSError), open_alerts("paper", tmp_path):
            raise OSError("no space left\nTraceback")

    assert [alert["text"] for alert in receiver.alerts] == ["paper: the sweep has failed: no space left"]


@pytest.mark.parametrize(
    ("complete", "interrupted", "event"),
    [(True, False, "complete"), (True, True, "complete"), (False, True, "interrupted"), (False, False, "incomplete")],
)
def test_the_end_is_the_last_alert_even_if_an_exception_follows(monkeypatch, tmp_path, complete, interrupted, event):
    with receiving() as receiver:
        monkeypatch.setenv(VARIABLE, receiver.address)
        with pytest.raises(KeyError), open_alerts("paper", tmp_path / "run") as alerts:
            alerts.report_end(complete, interrupted, finished=5, planned=5)
            raise KeyError("after the end")

    (alert,) = receiver.alerts
    assert datetime.now(UTC) - datetime.fromisoformat(alert.pop("at")) < timedelta(minutes=10)
    assert alert == {
        "text": f"paper: the sweep is {event}: 5 of 5 episodes are stored", "event": event, "sweep": "paper",
        "folder": "run", "finished": 5, "planned": 5,
    }  # fmt: skip


def test_an_exception_without_text_is_named_by_its_class(monkeypatch, tmp_path):
    with receiving() as receiver:
        monkeypatch.setenv(VARIABLE, receiver.address)
        with pytest.raises(KeyboardInterrupt), open_alerts("paper", tmp_path):
            raise KeyboardInterrupt

    (alert,) = receiver.alerts
    assert (alert["event"], alert["reason"]) == ("failed", "KeyboardInterrupt")
    assert alert["text"] == "paper: the sweep has failed: KeyboardInterrupt"


def test_a_receiver_that_is_not_there_is_named_without_its_path(caplog):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    webhook = Webhook(f"http://127.0.0.1:{port}/s3cret", wait_s=0.01)
    webhook.send({"event": "stopped", "text": "x"})
    webhook.close()

    assert "127.0.0.1 did not take the alert stopped: ClientConnectorError" in caplog.text
    assert "s3cret" not in caplog.text


def test_secrets_do_not_leave(monkeypatch, tmp_path):
    monkeypatch.setenv("SERVICE_API_KEY", "sk-1234567890")
    with receiving() as receiver:
        monkeypatch.setenv(VARIABLE, receiver.address)
        with open_alerts("paper", tmp_path) as alerts:
            alerts.report_stops({"gpt": 'key "sk-1234567890" refused by https://me:pass@host/v1'})

    assert receiver.alerts[0]["reason"] == 'key "***" refused by https://***@host/v1'


@pytest.mark.parametrize(
    ("statuses", "requests", "taken"),
    [((503, 429), 3, 1), ((299,), 1, 1), ((300,), 1, 0), ((302,), 1, 0), ((499,), 1, 0), ((500,) * 9, 4, 0)],
)
def test_busy_receivers_are_tried_again_and_refusals_are_logged(caplog, statuses, requests, taken):
    with receiving(*statuses) as receiver, caplog.at_level(logging.WARNING):
        webhook = Webhook(receiver.address, wait_s=0.01)
        webhook.send({"event": "stopped", "text": "x"})
        webhook.close()

    assert receiver.paths == ["/hook/s3cret"] * requests, "no redirect is followed"
    assert len(receiver.alerts) == taken
    logged = "" if taken else f"127.0.0.1 did not take the alert stopped: HTTP {statuses[0]}"
    assert caplog.text.strip().endswith(logged) and "s3cret" not in caplog.text
    assert ("did not take" in caplog.text) is (taken == 0)


def test_a_receiver_that_hangs_holds_the_end_no_longer_than_its_limit(caplog):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        webhook = Webhook(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        webhook.send({"event": "stopped", "text": "x"})
        before = time.monotonic()
        webhook.close(timeout=0.2)
    assert time.monotonic() - before < 5
    assert "did not take all alerts within 0 s" in caplog.text
    threads = [thread for thread in threading.enumerate() if thread.name == "alerts"]
    assert all(thread.daemon for thread in threads), "no thread keeps the program from ending"


def test_without_an_address_nothing_is_sent(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    with open_alerts("paper", tmp_path) as alerts:
        assert isinstance(alerts, SweepAlerts) and alerts.webhook is None
        alerts.report_stops({"x": "y"})


@pytest.mark.parametrize(
    "address",
    ["hooks.example", "ftp://host/x", "http://", "https://host:99999/", "http://[::1", "http://a\n", "http://a:0/"],
)
def test_what_is_no_address_is_refused_without_showing_it(monkeypatch, tmp_path, address):
    monkeypatch.setenv(VARIABLE, address)
    with (
        pytest.raises(UserError, match=f"{VARIABLE} is not a web address; set it to") as refusal,
        open_alerts("s", tmp_path),
    ):
        pass
    assert address not in str(refusal.value)


@pytest.mark.parametrize("address", ["https://hooks.example/T0/s3cret", "http://127.0.0.1:8080", "https://[::1]:443/x"])
def test_addresses_of_the_web_are_taken(address):
    assert is_web_address(address)
