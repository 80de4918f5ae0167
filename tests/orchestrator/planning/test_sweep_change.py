"""What another version of a sweep changes in a running one: told beforehand, refused where it must not, decided by the log."""

from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.planning import sweep_change
from orchestrator.planning.build_plan import build_plan, planned_cells
from orchestrator.storage.control_log import Entry, command
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.run_folder import resolved
from sweeps.load import build

FIRST = {"models": ["uniform", "guess"], "scenarios": ["ROD", "QD"], "conditions": ["zero-shot", "hint"]}


@pytest.fixture
def sweep(demo_data):
    def made(**more):
        return build({"name": "test", "data": str(demo_data), **FIRST, **more}, "v.toml")

    return made


def own(**more) -> dict:
    return {"models": ["m"], "model": [{"name": "m", "source": "org/m", "backend": "vllm", **more}]}


def served(**endpoint) -> dict:
    return own(backend="openai", endpoint=endpoint)


def shown(running, wanted) -> list[str]:
    return sweep_change.lines(running, sweep_change.changed(running, wanted), planned_cells(build_plan(running)))


def test_models_and_conditions_that_come_and_go_are_told_with_their_episodes(sweep):
    """10 samples a scenario: the counts are those of the plans themselves."""
    before, after = sweep(), sweep(models=["oracle", "uniform"], conditions=["hint", "reference"])
    old, new = (set(build_plan(one).all_keys()) for one in (before, after))

    assert shown(before, after) == [
        "models: + oracle, - guess",
        "conditions: + reference, - zero-shot",
        f"new: 6 cells, {len(new - old)} episodes",
        f"no more planned: 6 cells, {len(old - new)} episodes",
        f"as before: 2 cells, {len(new & old)} episodes",
        "what is stored of cells that leave the plan stays in the folder and counts no more, unless they come back",
    ]


def test_what_another_sampling_plays_anew_is_told(sweep):
    before, after = sweep(), sweep(sampling={"max_tokens": 64})
    old, new = (set(build_plan(one).all_keys()) for one in (before, after))

    assert not old & new
    assert shown(before, after)[:2] == [
        f"sampling.max_tokens was {before.sampling.max_tokens}, becomes 64",
        f"played anew: 8 cells, {len(new)} episodes",
    ]


def test_episodes_of_a_new_scenario_are_not_guessed(sweep):
    assert "new: 4 cells, 0 episodes and those of 4 cells of a new scenario" in shown(
        sweep(), sweep(scenarios=["ROD", "QD", "CIT"])
    )


def test_a_rule_of_precision_is_a_change_that_leaves_every_cell_as_it_was(sweep):
    found = shown(sweep(), sweep(precision={"half_width": 5.0}))

    assert "precision.half_width was not set, becomes 5.0" in found and found[-1].startswith("as before: 8 cells")


def test_where_a_run_plays_is_left_as_it_was_started(sweep):
    """The same file, run with an --output and on other GPUs than it says."""
    running = sweep(output="elsewhere", cluster={"gpus": 2}, tracking={"uri": "sqlite"})
    new = sweep_change.changed(running, sweep(models=["guess"], name="another"))

    assert (new.name, new.output, new.cluster.gpus, new.tracking.uri) == ("test", "elsewhere", 2, "sqlite")
    assert shown(sweep(), sweep(name="another", cluster={"gpus": 3})) == []


@pytest.mark.parametrize(
    "more, why",
    [
        ({"seed": 1}, "seed was 0, this sweep says 1: which samples are played is not changed while a sweep runs"),
        (
            {"data": "elsewhere"},
            "data was .*, this sweep says elsewhere: a running sweep stays with its data; --set data=",
        ),
        ({"selection": {"limit": 3}}, "selection.limit was not set, this sweep says 3"),
        ({"skip_bad": True}, "skip_bad was False, this sweep says True"),
        (
            own(trust_remote_code=True),
            "m runs code of org/m, which neither the running sweep nor an entry that ships does",
        ),
        (served(base_url="http://other/v1"), "m sends what OPENAI_API_KEY holds to http://other/v1, which neither"),
        (served(base_url="http://localhost/v1", key_env="AWS_SECRET_ACCESS_KEY"), "m sends what AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_what_a_running_sweep_cannot_become_is_one_sentence(sweep, more, why):
    with pytest.raises(RunFolderError, match=why):
        sweep_change.changed(sweep(), sweep(**more))


def test_services_and_code_that_the_run_has_already_may_be_kept(sweep):
    for one in (
        own(trust_remote_code=True),
        served(base_url="http://mine/v1"),
        served(base_url="http://x/v1", key_env=""),
    ):
        running = sweep(**one)
        assert sweep_change.changed(running, sweep(**one, conditions=["hint"])).models == running.models
    assert sweep_change.changed(sweep(), sweep(**served(base_url="http://x/v1", key_env=""))).models[0].name == "m"


def test_an_address_is_the_same_data_as_the_commit_that_it_was_pinned_to(sweep):
    pinned = f"hf://owner/data@{'a' * 40}/test"
    for same in ("hf://owner/data/test", "hf://datasets/owner/data@main/test", pinned):
        assert sweep_change.changed(sweep(data=pinned), sweep(data=same)).data == pinned
    for other in ("hf://owner/data", f"hf://owner/data@{'b' * 40}/test"):
        with pytest.raises(RunFolderError, match="stays with its data"):
            sweep_change.changed(sweep(data=pinned), sweep(data=other))


def test_a_sweep_travels_whole_and_without_a_password(sweep):
    whole = sweep(model=[{"name": "m", "source": "org/m", "options": {"max_model_len": 99}}], models=["m", "guess"])
    assert sweep_change.read(sweep_change.toml(whole)) == whole
    with pytest.raises(RunFolderError, match="holds a password"):
        sweep_change.toml(sweep(**served(base_url="http://ana:secret@host/v1", key_env="")))
    for text in ("", "name = 3", "[" * 3000, 'name = "x"\nmodels = "x"'):
        with pytest.raises(RunFolderError, match="carries no sweep that this version reads"):
            sweep_change.read(text)


# -- which sweep counts ----------------------------------------------------------------------------------------------------
def log_of(*sweeps) -> list[Entry]:
    """The log of a folder that was of each of these in turn."""
    return [
        Entry(
            name=str(n),
            command=command("apply", f"v{n}", sweep=resolved(after)),
            taken="",
            effect="",
            before=resolved(before),
        )
        for n, (before, after) in enumerate(pairwise(sweeps), 1)
    ]


def test_the_last_applied_sweep_counts_for_whoever_gives_one_that_the_folder_had_before(sweep):
    one, two, three = versions = [sweep(conditions=[name]) for name in ("hint", "reference", "zero-shot")]
    moved = one.model_copy(update={"output": str(Path("moved"))})

    for given in (one, two, moved):
        found = sweep_change.standing(given, log_of(*versions), update=False)
        assert sweep_change.same(found.sweep, three) and str(found.by) == "apply v2" and found.unknown is None
        assert found.sweep.output == given.output
    assert sweep_change.standing(three, log_of(*versions), update=False) == sweep_change.Standing(three)
    assert sweep_change.standing(one, [], update=False) == sweep_change.Standing(one)


def test_a_sweep_that_the_folder_never_had_replaces_the_applied_one_and_update_replaces_it_with_any(sweep):
    one, two, other = (sweep(conditions=[name]) for name in ("hint", "reference", "zero-shot"))

    for given, update in ((other, False), (other, True), (one, True)):
        found = sweep_change.standing(given, log_of(one, two), update)
        assert (found.sweep, found.by) == (given, None) and str(found.unknown.command) == "apply v1"
