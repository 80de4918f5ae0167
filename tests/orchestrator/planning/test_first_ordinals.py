"""The first episode of each cell, and the keys of episodes that show another sample's picture."""

from dataclasses import replace

from sweeps.conditions import VARIANTS
from tests.orchestrator.planning.test_plan import samples, small_plan


def swapped_plan(conditions, swapped):
    """Three samples of ROD, of which each gets the picture of another sample with this digest; None for none."""
    drawn = samples({"ROD": 3, "MVP-N": 0, "QD": 2})
    other = replace(drawn["QD"][0], digest=swapped) if swapped else None
    drawn["ROD"] = [replace(sample, swapped=other) for sample in drawn["ROD"]]
    return small_plan(drawn, drawn, scenarios=list(drawn), conditions=conditions, models=["uniform", "oracle"])


def test_the_sample_whose_picture_is_shown_changes_the_key_where_it_is_shown():
    name = next(name for name, condition in VARIANTS.items() if condition.picture == "swapped")
    one, two, none = (list(swapped_plan([name], digest).keys(0)) for digest in ("x", "y", ""))
    assert not set(one) & set(two) and not set(one) & set(none)
    plain = [list(swapped_plan(["zero-shot"], digest).keys(0)) for digest in ("x", "y", "")]
    assert plain[0] == plain[1] == plain[2]


def test_each_cell_with_samples_has_a_first_ordinal():
    """ROD, MVP-N and QD have three, none and two samples, under two conditions each, of two models in policies' one order."""
    plan = swapped_plan(["zero-shot", "hint"], "")
    firsts = {model: plan.first_ordinals(model) for model in ("uniform", "oracle")}
    for model, ordinals in firsts.items():
        tasks = [plan.task(ordinal) for ordinal in ordinals]
        cells = [plan.cells[index] for index, _ in tasks]
        assert {cell.model.name for cell in cells} == {model}
        assert sorted((cell.scenario, cell.condition.name) for cell in cells) == [
            ("QD", "hint"), ("QD", "zero-shot"), ("ROD", "hint"), ("ROD", "zero-shot"),
        ]  # fmt: skip
        assert all(sample.id == 10 for _, sample in tasks)
    assert plan.first_ordinals("none") == []
