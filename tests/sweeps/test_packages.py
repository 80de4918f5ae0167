"""Offers of installed packages to a sweep: names that are free, identities in keys, and scenarios by both their names."""

import polars as pl
import pytest

from envs import SCENARIOS
from envs.installed import offers
from orchestrator.report.scores.metrics import PLANNED_COLUMNS, score
from orchestrator.storage.schemas import EPISODES
from sweeps import packages
from sweeps.packages import check_packages, find_scenarios, identities, measures, pin_policy
from sweeps.registry import resolve_model
from sweeps.spec import ModelSpec
from sweeps.sweep_file import SweepError
from tests.envs.test_installed import MODULE, install, site  # noqa: F401 - a fixture


def test_no_column_of_the_results_may_be_a_measures_name():
    names = {name: ["oeg" if name == "protocol" else "x"] for name in PLANNED_COLUMNS if name != "planned"}
    planned = pl.DataFrame({**names, "planned": [1], "full": [1]})
    columns = set(score(EPISODES.to_frame().lazy(), planned).columns)

    assert columns <= {f"{name}{end}" for name in packages.RESULT_COLUMNS for end in ("", "_low", "_high")}


@pytest.mark.parametrize("name", ["acc", "aggregate_low", "gpu_hours"])
def test_a_measure_with_the_name_of_a_column_is_refused(name, site):  # noqa: F811
    install(site, group="proactive_sweep.measures", policies=f"{name} = asking:ask", asking=MODULE)
    with pytest.raises(packages.PackageError, match=f"the measure '{name}' of .* has a name that is taken here"):
        measures()


@pytest.mark.parametrize("name", ["two words", "a/b", "é"])
def test_a_name_that_no_key_can_hold_is_refused(name, site):  # noqa: F811
    install(site, policies=f"{name} = asking:ask", asking=MODULE)
    with pytest.raises(packages.PackageError, match=r"my-games 1\.5 needs a name of letters, digits"):
        check_packages(())


def test_a_policy_is_a_model_with_its_packages_identity(site):  # noqa: F811
    install(site, asking=MODULE)
    model = resolve_model("asker", {}, "here")
    assert (model.name, model.source, model.backend) == ("asker", "builtin:asker", "builtin")
    assert model.revision == offers("policy")["asker"].identity and model.revision.startswith("my-games@")
    assert pin_policy(ModelSpec(name="x", source="builtin:asker", backend="builtin")).revision == model.revision
    other = ModelSpec(name="x", source="asker")
    assert pin_policy(other) is other, "a checkpoint of the Hub may have that name"
    check_packages(())
    with pytest.raises(packages.PackageError, match="has a name that is taken here"):
        check_packages({"asker"})


@pytest.mark.parametrize("kind", ["scenarios", "conditions", "policies", "measures"])
def test_a_package_that_shapes_a_run_is_recorded_with_its_version(kind, site):  # noqa: F811
    install(site, group=f"proactive_sweep.{kind}", asking=MODULE)
    assert packages.versions()["my-games"] == "1.5"


def test_scenarios_go_by_their_short_and_their_long_names_once():
    assert find_scenarios("all", "x.toml") == list(SCENARIOS)
    assert find_scenarios("QD, ROD", "x.toml") == ["QD", "ROD"]
    assert find_scenarios(["QuickDraw", "QD", "Realistic-Occlusion-Dataset"], "x.toml") == ["QD", "ROD"]
    with pytest.raises(SweepError, match=r"^x\.toml: there is no scenario 'RODD'; did you mean 'ROD'\?$"):
        find_scenarios(["RODD"], "x.toml")
    assert identities(["QD"]) == {}
