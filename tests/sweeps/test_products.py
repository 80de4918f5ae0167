"""Cells, replicates and entries of a sweep file: which exist, under which names, and the whole sentence where one does not."""

from __future__ import annotations

from pathlib import Path

from sweeps.conditions import CONDITIONS, FIRST_OWN, SHIPPED_WORDINGS, VARIANTS, Wording
from sweeps.load import build, load
from sweeps.protocol import Protocol
from sweeps.registry import resolve_model
from sweeps.sections import Replicates
from sweeps.spec import Cell, ModelSpec
from tests.envs.test_installed import MODULE, install, site  # noqa: F401 - a fixture

ALL = {**CONDITIONS, **VARIANTS}
SMALL = {"data": "d", "models": ["oracle"], "scenarios": ["QD"]}


# -- replicates --------------------------------------------------------------------------------------------------------
def test_a_decision_map_has_no_replicates_and_an_operating_curve_its_own_orders() -> None:
    several = Replicates(orders=3, seeds=2)
    assert several.expand(ALL["every-frame"]) == (ALL["every-frame"],)
    curves = several.expand(ALL["every-state"])
    assert [(curve.name, curve.order, curve.draw) for curve in curves] == [
        (f"every-state{f'-order{order}' * bool(order)}", order, 0) for order in range(1 + ALL["every-state"].orders)
    ]


def test_every_wording_is_asked_in_every_order_with_every_seed() -> None:
    own = Wording(template="{question} Pick one.\n{options}", hints={"QD": "Draw more."})
    expanded = Replicates(orders=2, seeds=2, wordings=3, own_wordings=(own,)).expand(ALL["hint"])
    ends = ("", "-seed1", "-order1", "-order1-seed1")
    names = ("hint", "hint-wording1", "hint-wording2", f"hint-wording{FIRST_OWN}")
    assert [condition.name for condition in expanded] == [f"{name}{end}" for name in names for end in ends]
    assert expanded[0] == ALL["hint"] and expanded[-1].hint_wordings == own.hint_wordings()
    assert [condition.is_replicate for condition in expanded] == [False] + [True] * 15
    assert Replicates().expand(ALL["hint"]) == (ALL["hint"],) and Replicates.model_validate(3) == Replicates(orders=3)
    assert (FIRST_OWN, SHIPPED_WORDINGS) == (11, 8)


def test_a_template_of_ones_own_is_not_reworded() -> None:
    templated = ALL["hint"].model_copy(update={"template": "{question}{options}"})
    assert [each.name for each in Replicates(wordings=3, seeds=2).expand(templated)] == ["hint", "hint-seed1"]


def test_replicates_are_cells_of_multiple_choice_alone() -> None:
    sweep = build({**SMALL, "protocol": ["mcqa", "oeg"], "replicates": 2, "conditions": ["hint"]}, "x.toml")
    assert [cell.key.rpartition("/")[2] for cell in sweep.cells()] == ["hint", "hint-order1", "hint-oeg"]
    assert [condition.name for condition in sweep.replicated_conditions] == ["hint-order1"]


# -- products that are no cells ----------------------------------------------------------------------------------------
def test_a_rule_keeps_conditions_from_other_models() -> None:
    for names, others in ((["hint"], {"zero-shot", "icl-1", "blank"}), ("all", {"blank"})):
        table = {
            "models": ["oracle", "guess"],
            "scenarios": "all",
            "conditions": ["hint", "zero-shot", "icl-1", "blank"],
        }
        sweep = build({**SMALL, **table, "only": [{"conditions": names, "models": ["oracle"]}]}, "x.toml")
        assert {cell.condition.name for cell in sweep.cells() if cell.model.name == "guess"} == others
        assert {cell.condition.name for cell in sweep.cells()} == {*table["conditions"]}


# -- entries -----------------------------------------------------------------------------------------------------------
def test_a_policy_of_a_package_plays_and_judges(site: Path) -> None:  # noqa: F811
    install(site, asking=MODULE)
    assert {resolve_model("asker", {}, "x", role).source for role in ("model", "judge")} == {"builtin:asker"}


def test_added_models_follow_own_ones_and_mistakes_name_the_sweep_file(tmp_path: Path) -> None:
    file, trained = tmp_path / "s.toml", {"name": "m", "source": "org/m"}
    for own in ('[[model]]\nname = "mine"\nsource = "org/mine"', 'models = [{name = "mine", source = "org/mine"}]'):
        file.write_text(f'data = "d"\n{own}\n')
        assert [model.name for model in load(file, (), [trained]).models] == ["mine", "m"]


def test_a_key_hashes_protocol_package_and_small_examples() -> None:
    small = ModelSpec(name="m", source="org/m", small_examples=True, architecture="x")
    plain = small.model_copy(update={"small_examples": False})
    cells = [
        Cell(model=model, scenario="ROD", condition=ALL[name], protocol=protocol, package=package)
        for model, name, protocol, package in (
            (plain, "hint", Protocol.MCQA, ""), (small, "hint", Protocol.MCQA, ""), (plain, "hint", Protocol.TOOLS, ""),
            (plain, "hint", Protocol.MCQA, "p@1"), (plain, "icl-1", Protocol.MCQA, ""), (small, "icl-1", Protocol.MCQA, ""),
        )
    ]  # fmt: skip
    prints = [cell.fingerprint("v1") for cell in cells]
    assert prints == [
        "ba22a6988e9363ae", "ba22a6988e9363ae", "3d63f9dfee03a9b7", "ce751943f208a210", "b3fe628966742846",
        "f01c84adf7f61467",
    ]  # fmt: skip
    assert cells[0].fingerprint("v2") != prints[0] and cells[2].key == "m/ROD/hint-tools"
