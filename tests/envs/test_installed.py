"""Packages that offer scenarios, policies and measures: each mistake is one sentence, each change of a file a new identity."""

import re
import sys
import tomllib

import pytest

from envs import SCENARIOS, installed_scenarios
from envs.installed import OFFERED_BY_EXTRAS, PackageError, find_offer, load_function, offers
from orchestrator.cli.user_errors import removed_sentence
from orchestrator.export import ELSEWHERE
from tests.conftest import ROOT

MODULE = "def ask(situation, seed):\n    return 'A'\n\nclass Game:\n    pass\n\nnumber = 3\n"


def install(folder, name="my-games", policies="asker = asking:ask", group="proactive_sweep.policies", **files):
    """Write an installed package below a folder on the path."""
    info = folder / f"{name.replace('-', '_')}-1.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{policies}\n")
    for module, text in files.items():
        (folder / f"{module}.py").write_text(text)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of the path, below one whose name looks compiled; the modules that a test imports from it are forgotten."""
    folder = tmp_path / ".pycharm/site"
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_an_offer_is_named_with_its_package_and_loaded(site):
    install(site, asking=MODULE)

    assert str(offers("policy")["asker"]) == "the policy 'asker' of the installed package my-games 1.5"
    assert load_function("policy", "asker")(None, 0) == "A" and find_offer("policy", "asker").kind == "policy"
    assert "asker" not in offers("measure") and "asker" not in installed_scenarios()


@pytest.mark.parametrize(
    ("policies", "name", "reason"),
    [
        ("broken = no_such_module:ask", "broken", "cannot be imported from no_such_module:ask (ModuleNotFoundError: "),
        ("several = asking:ask.several", "several", "(AttributeError: "),
        ("game = asking:Game", "game", "is the class Game; a policy is a function (docs"),
        ("number = asking:number", "number", "is of the type int; a policy is a function (docs"),
    ],
)
def test_what_cannot_be_called_is_a_sentence(site, policies, name, reason):
    install(site, policies=policies, asking=MODULE)

    with pytest.raises(PackageError, match=re.escape(reason)):
        load_function("policy", name)


def test_a_name_is_offered_once_and_not_taken(site, monkeypatch):
    install(site, asking=MODULE)
    with pytest.raises(PackageError, match="has a name that is taken here"):
        offers("policy", {"asker"})
    install(site / "other", name="other", asking=MODULE)
    monkeypatch.syspath_prepend(site / "other")
    with pytest.raises(PackageError, match="uninstall one of the two packages"):
        offers("policy")


def test_the_identity_covers_every_source_file_and_nothing_compiled(site):
    install(site, policies="asker = games.asking:ask")
    package = site / "games"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "asking.py").write_text(MODULE)
    (package / "words.txt").write_text("please")
    offer = offers("policy")["asker"]
    first = offer.identity

    assert re.fullmatch(r"my-games@[0-9a-f]{16}", first) and offer.identity == first
    (package / "__pycache__").mkdir()
    (package / "__pycache__/asking.pyc").write_bytes(b"x")
    (package / "old.pyc").write_bytes(b"x")
    assert offer.identity == first
    (package / "words.txt").write_text("thanks")
    reworded = offer.identity
    (package / "words.txt").rename(package / "more_words.txt")
    assert len({first, reworded, offer.identity}) == 3


def test_another_version_on_a_node_is_refused(site):
    install(site, asking=MODULE)
    offer = offers("policy")["asker"]

    assert find_offer("policy", "asker") == find_offer("policy", "asker", offer.identity) == offer
    assert load_function("policy", "asker", offer.identity)(None, 0) == "A"
    with pytest.raises(PackageError, match="install the same package on every node"):
        load_function("policy", "asker", "my-games@0")


GAME = """from envs.scenario import Scenario

class Mine(Scenario):
    name, stem, hint, cue = {name!r}, {stem!r}, "", {{}}

class Bare(Scenario):
    name, stem, cue = "mine", "mine", {{}}

def function():
    pass
"""


@pytest.mark.parametrize(
    ("target", "name", "stem", "reason"),
    [
        ("function", "mine", "mine", "is of the type function; a scenario is a subclass of envs.Scenario"),
        ("Bare", "mine", "mine", "class Bare must have a hint"),
        ("Mine", "yours", "mine", "the name 'mine'"),
        ("Mine", "mine", "QuickDraw", "a file name that no other scenario has"),
        ("Mine", "mine", "a/b", "a file name that no other scenario has"),
    ],
)
def test_a_scenario_of_a_package_that_cannot_be_played_is_a_sentence(site, target, name, stem, reason):
    game = GAME.format(name=name, stem=stem)
    install(site, group="proactive_sweep.scenarios", policies=f"mine = gaming:{target}", gaming=game)

    assert "mine" in installed_scenarios() and "yours" not in installed_scenarios()
    with pytest.raises(PackageError, match=reason):
        SCENARIOS["mine"]


@pytest.mark.parametrize("file", sorted(ROOT.glob("extras/*/pyproject.toml")), ids=lambda file: file.parent.name)
def test_what_an_extra_offers_is_named_with_it_where_it_is_not_installed(file):
    extra, groups = file.parent.name, tomllib.loads(file.read_text())["project"]["entry-points"]
    offered = {kind: groups.get(f"proactive_sweep.{kind}", {}) for kind in ("models", "sweeps", "conditions")}

    assert {name for names in offered.values() for name in names} == set(OFFERED_BY_EXTRAS.get(extra, ()))
    for command in groups.get("proactive_sweep.commands", ()):
        assert f"extras/{extra}`" in removed_sentence(command.replace(".", " ")), command
    for name in groups.get("proactive_sweep.exports", ()):
        assert f"extras/{extra}`" in ELSEWHERE[name]
