"""The sweep that a run plays in a folder to which an earlier version of this package has applied another one."""

import pytest

from orchestrator.planning.applied_sweep import effective_sweep
from orchestrator.storage import control_log, run_folder
from orchestrator.storage.control_log import LogEntry, make_command
from orchestrator.storage.lock import RunFolderError
from tests.orchestrator.report import runs


@pytest.fixture
def versions(demo_data):
    """Two that the folder had, and one that it never had."""
    return [runs.sweep(demo_data, [name], ["hint"]) for name in ("uniform", "guess", "oracle")]


@pytest.fixture
def folder(tmp_path, versions):
    """Played as the first; the second was taken, and then the driver died."""
    place = runs.played(tmp_path / "run", versions[0])
    before, after = map(run_folder.sweep_toml, versions[:2])
    apply = make_command("apply", "v2.toml", sweep=after)
    control_log._append(place, [LogEntry(name="1", command=apply, taken="", effect="taken", before=before)])
    return place


def counted(folder, sweep, update=False):
    """What is played, whether it replaces the folder's configuration, and what is said of it."""
    said = []
    found, replaces = effective_sweep(sweep, folder, update, said.append)
    return found.models[0].name, replaces, " ".join(said)


def test_the_applied_sweep_is_played_for_the_file_that_it_replaced_and_takes_the_folder(folder, versions):
    name, replaces, said = counted(folder, versions[0])

    assert (name, replaces) == ("guess", True)
    assert said.startswith("The sweep of apply v2.toml by ") and said.endswith("add --update to play the given one.")
    assert counted(folder, versions[1]) == ("guess", True, "")


def test_once_the_folder_is_of_it_nothing_is_replaced_any_more(folder, versions):
    with run_folder.claim(folder, versions[1], update=True):
        assert counted(folder, versions[0])[:2] == ("guess", False)
        assert counted(folder, versions[1]) == ("guess", False, "")


def test_a_file_that_the_folder_never_had_is_refused_and_the_applied_sweep_counts_on(folder, versions):
    with pytest.raises(RunFolderError, match="holds a run of another configuration"):
        counted(folder, versions[2])

    assert len(control_log.read_history(folder)) == 1
    assert counted(folder, versions[0])[0] == "guess"


@pytest.mark.parametrize("given", [0, 2])
def test_update_takes_the_file_and_later_runs_know(folder, versions, given):
    name = versions[given].models[0].name

    assert counted(folder, versions[given], update=True)[:2] == (name, True)
    for later in versions[:2]:
        assert counted(folder, later)[0] == name


def test_a_folder_without_an_apply_is_as_it_was(tmp_path, versions):
    assert counted(tmp_path, versions[0]) == ("uniform", False, "")
    assert counted(tmp_path, versions[0], update=True) == ("uniform", True, "")
    assert not list(tmp_path.iterdir())


def test_where_the_run_plays_is_what_the_given_sweep_says(folder, versions):
    moved = versions[0].model_copy(update={"output": "moved"})

    found, _ = effective_sweep(moved, folder, False, print)

    assert (found.models, found.output) == (versions[1].models, "moved")


@pytest.mark.parametrize("text", ["name = 3", "[" * 3000, 'name = "x"\nmodels = "x"'])
def test_an_applied_sweep_that_this_version_cannot_read_is_one_sentence(folder, versions, text):
    apply = make_command("apply", "v3.toml", sweep=text)
    control_log._append(folder, [LogEntry(name="2", command=apply, taken="", effect="taken")])

    with pytest.raises(RunFolderError, match="holds a sweep that this version cannot read"):
        effective_sweep(versions[0], folder, False, print)
