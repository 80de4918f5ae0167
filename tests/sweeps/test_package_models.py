"""Installed packages offer models with weights and sweep files; without them, one sentence names the extra."""

import sys
from pathlib import Path

import pytest

from actors.engine.registry import open_engine
from actors.engine.weights import weights_identity
from envs.errors import UserError
from envs.installed import PackageError
from sweeps.load import SweepError, build, load
from sweeps.packages import resolve_source
from sweeps.registry import registry
from sweeps.spec import ModelSpec
from sweeps.sweep_file import resolve_sweep, shipped_sweeps, suggest_sweep
from tests.envs.test_installed import install

MODULE = """
from pathlib import Path
from sweeps.packages import PackageModel

HERE = Path(__file__).parent
TABLE = {"source": "builtin:dwarf", "backend": "transformers", "revision": "1", "gpus": 0}

DWARF = PackageModel(TABLE, lambda: HERE / "dwarf")
number = 3
"""
SWEEP = 'data = "d"\nmodels = ["dwarf", "oracle"]\nconditions = ["hint"]\n'


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "small.toml").write_text(SWEEP)
    install(tmp_path, "models-here", "dwarf = dwarfs:DWARF", "proactive_sweep.models", dwarfs=MODULE)
    install(tmp_path, "sweeps-here", "small = dwarfs:HERE", "proactive_sweep.sweeps")
    yield tmp_path
    sys.modules.pop("dwarfs", None)


def test_a_model_of_a_package_is_named_and_resolved_to_its_folder(site):
    model = registry()["dwarf"]
    assert (model.source, model.revision, weights_identity(model)) == ("builtin:dwarf", "1", "")

    (site / "dwarf").mkdir()
    (site / "dwarf/config.json").write_text("{}")
    resolved = resolve_source(model)
    assert (resolved.source, resolved.revision) == (str(site / "dwarf"), "")
    assert weights_identity(model).startswith("sha256:")


def test_a_sweep_of_a_package_ships_under_its_name(site, monkeypatch):
    monkeypatch.chdir(site)
    assert resolve_sweep(Path("sweeps/small.toml")) == shipped_sweeps()["small"] == site / "small.toml"
    assert [model.name for model in load(Path("small")).models] == ["dwarf", "oracle"]


@pytest.mark.parametrize(("target", "reason"), [("dwarfs:number", "is no PackageModel"), ("dwarfs:gone", "imported")])
def test_an_offer_that_is_no_model_is_a_sentence(site, target, reason):
    install(site, "more-models", f"other = {target}", "proactive_sweep.models")
    with pytest.raises(PackageError, match=reason):
        registry()


def test_a_model_may_not_take_the_name_of_one_that_ships(site):
    install(site, "more-models", "oracle = dwarfs:DWARF", "proactive_sweep.models")
    with pytest.raises(PackageError, match="has a name that is taken"):
        registry()


def test_what_an_extra_would_offer_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr("sweeps.packages.offers", lambda kind, taken=(): {})
    monkeypatch.setattr("sweeps.sweep_file.offers", lambda kind, taken=(): {})
    line = "pip install -e extras/demo"
    table = {"data": "d", "conditions": ["hint"]}
    embedded = ModelSpec(name="e", source="builtin:embedded", backend="transformers")

    with pytest.raises(SweepError, match=line):
        build({**table, "models": ["embedded"]}, "x.toml")
    with pytest.raises(SweepError, match=line):
        build({**table, "model": [embedded.model_dump(exclude_unset=True)]}, "x.toml")
    with pytest.raises((UserError, ValueError), match=line):
        open_engine(embedded, tmp_path)
    assert line in suggest_sweep(Path("sweeps/demo.toml"))
