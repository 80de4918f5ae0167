"""Each attempt logs to a numbered folder of its own, and goes on where the disk takes no log."""

import pytest

from orchestrator.execution import attempt_log


@pytest.mark.parametrize(
    ("before", "name"),
    [((), "0001"), (("0009", "0010", "x1", "1x", "²"), "0011"), (("1999", "0002"), "2000"), (("9999",), "10000")],
)
def test_an_attempt_has_the_number_after_the_highest(tmp_path, before, name):
    for number in before:
        (tmp_path / "logs" / f"attempt-{number}").mkdir(parents=True)
    with attempt_log.open_attempt_log(tmp_path) as folder:
        assert folder == tmp_path / f"logs/attempt-{name}" and folder.stat().st_mode & 0o777 == 0o700


def test_a_disk_that_takes_no_log_costs_the_log_alone(tmp_path):
    (tmp_path / "logs").write_text("in the way")
    with attempt_log.open_attempt_log(tmp_path):
        attempt_log.log.warning("said")
    assert (tmp_path / "logs").read_text() == "in the way"


def test_a_disk_that_fills_up_prints_no_traceback_for_each_line(tmp_path, capsys):
    with attempt_log.open_attempt_log(tmp_path) as folder:
        (folder / "driver.log").unlink()
        handler = attempt_log.logging.getLogger("orchestrator").handlers[-1]
        handler.stream = open("/dev/full", "w")  # noqa: SIM115  # the handler closes it
        attempt_log.log.info("said")
    assert capsys.readouterr().err == ""
