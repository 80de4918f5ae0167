"""Sweeps that ship go by name, one's own comes first, and a data folder is looked for beside the file, then here."""

from pathlib import Path

import pytest

from sweeps.load import SweepError, load
from sweeps.sweep_file import missing_data, read_sweep, shipped_sweeps

OWN = 'data = "mine"\nmodels = ["oracle"]\nscenarios = ["QD"]\n'


def test_every_shipped_sweep_has_a_name_that_loads_it_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert {"baselines", "paper", "ablations/budget"} <= shipped_sweeps().keys()
    assert not {"models", "judges", "starter"} & shipped_sweeps().keys()
    for name in shipped_sweeps():
        sweep = load(Path(name))
        assert sweep == load(Path(f"sweeps/{name}.toml")) and sweep.name == name.rpartition("/")[2]


def test_a_file_of_ones_own_comes_before_a_shipped_one_and_a_folder_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paper").mkdir()
    assert load(Path("paper")).name == "paper"
    (tmp_path / "baselines").write_text(OWN)

    assert load(Path("baselines")).scenarios == ("QD",)
    assert len(load(Path("baselines.toml")).scenarios) == 7


def test_a_name_that_is_neither_says_what_to_type(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(SweepError, match="no sweep file baselins; did you mean 'baselines'"):
        load(Path("baselins"))
    with pytest.raises(SweepError, match="ls sweeps"):
        load(Path("zzz.toml"))


def test_data_are_looked_for_beside_the_file_then_in_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "project/one.toml"
    file.parent.mkdir()
    file.write_text(OWN + '[train]\ndata = "mine"\n')
    relative = Path("project/one.toml")
    assert load(relative).data == "mine"
    assert f"{tmp_path}/project/mine and {tmp_path}/mine" in missing_data("mine", relative)

    (tmp_path / "mine").mkdir()
    assert load(relative).data == "mine" and missing_data("mine", relative) == ""

    (tmp_path / "project/mine").mkdir()
    folder = load(relative).data
    assert folder == "project/mine" and missing_data(folder, relative) == ""
    assert read_sweep(relative)["train"]["data"] == "project/mine"
    assert load(relative, ["data=mine"]).data == "mine", "what is typed is of the working folder"
