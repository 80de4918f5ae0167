"""``ctl apply`` on real runs: the sweep becomes another one while it plays, whoever dies meanwhile."""

import time

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from orchestrator.object_store import run_location as remote
from orchestrator.object_store.bucket import Bucket
from orchestrator.planning import sweep_change
from orchestrator.storage import control_log, run_folder
from orchestrator.storage.episode_store import episodes
from sweeps.load import load
from tests.actors.service import said
from tests.actors.service import service as answering
from tests.orchestrator.execution import test_stopped_runs
from tests.orchestrator.execution.test_attempt import exactly_once
from tests.orchestrator.execution.test_stopped_runs import playing

pytestmark = pytest.mark.slow
SWEEP = test_stopped_runs.SWEEP.replace('"zero-shot"', "{conditions}") + "{more}\n"
UNIFORM = '[[model]]\nname = "uniform"\nsource = "builtin:uniform"\nbackend = "builtin"\n'


def waited(process, until) -> None:
    """Wait for something that the run does."""
    deadline = time.monotonic() + 120
    while not until():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.long
def test_a_sweep_that_is_changed_while_it_plays_and_whose_driver_is_killed_ends_as_the_last_version(
    cli, demo_data, tmp_path
):
    first, second, third = files = [tmp_path / f"v{n}.toml" for n in (1, 2, 3)]
    out = tmp_path / "run"
    with answering(lambda number, body: said("A")) as one:
        versions = (('"zero-shot"', ""), ('"zero-shot"', UNIFORM), ('"hint", "zero-shot"', UNIFORM))
        for file, (conditions, more) in zip(files, versions, strict=True):
            file.write_text(SWEEP.format(data=demo_data, url=one.url, conditions=conditions, more=more))
        one.delay = 0.2
        process = cli.start("run", first, "--output", out)
        playing(one, process)
        done = cli.run("ctl", out, "apply", second, "--yes", "--wait", "60")
        assert done.returncode == 0, done.stderr
        assert "models: + uniform" in done.stdout and "14 cells and 140 episodes are planned now" in done.stdout
        waited(process, lambda: len(run_folder.stored_sweep(out).models) == 2)

        playing(one, process)
        control_log.ask(out, control_log.command("set", "served.in_flight", "2"))
        control_log.ask(out, control_log.command("apply", third.name, sweep=sweep_change.toml(load(third))))
        waited(process, lambda: len(control_log.history(out)) == 3)
        process.kill()
        process.wait()
        assert 0 < episodes(out).collect().height < 280

        one.delay = 0.0
        done = cli.run("run", first, "--output", out)
        assert done.returncode == 0, done.stderr
        assert f"the sweep of apply {third.name} by " in done.stdout
    exactly_once(out, 280)
    assert {cell["state"] for cell in run_folder.read_status(out)["cells"]} == {"complete"}
    assert [entry.command.verb for entry in control_log.history(out)] == ["apply", "set", "apply"]


@pytest.mark.long
def test_a_sweep_in_a_bucket_is_changed_from_another_machine_and_goes_on_there_as_it_was_changed(
    cli, demo_data, tmp_path, url, service
):
    """The driver is killed once it has answered; the other machine has the first file and the bucket alone."""
    first, second = (tmp_path / f"v{n}.toml" for n in (1, 2))
    cli.environment |= {**service.environment, remote.CACHE: str(tmp_path / "here")}
    with answering(lambda number, body: said("A")) as one:
        for file, more in ((first, ""), (second, UNIFORM)):
            file.write_text(SWEEP.format(data=demo_data, url=one.url, conditions='"zero-shot"', more=more))
        one.delay = 0.3
        process = cli.start("run", first, "--output", url)
        playing(one, process)
        waited(process, lambda: Bucket(url).read(run_folder.PLAN))
        cli.environment[remote.CACHE] = str(tmp_path / "there")
        done = cli.run("ctl", url, "apply", second, "--yes", "--wait", "60")
        assert done.returncode == 0, done.stderr
        assert "models: + uniform" in done.stdout and "140 episodes are planned now" in done.stdout
        process.kill()
        process.communicate()

        one.delay = 0.0
        done = cli.run("run", first, "--output", url)
    assert done.returncode == 0, done.stderr
    assert f"the sweep of apply {second.name} by " in done.stdout
    exactly_once(remote.viewed(url), 140)
