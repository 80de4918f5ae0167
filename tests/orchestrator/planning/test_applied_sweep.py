"""Which sweep is played in a folder where an earlier version of this package applied another sweep."""

import pytest

from orchestrator.planning.applied_sweep import effective_sweep
from orchestrator.storage import control_log, run_folder
from orchestrator.storage.control_log import LogEntry, make_command
from orchestrator.storage.lock import RunFolderError
from tests.orchestrator.report import runs


@pytest.fixture
def versions(demo_data):
    """Two sweeps that the folder had, and one that it never had."""
    return [runs.sweep(demo_data, [name], ["hint"]) for name in ("uniform", "guess", "oracle")]


@pytest.fixture
def folder(tmp_path, versions):
    """A folder played with the first sweep, whose driver died after taking the second."""
    path = runs.play_sweep(tmp_path / "run", versions[0])
    before, after = map(run_folder.sweep_toml, versions[:2])
    apply = make_command("apply", "v2.toml", sweep=after)
    control_log._append(path, [LogEntry(name="1", command=apply, taken="", effect="taken", before=before)])
    return path


def choose_sweep(folder, sweep, update=False):
    """Return what is played, whether it replaces the folder's configuration, and the message."""
    messages = []
    chosen, replaces = effective_sweep(sweep, folder, update, messages.append)
    return chosen.models[0].name, replaces, " ".join(messages)


def test_applied_sweep_replaces_original_file_and_claims_folder(folder, versions):
    name, replaces, message = choose_sweep(folder, versions[0])

    assert (name, replaces) == ("guess", True)
    assert message.startswith("The sweep of apply v2.toml by ") and message.endswith(
        "add --update to play the given one."
    )
    assert choose_sweep(folder, versions[1]) == ("guess", True, "")


def test_claimed_folder_is_not_replaced_again(folder, versions):
    with run_folder.claim(folder, versions[1], update=True):
        assert choose_sweep(folder, versions[0])[:2] == ("guess", False)
        assert choose_sweep(folder, versions[1]) == ("guess", False, "")


def test_unknown_file_is_refused_and_applied_sweep_stays(folder, versions):
    with pytest.raises(RunFolderError, match="holds a run of another configuration"):
        choose_sweep(folder, versions[2])

    assert len(control_log.read_history(folder)) == 1
    assert choose_sweep(folder, versions[0])[0] == "guess"


@pytest.mark.parametrize("index", [0, 2])
def test_update_replaces_applied_sweep_for_later_runs(folder, versions, index):
    name = versions[index].models[0].name

    assert choose_sweep(folder, versions[index], update=True)[:2] == (name, True)
    for later in versions[:2]:
        assert choose_sweep(folder, later)[0] == name


def test_folder_without_apply_is_unchanged(tmp_path, versions):
    assert choose_sweep(tmp_path, versions[0]) == ("uniform", False, "")
    assert choose_sweep(tmp_path, versions[0], update=True) == ("uniform", True, "")
    assert not list(tmp_path.iterdir())


def test_output_comes_from_given_sweep(folder, versions):
    moved = versions[0].model_copy(update={"output": "moved"})

    chosen, _ = effective_sweep(moved, folder, False, print)

    assert (chosen.models, chosen.output) == (versions[1].models, "moved")


@pytest.mark.parametrize("text", ["name = 3", "[" * 3000, 'name = "x"\nmodels = "x"'])
def test_unreadable_applied_sweep_is_refused(folder, versions, text):
    apply = make_command("apply", "v3.toml", sweep=text)
    control_log._append(folder, [LogEntry(name="2", command=apply, taken="", effect="taken")])

    with pytest.raises(RunFolderError, match="holds a sweep that this version cannot read"):
        effective_sweep(versions[0], folder, False, print)
