"""What a mutation run changes, and which tests it holds responsible for a function."""

from dataclasses import dataclass, field
from functools import cached_property

import pytest

from tests.bench.called import forget_computed
from tests.bench.mutations import mutants_of


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("panel.plot(x, linewidth=0.8, zorder=2)", ["panel.plot(x, linewidth=0.8, zorder=2) -> pass"]),
        ("y = Patch(alpha=a + 1)", ["a + 1 -> a - 1", "1 -> 2", "1 -> 0"]),
        (
            "y = {'axes.linewidth': 0.6, 'zorder': a}",
            ["'axes.linewidth' -> 'axes.linewidthXX'", "'zorder' -> 'zorderXX'"],
        ),
        ("y = {'axes.width': 1}", ["'axes.width' -> 'axes.widthXX'", "1 -> 2", "1 -> 0"]),
        ("y = Patch(label='b')", ["'b' -> 'bXX'"]),
        ("y = zip(a, b, strict=True)", []),
        ("T = TypeVar('T')", []),
        ("T = Type('T')", ["'T' -> 'TXX'"]),
    ],
)
def test_names_of_types_and_constant_looks_of_marks_are_never_changed(source, changes):
    assert [mutant.change for mutant in mutants_of(source)] == changes


@dataclass(frozen=True)
class Numbers:
    cache: dict = field(default_factory=dict)

    @cached_property
    def total(self):
        return object()


def test_what_a_shared_value_has_computed_is_computed_again():
    numbers = Numbers()
    before = numbers.total
    numbers.cache["mean"] = 1
    assert numbers.total is before
    forget_computed(numbers)

    assert numbers.cache == {} and numbers.total is not before
    forget_computed(None)
