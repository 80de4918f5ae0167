"""Sweeps that ship go by name, one's own comes first, and a data folder is looked for beside the file, then here."""

import pytest

from sweeps import sweep_file as shipped
from sweeps.load import SweepError, load
from sweeps.sweep_file import read_sweep

OWN = 'data = "mine"\nmodels = ["oracle"]\nscenarios = ["QD"]\n'


def test_every_shipped_sweep_has_a_name_that_loads_it_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert {"baselines", "paper", "ablations/budget"} <= shipped.shipped_sweeps().keys()
    assert not {"models", "judges", "starter"} & shipped.shipped_sweeps().keys()
    for name in shipped.shipped_sweeps():
        sweep = load(shipped.Path(name))
        assert sweep == load(shipped.Path(f"sweeps/{name}.toml")) and sweep.name == name.rpartition("/")[2]


def test_a_file_of_ones_own_comes_before_a_shipped_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "baselines").write_text(OWN)

    assert load(shipped.Path("baselines")).scenarios == ("QD",)
    assert len(load(shipped.Path("baselines.toml")).scenarios) == 7


def test_a_name_that_is_neither_says_what_to_type(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(SweepError, match="no sweep file baselins; did you mean 'baselines'"):
        load(shipped.Path("baselins"))
    with pytest.raises(SweepError, match="ls sweeps"):
        load(shipped.Path("zzz.toml"))


def test_data_are_looked_for_beside_the_file_then_in_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "project/one.toml"
    file.parent.mkdir()
    file.write_text(OWN + '[train]\ndata = "mine"\n')
    relative = shipped.Path("project/one.toml")
    assert load(relative).data == "mine" and f"{tmp_path}/project/mine and {tmp_path}/mine" in shipped.missing_data(
        "mine", relative
    )

    (tmp_path / "mine").mkdir()
    assert load(relative).data == "mine" and shipped.missing_data("mine", relative) == ""

    (tmp_path / "project/mine").mkdir()
    folder = load(relative).data
    assert folder == "project/mine" and shipped.missing_data(folder, relative) == ""
    assert read_sweep(relative)["train"]["data"] == "project/mine"
    assert load(relative, ["data=mine"]).data == "mine", "what is typed is of the working folder"
