"""The logs of an attempt, line by line: their bounds, who may read them, and what is said of each worker."""

import asyncio
import logging
import re

from actors.node.process_output import WorkerAddress
from orchestrator.execution import worker_logs
from orchestrator.scheduling.commands import Drop, Start
from orchestrator.scheduling.nodes import Place


def test_bounds_of_logs(tmp_path):
    attempt_log = worker_logs.AttemptLog(tmp_path)

    assert (worker_logs.DRIVER_BYTES, attempt_log.bytes_left) == (8_388_608, 67_108_864)
    assert worker_logs.REMOTE_LOG_TIMEOUT_S == 60
    assert (tmp_path / "logs").stat().st_mode & 0o777 == 0o700


def test_a_long_log_of_the_driver_keeps_its_end_and_one_earlier_file(tmp_path, monkeypatch):
    monkeypatch.setattr(worker_logs, "DRIVER_BYTES", 400)
    with worker_logs.open_attempt_log(tmp_path) as attempt_log:
        for number in range(20):
            logging.getLogger("orchestrator").info("event %02d %s", number, "x" * 60)
    files = {path.name: path for path in attempt_log.folder.iterdir()}

    assert files.keys() == {"driver.log", "driver.log.1"}
    assert all(0 < path.stat().st_size <= 400 for path in files.values())
    assert files["driver.log"].read_text().endswith(" INFO the attempt has ended\n")
    assert "event 00" not in files["driver.log.1"].read_text()


def test_an_attempts_log_is_private_dated_and_ends_with_the_attempt(tmp_path, capsys):
    logger = logging.getLogger("orchestrator")
    before = logger.level, list(logger.handlers)
    with worker_logs.open_attempt_log(tmp_path) as attempt_log:
        logger.debug("too fine")
        logger.warning("for the file alone")
        logger.error("\x1b[31mno key\x1b[0m for http://me:secret@host/x")
        attempt_log.save("m", 1, "said", lost=False)
    logger.error("after the end")

    assert (logger.level, list(logger.handlers)) == before
    assert capsys.readouterr().err.splitlines()[:1] == ["no key for http://***@host/x"]
    lines = (attempt_log.folder / "driver.log").read_text().splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO|WARNING|ERROR) \S", line) for line in lines)
    assert [line.split(" ", 2)[2] for line in lines[1:]] == [
        "WARNING for the file alone",
        "ERROR no key for http://***@host/x",
        "INFO the attempt has ended",
    ]
    modes = {path.name: path.stat().st_mode & 0o777 for path in attempt_log.folder.iterdir()}
    assert modes == {"driver.log": 0o600, "m-1.log": 0o600}


def test_workers_are_logged_with_their_nodes_and_shared_gpu(caplog):
    caplog.set_level(logging.INFO, "orchestrator")
    first, second = "a" * 20, "b" * 20
    for command in (
        Start(3, "wide", Place(first, None, (first, first, second, second))), Start(4, "part", Place(first, 0)),
        Start(5, "policies", Place("", 7)), Drop(9, "not running"),
    ):  # fmt: skip
        worker_logs.log_command(command, {3: "wide"})
    worker_logs.log_ready("policies", 5, WorkerAddress("host", 8, "n", "", ()), [])

    assert caplog.messages == [
        f"worker 3 of wide starts on nodes {'a' * 12}, {'b' * 12}",
        f"worker 4 of part starts on node {'a' * 12}, shared GPU 0",
        "worker 5 of policies starts, shared GPU 7",
        "worker 5 of policies is ready (process 8 on host)",
    ]


def test_output_that_just_fits_is_saved_in_place_of_an_earlier_one(tmp_path, caplog):
    attempt_log = worker_logs.AttemptLog(tmp_path)
    attempt_log.bytes_left = 12
    attempt_log.save("m", 1, "earlier", lost=False)
    attempt_log.save("m", 1, "\x1b[1mé\x1b[0m 12", lost=False)
    assert (tmp_path / attempt_log.worker_path("m", 1)).read_text("utf-8") == "é 12"
    assert attempt_log.bytes_left == 0 and caplog.messages == []
    attempt_log.save("m", 2, "1", lost=False)
    assert caplog.messages == ["the output of worker 2 of m is not saved: the logs of this attempt are full"]


def test_output_on_this_node_is_saved_at_once_and_a_silent_node_is_left(tmp_path, caplog, monkeypatch):
    (tmp_path / "w.out").write_text("out of memory\n")
    monkeypatch.setattr(worker_logs, "REMOTE_LOG_TIMEOUT_S", 0.01)
    attempt_log = worker_logs.AttemptLog(tmp_path / "run")

    async def never_answer(node, paths):
        await asyncio.Event().wait()

    async def end():
        collector = worker_logs.WorkerLogCollector(attempt_log, "here", never_answer)
        await collector.wait(5)
        collector.collect("m", 1, WorkerAddress("host", 1, "here", "", (str(tmp_path / "w.out"),)), lost=True)
        saved = (attempt_log.folder / "m-1.log").read_text()
        collector.collect("m", 2, WorkerAddress("host", 1, "far", "", ("/w.out",)), lost=True)
        requests = len(collector._requests)
        await collector.wait(60)
        return saved, requests, len(collector._requests)

    assert asyncio.run(end()) == ("== out\nout of memory\n", 1, 0)
    assert caplog.messages == [
        "worker 1 of m, last output: out of memory",
        "the output of worker 2 of m stays on host (TimeoutError)",
    ]
